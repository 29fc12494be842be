package org.apache.kafka.coordinator.group;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.MockTime;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own group coordinator in one process: no sockets, no log, a clock that only the benchmark moves, timers in a
 * plain map that fire only when the benchmark fires them.
 */
abstract class BenchedCoordinator {
    static final String GROUP = "g";
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    final MockTime time = new MockTime(0, 1_000_000, 1_000_000L * 1_000_000);
    final Map<String, Alarm> alarms = new LinkedHashMap<>();
    final GroupCoordinatorShard shard;
    /** How many records were written. */
    long written = 0;
    private final SnapshotRegistry snapshots;

    record Alarm(long deadline, CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) { }

    private class Timer implements CoordinatorTimer<CoordinatorRecord> {
        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            alarms.put(key, new Alarm(time.milliseconds() + unit.toMillis(delay), operation));
        }

        public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, operation);
        }

        public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            if (!alarms.containsKey(key)) schedule(key, delay, unit, retry, operation);
        }

        public void cancel(String key) {
            alarms.remove(key);
        }

        public boolean isScheduled(String key) {
            return alarms.containsKey(key);
        }
    }

    BenchedCoordinator(Map<String, String> settings) {
        LogContext logContext = new LogContext();
        Timer timer = new Timer();
        snapshots = new SnapshotRegistry(logContext);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(settings);
        GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics(new com.yammer.metrics.core.MetricsRegistry(), new Metrics());
        GroupCoordinatorMetricsShard shardMetrics = metrics.newMetricsShard(snapshots, new TopicPartition("__consumer_offsets", 0));
        GroupMetadataManager groups = new GroupMetadataManager.Builder()
            .withSnapshotRegistry(snapshots).withLogContext(logContext).withTime(time).withTimer(timer)
            .withExecutor(new MockCoordinatorExecutor<>()).withConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(shardMetrics)
            .withGroupConfigManager(GroupConfigManagerTest.createConfigManager()).withAuthorizerPlugin(Optional.empty())
            .withStreamsGroupAssignors(List.of()).build();
        OffsetMetadataManager offsets = new OffsetMetadataManager.Builder()
            .withLogContext(logContext).withSnapshotRegistry(snapshots).withTime(time)
            .withGroupMetadataManager(groups).withGroupCoordinatorConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(shardMetrics).build();
        shard = new GroupCoordinatorShard(logContext, groups, offsets, time, timer, config, metrics, shardMetrics);
        snapshots.idempotentCreateSnapshot(0);
    }

    static RequestContext context(ApiKeys api, int version) {
        try {
            return new RequestContext(
                new RequestHeader(api, (short) version, "c", 0), "1", InetAddress.getByName("127.0.0.1"),
                KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
                SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        } catch (UnknownHostException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** CPU nanoseconds of this thread so far. */
    static long cpu() {
        return THREADS.getCurrentThreadCpuTime();
    }

    /** What CoordinatorRuntime does with a result, without a log. */
    <T> T finish(CoordinatorResult<T, CoordinatorRecord> result) {
        if (!result.records().isEmpty()) {
            for (CoordinatorRecord record : result.records()) {
                if (result.replayRecords()) shard.replay(written, -1, (short) -1, record);
                written++;
            }
            snapshots.idempotentCreateSnapshot(written);
            snapshots.deleteSnapshotsUpTo(written);
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return result.response();
    }

    /** Nanoseconds that one of `count` pieces of work costs, done in turn until they have cost `span` ns together. */
    static double each(long span, int count, int atOnce, java.util.function.IntConsumer work) {
        long start = cpu(), done = 0, now = start;
        while (now - start < span) {
            for (int i = 0; i < atOnce; i++, done++) work.accept((int) (done % count));
            now = cpu();
        }
        return (double) (now - start) / done;
    }

    /** Run a round for each line of input, the first kind longer; a line with "done" ends the answer to each. */
    static void rounds(Round round) throws Exception {
        java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            round.run(line.equals("warm up"));
            System.out.println("done");
            System.out.flush();
        }
    }

    interface Round {
        void run(boolean warmsUp) throws Exception;
    }
}

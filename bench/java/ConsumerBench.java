package org.apache.kafka.coordinator.group;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.util.*;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.MockTime;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own group coordinator doing what bench/consumer_groups.py lets kgm's do: no sockets, no log, a clock that only
 * the bench moves, timers in a plain map. It forms the group; then each line in asks for a round of heartbeats and one
 * more member, and each line out is a work and its figures. Arguments: milliseconds of heartbeats, members, topics,
 * partitions of each.
 */
public class ConsumerBench {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final String GROUP = "g";
    private static final int INTERVAL_MS = 5000, REBALANCE_MS = 300_000, CALM_MS = 2000;

    private final MockTime time = new MockTime(0, 1_000_000, 1_000_000L * 1_000_000);
    private final Map<String, CoordinatorTimer.TimeoutOperation<CoordinatorRecord>> alarms = new LinkedHashMap<>();
    private final SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
    private final GroupCoordinatorShard shard;
    private final List<String> topics = new ArrayList<>();
    private final int partitions;
    private final List<Client> clients = new ArrayList<>();
    private final RequestContext beating = new RequestContext(
        new RequestHeader(ApiKeys.CONSUMER_GROUP_HEARTBEAT, (short) 1, "c", 0), "1", InetAddress.getByName("127.0.0.1"),
        KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
        SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    private long written = 0, took = 0;
    private int requests = 0, ownedByAll = 0;
    private final Map<Integer, Integer> atEpoch = new HashMap<>();

    private class Timer implements CoordinatorTimer<CoordinatorRecord> {
        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            alarms.put(key, operation);
        }

        public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<CoordinatorRecord> operation) {
            alarms.put(key, operation);
        }

        public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            alarms.putIfAbsent(key, operation);
        }

        public void cancel(String key) {
            alarms.remove(key);
        }

        public boolean isScheduled(String key) {
            return alarms.containsKey(key);
        }
    }

    /** A consumer that takes over and gives up at once, and says so with a heartbeat of its own. */
    private class Client {
        final String id;
        int epoch = 0;
        int owned = 0;

        Client(String id) {
            this.id = id;
        }

        ConsumerGroupHeartbeatRequestData beat() {
            return new ConsumerGroupHeartbeatRequestData().setGroupId(GROUP).setMemberId(id).setMemberEpoch(epoch);
        }

        void join() {
            hear(send(beat().setRebalanceTimeoutMs(REBALANCE_MS).setSubscribedTopicNames(topics)
                .setServerAssignor("uniform").setTopicPartitions(List.of())));
        }

        void hear(ConsumerGroupHeartbeatResponseData reply) {
            atEpoch.merge(epoch, -1, Integer::sum);
            epoch = reply.memberEpoch();
            atEpoch.merge(epoch, 1, Integer::sum);
            if (reply.assignment() == null) return;
            List<ConsumerGroupHeartbeatRequestData.TopicPartitions> rows = new ArrayList<>();
            int before = owned;
            owned = 0;
            for (var row : reply.assignment().topicPartitions()) {
                owned += row.partitions().size();
                rows.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions().setTopicId(row.topicId()).setPartitions(row.partitions()));
            }
            ownedByAll += owned - before;
            if (owned != before) hear(send(beat().setTopicPartitions(rows)));
        }
    }

    ConsumerBench(int members, int topicCount, int partitions) throws Exception {
        this.partitions = topicCount * partitions;
        LogContext logContext = new LogContext();
        Timer timer = new Timer();
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(Map.of());
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
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int t = 0; t < topicCount; t++) {
            Uuid id = Uuid.randomUuid();
            topics.add("orders-" + t);
            delta.replay(new TopicRecord().setTopicId(id).setName("orders-" + t));
            for (int p = 0; p < partitions; p++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(p).setReplicas(List.of(1)));
            }
        }
        MetadataImage image = delta.apply(new MetadataProvenance(1, 0, 0L, true));
        shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
        for (int i = 0; i < members; i++) {
            Client client = new Client(Uuid.randomUuid().toString());
            clients.add(client);
            client.join();
        }
        untilReconciled(INTERVAL_MS);
    }

    private ConsumerGroupHeartbeatResponseData send(ConsumerGroupHeartbeatRequestData data) {
        long start = THREADS.getCurrentThreadCpuTime();
        ConsumerGroupHeartbeatResponseData reply = finish(shard.consumerGroupHeartbeat(beating, data));
        took += THREADS.getCurrentThreadCpuTime() - start;
        requests++;
        return reply;
    }

    /** What CoordinatorRuntime does with a result, without a log. */
    private <T> T finish(CoordinatorResult<T, CoordinatorRecord> result) {
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

    private boolean isReconciled() {
        return ownedByAll == partitions && atEpoch.get(clients.get(0).epoch) == clients.size();
    }

    /** Everybody heartbeats in turn, evenly spread over the interval, until all have what they are to have; ms. */
    private long untilReconciled(long pause) {
        time.setCurrentTimeMs(time.milliseconds() + pause);
        long start = time.milliseconds();
        for (int i = 0; ; i++) {
            time.setCurrentTimeMs(start + (long) INTERVAL_MS * i / clients.size());
            Client client = clients.get(i % clients.size());
            client.hear(send(client.beat()));
            if (isReconciled()) return time.milliseconds() - start;
        }
    }

    private double heartbeats(long span) {
        List<ConsumerGroupHeartbeatRequestData> beats = new ArrayList<>();
        for (Client client : clients) beats.add(client.beat());
        long start = THREADS.getCurrentThreadCpuTime(), done = 0, now = start;
        while (now - start < span) {
            for (int i = 0; i < 1000; i++, done++) {
                if (finish(shard.consumerGroupHeartbeat(beating, beats.get((int) (done % beats.size())))).errorCode() != Errors.NONE.code()) {
                    throw new IllegalStateException();
                }
            }
            now = THREADS.getCurrentThreadCpuTime();
        }
        return (double) (now - start) / done;
    }

    private void join() {
        time.setCurrentTimeMs(time.milliseconds() + CALM_MS);
        took = requests = 0;
        long before = written, start = THREADS.getCurrentThreadCpuTime();
        Client client = new Client(Uuid.randomUuid().toString());
        clients.add(0, client);
        client.join();
        long target = took;
        long ms = untilReconciled(0);
        System.out.println("join " + ms + " " + took + " " + target + " " + requests + " " + (written - before));
    }

    public static void main(String[] args) throws Exception {
        long span = Long.parseLong(args[0]) * 1_000_000;
        ConsumerBench bench = new ConsumerBench(Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println("heartbeat " + bench.heartbeats(line.equals("warm up") ? 4 * span : span));
            bench.join();
            System.out.println("done");
            System.out.flush();
        }
    }
}

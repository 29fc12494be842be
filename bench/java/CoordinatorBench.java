package org.apache.kafka.coordinator.group;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.*;
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
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own group coordinator doing what bench/engine.py lets kgm's do: no sockets, no log, ready-made requests, a
 * clock that stands still, timers in a plain map. A line in asks for a round (or to warm up); each line out is a work, its
 * size, and CPU nanoseconds per operation. Arguments: milliseconds of each work, sizes.
 */
public class CoordinatorBench {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int SESSION_MS = 45_000, REBALANCE_MS = 300_000;
    private static final String GROUP = "g";

    private final MockTime time = new MockTime(0, 1_000_000, 1_000_000L * 1_000_000);
    private final Map<String, Alarm> alarms = new LinkedHashMap<>();
    private final SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
    private final GroupCoordinatorShard shard;
    private long written = 0;

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

    CoordinatorBench() throws Exception {
        LogContext logContext = new LogContext();
        Timer timer = new Timer();
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(Map.of("group.initial.rebalance.delay.ms", "1000"));
        GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics(new com.yammer.metrics.core.MetricsRegistry(), new Metrics());
        GroupCoordinatorMetricsShard shardMetrics = metrics.newMetricsShard(snapshots, new TopicPartition("__consumer_offsets", 0));
        GroupConfigManager groupConfig = GroupConfigManagerTest.createConfigManager();
        GroupMetadataManager groups = new GroupMetadataManager.Builder()
            .withSnapshotRegistry(snapshots).withLogContext(logContext).withTime(time).withTimer(timer)
            .withExecutor(new MockCoordinatorExecutor<>()).withConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(shardMetrics)
            .withGroupConfigManager(groupConfig).withAuthorizerPlugin(Optional.empty())
            .withStreamsGroupAssignors(List.of()).build();
        OffsetMetadataManager offsets = new OffsetMetadataManager.Builder()
            .withLogContext(logContext).withSnapshotRegistry(snapshots).withTime(time)
            .withGroupMetadataManager(groups).withGroupCoordinatorConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(shardMetrics).build();
        shard = new GroupCoordinatorShard(logContext, groups, offsets, time, timer, config, metrics, shardMetrics);
        snapshots.idempotentCreateSnapshot(0);
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

    private static RequestContext context(ApiKeys api, int version) throws Exception {
        return new RequestContext(
            new RequestHeader(api, (short) version, "c", 0), "1", InetAddress.getByName("127.0.0.1"),
            KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }

    private final RequestContext joining = context(ApiKeys.JOIN_GROUP, 9), syncing = context(ApiKeys.SYNC_GROUP, 5),
        beating = context(ApiKeys.HEARTBEAT, 4), leaving = context(ApiKeys.LEAVE_GROUP, 5);

    private static final byte[] SUBSCRIPTION = {0, 0, 0, 0, 0, 1, 0, 6, 'o', 'r', 'd', 'e', 'r', 's', -1, -1, -1, -1};

    private static JoinGroupRequestData join(String memberId, String instanceId) {
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(SUBSCRIPTION));
        return new JoinGroupRequestData().setGroupId(GROUP).setSessionTimeoutMs(SESSION_MS).setRebalanceTimeoutMs(REBALANCE_MS)
            .setMemberId(memberId).setGroupInstanceId(instanceId).setProtocolType("consumer").setProtocols(protocols);
    }

    private static SyncGroupRequestData sync(String memberId, int generation, List<String> assigned) {
        SyncGroupRequestData data = new SyncGroupRequestData().setGroupId(GROUP).setGenerationId(generation)
            .setMemberId(memberId).setProtocolType("consumer").setProtocolName("range");
        for (String id : assigned) {
            data.assignments().add(new SyncGroupRequestData.SyncGroupRequestAssignment().setMemberId(id).setAssignment(new byte[20]));
        }
        return data;
    }

    private void send(JoinGroupRequestData data, CompletableFuture<JoinGroupResponseData> reply) {
        finish(shard.classicGroupJoin(joining, data, reply));
    }

    private void send(SyncGroupRequestData data, CompletableFuture<SyncGroupResponseData> reply) {
        finish(shard.classicGroupSync(syncing, data, reply));
    }

    private void passTime(long ms) {
        long until = time.milliseconds() + ms;
        while (true) {
            String next = null;
            long at = until + 1;
            for (Map.Entry<String, Alarm> entry : alarms.entrySet()) {
                if (entry.getValue().deadline() < at) {
                    next = entry.getKey();
                    at = entry.getValue().deadline();
                }
            }
            if (next == null) break;
            time.setCurrentTimeMs(Math.max(at, time.milliseconds()));
            finish(alarms.remove(next).operation().generateRecords());
        }
        time.setCurrentTimeMs(until);
    }

    /** A Stable group of static members; CPU nanoseconds that it took, without what passes the time. */
    private long form(List<JoinGroupRequestData> joins) {
        List<CompletableFuture<JoinGroupResponseData>> joined = new ArrayList<>();
        for (int i = 0; i < joins.size(); i++) joined.add(new CompletableFuture<>());
        long start = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < joins.size(); i++) send(joins.get(i), joined.get(i));
        long took = THREADS.getCurrentThreadCpuTime() - start;
        // The initial delay is prolonged while members come; then the last timer completes the join phase.
        while (!joined.get(0).isDone()) {
            Alarm alarm = alarms.get("join-" + GROUP);
            time.setCurrentTimeMs(alarm.deadline());
            alarms.remove("join-" + GROUP);
            start = THREADS.getCurrentThreadCpuTime();
            finish(alarm.operation().generateRecords());
            took += THREADS.getCurrentThreadCpuTime() - start;
        }
        List<String> ids = new ArrayList<>();
        for (CompletableFuture<JoinGroupResponseData> reply : joined) ids.add(reply.join().memberId());
        String leader = joined.get(0).join().leader();
        List<SyncGroupRequestData> syncs = new ArrayList<>();
        for (String id : ids) if (!id.equals(leader)) syncs.add(sync(id, 1, List.of()));
        syncs.add(sync(leader, 1, ids));
        List<CompletableFuture<SyncGroupResponseData>> synced = new ArrayList<>();
        for (int i = 0; i < syncs.size(); i++) synced.add(new CompletableFuture<>());
        start = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < syncs.size(); i++) send(syncs.get(i), synced.get(i));
        took += THREADS.getCurrentThreadCpuTime() - start;
        for (CompletableFuture<SyncGroupResponseData> reply : synced) check(reply.join().errorCode());
        this.ids = ids;
        return took;
    }

    private List<String> ids = List.of();

    private static void check(short error) {
        if (error != 0) throw new IllegalStateException(Errors.forCode(error).name());
    }

    private static List<JoinGroupRequestData> joinsOf(int members) {
        List<JoinGroupRequestData> joins = new ArrayList<>();
        for (int i = 0; i < members; i++) joins.add(join("", String.format("member-%04d", i)));
        return joins;
    }

    private List<HeartbeatRequestData> beatsOf() {
        List<HeartbeatRequestData> beats = new ArrayList<>();
        for (String id : ids) beats.add(new HeartbeatRequestData().setGroupId(GROUP).setGenerationId(1).setMemberId(id));
        return beats;
    }

    /** Nanoseconds per operation of one round. */
    private double heartbeats(List<HeartbeatRequestData> beats, long span) {
        long start = THREADS.getCurrentThreadCpuTime(), done = 0, now = start;
        while (now - start < span) {
            for (int i = 0; i < 1000; i++, done++) {
                check(finish(shard.classicGroupHeartbeat(beating, beats.get((int) (done % beats.size())))).errorCode());
            }
            now = THREADS.getCurrentThreadCpuTime();
        }
        return (double) (now - start) / done;
    }

    private double restarts(List<JoinGroupRequestData> joins, long span) throws Exception {
        long start = THREADS.getCurrentThreadCpuTime(), done = 0, now = start;
        while (now - start < span) {
            for (int i = 0; i < 100; i++, done++) {
                CompletableFuture<JoinGroupResponseData> reply = new CompletableFuture<>();
                send(joins.get((int) (done % joins.size())), reply);
                check(reply.get().errorCode());
            }
            now = THREADS.getCurrentThreadCpuTime();
        }
        return (double) (now - start) / done;
    }

    // -- random operations: the same numbers choose them in bench/engine.py

    private static final int SEATS = 20;
    private static long seed;

    private static int draw(int below) {
        seed = seed * 6364136223846793005L + 1442695040888963407L;
        return (int) ((seed >>> 33) % below);
    }

    private final String[] known = new String[SEATS];
    private final int[] generations = new int[SEATS];
    private final String[] leaders = new String[SEATS];

    private void joinSeat(int seat) {
        String instance = seat % 2 == 0 ? "member-" + seat : null;
        CompletableFuture<JoinGroupResponseData> reply = new CompletableFuture<>();
        reply.thenAccept(data -> {
            Errors error = Errors.forCode(data.errorCode());
            if (error == Errors.NONE) {
                known[seat] = data.memberId();
                generations[seat] = data.generationId();
                leaders[seat] = data.leader();
            } else if (error == Errors.MEMBER_ID_REQUIRED) {
                known[seat] = data.memberId();
            } else if (error == Errors.UNKNOWN_MEMBER_ID || error == Errors.FENCED_INSTANCE_ID) {
                known[seat] = "";
            }
        });
        try {
            send(join(known[seat], instance), reply);
        } catch (org.apache.kafka.common.errors.ApiException error) {
            known[seat] = "";
        }
    }

    private void syncSeat(int seat) {
        List<String> ids = new ArrayList<>();
        if (known[seat].equals(leaders[seat])) for (String id : known) if (!id.isEmpty()) ids.add(id);
        try {
            send(sync(known[seat], generations[seat], ids), new CompletableFuture<>());
        } catch (org.apache.kafka.common.errors.ApiException error) {
            known[seat] = "";
        }
    }

    private void operation() {
        int what = draw(100), seat = draw(SEATS);
        try {
            if (what < 30) {
                finish(shard.classicGroupHeartbeat(beating, new HeartbeatRequestData().setGroupId(GROUP)
                    .setGenerationId(generations[seat]).setMemberId(known[seat])));
            } else if (what < 55) {
                joinSeat(seat);
            } else if (what < 60) {
                known[seat] = "";
                joinSeat(seat);
            } else if (what < 90) {
                syncSeat(seat);
            } else if (what < 94) {
                LeaveGroupRequestData leave = new LeaveGroupRequestData().setGroupId(GROUP);
                leave.members().add(new LeaveGroupRequestData.MemberIdentity().setMemberId(known[seat]));
                finish(shard.classicGroupLeave(leaving, leave));
                known[seat] = "";
            } else {
                passTime(draw(2000));
            }
        } catch (org.apache.kafka.common.errors.ApiException error) {
            if (error instanceof org.apache.kafka.common.errors.UnknownMemberIdException) known[seat] = "";
        }
    }

    private static double random(long span) throws Exception {
        long took = 0, done = 0;
        while (took < span) {
            CoordinatorBench bench = new CoordinatorBench();
            Arrays.fill(bench.known, "");
            Arrays.fill(bench.leaders, "-");
            long start = THREADS.getCurrentThreadCpuTime();
            for (int i = 0; i < 5000; i++) bench.operation();
            took += THREADS.getCurrentThreadCpuTime() - start;
            done += 5000;
        }
        return (double) took / done;
    }

    private static void tell(String work, int members, double nanos) {
        System.out.println(work + " " + members + " " + nanos);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        long span = Long.parseLong(args[0]) * 1_000_000;
        java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long patience = line.equals("warm up") ? 4 : 1;
            for (int a = 1; a < args.length; a++) {
                int members = Integer.parseInt(args[a]);
                List<JoinGroupRequestData> joins = joinsOf(members);
                long took = 0;
                int formed = 0;
                CoordinatorBench bench = null;
                while (took < patience * span / 4) {
                    bench = new CoordinatorBench();
                    took += bench.form(joins);
                    formed++;
                }
                tell("form", members, (double) took / formed / members);
                tell("heartbeat", members, bench.heartbeats(bench.beatsOf(), patience * span));
                tell("restart", members, bench.restarts(joins, patience * span));
            }
            seed = 1;
            tell("random", SEATS, random(patience * 2 * span));
            System.out.println("done");
            System.out.flush();
        }
    }
}

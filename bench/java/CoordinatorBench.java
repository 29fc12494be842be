package org.apache.kafka.coordinator.group;

import java.util.*;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;

/**
 * Kafka's own group coordinator does what bench/engine.py lets kgm's do, with ready-made requests. A line in asks for a
 * round (or to warm up); each line out is a work, its size, and CPU nanoseconds per operation. Arguments: milliseconds of
 * each work, sizes.
 */
public class CoordinatorBench extends BenchedCoordinator {
    private static final int SESSION_MS = 45_000, REBALANCE_MS = 300_000;

    CoordinatorBench() {
        super(Map.of("group.initial.rebalance.delay.ms", "1000"));
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
        long start = cpu();
        for (int i = 0; i < joins.size(); i++) send(joins.get(i), joined.get(i));
        long took = cpu() - start;
        // The initial delay is prolonged while members come; then the last timer completes the join phase.
        while (!joined.get(0).isDone()) {
            Alarm alarm = alarms.get("join-" + GROUP);
            time.setCurrentTimeMs(alarm.deadline());
            alarms.remove("join-" + GROUP);
            start = cpu();
            finish(alarm.operation().generateRecords());
            took += cpu() - start;
        }
        List<String> ids = new ArrayList<>();
        for (CompletableFuture<JoinGroupResponseData> reply : joined) ids.add(reply.join().memberId());
        String leader = joined.get(0).join().leader();
        List<SyncGroupRequestData> syncs = new ArrayList<>();
        for (String id : ids) if (!id.equals(leader)) syncs.add(sync(id, 1, List.of()));
        syncs.add(sync(leader, 1, ids));
        List<CompletableFuture<SyncGroupResponseData>> synced = new ArrayList<>();
        for (int i = 0; i < syncs.size(); i++) synced.add(new CompletableFuture<>());
        start = cpu();
        for (int i = 0; i < syncs.size(); i++) send(syncs.get(i), synced.get(i));
        took += cpu() - start;
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
        return each(span, beats.size(), 1000, at -> check(finish(shard.classicGroupHeartbeat(beating, beats.get(at))).errorCode()));
    }

    private double restarts(List<JoinGroupRequestData> joins, long span) {
        return each(span, joins.size(), 100, at -> {
            CompletableFuture<JoinGroupResponseData> reply = new CompletableFuture<>();
            send(joins.get(at), reply);
            check(reply.join().errorCode());
        });
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
            long start = cpu();
            for (int i = 0; i < 5000; i++) bench.operation();
            took += cpu() - start;
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
        rounds(warmsUp -> {
            long patience = warmsUp ? 4 : 1;
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
        });
    }
}

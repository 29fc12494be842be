package org.apache.kafka.connect.runtime.distributed;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor.ClusterAssignment;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Random histories of a Connect group, assigned by Kafka's classes: workers leave, join, miss an assignment and run something
 * twice, connectors come and go, and time passes.
 *
 * Arguments: a seed, a number. A line of output is a history as a JSON object; its round has what the assignor was given and gave.
 */
public final class ConnectAssignorOracle {
    private static final String[] NAMES = {"jdbc-sink", "s3", "t\u00e9l\u00e9", "a_b.c-1", "Z"};
    private static final int[] DELAYS = {0, 1, 300, 60_000, 300_000};

    private final Random random;
    private final int maxDelay;
    private final Map<String, Integer> connectors = new TreeMap<>();
    private final Map<String, ConnectorsAndTasks> workers = new LinkedHashMap<>();
    private long now = 1_000_000;

    private ConnectAssignorOracle(Random random) {
        this.random = random;
        this.maxDelay = DELAYS[random.nextInt(DELAYS.length)];
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            Random random = new Random(Long.parseLong(args[0]) * 1_000_003 + i);
            System.out.println(i % 5 == 4 ? eager(random) : new ConnectAssignorOracle(random).history());
        }
    }

    private String history() {
        Time clock = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, given) -> now);
        IncrementalCooperativeAssignor assignor = new IncrementalCooperativeAssignor(new LogContext(), clock, maxDelay);
        for (int i = 1 + random.nextInt(3); i > 0; i--) {
            connectors.put(NAMES[random.nextInt(NAMES.length)], random.nextInt(7));
        }
        for (int i = 1 + random.nextInt(4); i > 0; i--) {
            join();
        }
        List<String> rounds = new ArrayList<>();
        int generation = 1;
        int completed = -1;
        for (int i = 3 + random.nextInt(10); i > 0; i--) {
            Map<String, ConnectorsAndTasks> given = new HashMap<>();
            workers.forEach((name, has) -> given.put(name, copy(has)));
            String start = "{\"now\":" + now + ",\"last\":" + completed + ",\"generation\":" + generation
                + ",\"configured\":" + json(configured()) + ",\"running\":" + json(workers);
            ClusterAssignment made = assignor.performTaskAssignment(configState(), completed, generation, given);
            Map<String, ConnectorsAndTasks> assigned = new LinkedHashMap<>();
            Map<String, ConnectorsAndTasks> revoked = new LinkedHashMap<>();
            for (String name : workers.keySet()) {
                assigned.put(name, both(made.newlyAssignedConnectors(name), made.newlyAssignedTasks(name)));
                revoked.put(name, both(made.newlyRevokedConnectors(name), made.newlyRevokedTasks(name)));
            }
            rounds.add(start + ",\"assigned\":" + json(assigned) + ",\"revoked\":" + json(revoked) + ",\"delay_ms\":" + assignor.delay + "}");
            for (String name : workers.keySet()) {
                if (random.nextInt(12) > 0) {
                    ConnectorsAndTasks has = workers.get(name);
                    workers.put(name, after(has, assigned.get(name), revoked.get(name)));
                }
            }
            completed = random.nextInt(15) > 0 ? generation : completed;
            generation++;
            happen(assignor.delay);
        }
        return "{\"kind\":\"incremental\",\"max_delay_ms\":" + maxDelay + ",\"rounds\":[" + String.join(",", rounds) + "]}";
    }

    private void happen(int delay) {
        int[] passed = {0, 20, 1_000, delay, delay / 2, delay + 7};
        now += passed[random.nextInt(passed.length)];
        int what = random.nextInt(8);
        List<String> names = new ArrayList<>(workers.keySet());
        if (what < 2 && names.size() > 1) {
            workers.remove(names.get(random.nextInt(names.size())));
        } else if (what < 4) {
            join();
        } else if (what == 4) {
            connectors.put(NAMES[random.nextInt(NAMES.length)], random.nextInt(7));
        } else if (what == 5 && connectors.size() > 1) {
            connectors.remove(connectors.keySet().iterator().next());
        } else if (what == 6 && random.nextInt(3) == 0) {
            ConnectorsAndTasks one = workers.get(names.get(0));
            ConnectorsAndTasks other = workers.get(names.get(names.size() - 1));
            workers.put(names.get(0), after(one, other, both(List.of(), List.of())));
        }
    }

    private void join() {
        workers.put("connect-1-" + Long.toHexString(random.nextLong()), both(List.of(), List.of()));
    }

    /** As a worker does it: what is new comes first. */
    private static ConnectorsAndTasks after(ConnectorsAndTasks has, ConnectorsAndTasks assigned, ConnectorsAndTasks revoked) {
        ConnectorsAndTasks all = copy(assigned);
        has.connectors().stream().filter(each -> !revoked.connectors().contains(each)).forEach(all.connectors()::add);
        has.tasks().stream().filter(each -> !revoked.tasks().contains(each)).forEach(all.tasks()::add);
        return all;
    }

    private ConnectorsAndTasks configured() {
        ConnectorsAndTasks all = both(connectors.keySet(), List.of());
        connectors.forEach((name, tasks) -> {
            for (int i = 0; i < tasks; i++) {
                all.tasks().add(new ConnectorTaskId(name, i));
            }
        });
        return all;
    }

    private ClusterConfigState configState() {
        Map<String, Map<String, String>> configs = new HashMap<>();
        connectors.keySet().forEach(each -> configs.put(each, Map.of()));
        return new ClusterConfigState(
            1, null, new HashMap<>(connectors), configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
    }

    /** Of the coordinator that EagerAssignor is given it uses the configuration; the constructor wants a real group. */
    private static String eager(Random random) throws Exception {
        ConnectAssignorOracle made = new ConnectAssignorOracle(random);
        for (int i = 1 + random.nextInt(4); i > 0; i--) {
            made.connectors.put(NAMES[random.nextInt(NAMES.length)], random.nextInt(7));
            made.join();
        }
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Configured coordinator = (Configured) ((sun.misc.Unsafe) field.get(null)).allocateInstance(Configured.class);
        coordinator.state = made.configState();
        List<JoinGroupResponseMember> members = new ArrayList<>();
        for (String name : made.workers.keySet()) {
            ByteBuffer data = ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://w/", 1));
            members.add(new JoinGroupResponseMember().setMemberId(name).setMetadata(data.array()));
        }
        Map<String, ConnectorsAndTasks> assigned = new LinkedHashMap<>();
        new EagerAssignor(new LogContext()).performAssignment(members.get(0).memberId(), ConnectProtocolCompatibility.EAGER, members, coordinator)
            .forEach((name, data) -> {
                ConnectProtocol.Assignment read = ConnectProtocol.deserializeAssignment(data);
                assigned.put(name, both(read.connectors(), read.tasks()));
            });
        return "{\"kind\":\"eager\",\"configured\":" + json(made.configured()) + ",\"assigned\":" + json(assigned) + "}";
    }

    private static final class Configured extends WorkerCoordinator {
        private ClusterConfigState state;

        private Configured() {
            super(null, null, null, null, null, null, null, null, null, null, 0);
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return state;
        }

        @Override
        public void leaderState(LeaderState update) {
        }
    }

    private static ConnectorsAndTasks both(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        return new ConnectorsAndTasks.Builder().with(new LinkedHashSet<>(connectors), new LinkedHashSet<>(tasks)).build();
    }

    private static ConnectorsAndTasks copy(ConnectorsAndTasks other) {
        return both(other.connectors(), other.tasks());
    }

    private static String json(Map<String, ConnectorsAndTasks> all) {
        return all.entrySet().stream().map(each -> "\"" + each.getKey() + "\":" + json(each.getValue())).collect(Collectors.joining(",", "{", "}"));
    }

    private static String json(ConnectorsAndTasks work) {
        List<String> some = new ArrayList<>();
        work.connectors().forEach(each -> some.add("[" + text(each) + ",-1]"));
        work.tasks().forEach(each -> some.add("[" + text(each.connector()) + "," + each.task() + "]"));
        return "[" + String.join(",", some) + "]";
    }

    private static String text(String value) {
        return "\"" + value.chars().mapToObj(each -> each > 126 ? String.format("\\u%04x", each) : String.valueOf((char) each)).collect(Collectors.joining()) + "\"";
    }
}

package org.apache.kafka.streams.processor.internals.assignment;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;

/**
 * Random Kafka Streams applications, whose tasks are placed by the classes of this version: on processes, and on their threads.
 *
 * Arguments: a seed, a number. A line of output is an application as a JSON object, with what the classes made of it.
 */
public final class StreamsAssignorOracle {
    private static final long[] LAGS = {-2, -3, 0, 1, 10_000, 10_001, 500_000, 1L << 40};
    private static final long[] ACCEPTABLE = {0, 1, 10_000, Long.MAX_VALUE};
    private static final List<List<String>> TAGS = List.of(List.of(), List.of(), List.of("zone"), List.of("zone", "cluster"));

    private record Text(String text) {
        @Override
        public String toString() {
            return text;
        }
    }

    public static void main(String[] args) throws Exception {
        Method threads = StreamsPartitionAssignor.class.getDeclaredMethod(
            "assignTasksToThreads", Collection.class, boolean.class, java.util.SortedSet.class, ClientState.class, Map.class);
        threads.setAccessible(true);
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            System.out.println(made(new Random(Long.parseLong(args[0]) * 1_000_003 + i), threads));
        }
    }

    private static String made(Random random, Method threads) throws Exception {
        Set<TaskId> all = new HashSet<>();
        Set<TaskId> stateful = new HashSet<>();
        for (int sub = 1 + random.nextInt(3); sub > 0; sub--) {
            boolean has = random.nextInt(3) > 0;
            for (int partition = random.nextInt(random.nextInt(8) == 0 ? 25 : 5); partition >= 0; partition--) {
                TaskId task = new TaskId(sub - 1, partition);
                all.add(task);
                if (has) {
                    stateful.add(task);
                }
            }
        }
        Map<ProcessId, ClientState> clients = new HashMap<>();
        Map<String, Object> processes = new LinkedHashMap<>();
        List<TaskId> unowned = new ArrayList<>(new TreeSet<>(stateful));
        Random tagged = new Random(random.nextLong());
        List<String> tags = TAGS.get(tagged.nextInt(TAGS.size()));
        long usual = LAGS[random.nextInt(LAGS.length)];
        for (int number = 1 + random.nextInt(6); number > 0; number--) {
            ProcessId id = new ProcessId(new UUID(random.nextLong(), random.nextLong()));
            Map<String, String> own = new TreeMap<>();
            for (String key : List.of("zone", "cluster")) {
                if (!tags.isEmpty() && tagged.nextInt(8) > 0) {
                    own.put(key, key + tagged.nextInt(3));
                }
            }
            ClientState state = new ClientState(id, own);
            int count = 1 + random.nextInt(4);
            Map<String, Map<TaskId, Long>> had = new TreeMap<>();
            for (int thread = 0; thread < count; thread++) {
                state.incrementCapacity();
                had.put("app-" + random.nextInt(100) + "-" + thread, new TreeMap<>());
            }
            List<String> names = new ArrayList<>(had.keySet());
            Map<TaskId, Long> lags = new TreeMap<>();
            Map<TaskId, Long> ends = new HashMap<>();
            for (TaskId task : stateful) {
                long lag = random.nextInt(3) > 0 ? usual : LAGS[random.nextInt(LAGS.length)];
                if (lag < 0 && !unowned.remove(task)) {
                    lag = 3;
                }
                lags.put(task, lag);
                ends.put(task, 1L << 50);
                if (random.nextInt(3) > 0 || lag < 0) {
                    had.get(names.get(random.nextInt(count))).put(task, lag < 0 ? lag : (1L << 50) - lag);
                } else {
                    lags.put(task, 1L << 50);
                }
            }
            had.forEach(state::addPreviousTasksAndOffsetSums);
            state.computeTaskLags(id, ends);
            clients.put(id, state);
            Map<String, Object> process = new LinkedHashMap<>();
            process.put("lags", lags);
            process.put("tags", own.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, each -> new Text(each.getValue()))));
            process.put("had", had.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, each -> each.getValue().keySet())));
            processes.put(id.toString(), process);
        }
        AssignmentConfigs plain = new AssignmentConfigs(
            ACCEPTABLE[random.nextInt(ACCEPTABLE.length)], 1 + random.nextInt(random.nextInt(3) == 0 ? 20 : 3), random.nextInt(4), 60_000L, List.of());
        AssignmentConfigs configs = new AssignmentConfigs(
            plain.acceptableRecoveryLag(), plain.maxWarmupReplicas(), plain.numStandbyReplicas(), plain.probingRebalanceIntervalMs(), tags);
        RackAwareTaskAssignor racks = new RackAwareTaskAssignor(
            Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.<ProcessId, Map<String, Optional<String>>>of(), null, configs, Time.SYSTEM);
        boolean probes = new HighAvailabilityTaskAssignor().assign(clients, all, stateful, racks, configs);
        for (Map.Entry<ProcessId, ClientState> each : clients.entrySet()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> process = (Map<String, Object>) processes.get(each.getKey().toString());
            ClientState state = each.getValue();
            process.put("active", new TreeSet<>(state.activeTasks()));
            process.put("standby", new TreeSet<>(state.standbyTasks()));
            SortedSet<String> names = new TreeSet<>(((Map<?, ?>) process.get("had")).keySet().stream().map(String::valueOf).toList());
            Map<String, Integer> loads = new HashMap<>();
            process.put("stateful_threads", threads.invoke(null, state.statefulActiveTasks(), true, names, state, loads));
            process.put("standby_threads", threads.invoke(null, state.standbyTasks(), true, names, state, loads));
            process.put("stateless_threads", threads.invoke(null, state.statelessActiveTasks(), false, names, state, loads));
        }
        stickily(processes, all, stateful, plain, random);
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("processes", processes);
        found.put("tasks", all);
        found.put("stateful", stateful);
        found.put("tags", tags.stream().map(Text::new).toList());
        found.put("standbys", configs.numStandbyReplicas());
        found.put("warmups", configs.maxWarmupReplicas());
        found.put("acceptable_lag", configs.acceptableRecoveryLag());
        found.put("is_final", !probes);
        return json(found);
    }

    /** The same processes, which have had other tasks. Adds what each has had, and what it has by the sticky assignor. */
    private static void stickily(
            Map<String, Object> processes, Set<TaskId> all, Set<TaskId> stateful, AssignmentConfigs configs, Random random) {
        Map<ProcessId, KafkaStreamsState> clients = new HashMap<>();
        List<TaskId> unowned = new ArrayList<>(new TreeSet<>(all));
        for (Map.Entry<String, Object> each : processes.entrySet()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> process = (Map<String, Object>) each.getValue();
            SortedSet<TaskId> active = new TreeSet<>();
            SortedSet<TaskId> standby = new TreeSet<>();
            for (TaskId task : new TreeSet<>(all)) {
                int what = random.nextInt(4);
                if (what == 0 && unowned.remove(task)) {
                    active.add(task);
                } else if (what == 1 && stateful.contains(task)) {
                    standby.add(task);
                }
            }
            process.put("had_active", active);
            process.put("had_standby", standby);
            ProcessId id = new ProcessId(UUID.fromString(each.getKey()));
            int count = ((Map<?, ?>) process.get("had")).size();
            clients.put(id, new DefaultKafkaStreamsState(
                id, count, Map.of(), active, standby, new TreeMap<>(), Optional.empty(), Optional.empty(), Optional.empty()));
        }
        Map<TaskId, TaskInfo> tasks = new HashMap<>();
        for (TaskId task : new TreeSet<>(all)) {
            TopicPartition changelog = new TopicPartition("changelog-" + task.subtopology(), task.partition());
            tasks.put(task, new DefaultTaskInfo(task, stateful.contains(task), Set.of(), stateful.contains(task)
                ? Set.of(new DefaultTaskTopicPartition(changelog, false, true, () -> { })) : Set.of()));
        }
        ApplicationState state = new ApplicationState() {
            @Override
            public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
                return clients;
            }

            @Override
            public AssignmentConfigs assignmentConfigs() {
                return configs;
            }

            @Override
            public Map<TaskId, TaskInfo> allTasks() {
                return tasks;
            }
        };
        for (KafkaStreamsAssignment each : new StickyTaskAssignor().assign(state).assignment()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> process = (Map<String, Object>) processes.get(each.processId().toString());
            process.put("sticky_active", ids(each, KafkaStreamsAssignment.AssignedTask.Type.ACTIVE));
            process.put("sticky_standby", ids(each, KafkaStreamsAssignment.AssignedTask.Type.STANDBY));
        }
    }

    private static Set<TaskId> ids(KafkaStreamsAssignment assignment, KafkaStreamsAssignment.AssignedTask.Type type) {
        return assignment.tasks().values().stream().filter(each -> each.type() == type)
            .map(KafkaStreamsAssignment.AssignedTask::id).collect(Collectors.toCollection(TreeSet::new));
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(each -> "\"" + each.getKey() + "\":" + json(each.getValue())).collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Collection<?> some) {
            return some.stream().map(StreamsAssignorOracle::json).collect(Collectors.joining(",", "[", "]"));
        }
        return value instanceof TaskId || value instanceof Text ? "\"" + value + "\"" : String.valueOf(value);
    }
}

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Random subscriptions and assignments, written by the classes of this version of Kafka Streams and read by them again.
 *
 * Arguments: a seed, a number. A line of output is a JSON object: the bytes in hexadecimal digits, and what the classes read.
 * Constructors differ between versions, so they are found by their number of parameters.
 */
public final class StreamsOracle {
    private static final String[] NAMES = {"orders", "wc-counts-repartition", "a.b_c-d", "t\u00e9l\u00e9", "x"};
    private static Random random;

    public static void main(String[] args) throws Exception {
        random = new Random(Long.parseLong(args[0]));
        int newest = newest();
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            int version = 1 + (i / 2) % newest;
            System.out.println(i % 2 == 0 ? subscription(version, newest) : assignment(version, newest));
        }
    }

    private static int newest() throws Exception {
        Class<?> versions = Class.forName("org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions");
        java.lang.reflect.Field field = versions.getDeclaredField("LATEST_SUPPORTED_VERSION");
        field.setAccessible(true);
        return field.getInt(null);
    }

    private static String subscription(int version, int newest) throws Exception {
        UUID process = new UUID(random.nextLong(), random.nextLong());
        String endpoint = random.nextInt(3) == 0 ? null : host() + ":" + random.nextInt(65536);
        Map<TaskId, Long> sums = new HashMap<>();
        for (int i = random.nextInt(5); i > 0; i--) {
            long[] some = {-2L, -3L, 0L, Math.abs(random.nextLong())};
            sums.put(task(version), some[random.nextInt(some.length)]);
        }
        Map<String, String> tags = new HashMap<>();
        for (int i = version >= 11 ? random.nextInt(3) : 0; i > 0; i--) {
            tags.put("zone" + i, host());
        }
        Constructor<?> longest = null;
        for (Constructor<?> each : SubscriptionInfo.class.getConstructors()) {
            longest = longest == null || each.getParameterCount() > longest.getParameterCount() ? each : longest;
        }
        Object info;
        if (longest.getParameterCount() == 5) {
            Set<TaskId> active = new HashSet<>(sums.keySet());
            Set<TaskId> standby = new HashSet<>(sums.keySet());
            active.removeIf(each -> sums.get(each) != -2L);
            standby.removeIf(active::contains);
            info = longest.newInstance(version, process, active, standby, endpoint);
        } else {
            Object id = longest.getParameterTypes()[2].getConstructor(UUID.class).newInstance(process);
            int error = version >= 9 ? random.nextInt(2) : 0;
            int latest = version < 3 ? -1 : newest;
            info = longest.newInstance(version, latest, id, endpoint, sums, (byte) random.nextInt(128), error, tags);
        }
        ByteBuffer data = (ByteBuffer) SubscriptionInfo.class.getMethod("encode").invoke(info);
        data.rewind();
        SubscriptionInfo read = SubscriptionInfo.decode(data.duplicate());
        Map<String, Object> found = start("subscription", version, data);
        found.put("latest_version", read.latestSupportedVersion());
        Object id = SubscriptionInfo.class.getMethod("processId").invoke(read);
        found.put("process_id", id instanceof UUID ? id : id.getClass().getMethod("id").invoke(id));
        found.put("user_endpoint", read.userEndPoint());
        Map<String, Object> offsets = new TreeMap<>();
        read.prevTasks().forEach(each -> offsets.put(each.toString(), -2L));
        read.standbyTasks().forEach(each -> offsets.put(each.toString(), -3L));
        if (has("taskOffsetSums", SubscriptionInfo.class)) {
            ((Map<?, ?>) SubscriptionInfo.class.getMethod("taskOffsetSums").invoke(read)).forEach((k, v) -> offsets.put(k.toString(), v));
        }
        found.put("offset_sums", offsets);
        found.put("error_code", optional("errorCode", read, 0));
        found.put("client_tags", optional("clientTags", read, new TreeMap<>()));
        return json(found);
    }

    private static String assignment(int version, int newest) throws Exception {
        List<TaskId> active = new ArrayList<>();
        for (int i = random.nextInt(5); i > 0; i--) {
            TaskId task = task(version);
            active.add(task);
            if (random.nextInt(3) == 0) {
                active.add(task);
            }
        }
        Map<TaskId, Set<TopicPartition>> standby = new HashMap<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            standby.put(task(version), partitions());
        }
        Constructor<?> longest = null;
        for (Constructor<?> each : AssignmentInfo.class.getConstructors()) {
            longest = longest == null || each.getParameterCount() > longest.getParameterCount() ? each : longest;
        }
        int common = 3 + random.nextInt(newest - 2);
        int error = random.nextInt(4);
        Object info = longest.getParameterCount() == 6
            ? longest.newInstance(version, common, active, standby, hosts(), error)
            : longest.newInstance(version, common, active, standby, hosts(), hosts(), error);
        if (has("nextRebalanceMs", AssignmentInfo.class)) {
            long[] some = {Long.MAX_VALUE, 0L, 1764000000000L + random.nextInt(1000000)};
            AssignmentInfo.class.getMethod("setNextRebalanceTime", long.class).invoke(info, some[random.nextInt(3)]);
        }
        ByteBuffer data = (ByteBuffer) AssignmentInfo.class.getMethod("encode").invoke(info);
        AssignmentInfo read = AssignmentInfo.decode(data.duplicate());
        Map<String, Object> found = start("assignment", version, data);
        found.put("common_version", read.commonlySupportedVersion());
        List<Object> tasks = new ArrayList<>();
        read.activeTasks().forEach(each -> tasks.add(each.toString()));
        found.put("active_tasks", tasks);
        Map<String, Object> standbys = new TreeMap<>();
        read.standbyTasks().forEach((k, v) -> standbys.put(k.toString(), texts(v)));
        found.put("standby_tasks", standbys);
        Set<Object> endpoints = new HashSet<>();
        read.partitionsByHost().keySet().forEach(each -> endpoints.add(each.host() + ":" + each.port()));
        Map<?, ?> others = (Map<?, ?>) optional("standbyPartitionByHost", read, new HashMap<>());
        others.keySet().forEach(each -> endpoints.add(((HostInfo) each).host() + ":" + ((HostInfo) each).port()));
        found.put("endpoints", new ArrayList<>(endpoints));
        found.put("error_code", read.errCode());
        long next = ((Number) optional("nextRebalanceMs", read, Long.MAX_VALUE)).longValue();
        found.put("next_rebalance_ms", next == Long.MAX_VALUE ? null : next);
        return json(found);
    }

    private static Map<String, Object> start(String kind, int version, ByteBuffer data) {
        Map<String, Object> found = new TreeMap<>();
        found.put("kind", kind);
        found.put("version", version);
        StringBuilder digits = new StringBuilder();
        for (ByteBuffer each = data.duplicate(); each.hasRemaining(); ) {
            digits.append(String.format("%02x", each.get()));
        }
        found.put("data", digits);
        return found;
    }

    private static TaskId task(int version) throws Exception {
        int subtopology = random.nextInt(4);
        int partition = random.nextInt(300);
        if (version >= 10 && random.nextInt(4) == 0) {
            return TaskId.class.getConstructor(int.class, int.class, String.class).newInstance(subtopology, partition, "top-\u00e9");
        }
        return new TaskId(subtopology, partition);
    }

    private static Map<HostInfo, Set<TopicPartition>> hosts() {
        Map<HostInfo, Set<TopicPartition>> hosts = new HashMap<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            hosts.put(new HostInfo(host(), random.nextInt(65536)), partitions());
        }
        return hosts;
    }

    private static String host() {
        String[] some = {"10.0.0." + random.nextInt(256), "h\u00f6st", "\uD83D\uDE00", "nul\0", "fe80::1"};
        return some[random.nextInt(some.length)];
    }

    private static Set<TopicPartition> partitions() {
        Set<TopicPartition> some = new HashSet<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            some.add(new TopicPartition(NAMES[random.nextInt(NAMES.length)], random.nextInt(500)));
        }
        return some;
    }

    private static List<Object> texts(Set<TopicPartition> partitions) {
        List<Object> texts = new ArrayList<>();
        partitions.forEach(each -> texts.add(each.topic() + ":" + each.partition()));
        return texts;
    }

    private static boolean has(String method, Class<?> type) {
        for (Method each : type.getMethods()) {
            if (each.getName().equals(method)) {
                return true;
            }
        }
        return false;
    }

    private static Object optional(String method, Object of, Object otherwise) throws Exception {
        return has(method, of.getClass()) ? of.getClass().getMethod(method).invoke(of) : otherwise;
    }

    private static String json(Object value) {
        StringBuilder out = new StringBuilder();
        if (value == null || value instanceof Number) {
            return String.valueOf(value);
        }
        if (value instanceof Map) {
            ((Map<?, ?>) value).forEach((k, v) -> out.append(out.length() == 0 ? "" : ",").append(json(k.toString())).append(":").append(json(v)));
            return "{" + out + "}";
        }
        if (value instanceof List) {
            ((List<?>) value).forEach(each -> out.append(out.length() == 0 ? "" : ",").append(json(each)));
            return "[" + out + "]";
        }
        for (char each : value.toString().toCharArray()) {
            out.append(each < 32 || each > 126 || each == '"' || each == '\\' ? String.format("\\u%04x", (int) each) : String.valueOf(each));
        }
        return "\"" + out + "\"";
    }
}

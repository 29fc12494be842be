import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's assignors on large groups, one step of a benchmark a line.
 *
 * {"do": "group", "assignor", "topics": [[name, partitions]], "kinds": [[topic]], "members": [[id, kind]], "generation"}
 *     builds a group; its members own what the answer that was kept gave them.
 * {"do": "run", "collect"}  assigns once: {"thread_ns", "allocated"} and bytes of heap, see run().
 * {"do": "walk"}    reads all of the last answer: {"ns", "total"}.
 * {"do": "keep"}    keeps the last answer. {"do": "forget"} drops it.
 * {"do": "digest"}  a checksum of the last answer.
 */
public final class AssignBench {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final com.sun.management.ThreadMXBean THREADS =
        (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static Callable<Object> work;
    private static final List<ByteBuffer> userData = new ArrayList<>();
    private static Map<Uuid, String> names = new HashMap<>();
    private static Object answer;
    private static Map<String, Map<String, List<Integer>>> kept = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode step = JSON.readTree(line);
            Map<String, Object> said = new TreeMap<>();
            switch (step.get("do").asText()) {
                case "group":
                    answer = null;
                    userData.clear();
                    work = step.get("assignor").asText().startsWith("consumer-") ? onServer(step) : inClient(step);
                    break;
                case "run": run(said, step.get("collect").asBoolean()); break;
                case "keep": kept = plain(); break;
                case "forget": kept = new HashMap<>(); break;
                case "walk": walk(said); break;
                case "digest": said.put("digest", digest()); break;
                default: throw new IllegalArgumentException(line);
            }
            out.println(JSON.writeValueAsString(said));
        }
    }

    /**
     * With collect: garbage is collected before. "peak" is how far the heap's pools rose during the call, what this JVM
     * really took of its -Xmx.
     */
    private static void run(Map<String, Object> said, boolean collect) throws Exception {
        answer = null;
        userData.forEach(ByteBuffer::rewind); // StickyAssignor reads them to their end
        long before = 0;
        if (collect) {
            System.gc();
            before = used();
            for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans())
                pool.resetPeakUsage();
        }
        long thread = Thread.currentThread().getId();
        long allocated = THREADS.getThreadAllocatedBytes(thread);
        long threadNs = THREADS.getCurrentThreadCpuTime();
        answer = work.call();
        said.put("thread_ns", THREADS.getCurrentThreadCpuTime() - threadNs);
        said.put("allocated", THREADS.getThreadAllocatedBytes(thread) - allocated);
        if (collect) {
            long peak = 0;
            for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans())
                if (pool.getType() == MemoryType.HEAP)
                    peak += pool.getPeakUsage().getUsed();
            said.put("peak", peak - before);
        }
    }

    private static void walk(Map<String, Object> said) {
        long start = THREADS.getCurrentThreadCpuTime();
        long total = 0;
        if (answer instanceof GroupAssignment) {
            for (Assignment assignment : ((GroupAssignment) answer).groupAssignment().values())
                for (TopicPartition tp : assignment.partitions())
                    total += tp.partition();
        } else {
            for (var assignment :
                ((org.apache.kafka.coordinator.group.api.assignor.GroupAssignment) answer).members().values())
                for (Set<Integer> partitions : assignment.partitions().values())
                    for (int partition : partitions)
                        total += partition;
        }
        said.put("ns", THREADS.getCurrentThreadCpuTime() - start);
        said.put("total", total);
    }

    private static long used() {
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private static Callable<Object> inClient(JsonNode group) {
        ConsumerPartitionAssignor assignor = assignor(group);
        List<List<String>> kinds = kinds(group);
        int generation = group.get("generation").asInt();
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            String id = member.get(0).asText();
            List<String> topics = kinds.get(member.get(1).asInt());
            List<TopicPartition> owned = new ArrayList<>();
            kept.getOrDefault(id, Map.of()).forEach((t, ps) -> ps.forEach(p -> owned.add(new TopicPartition(t, p))));
            int last = owned.isEmpty() ? -1 : generation;
            ConsumerPartitionAssignor own = assignor(group);
            if (!owned.isEmpty())
                own.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", last, "", Optional.empty()));
            ByteBuffer data = own.subscriptionUserData(Set.copyOf(topics));
            if (data != null)
                userData.add(data);
            subscriptions.put(id, new Subscription(topics, data, owned, last, Optional.empty()));
        }
        Node broker = new Node(0, "broker", 9092);
        Node[] replicas = {broker};
        List<PartitionInfo> infos = new ArrayList<>();
        for (JsonNode topic : group.get("topics"))
            for (int p = 0; p < topic.get(1).asInt(); p++)
                infos.add(new PartitionInfo(topic.get(0).asText(), p, broker, replicas, replicas));
        Cluster cluster = new Cluster("cluster", List.of(broker), infos, Set.of(), Set.of());
        GroupSubscription subscription = new GroupSubscription(subscriptions);
        return () -> assignor.assign(cluster, subscription);
    }

    private static ConsumerPartitionAssignor assignor(JsonNode group) {
        switch (group.get("assignor").asText()) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException("unknown assignor");
        }
    }

    private static List<List<String>> kinds(JsonNode group) {
        List<List<String>> result = new ArrayList<>();
        for (JsonNode kind : group.get("kinds")) {
            List<String> topics = new ArrayList<>();
            kind.forEach(topic -> topics.add(topic.asText()));
            result.add(topics);
        }
        return result;
    }

    private static Callable<Object> onServer(JsonNode group) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        names = new HashMap<>();
        for (JsonNode topic : group.get("topics")) {
            // Ids whose hashes ascend in the order in which topics are named.
            Uuid id = new Uuid(0, ids.size());
            ids.put(topic.get(0).asText(), id);
            names.put(id, topic.get(0).asText());
            counts.put(id, topic.get(1).asInt());
        }
        List<Set<Uuid>> kinds = new ArrayList<>();
        for (List<String> topics : kinds(group)) {
            Set<Uuid> kind = new HashSet<>();
            topics.forEach(topic -> kind.add(ids.get(topic)));
            kinds.add(kind);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            String memberId = member.get(0).asText();
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            kept.getOrDefault(memberId, Map.of()).forEach((topic, partitions) -> {
                owned.put(ids.get(topic), new HashSet<>(partitions));
                Map<Integer, String> owner = owners.computeIfAbsent(ids.get(topic), k -> new HashMap<>());
                partitions.forEach(p -> owner.put(p, memberId));
            });
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(),
                kinds.get(member.get(1).asInt()),
                new org.apache.kafka.coordinator.group.modern.Assignment(Collections.unmodifiableMap(owned))));
        }
        SubscriptionType type = kinds.size() < 2 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor = group.get("assignor").asText().equals("consumer-range")
            ? new org.apache.kafka.coordinator.group.assignor.RangeAssignor() : new UniformAssignor();
        GroupSpec spec = new GroupSpecImpl(members, type, owners);
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        return () -> assignor.assign(spec, describer);
    }

    /** The last answer as topics and sorted partitions by member. */
    private static Map<String, Map<String, List<Integer>>> plain() {
        Map<String, Map<String, List<Integer>>> result = new TreeMap<>();
        if (answer instanceof GroupAssignment) {
            ((GroupAssignment) answer).groupAssignment().forEach((id, assignment) -> {
                Map<String, List<Integer>> topics = result.computeIfAbsent(id, k -> new TreeMap<>());
                for (TopicPartition tp : assignment.partitions())
                    topics.computeIfAbsent(tp.topic(), t -> new ArrayList<>(1)).add(tp.partition());
            });
        } else {
            ((org.apache.kafka.coordinator.group.api.assignor.GroupAssignment) answer).members().forEach(
                (id, assignment) -> {
                    Map<String, List<Integer>> topics = result.computeIfAbsent(id, k -> new TreeMap<>());
                    assignment.partitions().forEach((topic, partitions) -> {
                        if (!partitions.isEmpty())
                            topics.put(names.get(topic), new ArrayList<>((Collection<Integer>) partitions));
                    });
                });
        }
        result.values().forEach(topics -> topics.values().forEach(Collections::sort));
        return result;
    }

    /** CRC-32 of "member\n", then "topic[p, p, p]\n" for each topic, in order. */
    private static long digest() {
        CRC32 crc = new CRC32();
        plain().forEach((id, topics) -> {
            crc.update((id + "\n").getBytes(StandardCharsets.UTF_8));
            topics.forEach((topic, ps) -> crc.update((topic + ps + "\n").getBytes(StandardCharsets.UTF_8)));
        });
        return crc.getValue();
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own assignors on groups written as JSON lines (what kgm assign reads, and names_generation for a member).
 * Client-side ones run as in ConsumerCoordinator.onLeaderElected: subscriptions are written and read back in the wire
 * format and put one by one into a HashMap. An assignor that throws answers {"error"}.
 */
public final class AssignDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode group = JSON.readTree(line);
            Map<String, Object> answer = new TreeMap<>();
            try {
                boolean isServer = group.get("assignor").asText().startsWith("consumer-");
                answer.put("assignment", isServer ? onServer(group) : inClient(group));
            } catch (RuntimeException e) {
                answer.put("error", e.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Map<String, Map<String, List<Integer>>> inClient(JsonNode group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            ByteBuffer written = ConsumerProtocol.serializeSubscription(subscription(group, member));
            Subscription read = ConsumerProtocol.deserializeSubscription(written);
            read.setGroupInstanceId(text(member, "group_instance_id"));
            subscriptions.put(member.get("member_id").asText(), read);
        }
        Map<String, Assignment> answer =
            assignor(group).assign(cluster(group), new GroupSubscription(subscriptions)).groupAssignment();
        Map<String, Map<String, List<Integer>>> result = new TreeMap<>();
        answer.forEach((id, assignment) -> {
            Map<String, List<Integer>> topics = new TreeMap<>();
            for (TopicPartition tp : assignment.partitions())
                topics.computeIfAbsent(tp.topic(), t -> new ArrayList<>()).add(tp.partition());
            topics.values().forEach(Collections::sort);
            result.put(id, topics);
        });
        return result;
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

    /** The subscription that a member with this assignor would send. */
    private static Subscription subscription(JsonNode group, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(t -> topics.add(t.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        if (member.hasNonNull("owned"))
            member.get("owned").fields().forEachRemaining(
                e -> e.getValue().forEach(p -> owned.add(new TopicPartition(e.getKey(), p.asInt()))));
        int generation = member.hasNonNull("generation") ? member.get("generation").asInt() : -1;
        ConsumerPartitionAssignor assignor = assignor(group);
        if (generation >= 0 || !owned.isEmpty())
            assignor.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "", Optional.empty()));
        boolean names = !member.hasNonNull("names_generation") || member.get("names_generation").asBoolean();
        return new Subscription(topics, assignor.subscriptionUserData(Set.copyOf(topics)), owned,
            names ? generation : -1, text(member, "rack"));
    }

    private static Cluster cluster(JsonNode group) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        Node nowhere = new Node(0, "broker", 9092);
        for (JsonNode topic : group.get("topics"))
            for (int p = 0; p < topic.get("partitions").asInt(); p++) {
                Node[] replicas = {nowhere};
                if (topic.hasNonNull("racks")) {
                    List<Node> there = new ArrayList<>();
                    topic.get("racks").get(p).forEach(r -> there.add(
                        nodes.computeIfAbsent(r.asText(), k -> new Node(nodes.size() + 1, "broker", 9092, k))));
                    replicas = there.toArray(new Node[0]);
                }
                infos.add(new PartitionInfo(topic.get("name").asText(), p, null, replicas, replicas));
            }
        return new Cluster("cluster", nodes.values(), infos, Set.of(), Set.of());
    }

    private static Map<String, Map<String, List<Integer>>> onServer(JsonNode group) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (JsonNode topic : group.get("topics")) {
            Uuid id = id(ids, topic.get("name").asText());
            names.put(id, topic.get("name").asText());
            counts.put(id, topic.get("partitions").asInt());
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> kinds = new HashSet<>();
        for (JsonNode member : group.get("members")) {
            String memberId = member.get("member_id").asText();
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(t -> topics.add(id(ids, t.asText())));
            kinds.add(topics);
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            if (member.hasNonNull("owned"))
                member.get("owned").fields().forEachRemaining(e -> {
                    List<Integer> partitions = new ArrayList<>();
                    e.getValue().forEach(p -> partitions.add(p.asInt()));
                    Uuid id = id(ids, e.getKey());
                    if (!partitions.isEmpty())
                        owned.put(id, new HashSet<>(partitions));
                    partitions.forEach(p -> owners.computeIfAbsent(id, k -> new HashMap<>()).put(p, memberId));
                });
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(text(member, "rack"),
                text(member, "group_instance_id"), topics,
                new org.apache.kafka.coordinator.group.modern.Assignment(Collections.unmodifiableMap(owned))));
        }
        ConsumerGroupPartitionAssignor assignor = group.get("assignor").asText().equals("consumer-range")
            ? new org.apache.kafka.coordinator.group.assignor.RangeAssignor() : new UniformAssignor();
        SubscriptionType type = kinds.size() < 2 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, Map<String, List<Integer>>> result = new TreeMap<>();
        members.keySet().forEach(memberId -> result.put(memberId, new TreeMap<>()));
        assignor.assign(new GroupSpecImpl(members, type, owners), describer(counts)).members().forEach(
            (memberId, assignment) -> assignment.partitions().forEach((id, partitions) -> {
                List<Integer> sorted = new ArrayList<>(partitions);
                Collections.sort(sorted);
                if (!sorted.isEmpty())
                    result.get(memberId).put(names.get(id), sorted);
            }));
        return result;
    }

    /** Ids whose hashes ascend in the order in which topics are named. */
    private static Uuid id(Map<String, Uuid> ids, String name) {
        return ids.computeIfAbsent(name, k -> new Uuid(0, ids.size()));
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    private static Optional<String> text(JsonNode node, String key) {
        return node.hasNonNull(key) ? Optional.of(node.get(key).asText()) : Optional.empty();
    }
}

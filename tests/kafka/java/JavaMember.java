import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

/**
 * Real Java consumers, one thread each, in one JVM.
 *
 * Commands are JSON lines on standard input: {"cmd": "start", "member": NAME, "config": {...}, "topics": [...]},
 * then {"cmd": "commit" | "pause" | "close" | "close-leave" | "close-remain" | "stall", "member": NAME} ("stall" with "ms" stops
 * polling for a while). Events are JSON lines on standard output, each with the member's name, the event and "at"
 * (CLOCK_MONOTONIC, seconds). The end of input halts the JVM: members crash without telling the broker.
 */
public final class JavaMember implements Runnable, ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private final String name;
    private final JsonNode start;
    private final LinkedBlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
    private final TreeSet<String> assignment = new TreeSet<>();
    private KafkaConsumer<byte[], byte[]> consumer;
    private String memberId = "";
    private int generation = -1;
    private long polled;

    private JavaMember(String name, JsonNode start) {
        this.name = name;
        this.start = start;
    }

    public static void main(String[] args) throws Exception {
        Map<String, JavaMember> members = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("member").asText();
            if (command.get("cmd").asText().equals("start")) {
                JavaMember member = new JavaMember(name, command);
                members.put(name, member);
                Thread thread = new Thread(member, name);
                thread.setDaemon(true);
                thread.start();
            } else {
                members.get(name).commands.add(command);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    @Override
    public void run() {
        try {
            Properties properties = new Properties();
            start.get("config").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
            List<String> topics = new ArrayList<>();
            start.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer = new KafkaConsumer<>(properties);
            if (topics.size() == 1 && topics.get(0).startsWith("^")) {
                String regex = topics.get(0).substring(1);
                if ("consumer".equals(properties.get("group.protocol"))) {
                    consumer.subscribe(new SubscriptionPattern(regex), this);
                } else {
                    consumer.subscribe(Pattern.compile(regex), this);
                }
            } else {
                consumer.subscribe(topics, this);
            }
            emit("started", null);
            while (true) {
                int count = consumer.poll(Duration.ofMillis(50)).count();
                if (count > 0) {
                    polled += count;
                    ObjectNode data = JSON.createObjectNode();
                    data.put("count", count).put("total", polled);
                    emit("polled", data);
                }
                noteGeneration();
                JsonNode command = commands.poll();
                if (command != null && obey(command)) {
                    return;
                }
            }
        } catch (Throwable e) {
            ObjectNode data = JSON.createObjectNode();
            data.put("error", Errors.forException(e).name()).put("message", String.valueOf(e));
            emit("fatal", data);
            if (consumer != null) {
                try {
                    consumer.close(CloseOptions.timeout(Duration.ZERO));
                } catch (Exception ignored) {
                    // The failure has been reported already.
                }
            }
        }
    }

    /** True when the member is closed. */
    private boolean obey(JsonNode command) throws Exception {
        switch (command.get("cmd").asText()) {
            case "commit":
                try {
                    consumer.commitSync();
                    emit("committed", null);
                } catch (RuntimeException e) {
                    emit("error", JSON.createObjectNode().put("error", Errors.forException(e).name()).put("message", e.toString()));
                }
                return false;
            case "enforce":
                consumer.enforceRebalance("asked by a test");
                return false;
            case "pause":
                consumer.pause(consumer.assignment());
                emit("paused", null);
                return false;
            case "stall":
                Thread.sleep(command.get("ms").asLong());
                return false;
            case "close":
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(10)));
                break;
            case "close-leave":
                close(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
                break;
            case "close-remain":
                close(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
                break;
            default:
                throw new IllegalArgumentException(command.toString());
        }
        emit("closed", null);
        return true;
    }

    private void close(CloseOptions.GroupMembershipOperation operation) {
        consumer.close(CloseOptions.groupMembershipOperation(operation).withTimeout(Duration.ofSeconds(10)));
    }

    /** Emits an event for every new generation (or member epoch), also for those that move no partition. */
    private void noteGeneration() {
        ConsumerGroupMetadata metadata = consumer.groupMetadata();
        if (metadata.generationId() != generation || !metadata.memberId().equals(memberId)) {
            generation = metadata.generationId();
            memberId = metadata.memberId();
            emit("generation", null);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        noteGeneration();
        partitions.forEach(p -> assignment.add(p.topic() + "\0" + p.partition()));
        emit("assigned", partitions(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        partitions.forEach(p -> assignment.remove(p.topic() + "\0" + p.partition()));
        emit("revoked", partitions(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(p -> assignment.remove(p.topic() + "\0" + p.partition()));
        emit("lost", partitions(partitions));
    }

    private static ObjectNode partitions(Collection<TopicPartition> partitions) {
        ObjectNode data = JSON.createObjectNode();
        ArrayNode list = data.putArray("partitions");
        partitions.forEach(p -> list.addArray().add(p.topic()).add(p.partition()));
        return data;
    }

    private void emit(String event, ObjectNode data) {
        ObjectNode line = data == null ? JSON.createObjectNode() : data;
        line.put("member", name).put("event", event).put("at", System.nanoTime() / 1e9);
        line.put("member_id", memberId).put("generation", generation);
        ArrayNode owned = line.putArray("assignment");
        for (String each : assignment) {
            String[] parts = each.split("\0");
            owned.addArray().add(parts[0]).add(Integer.parseInt(parts[1]));
        }
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}

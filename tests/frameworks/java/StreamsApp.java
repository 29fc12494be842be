import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.Stores;

/**
 * Real Kafka Streams applications in one JVM, each as a process of its own to Streams: with a folder and a process id of its own.
 *
 * The topology has two subtopologies: one without state that reads the topic, and one that counts in memory.
 *
 * Commands are JSON lines on standard input: {"cmd": "start", "name": NAME, "topic": TOPIC, "config": {...}}, then
 * {"cmd": "threads" | "close", "name": NAME}. Each is answered with one line on standard output that has the name, the
 * state, and for each thread its name and tasks. The end of input halts the JVM: applications crash without a word.
 */
public final class StreamsApp {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, KafkaStreams> running = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("name").asText();
            if (command.get("cmd").asText().equals("start")) {
                running.put(name, start(command));
            } else if (command.get("cmd").asText().equals("close")) {
                running.get(name).close(Duration.ofSeconds(10));
            }
            out.println(said(name, running.get(name)));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static KafkaStreams start(JsonNode command) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        command.get("config").fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream(command.get("topic").asText());
        words.groupBy((key, value) -> value, Grouped.as("by-word"))
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.start();
        return streams;
    }

    private static ObjectNode said(String name, KafkaStreams streams) {
        ObjectNode line = JSON.createObjectNode().put("name", name).put("state", streams.state().name());
        ArrayNode threads = line.putArray("threads");
        if (streams.state().isRunningOrRebalancing()) {
            for (ThreadMetadata each : streams.metadataForLocalThreads()) {
                ObjectNode thread = threads.addObject().put("thread", each.threadName());
                tasks(thread.putArray("active"), each.activeTasks());
                tasks(thread.putArray("standby"), each.standbyTasks());
            }
        }
        return line;
    }

    private static void tasks(ArrayNode list, Set<TaskMetadata> tasks) {
        tasks.stream().map(TaskMetadata::taskId).sorted().map(TaskId::toString).forEach(list::add);
    }
}

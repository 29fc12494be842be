import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Real Connect workers in one JVM, and connectors whose tasks do nothing: ConnectWorkers$Idle, a source, and
 * ConnectWorkers$Drain, a sink.
 *
 * Commands are JSON lines on standard input: {"cmd": "start", "name": NAME, "config": {...}}, {"cmd": "stop", "name": NAME}.
 * Each is answered with a line when it is done. The end of input halts the JVM, SIGTERM ends its workers first.
 *
 * -Dkgm.events=FILE    where sink tasks append a line whenever a partition begins or ends to be theirs:
 *                      MS_SINCE_1970 open|close CONNECTOR PARTITION
 */
public final class ConnectWorkers {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, Connect<?>> running = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = json.readTree(line);
            String name = command.get("name").asText();
            if (command.get("cmd").asText().equals("start")) {
                Map<String, String> config = new HashMap<>();
                command.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
                running.put(name, new ConnectDistributed().startConnect(config));
            } else {
                Connect<?> worker = running.remove(name);
                worker.stop();
                worker.awaitStop();
            }
            out.println(json.createObjectNode().put("name", name));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static List<Map<String, String>> numbered(int most) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int i = 0; i < most; i++) {
            configs.add(Map.of("number", String.valueOf(i)));
        }
        return configs;
    }

    /** As many tasks as are asked for. */
    public static final class Idle extends SourceConnector {
        @Override
        public void start(Map<String, String> config) {
        }

        @Override
        public Class<? extends Task> taskClass() {
            return IdleTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return numbered(most);
        }

        @Override
        public void stop() {
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /** Returns nothing, for ever. */
    public static final class IdleTask extends SourceTask {
        @Override
        public void start(Map<String, String> config) {
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(200);
            return null;
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /** As many tasks as are asked for, which throw everything away. */
    public static final class Drain extends SinkConnector {
        private String name;

        @Override
        public void start(Map<String, String> config) {
            name = config.get("name");
        }

        @Override
        public Class<? extends Task> taskClass() {
            return DrainTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return Collections.nCopies(most, Map.of("connector", name));
        }

        @Override
        public void stop() {
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    public static final class DrainTask extends SinkTask {
        private static final Path EVENTS = Path.of(System.getProperty("kgm.events"));
        private String connector;

        @Override
        public void start(Map<String, String> config) {
            connector = config.get("connector");
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            note("open", partitions);
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            note("close", partitions);
        }

        private void note(String event, Collection<TopicPartition> partitions) {
            StringBuilder lines = new StringBuilder();
            for (TopicPartition one : partitions) {
                lines.append(System.currentTimeMillis() + " " + event + " " + connector + " " + one.partition() + "\n");
            }
            try {
                Files.writeString(EVENTS, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void put(Collection<SinkRecord> records) {
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}

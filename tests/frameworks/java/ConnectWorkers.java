import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Real Connect workers in one JVM, and a connector whose tasks do nothing: ConnectWorkers$Idle.
 *
 * Commands are JSON lines on standard input: {"cmd": "start", "name": NAME, "config": {...}}, {"cmd": "stop", "name": NAME}.
 * Each is answered with a line when it is done. The end of input halts the JVM.
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
            List<Map<String, String>> configs = new ArrayList<>();
            for (int i = 0; i < most; i++) {
                configs.add(Map.of("number", String.valueOf(i)));
            }
            return configs;
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
}

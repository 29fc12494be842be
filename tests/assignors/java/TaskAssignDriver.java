import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Kafka's own assignor of streams groups, on one group a line: its members in the order of the coordinator's map. */
public final class TaskAssignDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(assigned(JSON.readTree(line))));
    }

    private static Map<String, Object> assigned(JsonNode group) {
        Map<String, AssignmentMemberSpec> members = new LinkedHashMap<>();
        for (JsonNode row : group.get("members"))
            members.put(row.get("member_id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(row.get("active")), tasks(row.get("standby")), Map.of(),
                row.get("process_id").asText(), Map.of(), Map.of(), Map.of()));
        JsonNode subtopologies = group.get("subtopologies");
        TopologyDescriber topology = new TopologyDescriber() {
            public List<String> subtopologies() {
                Set<String> names = new TreeSet<>();
                subtopologies.fieldNames().forEachRemaining(names::add);
                return List.copyOf(names);
            }

            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).get(0).asInt();
            }

            public boolean isStateful(String id) {
                return subtopologies.get(id).get(1).asBoolean();
            }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", group.get("standbys").asText());
        Map<String, Object> answer = new HashMap<>();
        new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology).members().forEach((id, made) ->
            answer.put(id, List.of(sorted(made.activeTasks()), sorted(made.standbyTasks()), sorted(made.warmupTasks()))));
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode rows) {
        Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
        rows.properties().forEach(row -> {
            Set<Integer> partitions = new LinkedHashSet<>();
            row.getValue().forEach(each -> partitions.add(each.asInt()));
            tasks.put(row.getKey(), partitions);
        });
        return tasks;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> rows = new TreeMap<>();
        tasks.forEach((id, partitions) -> rows.put(id, new TreeSet<>(partitions)));
        return rows;
    }
}

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Random metadata and assignments of Connect's workers, written by Kafka's classes and read by them again.
 *
 * Arguments: a seed, a number. A line of output is a JSON object: the bytes in hexadecimal digits, and what the classes read.
 */
public final class ConnectOracle {
    private static final String[] NAMES = {"jdbc-sink", "s3", "t\u00e9l\u00e9", "a_b.c-1"};
    private static Random random;

    public static void main(String[] args) {
        random = new Random(Long.parseLong(args[0]));
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            short version = (short) ((i / 2) % 3);
            System.out.println(i % 2 == 0 ? metadata(version) : assignment(version));
        }
    }

    private static String metadata(short version) {
        String url = "http://10.0.0." + random.nextInt(256) + ":8083/";
        long offset = random.nextInt(100) - 1;
        ExtendedAssignment current = random.nextInt(4) == 0 ? null : extended(version);
        ByteBuffer data = version == 0
            ? ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(url, offset))
            : IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState(url, offset, current), version == 2);
        String start = start("metadata", version, data);
        if (version == 0) {
            ConnectProtocol.WorkerState read = ConnectProtocol.deserializeMetadata(data);
            return start + ",\"url\":" + text(read.url()) + ",\"offset\":" + read.offset() + ",\"current\":[]}";
        }
        ExtendedWorkerState read = IncrementalCooperativeConnectProtocol.deserializeMetadata(data);
        return start + ",\"url\":" + text(read.url()) + ",\"offset\":" + read.offset() + ",\"current\":" + work(read.assignment().connectors(), read.assignment().tasks()) + "}";
    }

    private static String assignment(short version) {
        ExtendedAssignment made = extended(version);
        ByteBuffer data = version == 0
            ? ConnectProtocol.serializeAssignment(made)
            : IncrementalCooperativeConnectProtocol.serializeAssignment(made, version == 2);
        String start = start("assignment", version, data);
        ConnectProtocol.Assignment read = version == 0
            ? ConnectProtocol.deserializeAssignment(data) : IncrementalCooperativeConnectProtocol.deserializeAssignment(data);
        ExtendedAssignment more = version == 0 ? null : (ExtendedAssignment) read;
        return start + ",\"leader\":" + text(read.leader()) + ",\"leader_url\":" + text(read.leaderUrl())
            + ",\"error\":" + read.error() + ",\"offset\":" + read.offset()
            + ",\"assigned\":" + work(read.connectors(), read.tasks())
            + ",\"revoked\":" + (more == null ? "[]" : work(more.revokedConnectors(), more.revokedTasks()))
            + ",\"delay_ms\":" + (more == null ? 0 : more.delay()) + "}";
    }

    private static ExtendedAssignment extended(short version) {
        int delay = random.nextInt(2) * random.nextInt(300000);
        return new ExtendedAssignment(version, (short) random.nextInt(2), "connect-10.0.0.1:8083-" + random.nextInt(1000),
            "http://10.0.0.1:8083/", random.nextInt(100), connectors(), tasks(), connectors(), tasks(), delay);
    }

    private static Collection<String> connectors() {
        Collection<String> some = new LinkedHashSet<>();
        for (int i = random.nextInt(3); i > 0; i--) {
            some.add(NAMES[random.nextInt(NAMES.length)]);
        }
        return some;
    }

    private static Collection<ConnectorTaskId> tasks() {
        Collection<ConnectorTaskId> some = new LinkedHashSet<>();
        for (int i = random.nextInt(6); i > 0; i--) {
            some.add(new ConnectorTaskId(NAMES[random.nextInt(NAMES.length)], random.nextInt(12)));
        }
        return some;
    }

    private static String work(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        List<String> some = new ArrayList<>();
        connectors.forEach(each -> some.add("[" + text(each) + ",-1]"));
        tasks.forEach(each -> some.add("[" + text(each.connector()) + "," + each.task() + "]"));
        return "[" + String.join(",", some) + "]";
    }

    private static String start(String kind, short version, ByteBuffer data) {
        StringBuilder digits = new StringBuilder();
        for (ByteBuffer each = data.duplicate(); each.hasRemaining(); ) {
            digits.append(String.format("%02x", each.get()));
        }
        return "{\"kind\":\"" + kind + "\",\"version\":" + version + ",\"data\":\"" + digits + "\"";
    }

    private static String text(String value) {
        if (value == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder();
        for (char each : value.toCharArray()) {
            out.append(each < 32 || each > 126 ? String.format("\\u%04x", (int) each) : String.valueOf(each));
        }
        return "\"" + out + "\"";
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Kafka's own message classes behind a line protocol.
 *
 * A request is JSON: {"op": "roundtrip" | "to_json" | "from_json", "class": NAME, "version": N, "data": BASE64} ("json"
 * instead of "data" for from_json). NAME is a message of kafka-clients with or without "Data", or a record key or
 * value of the group coordinator. An answer is {"data": BASE64}, {"json": ...} or {"error": TEXT}. Bytes that the
 * decoder leaves over are an error.
 *
 * The ops "subscription" and "assignment" read a consumer protocol blob with its version in front the way a group's
 * leader and members do (ConsumerProtocol), and answer with what they read and with the blob written again at "version".
 */
public final class MessageOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.coordinator.group.generated."
    };
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Throwable e) {
                Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
                answer.put("error", String.valueOf(cause));
            }
            out.println(answer);
            out.flush();
        }
    }

    private static void answer(JsonNode request, ObjectNode answer) throws Exception {
        String op = request.get("op").asText();
        if (op.equals("subscription") || op.equals("assignment")) {
            ByteBuffer blob = ByteBuffer.wrap(Base64.getDecoder().decode(request.get("data").asText()));
            short written = (short) request.get("version").asInt();
            answer.put("data", op.equals("subscription") ? subscription(blob, written, answer.putObject("json"))
                                                         : assignment(blob, written, answer.putObject("json")));
            return;
        }
        Class<?> messageClass = find(request.get("class").asText());
        short version = (short) request.get("version").asInt();
        if (op.equals("from_json")) {
            Method read = converter(messageClass).getMethod("read", JsonNode.class, short.class);
            answer.put("data", encode((Message) read.invoke(null, request.get("json"), version), version));
            return;
        }
        ByteBufferAccessor accessor = new ByteBufferAccessor(ByteBuffer.wrap(Base64.getDecoder().decode(request.get("data").asText())));
        Message message = (Message) messageClass.getConstructor(Readable.class, short.class).newInstance(accessor, version);
        if (accessor.remaining() > 0) {
            throw new IllegalStateException(accessor.remaining() + " bytes are left over");
        }
        if (op.equals("roundtrip")) {
            answer.put("data", encode(message, version));
        } else {
            Method write = converter(messageClass).getMethod("write", messageClass, short.class);
            answer.set("json", (JsonNode) write.invoke(null, message, version));
        }
    }

    private static String subscription(ByteBuffer blob, short version, ObjectNode seen) {
        Subscription read = ConsumerProtocol.deserializeSubscription(blob);
        read.topics().forEach(seen.putArray("topics")::add);
        seen.put("userData", text(read.userData()));
        put(read.ownedPartitions(), seen.putArray("owned"));
        seen.put("generation", read.generationId().orElse(-1));
        seen.put("rack", read.rackId().orElse(null));
        return text(ConsumerProtocol.serializeSubscription(read, version));
    }

    private static String assignment(ByteBuffer blob, short version, ObjectNode seen) {
        Assignment read = ConsumerProtocol.deserializeAssignment(blob);
        put(read.partitions(), seen.putArray("partitions"));
        seen.put("userData", text(read.userData()));
        return text(ConsumerProtocol.serializeAssignment(read, version));
    }

    private static void put(List<TopicPartition> partitions, ArrayNode into) {
        partitions.forEach(p -> into.addArray().add(p.topic()).add(p.partition()));
    }

    private static String text(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        Class<?> found = CLASSES.get(name);
        for (int i = 0; found == null && i < PACKAGES.length * 2; i++) {
            try {
                found = Class.forName(PACKAGES[i / 2] + name + (i % 2 == 0 ? "Data" : ""));
                CLASSES.put(name, found);
            } catch (ClassNotFoundException e) {
                // The next spelling may fit.
            }
        }
        if (found == null) {
            throw new ClassNotFoundException(name);
        }
        return found;
    }

    private static Class<?> converter(Class<?> messageClass) throws ClassNotFoundException {
        return Class.forName(messageClass.getName() + "JsonConverter");
    }

    private static String encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new Accessor(buffer), cache, version);
        return Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), buffer.position()));
    }

    /** Writes record batches as well, which Kafka itself sends around its buffers. */
    private static final class Accessor extends ByteBufferAccessor {
        private final ByteBuffer buffer;

        Accessor(ByteBuffer buffer) {
            super(buffer);
            this.buffer = buffer;
        }

        @Override
        public void writeRecords(BaseRecords records) {
            buffer.put(((MemoryRecords) records).buffer().duplicate());
        }
    }
}

package kafka.coordinator.group;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import kafka.cluster.Partition;
import kafka.log.UnifiedLog;
import kafka.server.DelayedOperation;
import kafka.server.DelayedOperationPurgatory;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.MockTime;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.mockito.Answers;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

/**
 * Kafka's group coordinator in Scala on a clock that stands still, one JSON line in, one out; as CoordinatorOracle.
 *
 * Requests go to the GroupCoordinatorAdapter that KafkaApis uses. What is appended is in the log at once. Timers run
 * only when they are named.
 */
public class ScalaCoordinatorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TopicPartition LOG = new TopicPartition("__consumer_offsets", 0);

    /** The one that the mocks stand for. */
    private static ScalaCoordinatorOracle current;
    private static final ReplicaManager REPLICAS = Mockito.mock(
        ReplicaManager.class, Mockito.withSettings().stubOnly().defaultAnswer(call -> current.replica(call)));
    private static final Partition PARTITION = Mockito.mock(
        Partition.class, Mockito.withSettings().stubOnly().defaultAnswer(call -> current.partition(call)));
    private static final UnifiedLog STORED = Mockito.mock(
        UnifiedLog.class, Mockito.withSettings().stubOnly().defaultAnswer(call -> current.log(call)));

    private final MockTime time;
    private final Alarms alarms = new Alarms();
    private final GroupCoordinator coordinator;
    private final GroupCoordinatorAdapter adapter;
    private final Metrics metrics = new Metrics();
    private long written = 1_000_000;
    private final List<SimpleRecord> loaded = new ArrayList<>();
    private final List<Object> replies = new ArrayList<>();
    private final List<Object> records = new ArrayList<>();

    private record Alarm(DelayedOperation operation, long deadline) { }

    private class Alarms implements Timer {
        private final List<Alarm> all = new ArrayList<>();

        public void add(TimerTask task) {
            all.add(new Alarm((DelayedOperation) task, time.milliseconds() + task.delayMs));
        }

        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        public int size() {
            return all.size();
        }

        public void close() { }

        List<Alarm> live() {
            all.removeIf(alarm -> alarm.operation().isCompleted());
            return new ArrayList<>(all);
        }
    }

    ScalaCoordinatorOracle(long now, Map<String, String> settings) {
        current = this;
        time = new MockTime(0, now, now * 1_000_000);
        Properties props = new Properties();
        props.put("zookeeper.connect", "localhost:1");
        settings.forEach((name, value) -> {
            if (name.matches("group\\.(initial|min|max).*|offset.*")) props.put(name, value);
        });
        KafkaConfig config = KafkaConfig.fromProps(props);
        coordinator = GroupCoordinator$.MODULE$.apply(
            config, REPLICAS,
            new DelayedOperationPurgatory<>("Heartbeat", alarms, 0, 1000, false, true),
            new DelayedOperationPurgatory<>("Rebalance", alarms, 0, 1000, false, true),
            time, metrics);
        coordinator.startup(() -> 1, false);
        coordinator.groupManager().addOwnedPartition(0);
        adapter = new GroupCoordinatorAdapter(coordinator, time);
    }

    private void close() {
        coordinator.shutdown();
        metrics.close();
    }

    // -- the log

    private Object replica(InvocationOnMock call) throws Throwable {
        return switch (call.getMethod().getName()) {
            case "getMagic" -> scala.Option.apply((byte) 2);
            case "onlinePartition" -> scala.Option.apply(PARTITION);
            case "getLog" -> scala.Option.apply(STORED);
            case "getLogEndOffset" -> scala.Option.apply((long) loaded.size());
            case "appendRecords" -> append(call);
            default -> Answers.RETURNS_DEFAULTS.answer(call);
        };
    }

    @SuppressWarnings("unchecked")
    private Object append(InvocationOnMock call) {
        scala.Function1<Object, Object> callback = null;
        scala.collection.Map<TopicPartition, MemoryRecords> entries = null;
        for (Object argument : call.getArguments()) {
            if (argument instanceof scala.Function1<?, ?> function && callback == null && !(argument instanceof scala.collection.Map))
                callback = (scala.Function1<Object, Object>) function;
            if (argument instanceof scala.collection.Map<?, ?> map && entries == null)
                entries = (scala.collection.Map<TopicPartition, MemoryRecords>) map;
        }
        note(entries.apply(LOG));
        callback.apply(new scala.collection.immutable.Map.Map1<>(
            LOG, new ProduceResponse.PartitionResponse(Errors.NONE, ++written, 0, 0)));
        return null;
    }

    private Object partition(InvocationOnMock call) throws Throwable {
        if (!call.getMethod().getName().equals("appendRecordsToLeader")) return Answers.RETURNS_DEFAULTS.answer(call);
        note(call.getArgument(0));
        return LogAppendInfo.UNKNOWN_LOG_APPEND_INFO;
    }

    private Object log(InvocationOnMock call) throws Throwable {
        return switch (call.getMethod().getName()) {
            case "logStartOffset" -> 0L;
            case "read" -> new FetchDataInfo(
                new LogOffsetMetadata(0),
                MemoryRecords.withRecords(0L, Compression.NONE, loaded.toArray(new SimpleRecord[0])));
            default -> Answers.RETURNS_DEFAULTS.answer(call);
        };
    }

    private void note(MemoryRecords written) {
        for (Record record : written.records()) {
            List<Object> row = new ArrayList<>();
            row.add(text(record.key()));
            row.add(record.hasValue() ? text(record.value()) : null);
            row.add(-1);
            records.add(row);
        }
    }

    private void load() throws Exception {
        Method onGroupLoaded = null;
        for (Method method : GroupCoordinator.class.getDeclaredMethods())
            if (method.getName().endsWith("onGroupLoaded") && method.getParameterCount() == 1) onGroupLoaded = method;
        onGroupLoaded.setAccessible(true);
        ((scala.collection.mutable.Set<?>) field(coordinator.groupManager(), "ownedPartitions")).clear();
        Method callee = onGroupLoaded;
        coordinator.groupManager().loadGroupsAndOffsets(LOG, 1, group -> {
            try {
                callee.invoke(coordinator, group);
            } catch (ReflectiveOperationException error) {
                throw new RuntimeException(error);
            }
            return scala.runtime.BoxedUnit.UNIT;
        }, 0L);
    }

    // -- commands

    /** Random numbers that are the same each time: member ids are made of them, and hash maps ordered by the ids. */
    public static final class Foreseen extends java.security.SecureRandomSpi {
        private static java.util.Random source = new java.util.Random(0);

        protected void engineSetSeed(byte[] seed) { }

        protected void engineNextBytes(byte[] bytes) {
            source.nextBytes(bytes);
        }

        protected byte[] engineGenerateSeed(int length) {
            return new byte[length];
        }
    }

    private static final class NoChance extends java.security.Provider {
        NoChance() {
            super("NoChance", "1", "");
            put("SecureRandom.Foreseen", Foreseen.class.getName());
        }
    }

    public static void main(String[] args) throws Exception {
        java.security.Security.insertProviderAt(new NoChance(), 1);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        ScalaCoordinatorOracle oracle = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            Map<String, Object> answer;
            try {
                if (command.get("op").asText().equals("start")) {
                    Map<String, String> settings = new HashMap<>();
                    command.get("settings").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
                    Foreseen.source = new java.util.Random(command.get("seed").asLong());
                    if (oracle != null) oracle.close();
                    oracle = new ScalaCoordinatorOracle(command.get("now").asLong(), settings);
                    answer = new HashMap<>();
                } else if (command.get("op").asText().equals("order")) {
                    answer = order(command);
                } else {
                    answer = oracle.run(command);
                }
            } catch (Throwable failure) {
                answer = new HashMap<>();
                java.io.StringWriter trace = new java.io.StringWriter();
                failure.printStackTrace(new java.io.PrintWriter(trace));
                answer.put("failure", trace.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    /** The order of Scala's maps: of a mutable one to which `grown` were added, and removed but for `keys`; and of groupBy. */
    private static Map<String, Object> order(JsonNode command) {
        scala.collection.mutable.HashMap<String, Integer> map = new scala.collection.mutable.HashMap<>();
        scala.collection.mutable.ListBuffer<String> list = new scala.collection.mutable.ListBuffer<>();
        for (JsonNode key : command.get("grown")) map.put(key.asText(), 1);
        for (JsonNode key : command.get("grown")) map.remove(key.asText());
        for (JsonNode key : command.get("keys")) {
            map.put(key.asText(), 1);
            list.addOne(key.asText());
        }
        List<String> mutable = new ArrayList<>();
        scala.collection.Iterator<String> keys = map.keysIterator();
        while (keys.hasNext()) mutable.add(keys.next());
        List<String> grouped = new ArrayList<>();
        scala.collection.Iterator<String> groups = list.toList().groupBy(key -> key).keySet().iterator();
        while (groups.hasNext()) grouped.add(groups.next());
        return Map.of("mutable", mutable, "grouped", grouped);
    }

    private Map<String, Object> run(JsonNode command) throws Exception {
        replies.clear();
        records.clear();
        switch (command.get("op").asText()) {
            case "request" -> request(command);
            case "fire" -> fire(command.get("key").asText(), command.get("now").asLong());
            case "sleep" -> time.setCurrentTimeMs(command.get("now").asLong());
            case "replay" -> loaded.add(new SimpleRecord(
                time.milliseconds(), bytes(command.get("key").asText()),
                command.hasNonNull("value") ? bytes(command.get("value").asText()) : null));
            case "load" -> load();
            default -> throw new IllegalArgumentException(command.toString());
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("replies", new ArrayList<>(replies));
        answer.put("records", new ArrayList<>(records));
        answer.put("groups", state());
        answer.put("offsets", offsets());
        answer.put("pending", Map.of());
        answer.put("timers", deadlines());
        answer.put("tasks", List.of());
        return answer;
    }

    private void fire(String key, long now) throws Exception {
        time.setCurrentTimeMs(now);
        if (key.equals("expire-group-metadata")) {
            coordinator.groupManager().cleanupGroupMetadata();
            return;
        }
        for (Alarm alarm : alarms.live())
            if (name(alarm.operation()).equals(key) && alarm.deadline() == now) alarm.operation().run();
    }

    private Map<String, Object> deadlines() throws Exception {
        Map<String, Object> all = new HashMap<>();
        for (Alarm alarm : alarms.live()) all.put(name(alarm.operation()), alarm.deadline());
        return all;
    }

    private static String name(DelayedOperation operation) throws Exception {
        if (operation instanceof DelayedHeartbeat)
            return "heartbeat-" + ((GroupMetadata) field(operation, "group")).groupId() + "-" + field(operation, "memberId");
        String group = ((GroupMetadata) field(operation, "group")).groupId();
        return (operation instanceof DelayedSync ? "sync-" : "join-") + group;
    }

    private void request(JsonNode command) throws Exception {
        ApiKeys api = ApiKeys.forId(command.get("api").asInt());
        short version = (short) command.get("version").asInt();
        long ticket = command.get("ticket").asLong();
        AbstractRequest request = AbstractRequest.parseRequest(
            api, version, ByteBuffer.wrap(bytes(command.get("data").asText()))).request;
        RequestContext context = new RequestContext(
            new RequestHeader(api, version, command.get("client_id").asText(), 0), "1",
            InetAddress.getByName("127.0.0.1"), Optional.empty(), KafkaPrincipal.ANONYMOUS,
            ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
        CompletableFuture<? extends ApiMessage> answer;
        try {
            answer = dispatch(request, context, version);
        } catch (RuntimeException error) {
            answer = CompletableFuture.failedFuture(error);
        }
        answer.whenComplete((data, error) -> {
            Throwable cause = error instanceof java.util.concurrent.CompletionException ? error.getCause() : error;
            reply(ticket, error == null ? data : request.getErrorResponse(0, cause).data(), version);
        });
    }

    /** As KafkaApis does it, without authorization and without topics that are not there. */
    private CompletableFuture<? extends ApiMessage> dispatch(AbstractRequest request, RequestContext context, short version) {
        BufferSupplier buffers = BufferSupplier.NO_CACHING;
        if (request instanceof JoinGroupRequest join) {
            return adapter.joinGroup(context, join.data(), buffers)
                .thenApply(data -> new JoinGroupResponse(data, version).data());
        } else if (request instanceof SyncGroupRequest sync) {
            return sync.areMandatoryProtocolTypeAndNamePresent()
                ? adapter.syncGroup(context, sync.data(), buffers)
                : CompletableFuture.completedFuture(new SyncGroupResponseData()
                    .setErrorCode(Errors.INCONSISTENT_GROUP_PROTOCOL.code()));
        } else if (request instanceof HeartbeatRequest heartbeat) {
            return adapter.heartbeat(context, heartbeat.data());
        } else if (request instanceof LeaveGroupRequest leave) {
            return adapter.leaveGroup(context, leave.normalizedData())
                .thenApply(data -> new LeaveGroupResponse(data, version).data());
        } else if (request instanceof OffsetCommitRequest commit) {
            return adapter.commitOffsets(context, commit.data(), buffers);
        } else if (request instanceof OffsetDeleteRequest delete) {
            return adapter.deleteOffsets(context, delete.data(), buffers);
        } else if (request instanceof DescribeGroupsRequest describe) {
            return adapter.describeGroups(context, describe.data().groups())
                .thenApply(rows -> new DescribeGroupsResponseData().setGroups(rows));
        } else if (request instanceof ListGroupsRequest list) {
            return adapter.listGroups(context, list.data());
        } else if (request instanceof DeleteGroupsRequest delete) {
            return adapter.deleteGroups(context, delete.data().groupsNames(), buffers)
                .thenApply(rows -> new DeleteGroupsResponseData().setResults(rows));
        } else {
            throw new IllegalArgumentException(request.toString());
        }
    }

    private void reply(long ticket, ApiMessage data, short version) {
        replies.add(List.of(ticket, text(MessageUtil.toByteBuffer(data, version))));
    }

    // -- the state

    private Map<String, Object> state() throws Exception {
        Map<String, Object> all = new HashMap<>();
        scala.collection.Iterator<GroupMetadata> groups = coordinator.groupManager().currentGroups().iterator();
        while (groups.hasNext()) {
            GroupMetadata group = groups.next();
            Map<String, Object> row = new HashMap<>();
            row.put("state", group.currentState().toString());
            row.put("timestamp", group.currentStateTimestampOrDefault());
            row.put("generation", group.generationId());
            row.put("protocol_type", group.protocolType().isDefined() ? group.protocolType().get() : null);
            row.put("protocol", group.protocolName().isDefined() ? group.protocolName().get() : null);
            row.put("leader", group.leaderOrNull());
            row.put("pending_joins", strings(((scala.collection.Iterable<?>) field(group, "pendingMembers")).iterator()));
            row.put("pending_syncs", strings(((scala.collection.Iterable<?>) field(group, "pendingSyncMembers")).iterator()));
            row.put("new_member_added", group.newMemberAdded());
            row.put("topics", group.getSubscribedTopics().isDefined()
                ? new TreeSet<>(strings(group.getSubscribedTopics().get().iterator())) : null);
            Map<String, Object> instances = new HashMap<>();
            Map<String, Object> members = new HashMap<>();
            List<String> order = new ArrayList<>();
            scala.collection.Iterator<MemberMetadata> rows = group.allMemberMetadata().iterator();
            while (rows.hasNext()) {
                MemberMetadata member = rows.next();
                order.add(member.memberId());
                members.put(member.memberId(), describe(member));
                if (member.groupInstanceId().isDefined()) instances.put(member.groupInstanceId().get(), member.memberId());
            }
            row.put("static", instances);
            row.put("members", members);
            row.put("order", order);
            all.put(group.groupId(), row);
        }
        return all;
    }

    private static Map<String, Object> describe(MemberMetadata member) {
        Map<String, Object> row = new HashMap<>();
        row.put("instance", member.groupInstanceId().isDefined() ? member.groupInstanceId().get() : null);
        row.put("client_id", member.clientId());
        row.put("client_host", member.clientHost());
        row.put("rebalance", member.rebalanceTimeoutMs());
        row.put("session", member.sessionTimeoutMs());
        row.put("assignment", Base64.getEncoder().encodeToString(member.assignment()));
        row.put("new", member.isNew());
        row.put("joining", member.isAwaitingJoin());
        row.put("syncing", member.isAwaitingSync());
        List<Object> protocols = new ArrayList<>();
        scala.collection.Iterator<scala.Tuple2<String, byte[]>> rows = member.supportedProtocols().iterator();
        while (rows.hasNext()) {
            scala.Tuple2<String, byte[]> protocol = rows.next();
            protocols.add(List.of(protocol._1(), Base64.getEncoder().encodeToString(protocol._2())));
        }
        row.put("protocols", protocols);
        return row;
    }

    private Map<String, Object> offsets() {
        Map<String, Object> all = new HashMap<>();
        scala.collection.Iterator<GroupMetadata> groups = coordinator.groupManager().currentGroups().iterator();
        while (groups.hasNext()) {
            GroupMetadata group = groups.next();
            Map<String, Object> rows = new HashMap<>();
            scala.collection.Iterator<scala.Tuple2<TopicPartition, kafka.common.OffsetAndMetadata>> offsets =
                group.allOffsets().iterator();
            while (offsets.hasNext()) {
                scala.Tuple2<TopicPartition, kafka.common.OffsetAndMetadata> entry = offsets.next();
                kafka.common.OffsetAndMetadata row = entry._2();
                rows.put(entry._1().topic() + ":" + entry._1().partition(), List.of(
                    row.offset(), row.leaderEpoch().isPresent() ? row.leaderEpoch().get() : -1, row.metadata(),
                    row.commitTimestamp(), row.expireTimestamp().isDefined() ? row.expireTimestamp().get() : -1));
            }
            if (!rows.isEmpty()) all.put(group.groupId(), rows);
        }
        return all;
    }

    private static List<String> strings(scala.collection.Iterator<?> iterator) {
        List<String> all = new ArrayList<>();
        while (iterator.hasNext()) all.add(iterator.next().toString());
        return all;
    }

    private static Object field(Object owner, String name) throws Exception {
        for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass())
            for (Field field : type.getDeclaredFields())
                if (field.getName().equals(name) || field.getName().endsWith("$$" + name)) {
                    field.setAccessible(true);
                    return field.get(owner);
                }
        throw new NoSuchFieldException(name);
    }

    private static byte[] bytes(String text) {
        return Base64.getDecoder().decode(text);
    }

    private static String text(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }
}

package org.apache.kafka.coordinator.group;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.mockito.Answers;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

/**
 * Kafka's own group coordinator on a clock that stands still, one JSON line in, one out.
 *
 * Bytes in and out are Kafka's wire form at the version of the request. Requests go to Kafka's GroupCoordinatorService;
 * in the place of its runtime, with its queues and its log, operations run at once. Timers fire only when they are
 * named, so that the other side decides the order of those that are due at one time.
 */
public class CoordinatorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorMetricsShard METRICS = Mockito.mock(
        GroupCoordinatorMetricsShard.class, Mockito.withSettings().stubOnly());
    private static final GroupCoordinatorMetrics ALL_METRICS = Mockito.mock(
        GroupCoordinatorMetrics.class, Mockito.withSettings().stubOnly());

    private static final int PLAIN = -1;
    /** The one that RUNTIME runs operations on. */
    private static CoordinatorOracle current;
    @SuppressWarnings("unchecked")
    private static final CoordinatorRuntime<GroupCoordinatorShard, CoordinatorRecord> RUNTIME = Mockito.mock(
        CoordinatorRuntime.class, Mockito.withSettings().stubOnly().defaultAnswer(call -> current.schedule(call)));

    /** Kafka's own mock is in another artifact in each version. One for all: Mockito keeps each with what it answers from. */
    private static final Time TIME = Mockito.mock(Time.class, Mockito.withSettings().stubOnly().defaultAnswer(call ->
        switch (call.getMethod().getName()) {
            case "milliseconds", "hiResClockMs" -> current.now;
            case "nanoseconds" -> TimeUnit.MILLISECONDS.toNanos(current.now);
            default -> throw new UnsupportedOperationException(call.toString());
        }));

    private long now;
    private final Timer timer = new Timer();
    private final Object logContext = AnyVersion.logContext();
    private final SnapshotRegistry snapshots = (SnapshotRegistry) AnyVersion.create(SnapshotRegistry.class, logContext);
    private final GroupMetadataManager groups;
    private final OffsetMetadataManager offsets;
    private final GroupCoordinatorShard shard;
    private final GroupCoordinatorService service;
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private long written = 0;
    private final List<Object> replies = new ArrayList<>();
    private final List<Object> records = new ArrayList<>();
    private final Executor executor = new Executor();
    private final GroupConfigManager groupConfig;
    private MetadataImage topics = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build()
        .apply(new MetadataProvenance(0, 0, 0L, true));
    private Errors fail = Errors.NONE;

    @SuppressWarnings("rawtypes")
    record Alarm(String key, long deadline, boolean retry, CoordinatorTimer.TimeoutOperation operation) { }

    /** Without type arguments: their number has changed. */
    @SuppressWarnings("rawtypes")
    private class Timer implements CoordinatorTimer {
        private final Map<String, Alarm> alarms = new LinkedHashMap<>();

        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation operation) {
            schedule(key, delay, unit, retry, 500, operation);
        }

        public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation operation) {
            alarms.put(key, new Alarm(key, TIME.milliseconds() + unit.toMillis(delay), retry, operation));
        }

        public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation operation) {
            if (!alarms.containsKey(key)) schedule(key, delay, unit, retry, operation);
        }

        public void cancel(String key) {
            alarms.remove(key);
        }

        public boolean isScheduled(String key) {
            return alarms.containsKey(key);
        }
    }

    CoordinatorOracle(long now, Map<String, Object> settings) throws Exception {
        current = this;
        this.now = now;
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(settings);
        groupConfig = AnyVersion.groupConfigManager(settings, config);
        Object builder = AnyVersion.create(GroupMetadataManager.Builder.class);
        Object[][] parts = {
            {"withSnapshotRegistry", snapshots}, {"withLogContext", logContext}, {"withTime", TIME},
            {"withTimer", timer}, {"withExecutor", executor}, {"withConfig", config},
            {"withMetadataImage", AnyVersion.image(topics)}, {"withGroupCoordinatorMetricsShard", METRICS},
            {"withGroupConfigManager", groupConfig}, {"withAuthorizerPlugin", Optional.empty()},
            {"withAuthorizer", Optional.empty()}};
        for (Object[] part : parts) AnyVersion.callIfThere(builder, (String) part[0], part[1]);
        groups = (GroupMetadataManager) AnyVersion.call(builder, "build");
        builder = AnyVersion.create(OffsetMetadataManager.Builder.class);
        parts = new Object[][] {
            {"withLogContext", logContext}, {"withSnapshotRegistry", snapshots}, {"withTime", TIME},
            {"withGroupMetadataManager", groups}, {"withGroupCoordinatorConfig", config},
            {"withMetadataImage", AnyVersion.image(topics)}, {"withGroupCoordinatorMetricsShard", METRICS}};
        for (Object[] part : parts) AnyVersion.callIfThere(builder, (String) part[0], part[1]);
        offsets = (OffsetMetadataManager) AnyVersion.call(builder, "build");
        shard = (GroupCoordinatorShard) AnyVersion.create(
            GroupCoordinatorShard.class, logContext, groups, offsets, TIME, timer, config, ALL_METRICS, METRICS);
        service = (GroupCoordinatorService) AnyVersion.create(
            GroupCoordinatorService.class, logContext, config, RUNTIME, ALL_METRICS, groupConfig);
        AnyVersion.setIfThere(service, "time", TIME);
        service.startup(() -> 1);
        snapshots.idempotentCreateSnapshot(0);
    }

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
        CoordinatorOracle oracle = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            Map<String, Object> answer;
            try {
                if (command.get("op").asText().equals("start")) {
                    Map<String, Object> settings = new HashMap<>();
                    command.get("settings").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
                    Foreseen.source = new java.util.Random(command.get("seed").asLong());
                    oracle = new CoordinatorOracle(command.get("now").asLong(), settings);
                    answer = new HashMap<>();
                } else if (command.get("op").asText().equals("serves")) {
                    answer = Map.of("serves", serves(command.get("api").asInt(), (short) command.get("version").asInt()));
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

    /** Whether a broker with default settings lets a request through to its coordinator (SocketServer). */
    private static boolean serves(int api, short version) {
        return ApiKeys.hasId(api) && ApiKeys.forId(api).isVersionEnabled(version, false);
    }

    private Map<String, Object> run(JsonNode command) throws Exception {
        replies.clear();
        records.clear();
        fail = command.hasNonNull("fail") ? Errors.valueOf(command.get("fail").asText()) : Errors.NONE;
        if (command.has("drop"))
            command.get("drop").forEach(key -> {
                timer.alarms.remove(key.asText());
                executor.tasks.remove(key.asText());
            });
        switch (command.get("op").asText()) {
            case "request" -> request(command);
            case "fire" -> fire(command.get("key").asText(), command.get("now").asLong());
            case "marker" -> marker(command);
            case "sleep" -> setTime(command.get("now").asLong());
            case "replay" -> replay(command);
            case "load" -> AnyVersion.call(shard, "onLoaded", AnyVersion.image(topics));
            case "topics" -> topics(command);
            case "resolve" -> resolve(command);
            case "config" -> configure(command);
            case "unload" -> {
                shard.onUnloaded();
                // As the runtime does.
                timer.alarms.clear();
                executor.tasks.clear();
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("replies", new ArrayList<>(replies));
        answer.put("records", new ArrayList<>(records));
        answer.put("groups", state());
        answer.put("offsets", offsetsIn(field(offsets, "offsets")));
        Map<String, Object> pending = new HashMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) field(offsets, "pendingTransactionalOffsets")).entrySet()) {
            Map<String, Object> written = offsetsIn(entry.getValue());
            if (!written.isEmpty()) pending.put(entry.getKey().toString(), written);
        }
        answer.put("pending", pending);
        Map<String, Long> deadlines = new HashMap<>();
        timer.alarms.forEach((key, alarm) -> deadlines.put(key, alarm.deadline()));
        answer.put("timers", deadlines);
        answer.put("created", AnyVersion.ofStreams("created"));
        answer.put("tasks", new ArrayList<>(executor.tasks.keySet()));
        return answer;
    }

    private void setTime(long now) {
        this.now = now;
    }

    private void fire(String key, long now) throws Exception {
        setTime(now);
        Alarm alarm = timer.alarms.remove(key);
        if (alarm == null) throw new IllegalStateException("not scheduled: " + key + " of " + timer.alarms.keySet());
        if (alarm.deadline() != now) throw new IllegalStateException(key + " is due at " + alarm.deadline() + ", not " + now);
        if (!finish(alarm.operation().generateRecords(), PLAIN, (short) PLAIN) && alarm.retry() && !timer.alarms.containsKey(key))
            timer.schedule(key, 500, TimeUnit.MILLISECONDS, true, alarm.operation());
    }

    /** What Kafka does in another thread. */
    private void resolve(JsonNode command) throws Exception {
        setTime(command.get("now").asLong());
        finish(executor.tasks.remove(command.get("key").asText()).get(), PLAIN, (short) PLAIN);
    }

    private static class Executor implements CoordinatorExecutor<CoordinatorRecord> {
        private final Map<String, java.util.function.Supplier<CoordinatorResult<Void, CoordinatorRecord>>> tasks = new HashMap<>();

        public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            return tasks.putIfAbsent(key, () -> {
                try {
                    return operation.onComplete(task.run(), null);
                } catch (Throwable error) {
                    throw new RuntimeException(error);
                }
            }) == null;
        }

        public boolean isScheduled(String key) {
            return tasks.containsKey(key);
        }

        public void cancel(String key) {
            tasks.remove(key);
        }
    }

    private void configure(JsonNode command) {
        Properties values = new Properties();
        command.get("values").properties().forEach(e -> values.put(e.getKey(), e.getValue().asText()));
        groupConfig.updateGroupConfig(command.get("group").asText(), values);
    }

    /** All topics that there are from now on. */
    @SuppressWarnings("unchecked")
    private void topics(JsonNode command) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(topics).build();
        if (topics.cluster().brokers().isEmpty() && command.get("racks").asBoolean())
            for (int i = 0; i < 4; i++) delta.replay(new RegisterBrokerRecord().setBrokerId(i).setRack("rack" + i));
        Set<Uuid> named = new java.util.HashSet<>();
        for (JsonNode topic : command.get("topics")) {
            ByteBuffer raw = buffer(topic.get("id").asText());
            Uuid id = new Uuid(raw.getLong(), raw.getLong());
            named.add(id);
            var known = topics.topics().getTopic(id);
            if (known == null) delta.replay(new TopicRecord().setTopicId(id).setName(topic.get("name").asText()));
            for (int i = known == null ? 0 : known.partitions().size(); i < topic.get("partitions").asInt(); i++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(i).setReplicas(List.of(i % 4, (i + 1) % 4)));
        }
        List<TopicImage> deleted = new ArrayList<>();
        for (Uuid id : topics.topics().topicsById().keySet())
            if (!named.contains(id)) {
                delta.replay(new RemoveTopicRecord().setTopicId(id));
                deleted.add(topics.topics().getTopic(id));
            }
        topics = delta.apply(new MetadataProvenance(command.get("version").asLong(), 0, 0L, true));
        if (!command.get("quietly").asBoolean()) {
            AnyVersion.topicsChanged(shard, delta, topics);
            if (!deleted.isEmpty())
                finish((CoordinatorResult<?, CoordinatorRecord>) AnyVersion.topicsDeleted(shard, deleted), PLAIN, (short) PLAIN);
        }
    }

    private void replay(JsonNode command) {
        CoordinatorRecord record = serde.deserialize(
            buffer(command.get("key").asText()),
            command.hasNonNull("value") ? buffer(command.get("value").asText()) : null);
        shard.replay(written, producer(command, "producer"), (short) producer(command, "epoch"), record);
        written++;
        settle();
    }

    private static int producer(JsonNode command, String name) {
        return command.hasNonNull(name) ? command.get(name).asInt() : PLAIN;
    }

    private void marker(JsonNode command) {
        shard.replayEndTransactionMarker(
            producer(command, "producer"), (short) producer(command, "epoch"),
            command.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT);
        written++;
        settle();
    }

    private void settle() {
        snapshots.idempotentCreateSnapshot(written);
        snapshots.deleteSnapshotsUpTo(written);
    }

    /** What the runtime does with the result of an operation; false if its records could not be appended. */
    private boolean finish(CoordinatorResult<?, CoordinatorRecord> result, long producerId, short producerEpoch) throws Exception {
        for (CoordinatorRecord record : result.records()) {
            List<Object> row = new ArrayList<>();
            row.add(text(ByteBuffer.wrap(serde.serializeKey(record))));
            byte[] value = serde.serializeValue(record);
            row.add(value == null ? null : text(ByteBuffer.wrap(value)));
            row.add(producerId);
            records.add(row);
        }
        if (fail != Errors.NONE && !result.records().isEmpty()) {
            snapshots.revertToSnapshot(written);
            for (CoordinatorRecord record : result.records()) AnyVersion.ofStreams("failed", groups, record);
            if (result.appendFuture() != null) result.appendFuture().completeExceptionally(fail.exception());
            return false;
        }
        for (CoordinatorRecord record : result.records()) {
            if (result.replayRecords()) shard.replay(written, producerId, producerEpoch, record);
            written++;
        }
        settle();
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return true;
    }

    /** What stands in the place of CoordinatorRuntime. */
    private Object schedule(InvocationOnMock call) throws Throwable {
        // The operation is an argument whose place depends on the version: a timeout was before it up to 4.2.
        return switch (call.getMethod().getName()) {
            case "scheduleWriteOperation" -> this.<Object>write(operation(call), PLAIN, (short) PLAIN);
            case "scheduleTransactionalWriteOperation" -> this.<Object>write(operation(call), call.getArgument(3), call.getArgument(4));
            case "scheduleReadOperation" -> this.<Object>read(operation(call));
            case "scheduleReadAllOperation" -> List.of(this.<Object>read(operation(call)));
            default -> Answers.RETURNS_DEFAULTS.answer(call);
        };
    }

    @SuppressWarnings("unchecked")
    private static <T> T operation(InvocationOnMock call) {
        for (Object argument : call.getArguments())
            if (argument instanceof CoordinatorRuntime.CoordinatorWriteOperation
                || argument instanceof CoordinatorRuntime.CoordinatorReadOperation) return (T) argument;
        throw new IllegalArgumentException(call.toString());
    }

    private <T> CompletableFuture<T> write(
        CoordinatorRuntime.CoordinatorWriteOperation<GroupCoordinatorShard, T, CoordinatorRecord> operation,
        long producerId, short producerEpoch
    ) {
        try {
            CoordinatorResult<T, CoordinatorRecord> result = operation.generateRecordsAndResult(shard);
            return finish(result, producerId, producerEpoch)
                ? CompletableFuture.completedFuture(result.response()) : CompletableFuture.failedFuture(fail.exception());
        } catch (Throwable error) {
            // As in the runtime, what the operation has changed before it failed is not reverted.
            return CompletableFuture.failedFuture(error);
        }
    }

    private <T> CompletableFuture<T> read(CoordinatorRuntime.CoordinatorReadOperation<GroupCoordinatorShard, T> operation) {
        try {
            return CompletableFuture.completedFuture(operation.generateResponse(shard, written));
        } catch (Throwable error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    private void request(JsonNode command) throws Exception {
        ApiKeys api = ApiKeys.forId(command.get("api").asInt());
        short version = (short) command.get("version").asInt();
        long ticket = command.get("ticket").asLong();
        AbstractRequest request = AnyVersion.parsed(api, version, buffer(command.get("data").asText()));
        RequestContext context = new RequestContext(
            new RequestHeader(api, version, command.get("client_id").asText(), 0), "1",
            InetAddress.getByName("127.0.0.1"), KafkaPrincipal.ANONYMOUS,
            ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
        dispatch(request, context, version).whenComplete((data, error) -> {
            ApiMessage said = error == null ? data : request.getErrorResponse(0, error).data();
            reply(ticket, said, version);
        });
    }

    /** As KafkaApis does it, without authorization and without topics that are not there. */
    @SuppressWarnings("unchecked")
    private CompletableFuture<? extends ApiMessage> dispatch(AbstractRequest request, RequestContext context, short version) throws Exception {
        if (request instanceof JoinGroupRequest join) {
            return AnyVersion.<JoinGroupResponseData>served(service, "joinGroup", context, join.data())
                .thenApply(data -> new JoinGroupResponse(data, version).data());
        } else if (request instanceof SyncGroupRequest sync) {
            // KafkaApis looks at this one before the service.
            return sync.areMandatoryProtocolTypeAndNamePresent()
                ? AnyVersion.<SyncGroupResponseData>served(service, "syncGroup", context, sync.data())
                : CompletableFuture.completedFuture(new SyncGroupResponseData()
                    .setErrorCode(Errors.INCONSISTENT_GROUP_PROTOCOL.code()));
        } else if (request instanceof HeartbeatRequest heartbeat) {
            return service.heartbeat(context, heartbeat.data());
        } else if (request instanceof LeaveGroupRequest leave) {
            return service.leaveGroup(context, leave.normalizedData())
                .thenApply(data -> new LeaveGroupResponse(data, version).data());
        } else if (request instanceof ConsumerGroupHeartbeatRequest heartbeat) {
            return service.consumerGroupHeartbeat(context, heartbeat.data());
        } else if (request instanceof OffsetCommitRequest commit) {
            for (OffsetCommitRequestData.OffsetCommitRequestTopic topic : commit.data().topics()) nameById(topic, topic.name());
            return AnyVersion.<OffsetCommitResponseData>served(service, "commitOffsets", context, commit.data());
        } else if (request instanceof TxnOffsetCommitRequest commit) {
            for (TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic topic : commit.data().topics()) nameById(topic, topic.name());
            return AnyVersion.<TxnOffsetCommitResponseData>served(service, "commitTransactionalOffsets", context, commit.data());
        } else if (request instanceof OffsetDeleteRequest delete) {
            return AnyVersion.<OffsetDeleteResponseData>served(service, "deleteOffsets", context, delete.data());
        } else if (request instanceof OffsetFetchRequest fetch) {
            List<OffsetFetchResponseData.OffsetFetchResponseGroup> found = new ArrayList<>();
            for (var group : fetch.groups())
                found.add(AnyVersion.fetched(service, context, group, fetch.requireStable(), version));
            return CompletableFuture.completedFuture(AnyVersion.response(found, version));
        } else if (request instanceof DescribeGroupsRequest describe) {
            return service.describeGroups(context, describe.data().groups())
                .thenApply(rows -> new DescribeGroupsResponseData().setGroups(rows));
        } else if (request instanceof ConsumerGroupDescribeRequest describe) {
            return service.consumerGroupDescribe(context, describe.data().groupIds())
                .thenApply(rows -> new ConsumerGroupDescribeResponseData().setGroups(rows));
        } else if (request instanceof ListGroupsRequest list) {
            return service.listGroups(context, list.data());
        } else if (request instanceof DeleteGroupsRequest delete) {
            List<String> names = delete.data().groupsNames().stream().distinct().toList();
            return AnyVersion.<DeleteGroupsResponseData.DeletableGroupResultCollection>served(service, "deleteGroups", context, names)
                .thenApply(rows -> new DeleteGroupsResponseData().setResults(rows));
        }
        var answer = (CompletableFuture<? extends ApiMessage>) AnyVersion.ofStreams("served", service, request, context);
        if (answer == null) throw new IllegalArgumentException(request.toString());
        return answer;
    }

    /** KafkaApis adds the id of the topic, in those versions whose requests have one. */
    private void nameById(Object topic, String name) throws Exception {
        TopicImage known = topics.topics().getTopic(name);
        if (known != null) AnyVersion.callIfThere(topic, "setTopicId", known.id());
    }

    private void reply(long ticket, ApiMessage data, short version) {
        List<Object> row = new ArrayList<>();
        row.add(ticket);
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(data.size(sizes, version));
        data.write(new ByteBufferAccessor(bytes), sizes, version);
        row.add(text(bytes.flip()));
        replies.add(row);
    }

    private Map<String, Object> state() throws Exception {
        Map<String, Object> all = new HashMap<>();
        for (String id : groups.groupIds()) {
            if (groups.group(id) instanceof ConsumerGroup consumers) {
                all.put(id, describe(consumers));
                continue;
            }
            Object streams = AnyVersion.ofStreams("described", groups.group(id));
            if (streams != null) {
                all.put(id, streams);
                continue;
            }
            ClassicGroup group = (ClassicGroup) groups.group(id);
            Map<String, Object> row = new HashMap<>();
            row.put("state", group.currentState().toString());
            row.put("previous", group.previousState().toString());
            row.put("timestamp", group.currentStateTimestampOrDefault());
            row.put("generation", group.generationId());
            row.put("protocol_type", group.protocolType().orElse(null));
            row.put("protocol", group.protocolName().orElse(null));
            row.put("leader", group.leaderOrNull());
            row.put("pending_joins", field(group, "pendingJoinMembers"));
            row.put("pending_syncs", group.allPendingSyncMembers());
            row.put("new_member_added", group.newMemberAdded());
            row.put("topics", group.subscribedTopics().map(TreeSet::new).orElse(null));
            row.put("static", field(group, "staticMembers"));
            Map<String, Object> members = new HashMap<>();
            for (ClassicGroupMember member : group.allMembers()) members.put(member.memberId(), describe(member));
            row.put("members", members);
            all.put(id, row);
        }
        return all;
    }

    private static Map<String, Object> describe(ConsumerGroup group) throws Exception {
        Map<String, Object> row = new HashMap<>();
        row.put("type", "consumer");
        row.put("state", group.stateAsString());
        row.put("epoch", group.groupEpoch());
        row.put("hash", AnyVersion.callOr(group, "metadataHash", 0));
        row.put("assignment_epoch", group.assignmentEpoch());
        row.put("assignment_timestamp", AnyVersion.callOr(group, "assignmentTimestamp", 0));
        row.put("static", group.staticMembers());
        row.put("assignors", field(group, "serverAssignors"));
        row.put("classic", group.numClassicProtocolMembers());
        row.put("classic_protocols", group.classicMembersSupportedProtocols());
        row.put("regexes", group.subscribedRegularExpressions());
        row.put("homogeneous", group.subscriptionType().toString());
        row.put("partition_metadata", AnyVersion.hasPartitionMetadata(group));
        row.put("refresh", List.of(group.metadataRefreshDeadline().deadlineMs, group.metadataRefreshDeadline().epoch));
        Map<String, Object> resolved = new HashMap<>();
        for (Map.Entry<String, ?> entry : group.resolvedRegularExpressions().entrySet()) {
            Object found = entry.getValue();
            resolved.put(entry.getKey(), List.of(
                new TreeSet<>((Set<?>) AnyVersion.get(found, "topics")), AnyVersion.get(found, "version"), AnyVersion.get(found, "timestamp")));
        }
        row.put("resolved", resolved);
        Map<String, Object> names = new HashMap<>();
        for (Map.Entry<String, ?> entry : group.subscribedTopicNames().entrySet())
            names.put(entry.getKey(), List.of(
                AnyVersion.get(entry.getValue(), "byNameCount"), AnyVersion.get(entry.getValue(), "byRegexCount")));
        row.put("names", names);
        Map<String, Object> targets = new HashMap<>();
        group.targetAssignment().forEach((member, target) -> {
            List<Object> rows = new ArrayList<>();
            target.partitions().forEach((topic, those) -> rows.add(List.of(text(topic), new ArrayList<>(those))));
            targets.put(member, rows);
        });
        row.put("targets", targets);
        row.put("owners", epochs((Map<?, ?>) field(group, "currentPartitionEpoch")));
        List<Object> order = new ArrayList<>();
        Map<String, Object> members = new HashMap<>();
        for (ConsumerGroupMember member : group.members().values()) {
            order.add(member.memberId());
            members.put(member.memberId(), describe(member));
        }
        row.put("order", order);
        row.put("members", members);
        return row;
    }

    private static Map<String, Object> describe(ConsumerGroupMember member) {
        Map<String, Object> row = new HashMap<>();
        row.put("epoch", member.memberEpoch());
        row.put("previous", member.previousMemberEpoch());
        row.put("state", member.state().value());
        row.put("instance", member.instanceId());
        row.put("rack", member.rackId());
        row.put("rebalance", member.rebalanceTimeoutMs());
        row.put("client_id", member.clientId());
        row.put("client_host", member.clientHost());
        row.put("topics", new TreeSet<>(member.subscribedTopicNames()));
        row.put("regex", member.subscribedTopicRegex());
        row.put("assignor", member.serverAssignorName().orElse(null));
        row.put("assigned", epochs(member.assignedPartitions()));
        row.put("pending", epochs(member.partitionsPendingRevocation()));
        row.put("session", member.classicProtocolSessionTimeout().orElse(null));
        List<Object> protocols = new ArrayList<>();
        member.supportedClassicProtocols().ifPresent(rows -> rows.forEach(protocol -> protocols.add(
            List.of(protocol.name(), Base64.getEncoder().encodeToString(protocol.metadata())))));
        row.put("protocols", protocols);
        return row;
    }

    private static Map<String, Object> epochs(Map<?, ?> partitions) {
        Map<String, Object> all = new HashMap<>();
        partitions.forEach((topic, rows) -> {
            Map<String, Object> sorted = new TreeMap<>();
            // Up to 4.2 partitions have no epochs.
            if (rows instanceof Set<?> partitionsOnly) partitionsOnly.forEach(partition -> sorted.put(partition.toString(), 0));
            else ((Map<?, ?>) rows).forEach((partition, epoch) -> sorted.put(partition.toString(), epoch));
            all.put(text((Uuid) topic), sorted);
        });
        return all;
    }

    private static String text(Uuid id) {
        ByteBuffer raw = ByteBuffer.allocate(16);
        raw.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).flip();
        return text(raw);
    }

    /** What a store of offsets holds, by group and partition. */
    private static Map<String, Object> offsetsIn(Object store) throws Exception {
        Map<String, Object> all = new HashMap<>();
        for (var group : ((Map<?, ?>) field(store, "offsetsByGroup")).entrySet()) {
            Map<String, Object> rows = new HashMap<>();
            for (var topic : ((Map<?, ?>) group.getValue()).entrySet()) {
                for (var partition : ((Map<?, ?>) topic.getValue()).entrySet()) {
                    OffsetAndMetadata row = (OffsetAndMetadata) partition.getValue();
                    rows.put(topic.getKey() + ":" + partition.getKey(), List.of(
                        row.committedOffset, row.leaderEpoch.orElse(-1), row.metadata, row.commitTimestampMs,
                        row.expireTimestampMs.orElse(-1)));
                }
            }
            all.put(group.getKey().toString(), rows);
        }
        return all;
    }

    private static Map<String, Object> describe(ClassicGroupMember member) {
        Map<String, Object> row = new HashMap<>();
        row.put("instance", member.groupInstanceId().orElse(null));
        row.put("client_id", member.clientId());
        row.put("client_host", member.clientHost());
        row.put("rebalance", member.rebalanceTimeoutMs());
        row.put("session", member.sessionTimeoutMs());
        row.put("assignment", Base64.getEncoder().encodeToString(member.assignment()));
        row.put("new", member.isNew());
        row.put("joining", member.isAwaitingJoin());
        row.put("syncing", member.isAwaitingSync());
        List<Object> protocols = new ArrayList<>();
        member.supportedProtocols().forEach(protocol -> protocols.add(
            List.of(protocol.name(), Base64.getEncoder().encodeToString(protocol.metadata()))));
        row.put("protocols", protocols);
        return row;
    }

    private static final Map<String, Field> FIELDS = new HashMap<>();

    private static Object field(Object owner, String name) throws Exception {
        Field field = FIELDS.get(name);
        if (field == null) {
            field = owner.getClass().getDeclaredField(name);
            field.setAccessible(true);
            FIELDS.put(name, field);
        }
        return field.get(owner);
    }

    private static ByteBuffer buffer(String text) {
        return ByteBuffer.wrap(Base64.getDecoder().decode(text));
    }

    private static String text(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }
}

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
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.message.*;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.MockTime;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.mockito.Mockito;

/**
 * Kafka's own group coordinator on a clock that stands still, one JSON line in, one out.
 *
 * Bytes in and out are Kafka's wire form at the version of the request. Timers fire only when they are named, so that
 * the other side decides the order of those that are due at one time.
 */
public class CoordinatorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorMetricsShard METRICS = Mockito.mock(
        GroupCoordinatorMetricsShard.class, Mockito.withSettings().stubOnly());
    private static final GroupCoordinatorMetrics ALL_METRICS = Mockito.mock(
        GroupCoordinatorMetrics.class, Mockito.withSettings().stubOnly());

    private final MockTime time;
    private final Timer timer = new Timer();
    private final LogContext logContext = new LogContext();
    private final SnapshotRegistry snapshots = new SnapshotRegistry(logContext);
    private final GroupMetadataManager groups;
    private final OffsetMetadataManager offsets;
    private final GroupCoordinatorShard shard;
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private long written = 0;
    private final List<Object> replies = new ArrayList<>();
    private final List<Object> records = new ArrayList<>();

    record Alarm(String key, long deadline, CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) { }

    private class Timer implements CoordinatorTimer<CoordinatorRecord> {
        private final Map<String, Alarm> alarms = new LinkedHashMap<>();

        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, 500, operation);
        }

        public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<CoordinatorRecord> operation) {
            alarms.put(key, new Alarm(key, time.milliseconds() + unit.toMillis(delay), operation));
        }

        public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            if (!alarms.containsKey(key)) schedule(key, delay, unit, retry, operation);
        }

        public void cancel(String key) {
            alarms.remove(key);
        }

        public boolean isScheduled(String key) {
            return alarms.containsKey(key);
        }
    }

    CoordinatorOracle(long now, Map<String, Object> settings) {
        time = new MockTime(0, now, now * 1_000_000);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(settings);
        GroupConfigManager groupConfig = GroupConfigManagerTest.createConfigManager();
        groups = new GroupMetadataManager.Builder()
            .withSnapshotRegistry(snapshots).withLogContext(logContext).withTime(time).withTimer(timer)
            .withExecutor(new MockCoordinatorExecutor<>()).withConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(METRICS)
            .withGroupConfigManager(groupConfig).withAuthorizerPlugin(Optional.empty())
            .withStreamsGroupAssignors(List.of()).build();
        offsets = new OffsetMetadataManager.Builder()
            .withLogContext(logContext).withSnapshotRegistry(snapshots).withTime(time)
            .withGroupMetadataManager(groups).withGroupCoordinatorConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(METRICS).build();
        shard = new GroupCoordinatorShard(
            logContext, groups, offsets, time, timer, config, ALL_METRICS, METRICS);
        snapshots.idempotentCreateSnapshot(0);
    }

    public static void main(String[] args) throws Exception {
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
                    oracle = new CoordinatorOracle(command.get("now").asLong(), settings);
                    answer = new HashMap<>();
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

    private Map<String, Object> run(JsonNode command) throws Exception {
        replies.clear();
        records.clear();
        Errors fail = command.hasNonNull("fail") ? Errors.valueOf(command.get("fail").asText()) : Errors.NONE;
        switch (command.get("op").asText()) {
            case "request" -> request(command, fail);
            case "fire" -> fire(command.get("key").asText(), command.get("now").asLong(), fail);
            case "sleep" -> setTime(command.get("now").asLong());
            case "replay" -> replay(command);
            case "load" -> shard.onLoaded(CoordinatorMetadataImage.EMPTY);
            case "unload" -> shard.onUnloaded();
            default -> throw new IllegalArgumentException(command.toString());
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("replies", new ArrayList<>(replies));
        answer.put("records", new ArrayList<>(records));
        answer.put("groups", state());
        Map<String, Long> deadlines = new HashMap<>();
        timer.alarms.forEach((key, alarm) -> deadlines.put(key, alarm.deadline()));
        answer.put("timers", deadlines);
        return answer;
    }

    private void setTime(long now) {
        time.setCurrentTimeMs(now);
    }

    private void fire(String key, long now, Errors fail) {
        setTime(now);
        Alarm alarm = timer.alarms.remove(key);
        if (alarm == null) throw new IllegalStateException("not scheduled: " + key + " of " + timer.alarms.keySet());
        if (alarm.deadline() != now) throw new IllegalStateException(key + " is due at " + alarm.deadline() + ", not " + now);
        finish(alarm.operation().generateRecords(), fail);
    }

    private void replay(JsonNode command) {
        CoordinatorRecord record = serde.deserialize(
            buffer(command.get("key").asText()),
            command.hasNonNull("value") ? buffer(command.get("value").asText()) : null);
        shard.replay(written, -1, (short) -1, record);
        written++;
        snapshots.idempotentCreateSnapshot(written);
        snapshots.deleteSnapshotsUpTo(written);
    }

    /** What the runtime does with the result of an operation. */
    private boolean finish(CoordinatorResult<?, CoordinatorRecord> result, Errors fail) {
        for (CoordinatorRecord record : result.records()) {
            List<Object> row = new ArrayList<>();
            row.add(text(ByteBuffer.wrap(serde.serializeKey(record))));
            byte[] value = serde.serializeValue(record);
            row.add(value == null ? null : text(ByteBuffer.wrap(value)));
            records.add(row);
        }
        boolean failed = fail != Errors.NONE && !result.records().isEmpty();
        if (failed) {
            snapshots.revertToSnapshot(written);
            if (result.appendFuture() != null) result.appendFuture().completeExceptionally(fail.exception());
            return true;
        }
        if (result.replayRecords()) {
            result.records().forEach(record -> shard.replay(written, -1, (short) -1, record));
        }
        written += result.records().size();
        snapshots.idempotentCreateSnapshot(written);
        snapshots.deleteSnapshotsUpTo(written);
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return false;
    }

    private void request(JsonNode command, Errors fail) throws Exception {
        ApiKeys api = ApiKeys.forId(command.get("api").asInt());
        short version = (short) command.get("version").asInt();
        long ticket = command.get("ticket").asLong();
        AbstractRequest request = AbstractRequest.parseRequest(
            api, version, new ByteBufferAccessor(buffer(command.get("data").asText()))).request;
        RequestContext context = new RequestContext(
            new RequestHeader(api, version, command.get("client_id").asText(), 0), "1",
            InetAddress.getByName("127.0.0.1"), KafkaPrincipal.ANONYMOUS,
            ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
        try {
            dispatch(request, context, ticket, version, fail);
        } catch (Exception error) {
            snapshots.revertToSnapshot(written);
            refuse(request, ticket, version, Errors.forException(error));
        }
    }

    private void dispatch(AbstractRequest request, RequestContext context, long ticket, short version, Errors fail) {
        if (request instanceof JoinGroupRequest join) {
            CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
            future.thenAccept(data -> reply(ticket, new JoinGroupResponse(data, version).data(), version));
            finish(shard.classicGroupJoin(context, join.data(), future), fail);
        } else if (request instanceof SyncGroupRequest sync) {
            CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
            future.thenAccept(data -> reply(ticket, data, version));
            finish(shard.classicGroupSync(context, sync.data(), future), fail);
        } else if (request instanceof HeartbeatRequest heartbeat) {
            var result = shard.classicGroupHeartbeat(context, heartbeat.data());
            finish(result, fail);
            reply(ticket, result.response(), version);
        } else if (request instanceof LeaveGroupRequest leave) {
            var result = shard.classicGroupLeave(context, leave.normalizedData());
            if (finish(result, fail)) refuse(request, ticket, version, mapped(fail));
            else reply(ticket, new LeaveGroupResponse(result.response(), version).data(), version);
        } else if (request instanceof OffsetCommitRequest commit) {
            var result = shard.commitOffset(context, commit.data());
            if (finish(result, fail)) refuse(request, ticket, version, mapped(fail));
            else reply(ticket, result.response(), version);
        } else if (request instanceof OffsetDeleteRequest delete) {
            var result = shard.deleteOffsets(context, delete.data());
            if (finish(result, fail)) refuse(request, ticket, version, mapped(fail));
            else reply(ticket, result.response(), version);
        } else if (request instanceof OffsetFetchRequest fetch) {
            List<OffsetFetchResponseData.OffsetFetchResponseGroup> found = new ArrayList<>();
            fetch.groups().forEach(group -> found.add(shard.fetchOffsets(group, Long.MAX_VALUE)));
            reply(ticket, new OffsetFetchResponse.Builder(found).build(version).data(), version);
        } else if (request instanceof DescribeGroupsRequest describe) {
            reply(ticket, new DescribeGroupsResponseData().setGroups(
                shard.describeGroups(context, describe.data().groups(), Long.MAX_VALUE)), version);
        } else if (request instanceof ListGroupsRequest list) {
            reply(ticket, new ListGroupsResponseData().setGroups(shard.listGroups(
                list.data().statesFilter(), list.data().typesFilter(), Long.MAX_VALUE)), version);
        } else if (request instanceof DeleteGroupsRequest delete) {
            var result = shard.deleteGroups(context, new ArrayList<>(new TreeSet<>(delete.data().groupsNames())));
            if (finish(result, fail)) refuse(request, ticket, version, mapped(fail));
            else reply(ticket, new DeleteGroupsResponseData().setResults(result.response()), version);
        } else {
            throw new IllegalArgumentException(request.toString());
        }
    }

    /** The error form that GroupCoordinatorService gives an operation that threw, or whose records were not appended. */
    private void refuse(AbstractRequest request, long ticket, short version, Errors error) {
        if (request instanceof LeaveGroupRequest leave && error == Errors.UNKNOWN_MEMBER_ID) {
            List<LeaveGroupResponseData.MemberResponse> members = new ArrayList<>();
            leave.normalizedData().members().forEach(member -> members.add(new LeaveGroupResponseData.MemberResponse()
                .setMemberId(member.memberId()).setGroupInstanceId(member.groupInstanceId()).setErrorCode(error.code())));
            reply(ticket, new LeaveGroupResponse(new LeaveGroupResponseData().setMembers(members), version).data(), version);
        } else if (request instanceof JoinGroupRequest) {
            reply(ticket, new JoinGroupResponse(new JoinGroupResponseData().setErrorCode(error.code()), version).data(), version);
        } else {
            reply(ticket, request.getErrorResponse(0, error.exception()).data(), version);
        }
    }

    private static Errors mapped(Errors error) {
        return GroupMetadataManager.appendGroupMetadataErrorToResponseError(error);
    }

    private void reply(long ticket, ApiMessage data, short version) {
        List<Object> row = new ArrayList<>();
        row.add(ticket);
        row.add(text(MessageUtil.toByteBufferAccessor(data, version).buffer()));
        replies.add(row);
    }

    private Map<String, Object> state() throws Exception {
        Map<String, Object> all = new HashMap<>();
        for (String id : groups.groupIds()) {
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
            row.put("offsets", offsetsOf(id));
            all.put(id, row);
        }
        return all;
    }

    private Object offsetsOf(String group) {
        Map<String, Object> found = new HashMap<>();
        var request = new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group).setTopics(null);
        shard.fetchOffsets(request, Long.MAX_VALUE).topics().forEach(topic -> topic.partitions().forEach(
            row -> found.put(topic.name() + ":" + row.partitionIndex(), row.committedOffset())));
        return found;
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

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
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

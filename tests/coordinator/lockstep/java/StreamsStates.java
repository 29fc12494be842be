package org.apache.kafka.coordinator.group;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.StreamsGroupDescribeRequest;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatRequest;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.generated.StreamsGroupCurrentMemberAssignmentKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMemberMetadataKey;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;

/** Streams groups, whose classes not every version has: asked for by CoordinatorOracle if this class is there. */
final class StreamsStates {
    /** The topics that the coordinator wants to be created, since this was read the last time. */
    private static final Map<String, Object> created = new TreeMap<>();

    private StreamsStates() { }

    static Map<String, Object> created() {
        Map<String, Object> topics = new TreeMap<>(created);
        created.clear();
        return topics;
    }

    /** The answer to a request of streams groups; null if it is not one. */
    static CompletableFuture<? extends ApiMessage> served(GroupCoordinatorService service, AbstractRequest request, RequestContext context) {
        if (request instanceof StreamsGroupHeartbeatRequest heartbeat)
            return service.streamsGroupHeartbeat(context, heartbeat.data()).thenApply(result -> {
                result.creatableTopics().forEach((name, topic) ->
                    created.put(name, List.of(topic.numPartitions(), topic.replicationFactor())));
                return result.data();
            });
        if (request instanceof StreamsGroupDescribeRequest describe)
            return service.streamsGroupDescribe(context, describe.data().groupIds())
                .thenApply(rows -> new StreamsGroupDescribeResponseData().setGroups(rows));
        return null;
    }

    /** The runtime replays records before it appends them. What a group knows of endpoints by heart is then forgotten. */
    static Object failed(GroupMetadataManager groups, Object record) throws Exception {
        Object key = ((CoordinatorRecord) record).key();
        String id = key instanceof StreamsGroupMemberMetadataKey member ? member.memberId()
            : key instanceof StreamsGroupCurrentMemberAssignmentKey member ? member.memberId() : null;
        if (id != null && groups.groupIds().contains(AnyVersion.get(key, "groupId"))
            && groups.group((String) AnyVersion.get(key, "groupId")) instanceof StreamsGroup group)
            AnyVersion.callIfThere(group, "invalidateCachedEndpointToPartitions", id);
        return null;
    }

    /** The state of a group; null if it is not a streams group. */
    static Map<String, Object> described(Object found) throws Exception {
        if (!(found instanceof StreamsGroup group)) return null;
        Map<String, Object> row = new HashMap<>();
        row.put("type", "streams");
        row.put("state", group.stateAsString());
        row.put("epoch", group.groupEpoch());
        row.put("hash", group.metadataHash());
        row.put("validated", group.validatedTopologyEpoch());
        row.put("assignment_epoch", group.assignmentEpoch());
        row.put("assignment_timestamp", AnyVersion.callOr(group, "assignmentTimestamp", 0));
        row.put("topology", group.topology().map(each -> each.topologyEpoch()).orElse(null));
        row.put("configs", group.lastAssignmentConfigs());
        row.put("refresh", List.of(group.metadataRefreshDeadline().deadlineMs, group.metadataRefreshDeadline().epoch));
        row.put("shutdown", group.getShutdownRequestMemberId().orElse(null));
        row.put("endpoint_epoch", group.endpointInformationEpoch());
        Map<String, Object> targets = new HashMap<>();
        group.targetAssignment().forEach((member, target) -> targets.put(member, described(target)));
        row.put("targets", targets);
        Map<String, Object> active = new TreeMap<>();
        ((Map<?, ?>) AnyVersion.get(group, "currentActiveTaskToProcessId")).forEach((id, rows) ->
            ((Map<?, ?>) rows).forEach((partition, process) -> active.put(id + "_" + partition, process)));
        row.put("active", active);
        row.put("standby", processes((Map<?, ?>) AnyVersion.get(group, "currentStandbyTaskToProcessIds")));
        List<Object> order = new ArrayList<>();
        Map<String, Object> members = new HashMap<>();
        for (StreamsGroupMember member : group.members().values()) {
            order.add(member.memberId());
            members.put(member.memberId(), described(member));
        }
        row.put("order", order);
        row.put("members", members);
        return row;
    }

    private static Map<String, Object> processes(Map<?, ?> tasks) {
        Map<String, Object> all = new TreeMap<>();
        tasks.forEach((id, rows) -> ((Map<?, ?>) rows).forEach((partition, processes) -> {
            if (!((Set<?>) processes).isEmpty()) all.put(id + "_" + partition, new TreeSet<>((Set<?>) processes));
        }));
        return all;
    }

    private static List<Object> described(TasksTuple tasks) {
        return List.of(sorted(tasks.activeTasks()), sorted(tasks.standbyTasks()), sorted(tasks.warmupTasks()));
    }

    private static List<Object> described(TasksTupleWithEpochs tasks) {
        Map<String, Object> active = new TreeMap<>();
        tasks.activeTasksWithEpochs().forEach((id, rows) -> active.put(id, new TreeMap<>(rows)));
        return List.of(active, sorted(tasks.standbyTasks()), sorted(tasks.warmupTasks()));
    }

    private static Map<String, Object> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Object> all = new TreeMap<>();
        tasks.forEach((id, partitions) -> all.put(id, new TreeSet<>(partitions)));
        return all;
    }

    private static Map<String, Object> described(StreamsGroupMember member) {
        Map<String, Object> row = new HashMap<>();
        // A log is being replayed, and the rest of the member is still to come.
        if (member.memberEpoch() == null || member.processId() == null) return row;
        row.put("epoch", member.memberEpoch());
        row.put("previous", member.previousMemberEpoch());
        row.put("state", member.state().value());
        row.put("instance", member.instanceId().orElse(null));
        row.put("rack", member.rackId().orElse(null));
        row.put("client_id", member.clientId());
        row.put("client_host", member.clientHost());
        row.put("rebalance", member.rebalanceTimeoutMs());
        row.put("topology_epoch", member.topologyEpoch());
        row.put("process", member.processId());
        row.put("endpoint", member.userEndpoint().map(each -> List.of(each.host(), each.port())).orElse(null));
        row.put("tags", new TreeMap<>(member.clientTags()));
        row.put("assigned", described(member.assignedTasks()));
        row.put("pending", described(member.tasksPendingRevocation()));
        return row;
    }
}

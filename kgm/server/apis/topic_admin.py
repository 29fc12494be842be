"""CreateTopics, CreatePartitions and DeleteTopics, and the APIs that place the partitions of `__consumer_offsets`:
AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders. Kafka: ReplicationControlManager.

Every broker shares one copy of everything, so that a reassignment is done when it is asked for: a leader that is no
replica any more hands over to the first replica that is alive. Partitions of user topics cannot be placed: any broker
serves them."""

from collections import Counter
from collections.abc import Callable

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from kgm.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kgm.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kgm.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kgm.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kgm.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kgm.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kgm.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kgm.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kgm.server.cluster.nodes import OFFSETS_TOPIC, Placement
from kgm.server.cluster.topics import NO_ID, Topic, Topics, is_legal_name
from kgm.server.contract.exchange import Call, Millis, Reply, Response
from kgm.server.contract.limits import Limits

_DEFAULT = -1
_PREFERRED = 0
_BY_ID_FROM = 6

#: Makes a change of leadership take effect: partition, now.
Follow = Callable[[int, Millis], Response]
#: Tells the coordinators that there are other topics; and empties the partitions of one that is to be deleted.
Changed = Callable[[Millis], Response]
Empty = Callable[[str, int], Response]


class TopicAdmin:
    """What changes topics and placement. save: keeps both over a restart; it and empty raise OSError."""

    def __init__(
        self,
        topics: Topics,
        limits: Limits,
        placement: Placement,
        *,
        follow: Follow,
        save: Callable[[], None],
        changed: Changed,
        empty: Empty,
    ) -> None:
        self._topics = topics
        self._limits = limits
        self._placement = placement
        self._follow = follow
        self._save = save
        self._changed = changed
        self._empty = empty

    # -- CreateTopics v2-7

    def create_topics(self, call: Call) -> Response:
        """Topics with a partition count; assignments are accepted by their number, configurations are ignored."""
        message = call.message
        assert isinstance(message, CreateTopicsRequest)
        times = Counter(topic.name for topic in message.topics)
        rows = [self._create(topic, times[topic.name] > 1, message.validate_only) for topic in message.topics]
        created = [row for row in rows if not row.error_code]
        others: Response = ()
        if created and not message.validate_only:
            try:
                self._save()
            except OSError as error:
                for row in created:
                    self._topics.remove(row.name)
                    row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, error.strerror or str(error)
            else:
                others = self._changed(call.now)
        return (*others, Reply(call.ticket, CreateTopicsResponse(topics=rows)))

    def _create(self, wanted: CreatableTopic, repeated: bool, validate_only: bool) -> CreatableTopicResult:  # noqa: FBT001
        count = len(wanted.assignments) or (1 if wanted.num_partitions == _DEFAULT else wanted.num_partitions)
        error, text = self._creation_error(wanted, count, repeated=repeated)
        if error:
            return CreatableTopicResult(name=wanted.name, error_code=error, error_message=text)
        topic_id = self._topics.id_of_new(wanted.name)
        if not validate_only:
            self._topics.add(wanted.name, count)
        return CreatableTopicResult(
            name=wanted.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=count,
            replication_factor=len(self._placement.nodes.ids),
        )

    def _creation_error(self, wanted: CreatableTopic, count: int, *, repeated: bool) -> tuple[ErrorCode, str | None]:
        if repeated:
            return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
        if not is_legal_name(wanted.name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is not legal."
        if self._topics.named(wanted.name) is not None or wanted.name == OFFSETS_TOPIC:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists."
        if count < 1:
            return ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        brokers = len(self._placement.nodes.ids)
        if wanted.replication_factor != _DEFAULT and not 1 <= wanted.replication_factor <= brokers:
            return ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor can be 1 to {brokers}."
        if len(self._topics) >= self._limits.max_topics:
            return self._no_room()
        return self._room_for(count)

    def _room_for(self, more: int) -> tuple[ErrorCode, str | None]:
        has_room = self._topics.total_partitions + more <= self._limits.max_partitions
        return (ErrorCode.NONE, None) if has_room else self._no_room()

    def _no_room(self) -> tuple[ErrorCode, str]:
        most = f"{self._limits.max_topics} topics and {self._limits.max_partitions} partitions"
        return ErrorCode.POLICY_VIOLATION, f"kgm serve has room for {most}."

    # -- CreatePartitions v0-3

    def create_partitions(self, call: Call) -> Response:
        """More partitions for topics; assignments are accepted by their number."""
        message = call.message
        assert isinstance(message, CreatePartitionsRequest)
        times = Counter(topic.name for topic in message.topics)
        response = CreatePartitionsResponse()
        before: dict[str, int] = {}
        for wanted in message.topics:
            error, text = self._growth_error(wanted, repeated=times[wanted.name] > 1)
            row = CreatePartitionsTopicResult(name=wanted.name, error_code=error, error_message=text)
            response.results.append(row)
            if not error and not message.validate_only:
                before[wanted.name] = self._topics[wanted.name]
                self._topics.resize(wanted.name, wanted.count)
        others: Response = ()
        try:
            if before:
                self._save()
                others = self._changed(call.now)
        except OSError as failure:
            for row in response.results:
                if row.name in before:
                    self._topics.resize(row.name, before[row.name])
                    row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, failure.strerror or str(failure)
        return (*others, Reply(call.ticket, response))

    def _growth_error(self, wanted: CreatePartitionsTopic, *, repeated: bool) -> tuple[ErrorCode, str | None]:
        if repeated:
            return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
        topic = self._topics.named(wanted.name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        more = wanted.count - topic.partitions
        if more <= 0:
            return ErrorCode.INVALID_PARTITIONS, f"Topic currently has {topic.partitions} partition(s)."
        if wanted.assignments is not None and len(wanted.assignments) != more:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Assignments of {more} partition(s), or none."
        return self._room_for(more)

    # -- DeleteTopics v1-6

    def delete_topics(self, call: Call) -> Response:
        """The topics' records go first: what is deleted in part only is a topic without records."""
        message = call.message
        assert isinstance(message, DeleteTopicsRequest)
        wanted = message.topics
        if call.version < _BY_ID_FROM:
            wanted = [DeleteTopicState(name=name) for name in message.topic_names]
        times = Counter((state.name, state.topic_id) for state in wanted)
        found = [self._to_delete(state, repeated=times[state.name, state.topic_id] > 1) for state in wanted]
        rows = [row for row, _ in found]
        others: Response = ()
        deleted: list[tuple[DeletableTopicResult, Topic]] = []
        try:
            for row, topic in found:
                if topic is not None and self._topics.named(topic.name) is not topic:
                    row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "By name and by id is twice."
                elif topic is not None:
                    deleted.append((row, topic))
                    self._topics.delete(topic.name)
                    others += self._empty(topic.name, topic.partitions)
            if deleted:
                self._save()
                others += self._changed(call.now)
        except OSError as failure:
            for row, topic in deleted:
                self._topics.undelete(topic)
                row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, failure.strerror or str(failure)
        return (*others, Reply(call.ticket, DeleteTopicsResponse(responses=rows)))

    def _to_delete(self, state: DeleteTopicState, *, repeated: bool) -> tuple[DeletableTopicResult, Topic | None]:
        by_id = state.name is None
        topic = self._topics.identified(state.topic_id) if state.name is None else self._topics.named(state.name)
        row = DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_message=None)
        if by_id == (state.topic_id == NO_ID):
            row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "A topic is named, or its id is given."
        elif repeated:
            row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
        elif topic is None:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            row.error_message = "There is no such topic."
        else:
            row.name, row.topic_id = topic.name, topic.topic_id
            return row, topic
        return row, None

    # -- AlterPartitionReassignments v0-1, ListPartitionReassignments v0

    def alter_reassignments(self, call: Call) -> Response:
        """Replicas of partitions of `__consumer_offsets`. Null replicas end a reassignment that is going on, which none
        ever is."""
        message = call.message
        assert isinstance(message, AlterPartitionReassignmentsRequest)
        before = [self._placement[partition].replicas for partition in range(len(self._placement))]
        response = AlterPartitionReassignmentsResponse(error_message=None)
        changed: list[int] = []
        for topic in message.topics:
            row = ReassignableTopicResponse(name=topic.name)
            for part in topic.partitions:
                error, text = self._reassign(topic.name, part, message.allow_replication_factor_change, changed)
                row.partitions.append(
                    ReassignablePartitionResponse(
                        partition_index=part.partition_index, error_code=error, error_message=text
                    )
                )
            response.responses.append(row)
        try:
            if changed:
                self._save()
        except OSError as error:
            for partition in changed:
                self._placement.assign(partition, before[partition])
            failed = AlterPartitionReassignmentsResponse(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=error.strerror or str(error)
            )
            return (Reply(call.ticket, failed),)
        replies = self._elect(changed, call.now)
        return (*replies, Reply(call.ticket, response))

    def _reassign(
        self,
        topic: str,
        part: ReassignablePartition,
        may_change_factor: bool,  # noqa: FBT001
        changed: list[int],
    ) -> tuple[ErrorCode, str | None]:
        if topic != OFFSETS_TOPIC:
            if self._topics.named(topic) is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"kgm serve places {OFFSETS_TOPIC} only."
        if part.partition_index not in self._placement:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        if part.replicas is None:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
        nodes = self._placement.nodes
        wanted = part.replicas
        if not wanted or len(set(wanted)) < len(wanted) or any(node_id not in nodes for node_id in wanted):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Brokers, each once, of {list(nodes.ids)}."
        if not nodes.living(wanted):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of these brokers is running."
        if not may_change_factor and len(wanted) != len(self._placement[part.partition_index].replicas):
            return ErrorCode.INVALID_REPLICATION_FACTOR, "The number of replicas would change."
        self._placement.assign(part.partition_index, wanted)
        changed.append(part.partition_index)
        return ErrorCode.NONE, None

    def _elect(self, partitions: list[int], now: Millis, *, preferred: bool = False) -> Response:
        replies: Response = ()
        for partition in dict.fromkeys(partitions):
            if self._placement.elect(partition, preferred=preferred):
                replies += self._follow(partition, now)
        return replies

    def list_reassignments(self, call: Call) -> Response:
        """None is ever going on."""
        return (Reply(call.ticket, ListPartitionReassignmentsResponse(error_message=None)),)

    # -- ElectLeaders v0-2

    def elect_leaders(self, call: Call) -> Response:
        """Preferred elections: the first replica that is alive leads. Others are never needed, as every replica that is
        alive is in sync."""
        message = call.message
        assert isinstance(message, ElectLeadersRequest)
        wanted = message.topic_partitions
        named = (
            [(OFFSETS_TOPIC, list(range(len(self._placement))))]
            if wanted is None
            else [(topic.topic, topic.partitions) for topic in wanted]
        )
        preferred = message.election_type == _PREFERRED
        response = ElectLeadersResponse()
        replies: Response = ()
        for topic, partitions in named:
            rows = []
            for partition in partitions:
                error, text = self._election_error(topic, partition, preferred=preferred)
                if not error:
                    replies += self._elect([partition], call.now, preferred=preferred)
                if wanted is not None or error is not ErrorCode.ELECTION_NOT_NEEDED:
                    rows.append(PartitionResult(partition_id=partition, error_code=error, error_message=text))
            response.replica_election_results.append(ReplicaElectionResult(topic=topic, partition_result=rows))
        return (*replies, Reply(call.ticket, response))

    def _election_error(self, topic: str, partition: int, *, preferred: bool) -> tuple[ErrorCode, str | None]:
        if topic != OFFSETS_TOPIC or partition not in self._placement:
            known = self._topics.named(topic)
            if known is None or not known.has(partition):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
            return ErrorCode.ELECTION_NOT_NEEDED, None
        place = self._placement[partition]
        first = place.replicas[0]
        if place.leader == first or (place.leader is not None and not preferred):
            return ErrorCode.ELECTION_NOT_NEEDED, None
        if not self._placement.nodes[first].alive:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None
        return ErrorCode.NONE, None

"""StreamsGroupHeartbeat (v0): a member joins, stays in or leaves a streams group (KIP-1071).

Kafka: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid, GroupMetadataManager.streamsGroupHeartbeat
and streamsGroupLeave."""

from collections.abc import Sequence
from typing import Final

from kgm.coordinator.classic.rebalance import delete_group
from kgm.coordinator.consumer import timers
from kgm.coordinator.consumer.regexes import METADATA_REFRESH_MS
from kgm.coordinator.contract.error_responses import Refusal
from kgm.coordinator.contract.outcome import TimerKind
from kgm.coordinator.contract.settings import BrokerSettings, streams_setting
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import MetadataRefresh
from kgm.coordinator.groups.consumer_member import AWAY, LEAVING
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import (
    NO_TARGET_TASKS,
    StreamsMember,
    TargetTasks,
    Tasks,
)
from kgm.coordinator.groups.streams_topology import ConfiguredTopology, StreamsTopology, TopologyProblem
from kgm.coordinator.streams import endpoints, fencing, records, target, topology
from kgm.coordinator.streams.reconciliation import UnknownTaskStateError, next_step, owns_only
from kgm.java.strings import is_blank
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kgm.protocol.messages.streams_group_heartbeat_request import TaskIds as OwnedTasks
from kgm.protocol.messages.streams_group_heartbeat_response import (
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from kgm.records.member_states import TaskState

_JOINING = 0
_NO_TIMEOUT = -1
_NOT_VALIDATED = -1
#: The number from which epochs are counted, even in a group whose first epoch is 0.
_FIRST_EPOCH = 1
_NEW_MEMBER = StreamsMember("", process_id="")

#: Default error messages, for refusals without their own.
_MESSAGES: Final = {
    ErrorCode.UNSUPPORTED_VERSION: "Streams groups are not enabled.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group already has the maximum number of members.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The member is not in the group.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member epoch is fenced: the member must give up its tasks and join again.",
}


class _RefusedError(Exception):
    """The request is refused, and nothing is written."""

    def __init__(self, error: ErrorCode, text: str | None = None) -> None:
        super().__init__(text)
        self.refusal = Refusal(error, text)


def handle_heartbeat(message: StreamsGroupHeartbeatRequest, installed: Group | None, event: EventDraft) -> None:
    """A StreamsGroupHeartbeat with any member epoch."""
    refusal = request_error(message, event.settings)
    if refusal.error is not ErrorCode.NONE:
        _refuse(refusal, event)
        return
    try:
        if message.member_epoch == LEAVING:
            _leave(message, installed, event)
        else:
            _Heartbeat(message, installed, event).handle()
    except _RefusedError as refused:
        _refuse(refused.refusal, event)


def _refuse(refusal: Refusal, event: EventDraft) -> None:
    error, text = refusal
    event.refuse(StreamsGroupHeartbeatResponse(error_code=error, error_message=text or _MESSAGES.get(error)))


def request_error(message: StreamsGroupHeartbeatRequest, settings: BrokerSettings) -> Refusal:
    """What is wrong with a request, regardless of the state of its group; the error is NONE if it is valid."""
    if not settings.has_streams_protocol:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION)
    reason = _unsupported(message) or _invalid(message)
    if reason:
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    for row in message.topology.subtopologies if message.topology is not None else ():
        sized = [topic.name for topic in row.state_changelog_topics if topic.partitions]
        if sized:
            why = f"Changelog topic {sized[0]} must not specify a number of partitions."
            return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, why)
    return Refusal(ErrorCode.NONE)


def _unsupported(message: StreamsGroupHeartbeatRequest) -> str:
    for name in ("instance_id", "task_offsets", "task_end_offsets"):
        if getattr(message, name) is not None:
            return f"{name} is not supported."
    if message.warmup_tasks:
        return "warmup_tasks are not supported."
    if message.topology is not None and any(row.source_topic_regex for row in message.topology.subtopologies):
        return "source_topic_regex is not supported."
    return ""


def _invalid(message: StreamsGroupHeartbeatRequest) -> str:
    for name in ("member_id", "group_id", "rack_id"):
        value = getattr(message, name)
        if value is not None and is_blank(value):
            return f"{name} is empty."
    tasks = message.active_tasks, message.standby_tasks, message.warmup_tasks
    if message.member_epoch == _JOINING:
        if message.rebalance_timeout_ms == _NO_TIMEOUT:
            return "rebalance_timeout_ms is missing in a request to join."
        if any(kind is None or kind for kind in tasks):
            return "active_tasks, standby_tasks and warmup_tasks must be empty in a request to join."
        if message.topology is None:
            return "topology is missing in a request to join."
    elif message.member_epoch == AWAY:
        return "instance_id is missing."
    elif message.member_epoch < AWAY:
        return "member_epoch is out of range."
    elif message.topology is not None:
        return "topology is only allowed in a request to join."
    if any(kind is None for kind in tasks) and any(kind is not None for kind in tasks):
        return "active_tasks, standby_tasks and warmup_tasks must be given together."
    return ""


def _leave(message: StreamsGroupHeartbeatRequest, installed: Group | None, event: EventDraft) -> None:
    group = _streams_group(message.group_id, installed)
    if message.shutdown_application:
        group.shutdown_by = group.shutdown_by or message.member_id
    member = group.members.get(message.member_id)
    if member is None:
        raise _RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
    fencing.fence(group, member, event)
    event.answer(StreamsGroupHeartbeatResponse(member_id=message.member_id, member_epoch=message.member_epoch))


def _streams_group(group_id: str, installed: Group | None) -> StreamsGroup:
    if isinstance(installed, StreamsGroup):
        return installed
    why = "not found" if installed is None else "is not a streams group"
    raise _RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")


class _Heartbeat:
    """A member joins or stays: the steps of one request. configs: the configs that assignments depend on. status: what
    the response reports about the group."""

    def __init__(self, message: StreamsGroupHeartbeatRequest, installed: Group | None, event: EventDraft) -> None:
        self.message, self.installed, self.event = message, installed, event
        self.status: list[TopologyProblem] = []
        self.group = self._find_group()
        self.config = event.configs.get(self.group.group_id)
        self.configs = target.configs_of(event.settings, self.config)

    def _find_group(self) -> StreamsGroup:
        """The member's group: the installed one, or a new one, which may replace a classic group."""
        group_id, installed = self.message.group_id, self.installed
        if self.message.member_epoch != _JOINING:
            return _streams_group(group_id, installed)
        if isinstance(installed, ClassicGroup) and installed.is_empty:
            delete_group(installed, self.event)
            installed = None
        behavior = self.event.settings.behavior
        group = StreamsGroup.new(group_id, behavior) if installed is None else _streams_group(group_id, installed)
        if len(group.members) >= self.event.settings.group_streams_max_size:
            raise _RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return group

    def handle(self) -> None:
        group, event = self.group, self.event
        before = self._find_member()
        after = self._updated(before)
        is_bumped = after != before
        if is_bumped:
            event.write(records.member_record(group.group_id, after))
        found = self._topology()
        if group.topology is not None and after.topology_epoch < group.topology.epoch:
            text = f"The member has topology epoch {after.topology_epoch}, and the group {group.topology.epoch}."
            self.status.append(TopologyProblem(topology.STALE_TOPOLOGY, text))
        configured, metadata_hash = self._configured(found)
        is_bumped |= metadata_hash != group.metadata_hash
        epoch = self._write_epoch(configured, metadata_hash, is_bumped=is_bumped)
        target_epoch, wanted = self._target(after, epoch, configured)
        after = self._reconcile(after, target_epoch, wanted)
        fencing.extend_session(group.group_id, after.member_id, event)
        if self.message.shutdown_application:
            group.shutdown_by = group.shutdown_by or after.member_id
        self._answer(before, after, configured)

    # -- the member

    def _find_member(self) -> StreamsMember:
        message = self.message
        member = self.group.members.get(message.member_id)
        if message.member_epoch == _JOINING:
            return member or _NEW_MEMBER._replace(member_id=message.member_id)
        if member is None:
            raise _RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_repeated = (
            message.member_epoch == member.previous_member_epoch
            and message.member_epoch < member.member_epoch
            and owns_only(member.assigned, self._reported())
        )
        if message.member_epoch != member.member_epoch and not is_repeated:
            raise _RefusedError(ErrorCode.FENCED_MEMBER_EPOCH)
        return member

    def _reported(self) -> list[list[tuple[str, list[int]]] | None]:
        """The tasks that the member reports as owned, by kind."""
        kinds: tuple[Sequence[OwnedTasks] | None, ...] = (
            self.message.active_tasks,
            self.message.standby_tasks,
            self.message.warmup_tasks,
        )
        return [None if rows is None else [(row.subtopology_id, row.partitions) for row in rows] for rows in kinds]

    def _updated(self, member: StreamsMember) -> StreamsMember:
        """The member with the metadata from the request; whatever the request omits stays unchanged."""
        message, request = self.message, self.event.request
        assert request is not None
        changed: dict[str, object] = {"client_id": request.client_id or "", "client_host": request.client_host}
        if message.rack_id is not None:
            changed["rack_id"] = message.rack_id
        if message.rebalance_timeout_ms != _NO_TIMEOUT:
            changed["rebalance_timeout_ms"] = message.rebalance_timeout_ms
        if message.topology is not None:
            changed["topology_epoch"] = message.topology.epoch
        if message.process_id is not None:
            changed["process_id"] = message.process_id
        if message.user_endpoint is not None:
            changed["endpoint"] = message.user_endpoint.host, message.user_endpoint.port
        if message.client_tags is not None:
            tags = {row.key: row.value for row in message.client_tags}
            if len(tags) < len(message.client_tags):
                raise _RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR)
            changed["tags"] = records.sorted_tags(tags)
        return member._replace(**changed)  # type: ignore[arg-type]

    # -- the topology

    def _topology(self) -> StreamsTopology:
        """The group's topology; if it has none, the one from the request, which is then written."""
        sent, known = self.message.topology, self.group.topology
        if sent is None:
            if known is None:
                raise _RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return known
        try:
            topology.check(sent)
        except topology.TopologyError as error:
            raise _RefusedError(error.error, error.text) from None
        value = topology.as_record(sent)
        found = StreamsTopology(value)
        if known is None:
            self.event.write(records.topology_record(self.group.group_id, value))
            return found
        if known.epoch <= found.epoch and known != found:
            raise _RefusedError(ErrorCode.INVALID_REQUEST, "The topology of a group cannot be changed yet.")
        return known

    def _configured(self, found: StreamsTopology) -> tuple[ConfiguredTopology, int]:
        """The topology as configured for the topics that exist, and the metadata hash of its topics."""
        group, event = self.group, self.event
        known, metadata_hash = group.configured, group.metadata_hash
        if known is not None and group.topology is not None and not group.metadata_expired(event.now):
            return known, metadata_hash
        metadata_hash = event.image.hash_of(found.topics)
        if known is not None and group.topology is not None and metadata_hash == group.metadata_hash:
            return known, metadata_hash
        try:
            configured = topology.configure(found, event.image)
        except topology.TopologyError as error:
            raise _RefusedError(error.error, error.text) from None
        if group is self.installed:
            event.topologies[group.group_id] = configured
        return configured, metadata_hash

    def _write_epoch(self, configured: ConfiguredTopology, metadata_hash: int, *, is_bumped: bool) -> int:
        """The group epoch, after writing the next one if something that assignments depend on has changed."""
        group, event = self.group, self.event
        validated = _NOT_VALIDATED
        if configured.problem is None:
            validated = configured.epoch
            self._check_tasks(configured)
        if not is_bumped and validated == group.validated_epoch and self.configs == group.configs:
            return group.group_epoch
        epoch = max(group.group_epoch, _FIRST_EPOCH) + 1
        event.write(records.epoch_record(group.group_id, epoch, metadata_hash, validated, self.configs))
        group.refresh = MetadataRefresh(event.now + METADATA_REFRESH_MS, epoch)
        return epoch

    def _check_tasks(self, configured: ConfiguredTopology) -> None:
        """Refuse a member that reports nonexistent tasks."""
        known = configured.subtopologies or {}
        for rows in self._reported():
            for name, partitions in rows or ():
                if name not in known:
                    raise _RefusedError(ErrorCode.INVALID_REQUEST, f"There is no subtopology {name}.")
                if any(not 0 <= partition < known[name].tasks for partition in partitions):
                    why = f"Subtopology {name} has {known[name].tasks} tasks."
                    raise _RefusedError(ErrorCode.INVALID_REQUEST, why)

    # -- the assignment

    def _target(self, member: StreamsMember, epoch: int, configured: ConfiguredTopology) -> tuple[int, TargetTasks]:
        """The assignment epoch and the member's target, newly computed if due."""
        group, event = self.group, self.event
        delay = fencing.initial_delay_key(group.group_id)
        delay_ms = streams_setting("initial_rebalance_delay_ms", event.settings, self.config)
        if group.is_empty and delay_ms > 0 and not event.is_timer_set(delay):
            event.set_timer(delay, delay_ms)
        if event.is_timer_set(delay):
            self._delayed("More members may join a new group.")
            return max(group.assignment_epoch, _FIRST_EPOCH), NO_TARGET_TASKS
        if group.assignment_epoch < epoch:
            if target.is_due(group, event):
                targets = target.write(group, epoch, member, configured, self.configs, event)
                return epoch, targets[member.member_id]
            self._delayed("The last assignment was made a moment ago.")
        return group.assignment_epoch, group.target_of(member.member_id)

    def _delayed(self, why: str) -> None:
        self.status.append(TopologyProblem(topology.ASSIGNMENT_DELAYED, why))

    def _reconcile(self, member: StreamsMember, target_epoch: int, wanted: TargetTasks) -> StreamsMember:
        """Take the next step of the member's reconciliation. If it must revoke tasks, it must do so within its
        rebalance timeout."""
        if member.is_reconciled_to(target_epoch):
            return member
        group, event = self.group, self.event
        try:
            after = next_step(group, member, target_epoch, wanted, self._owned())
        except UnknownTaskStateError:
            raise _RefusedError(ErrorCode.FENCED_MEMBER_EPOCH) from None
        if after != member:
            event.write(records.current_record(group.group_id, after))
            if after.state is TaskState.UNREVOKED_TASKS:
                timers.start_rebalance(group.group_id, after, event)
            else:
                timers.cancel_rebalance(group.group_id, after.member_id, event)
        return after

    def _owned(self) -> TargetTasks | None:
        kinds = []
        for rows in self._reported():
            if rows is None:
                return None
            kinds.append({name: frozenset(partitions) for name, partitions in rows})
            if len(kinds[-1]) < len(rows):
                raise _RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return TargetTasks(*kinds)

    # -- the answer

    def _answer(self, before: StreamsMember, after: StreamsMember, configured: ConfiguredTopology) -> None:
        group, event, message = self.group, self.event, self.message
        response = StreamsGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=streams_setting("heartbeat_interval_ms", event.settings, self.config),
        )
        if message.member_epoch == _JOINING or before.assigned != after.assigned:
            response.active_tasks = _rows(after.assigned.active)
            response.standby_tasks = _rows(after.assigned.standby)
            response.warmup_tasks = _rows(after.assigned.warmup)
            group.endpoint_epoch += after.endpoint is not None
        if group.endpoint_epoch != message.endpoint_information_epoch:
            rows = endpoints.partitions_by_endpoint(group, after, configured, event.image)
            if rows is None:
                self._fail(is_next_epoch=before.member_epoch != after.member_epoch)
                return
            response.partitions_by_user_endpoint = rows
        if self.installed is not None:
            response.endpoint_information_epoch = group.endpoint_epoch
        if configured.problem is not None:
            event.new_topics = configured.missing
            self.status.append(configured.problem)
        if group.shutdown_by is not None:
            text = f"Member {group.shutdown_by} asked to shut down the application."
            self.status.append(TopologyProblem(topology.SHUTDOWN_APPLICATION, text))
        response.status = [Status(status_code=code, status_detail=text) for code, text in self.status]
        event.answer(response)

    def _fail(self, *, is_next_epoch: bool) -> None:
        """As in Kafka, a member with an endpoint cannot stay in a group whose topics do not fit: nothing is written,
        but its timers are set. A timer for tasks to revoke in the next epoch has no effect in Kafka, because the member
        never reaches that epoch."""
        event = self.event
        timers = {key: at for key, at in event.timers.items() if key.member_id in self.group.members}
        if is_next_epoch:
            timers |= {key: None for key in timers if key.kind is TimerKind.REBALANCE}
        event.refuse(StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        event.timers.update(timers)


def _rows(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in records.listed(tasks)]

"""A plan for a streams group (KIP-1071), played once: scripted members, and kgm's own coordinator.

A member that is closed leaves immediately; one that is killed is a member until its session ends. A process that starts
again has new members. A member has given up what it has to a moment after it learns of it, and reports it immediately,
as it does when it has started new tasks. Source: StreamsGroupHeartbeatRequestManager and StreamsMembershipManager of
Kafka 4.3."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kgm.coordinator.contract.outcome import Millis, Request, Ticket
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.consumer_member import LEAVING
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.runtime import Runtime
from kgm.coordinator.streams.topology import ASSIGNMENT_DELAYED
from kgm.frameworks.streams import task_key
from kgm.model.errors import ErrorCode
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, TaskIds
from kgm.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kgm.protocol.messages.streams_group_heartbeat_response import TaskIds as ToldTasks
from kgm.simulation.framework_play import Pace, RunningTasks
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.draw import Draw, stable_with
from kgm.simulation.streams.coordinated_group import image_of, records_of, topology_of
from kgm.simulation.streams.group import StreamsFleet, StreamsThread, partition_of, subtopology
from kgm.simulation.streams.processes import ProcessesPlay
from kgm.text.wording import many

#: Spans in ms: how long a member takes to close tasks, as it was told, and to report the tasks that it has then; how
#: much longer until others run: half of them ran within 220 ms, and few took more than 500 ms.
_CHANGE_MS: Final = (5, 150)
_RUN_MS: Final = (20, 900)
#: The share of the tasks that run at once although another assignment is to come.
_RUNS_SHARE: Final = 0.3
#: The coordinator's clock when a plan begins.
_CLOCK_MS: Final = 1_000_000_000
_JOINING: Final = 0
#: In ms: how far apart the heartbeats of the threads of a process are, and those of processes that send them together.
_THREADS_APART_MS: Final = 200
_PROCESSES_APART_MS: Final = 600
#: The share of the plays in which all processes send their heartbeats together.
_SHARE_TOGETHER: Final = 0.5
#: The play is not followed beyond this many requests.
_MOST_REQUESTS: Final = 50_000


@dataclass(slots=True, kw_only=True)
class _Member:
    """A thread. active, standby: the tasks that it has. beats: the number of its next heartbeat; earlier ones no longer
    count. due_ms: when that is sent. is_delayed: whether the coordinator has said last that another assignment will
    come; waiting: tasks that do not run because of that. is_dead: its process has stopped."""

    member_id: str
    identity: str
    process_id: str
    rebalance_ms: int
    epoch: int
    active: set[str] = field(default_factory=set)
    standby: set[str] = field(default_factory=set)
    beats: int = 0
    due_ms: float = 0
    is_delayed: bool = False
    waiting: set[str] = field(default_factory=set)
    is_dead: bool = False


class CoordinatedPlay(ProcessesPlay[str]):
    """Plays once; `play` returns the outcome."""

    def __init__(
        self,
        snapshot: GroupSnapshot,
        group: StreamsFleet,
        plan: Plan,
        settings: BrokerSettings,
        chance: random.Random,
        *,
        keeps_disk: bool,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(plan, chance, pace)
        self.have_processes(group, {one.process: one.process for one in group.threads}, keeps_disk=keeps_disk)
        self._group_id, self._topology = snapshot.group_id, topology_of(group)
        self._interval_ms = settings.group_streams_heartbeat_interval_ms
        engine = Coordinator(settings=settings, new_member_id=str, image=image_of(group))
        self._runtime = Runtime(engine)
        self._runtime.load([*records_of(snapshot, group, settings, _CLOCK_MS)], now=Millis(_CLOCK_MS))
        loaded = self._streams_group()
        assert loaded is not None, "it has members"
        #: The epoch of the group as it was last seen, and the one from which it counts; how many there were before it
        #: was deleted.
        self._epoch = self._first_epoch = loaded.group_epoch
        self._epochs_before, self._is_new_group = 0, False
        self._assigned_epoch = loaded.assignment_epoch
        self._rebalances, self._pending, self._refused, self._was_empty = 0, 0, 0, False
        self._members: dict[str, _Member] = {}
        for one in group.threads:
            self._members[one.member_id] = _Member(
                member_id=one.member_id,
                identity=one.identity,
                process_id=one.process,
                rebalance_ms=one.rebalance_ms,
                epoch=self._assigned_epoch,
                active={*one.active},
                standby={*one.standby},
            )
        self._begin_beats()
        before = {task: one.identity for one in group.threads for task in one.active}
        self.tasks = RunningTasks(before, place=partition_of, order=task_key)

    def _streams_group(self) -> StreamsGroup | None:
        """The group; None if the broker has deleted it because it was empty, and its committed offsets too old."""
        return self._runtime.engine.streams_group(self._group_id)

    def play(self) -> Draw:
        """Plays the plan and returns its outcome."""
        self.play_plan()
        return self._result()

    # -- time

    def later(self, after_ms: float, event: Callable[[], None]) -> None:
        self._pending += 1
        super().later(after_ms, partial(self._happens, event))

    def _happens(self, event: Callable[[], None]) -> None:
        self._pending -= 1
        event()

    def _beat_in(self, member: _Member, after_ms: float) -> None:
        """Schedules its next heartbeat, which nothing waits for."""
        member.beats += 1
        member.due_ms = self.now_ms + after_ms
        super().later(after_ms, partial(self._beat, member, member.beats))

    def _begin_beats(self) -> None:
        """Threads of one process have joined together, so they send their heartbeats together; so do processes that
        have started together, or were assigned tasks after the same heartbeat."""
        together_ms = self._interval_ms * self.chance.random()
        are_together = self.chance.random() < _SHARE_TOGETHER
        of_process: dict[str, float] = {}
        for member in self._members.values():
            apart_ms = _PROCESSES_APART_MS if are_together else self._interval_ms
            of_process.setdefault(member.process_id, together_ms + apart_ms * self.chance.random())
            after_ms = of_process[member.process_id] + _THREADS_APART_MS * self.chance.random()
            self._beat_in(member, after_ms % self._interval_ms)

    def _shift_beats(self) -> None:
        """An operator acts without regard to heartbeats: the next ones may be due at any time within their interval."""
        shift_ms = self._interval_ms * self.chance.random()
        for member in self._members.values():
            after_ms = (member.due_ms - self.now_ms + shift_ms) % self._interval_ms
            if self.pace is not None:
                after_ms = self._interval_ms * self.pace.notices + _THREADS_APART_MS * self.chance.random()
            self._beat_in(member, after_ms)

    def _until_settled(self) -> None:
        while self.events and not self._is_settled() and self.requests < _MOST_REQUESTS:
            at_ms = self.events[0][0]
            deadline = self._runtime.next_deadline()
            if deadline is not None and deadline - _CLOCK_MS <= at_ms:
                self.now_ms = max(self.now_ms, deadline - _CLOCK_MS)
                self._runtime.advance(deadline)
                self._watch()
                continue
            self.next_event()

    def _is_settled(self) -> bool:
        """Whether all members have what the coordinator has for them, and nothing else is pending."""
        group = self._streams_group()
        if self._pending or (group is not None and group.state not in ("Stable", "Empty")):
            return False
        alive = {member_id: member for member_id, member in self._members.items() if not member.is_dead}
        if group is None:
            return not alive
        return alive.keys() == group.members.keys() and all(
            member.epoch == group.assignment_epoch and not member.waiting for member in alive.values()
        )

    # -- members

    def _stop_all(self, names: Iterable[str], *, returns: bool) -> None:
        self._shift_beats()
        super()._stop_all(names, returns=returns)

    def _stop(self, identity: str) -> None:
        (member,) = [one for one in self._members.values() if one.identity == identity and not one.is_dead]
        member.is_dead = True
        self.tasks.stop(member.active, self.now_ms)
        if self.plan.stop is not Stop.CRASH:
            self.note("stop", "is closed: it leaves the group", identity)
            del self._members[member.member_id]
            self._ask(member, LEAVING)
        else:
            self.note("stop", "is killed: it stays a member until its session ends", identity)

    def _new_process(self, old: str | None) -> str:  # noqa: ARG002  (it has nothing but its id)
        return self._new_id()

    def _join(self, identity: str, process: str, like: StreamsThread) -> None:
        member = _Member(
            member_id=self._new_id(),
            identity=identity,
            process_id=process,
            rebalance_ms=like.rebalance_ms,
            epoch=_JOINING,
        )
        self._members[member.member_id] = member
        self._beat_in(member, 0)
        self._beat(member, member.beats)

    def _beat(self, member: _Member, number: int) -> None:
        if member.is_dead or member.beats != number:
            return
        reply = self._ask(member, member.epoch)
        if reply.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:  # which the client takes for fatal
            self.note("refused", "the heartbeat to join is refused with GROUP_MAX_SIZE_REACHED", member.identity)
            self._refused += 1
            member.is_dead = True
            del self._members[member.member_id]
            return
        self._beat_in(member, self._interval_ms)
        member.is_delayed = any(one.status_code == ASSIGNMENT_DELAYED for one in reply.status or ())
        if member.waiting and not member.is_delayed:
            self._run_later(member, member.waiting)
            member.waiting = set()
        if reply.error_code or reply.active_tasks is None:
            member.epoch = reply.member_epoch if not reply.error_code else member.epoch
            return
        member.epoch = reply.member_epoch
        active, standby = _names(reply.active_tasks), _names(reply.standby_tasks or ())
        if (active, standby) != (member.active, member.standby):
            self.later(self.some(_CHANGE_MS), partial(self._change, member, active, standby))

    def _change(self, member: _Member, active: set[str], standby: set[str]) -> None:
        """The member has given up what it had to, starts what it was assigned, and reports it."""
        if member.is_dead:
            return
        self.tasks.stop(member.active - active, self.now_ms)
        member.waiting &= active
        self._run_later(member, active - member.active)
        member.active, member.standby = active, standby
        self._beat(member, member.beats)

    def _run(self, member: _Member, tasks: set[str]) -> None:
        """What the member still has of these tasks runs now, or with the next answer if another assignment is to come:
        so it was seen of Kafka Streams 4.3 in most cases."""
        tasks &= member.active
        if member.is_dead or not tasks:
            return
        if member.is_delayed and self.share() > _RUNS_SHARE:
            member.waiting |= tasks
            return
        self.tasks.start(tasks, member.identity, self.now_ms)
        self.has_work(member.identity)

    def _run_later(self, member: _Member, tasks: set[str]) -> None:
        least, most = _RUN_MS
        self.later(least + (most - least) * self.share() ** 2, partial(self._run, member, tasks))

    def _ask(self, member: _Member, epoch: int) -> StreamsGroupHeartbeatResponse:
        """Sends a heartbeat with this epoch, and returns the answer."""
        self.requests += 1
        is_joining = epoch == _JOINING
        message = StreamsGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=member.rebalance_ms if is_joining else -1,
            topology=self._topology if is_joining else None,
            process_id=member.process_id if is_joining else None,
            active_tasks=_rows(member.active),
            standby_tasks=_rows(member.standby),
            warmup_tasks=[],
        )
        request = Request(message=message, version=0)
        now = Millis(_CLOCK_MS + self.now_ms)
        (reply,) = self._runtime.handle(request, ticket=Ticket(self.requests), now=now)
        self._watch()
        assert isinstance(reply.message, StreamsGroupHeartbeatResponse)
        return reply.message

    def _watch(self) -> None:
        """Notes changes in the group."""
        group = self._streams_group()
        left = group.members if group is not None else {}
        for member in [one for one in self._members.values() if one.is_dead and one.member_id not in left]:
            self.note("expired", "is no longer a member", member.identity)
            del self._members[member.member_id]
        if group is None:
            self._note_deleted()
            return
        self._epoch = group.group_epoch
        self._was_empty |= group.is_empty
        if group.assignment_epoch != self._assigned_epoch:
            self._assigned_epoch = group.assignment_epoch
            self._rebalances += 1
            self.note("assigned", f"the coordinator assigns tasks to {many(len(group.members), 'thread')}")

    def _note_deleted(self) -> None:
        """The broker has deleted the group: members that come back form another one, which counts from the start."""
        self._was_empty = self._is_new_group = True
        self._epochs_before += self._epoch - self._first_epoch
        self._epoch = self._first_epoch = self._assigned_epoch = self._runtime.engine.settings.behavior.first_epoch

    # -- the end

    def _result(self) -> Draw:
        group = self._streams_group()
        is_settled = self._is_settled()
        count = len(group.members) if group is not None else 0
        self.note("stable" if count else "empty", stable_with(count))
        draw = self.came_of_it(
            {one.identity: one.active for one in self._members.values()},
            generations=self._epochs_before + self._epoch - self._first_epoch,
            rebalances=self._rebalances,
            is_stable=is_settled,
            was_empty=self._was_empty,
        )
        epoch = self._epoch if self._is_new_group and group is not None else None
        return replace(draw, refused_joins=self._refused, epoch_in_new_group=epoch)


def _names(rows: Sequence[ToldTasks]) -> set[str]:
    return {f"{row.subtopology_id}_{partition}" for row in rows for partition in row.partitions}


def _rows(tasks: set[str]) -> list[TaskIds]:
    rows: dict[str, list[int]] = {}
    for task in sorted(tasks, key=task_key):
        rows.setdefault(subtopology(task), []).append(partition_of(task)[1])
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in rows.items()]

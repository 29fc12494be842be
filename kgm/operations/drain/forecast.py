"""What a drain does to each group that loses members: simulated, ranked, and checked against gates."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgm.frameworks.task_copies import freed_tasks
from kgm.model.assignment import count
from kgm.model.errors import ConditionNotMet, KgmError, NotFoundError, RefusedError, TimedOutError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.drain.fleet import DrainedFleet
from kgm.operations.drain.target import DrainTarget
from kgm.simulation.bounce import DRAWS as GATED_DRAWS
from kgm.simulation.connect.group import work_of
from kgm.simulation.draws.executor import HERE, DrawExecutor
from kgm.simulation.plan.bounce_plan import Plan, Stop, WhatIf
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.shape import MOST_MEMBERS, PlayedShapes
from kgm.simulation.simulation import SEED
from kgm.simulation.streams.coordinated_group import is_streams_group
from kgm.simulation.streams.group import is_streams
from kgm.text.names import in_order

#: A drain affects many groups, so each gets fewer draws than a single group would. That is not enough to say that a
#: limit holds: a rare outcome may be missing.
DRAWS = 20
_HOSTS_SHOWN = 10
#: This many groups are sent to a worker process at a time.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Members that stop at the same time. restart_time_ms: from their stop to their next start; None: they stay away.
    what_if, settings: for each group and its broker."""

    target: DrainTarget
    restart_time_ms: int | None = None
    stop: Stop = Stop.CLEAN
    what_if: WhatIf = field(default_factory=WhatIf)
    settings: Mapping[str, str] = field(default_factory=dict)

    def request_for(self, snapshot: GroupSnapshot) -> BounceRequest:
        """The request for one group: the members that are taken away restart together, or stop for good."""
        taken = self.target.taken_from(snapshot.members)
        if self.restart_time_ms is None:
            return BounceRequest(scale_in=taken, stop=self.stop, what_if=self.what_if, settings=self.settings)
        by_id = {member.identity: member for member in snapshot.members}
        return BounceRequest(
            instance_ids=tuple(name for name in taken if by_id[name].group_instance_id is not None),
            member_ids=tuple(name for name in taken if by_id[name].group_instance_id is None),
            restart_time_ms=self.restart_time_ms,
            stop=self.stop,
            what_if=self.what_if,
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedGroup:
    """One group, and what the drain does to it. taken: the members that are taken away."""

    group: GroupSnapshot
    plan: Plan
    taken: tuple[str, ...]
    prediction: Prediction

    @property
    def members_left(self) -> int:
        """How many members are left while the others are away."""
        return len(self.group.members) - len(self.taken)

    @property
    def is_emptied(self) -> bool:
        """Whether no member is left while the others are away."""
        return not self.members_left

    @property
    def is_thin(self) -> bool:
        """Whether some members are left, but at most half as many as could own partitions before."""
        partitions = sum(topic.partitions for topic in self.group.topics)
        before, left = (min(members, partitions) for members in (len(self.group.members), self.members_left))
        return 0 < left <= before / 2

    @property
    def partitions_taken(self) -> int:
        """How many partitions the members that are taken away own; for Connect workers, how many tasks they run."""
        taken = set(self.taken)
        return sum(_share(member) for member in self.group.members if member.identity in taken)

    @property
    def tasks_without_copy(self) -> tuple[str, ...]:
        """Tasks of a Kafka Streams application that are reassigned, and of which no process that stays has a copy."""
        if not (is_streams(self.group) or is_streams_group(self.group)) or not self.prediction.typical.rebalances:
            return ()
        return freed_tasks(self.group, self.taken).alone

    @property
    def most_partitions_before(self) -> int:
        """The most partitions (for Connect, tasks) that one member has before the drain."""
        return max(map(_share, self.group.members), default=0)

    @property
    def most_partitions_after(self) -> int:
        return max(map(count, self.prediction.typical.final_assignment.values()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpredictedGroup:
    """A group that could not be predicted, and why. taken: the members that are taken away from it; None if it is not
    known whether there are any, because the group cannot be described."""

    group_id: str
    taken: tuple[str, ...] | None
    reason: KgmError


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainForecast:
    """groups: the most expensive first. unpredicted: groups that lose members but cannot be simulated, and groups that
    cannot be described. errors: what could not be read or does not exist; with gates, also what they
    need and could not be read. examined: how many groups were described."""

    drain: Drain
    groups: tuple[DrainedGroup, ...]
    unpredicted: tuple[UnpredictedGroup, ...] = ()
    errors: tuple[KgmError, ...] = ()
    examined: int = 0
    failed_gates: tuple[ConditionNotMet, ...] = ()

    @property
    def members_taken(self) -> int:
        """How many members are taken away, from all groups that could be described."""
        predicted = sum(len(one.taken) for one in self.groups)
        return predicted + sum(len(one.taken or ()) for one in self.unpredicted)


def forecast(
    fleet: DrainedFleet, drain: Drain, *, gates: Gates | None = None, draws: int | None = None, seed: int = SEED,
    keeps_holdings: bool = False, timeout_ms: int | None = None,
    on_group: Callable[[int, int], None] = lambda _done, _of: None,
    on_result: Callable[[DrainedGroup | UnpredictedGroup], None] = lambda _result: None,
    executor: DrawExecutor = HERE,
) -> DrainForecast:  # fmt: skip
    """Simulate the drain of each affected group. The same seed gives the same forecast.

    draws: None: `DRAWS`, and with gates as many as for a single group before one is said to hold. timeout_ms: after
    this time, the remaining groups are not predicted. on_group: called with the number of groups done and the total.
    on_result: called with the result for each group as soon as it is known. executor: plays small groups, and the draws
    of large ones. Raises NotFoundError if no group has members to take away, although every group could be
    described."""
    unmatched, gates = _unmatched(fleet, drain.target), gates or Gates()
    ends_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    how = _Forecaster(drain=drain, gates=gates, draws=draws, seed=seed, keeps_holdings=keeps_holdings, ends_s=ends_s)
    groups: list[DrainedGroup] = []
    unpredicted: list[UnpredictedGroup] = []
    #: Why gates that hold prove nothing.
    unproven: list[KgmError] = [] if fleet.unseen is None else [fleet.unseen]

    def add(result: DrainedGroup | UnpredictedGroup) -> None:
        if isinstance(result, DrainedGroup):
            groups.append(result)
        else:
            unpredicted.append(result)
        on_result(result)

    affected = _without_predicted_sinks(fleet.affected, drain.target)
    on_group(0, len(affected))
    for number, (group, found) in enumerate(_found(affected, how, executor)):
        taken = drain.target.taken_from(group.snapshot.members)
        if isinstance(found, KgmError):
            add(UnpredictedGroup(group_id=group.snapshot.group_id, taken=taken, reason=found))
        else:
            plan, prediction = found
            unread = group.unread(prediction)
            unproven += [] if unread is None else [unread]
            add(DrainedGroup(group=group.snapshot, plan=plan, taken=taken, prediction=prediction))
        on_group(number + 1, len(affected))
    told = {sink.group_id for one in groups for sink in one.prediction.sinks}
    told |= {group.snapshot.group_id for group in affected}
    for snapshot in (group.snapshot for group in fleet.affected if group.snapshot.group_id not in told):
        taken = drain.target.taken_from(snapshot.members)
        reason = RefusedError("its members are tasks of Connect workers that could not be predicted")
        add(UnpredictedGroup(group_id=snapshot.group_id, taken=taken, reason=reason))
    for group_id, error in fleet.unread.items():
        add(UnpredictedGroup(group_id=group_id, taken=None, reason=error))
    return DrainForecast(
        drain=drain,
        groups=tuple(sorted(groups, key=_cost)),
        unpredicted=tuple(unpredicted),
        errors=(*fleet.unread.values(), *fleet.errors, *unmatched, *(unproven if gates.are_set else ())),
        examined=len(fleet.described),
        failed_gates=_failures(gates, groups, unpredicted),
    )


def _without_predicted_sinks(groups: Sequence[BounceGroup], target: DrainTarget) -> list[BounceGroup]:
    """The groups, except those of sink connectors that lose only tasks of Connect workers that are taken away too:
    these are predicted together with the workers, because their tasks start elsewhere."""
    going: dict[str, set[str]] = {}
    for group in groups:
        if not group.sinks:
            continue  # tasks of Kafka Streams have other names
        workers = group.snapshot.members
        taken = target.taken_from(workers)
        work = {one for member in workers if member.identity in taken for one in work_of(member)}
        for sink in group.sinks:
            names = {name for one, name in sink.consumers.items() if one in work}
            going.setdefault(sink.snapshot.group_id, set()).update(names)
    return [
        group for group in groups
        if group.snapshot.group_id not in going
        or not going[group.snapshot.group_id].issuperset(target.taken_from(group.snapshot.members))
    ]  # fmt: skip


#: A group's plan and prediction, or why it could not be predicted.
_Found = tuple[Plan, Prediction] | KgmError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forecaster:
    """Plays groups, several at a time. ends_s: when the time is up, by `time.monotonic` in this process."""

    drain: Drain
    gates: Gates
    draws: int | None
    seed: int
    keeps_holdings: bool
    ends_s: float | None
    shapes: PlayedShapes = field(default_factory=PlayedShapes)

    def play_task(self, task: Sequence[BounceGroup]) -> list[_Found]:
        return [self.found(group, HERE) for group in task]

    def in_process(self, parent_pid: int) -> _Forecaster:  # noqa: ARG002  (it plays only small groups)
        return replace(self, ends_s=None)

    def found(self, group: BounceGroup, executor: DrawExecutor) -> _Found:
        try:
            plan, prediction = self._predicted(group, executor, DRAWS if self.draws is None else self.draws)
            depends = self.draws is None and self.gates.depend_on_chance(prediction)
            if depends and not self.gates.failures(prediction):
                plan, prediction = self._predicted(group, executor, GATED_DRAWS)
        except KgmError as error:
            return error
        return plan, prediction

    def _predicted(self, group: BounceGroup, executor: DrawExecutor, draws: int) -> tuple[Plan, Prediction]:
        """Raises KgmError."""
        left_ms = None if self.ends_s is None else round((self.ends_s - time.monotonic()) * 1000)
        if left_ms is not None and left_ms <= 0:
            raise out_of_time()
        predicted = predict_bounce(
            group, self.drain.request_for(group.snapshot), draws=draws, seed=self.seed,
            keeps_holdings=self.keeps_holdings, timeout_ms=left_ms, executor=executor, shapes=self.shapes,
        )  # fmt: skip
        return predicted.plan, predicted.predictions[0]

    def is_out_of_time(self) -> bool:
        return self.ends_s is not None and time.monotonic() >= self.ends_s


def _failures(
    gates: Gates, groups: Sequence[DrainedGroup], unpredicted: Sequence[UnpredictedGroup]
) -> tuple[ConditionNotMet, ...]:
    """What exceeds the limits, which are for each group. A group that cannot be simulated exceeds every limit; one that
    cannot be described exceeds none: it is among the errors."""
    if not gates.are_set:
        return ()
    failures = [
        ConditionNotMet(f"group {group_id}: {failure.message}", group_id=group_id)
        if failure.group_id is None else failure
        for group_id, prediction in ((one.group.group_id, one.prediction) for one in groups)
        for failure in gates.failures(prediction)
    ]  # fmt: skip
    told = {failure.group_id for failure in failures}  # can include a sink group, reported with its workers
    failures += [
        ConditionNotMet(f"group {one.group_id} is not predicted: {one.reason.message}", group_id=one.group_id)
        for one in unpredicted if one.taken is not None and one.group_id not in told
    ]  # fmt: skip
    return tuple(failures)


def out_of_time() -> TimedOutError:
    return TimedOutError("the time limit has passed before the group was simulated", hint="allow more with --timeout")


def _found(
    groups: Sequence[BounceGroup], how: _Forecaster, executor: DrawExecutor
) -> Iterator[tuple[BounceGroup, _Found]]:
    """Play small groups on one core each, then each large group on all cores."""
    small = [group for group in groups if len(group.snapshot.members) <= MOST_MEMBERS]
    tasks = [small[first : first + _AT_ONCE] for first in range(0, len(small), _AT_ONCE)]
    done = 0
    with contextlib.suppress(TimedOutError):
        for found in executor.play(how, tasks, how.is_out_of_time):
            yield from zip(small[done:], found, strict=False)
            done += len(found)
    yield from ((group, out_of_time()) for group in small[done:])
    for group in groups:
        if len(group.snapshot.members) > MOST_MEMBERS:
            yield group, how.found(group, executor)


def _share(member: MemberSnapshot) -> int:
    work = member.work
    is_worker = work is not None and work.connectors is not None
    return len(work.active_tasks or ()) if work is not None and is_worker else count(member.assignment)


def _cost(one: DrainedGroup) -> tuple[object, ...]:
    """A sort key that puts the most expensive group first: by partitions that are left without an owner, tasks without
    another copy, the time that partitions are stopped, and handovers."""
    typical = one.prediction.typical
    return (
        -one.prediction.unowned_partitions,
        -len(one.tasks_without_copy),
        -typical.stopped_partition_ms,
        -typical.handovers,
        one.group.group_id,
    )


def _unmatched(fleet: DrainedFleet, target: DrainTarget) -> list[NotFoundError]:
    """An error for each value that no member matches, if all groups are known. Raises NotFoundError if nothing is
    affected at all."""
    if fleet.unread or fleet.errors:
        return []
    members = [member for group in fleet.described for member in group.members]
    errors = [NotFoundError(f"no member of any group matches {text}") for text in target.unmatched(members)]
    if fleet.affected:
        return errors
    hosts = in_order({member.client_host.removeprefix("/") for member in members if member.client_host})
    shown = ", ".join(hosts[:_HOSTS_SHOWN]) + (", ..." if len(hosts) > _HOSTS_SHOWN else "")
    what = " and ".join(error.message.rpartition("matches ")[2] for error in errors)
    raise NotFoundError(
        f"no group has a member that matches {what or 'all of this'}",
        facts=[f"groups examined: {len(fleet.described)}", f"hosts of members: {shown or 'none'}"],
        hint="kgm describe --all-groups --verbose",
    )

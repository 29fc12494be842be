"""How far a rollout has come: at its start, or as its journal shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kgm.model.errors import ConditionNotMet, KgmError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.operations.rollout.commands.processes import process_mark
from kgm.operations.rollout.expectation import StepCounts, StepExpectation, excess, unknown_because
from kgm.operations.rollout.journal import JournalKind, JournalLine, PlanMark
from kgm.operations.rollout.missed import Acknowledgement
from kgm.operations.rollout.spec import RolloutSpec, RolloutStep
from kgm.text.wording import many

#: The kinds of lines that must be about the next step.
_OF_A_STEP: Final = (
    JournalKind.STEP_BEGIN, JournalKind.COMMAND_BEGIN, JournalKind.COMMAND_STARTED, JournalKind.COMMAND_END,
    JournalKind.REMOVAL_BEGIN, JournalKind.REMOVAL_END, JournalKind.ACKNOWLEDGED, JournalKind.STEP_END,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class BegunCommand:
    """A command in the journal. member_ids: the processes that it was run for, by the identities of its members; it
    says nothing about others that have joined since. processes: its own process, once it was started, and those that
    may still run after it exceeded its time limit; by id, with their marks. has_ended: whether its end is in the
    journal, and nothing of it may still run; is_success: whether it succeeded."""

    member_ids: Mapping[str, str]
    processes: dict[int, str | None] = field(default_factory=dict)
    has_ended: bool = False
    is_success: bool = False

    @property
    def is_running(self) -> bool:
        """Whether any of its processes still runs."""
        return any(mark is not None and process_mark(pid) == mark for pid, mark in self.processes.items())


@dataclass(slots=True, kw_only=True)
class OpenStep:
    """A step that has begun but is not over. stops: the commands that stop members which are then removed and started
    again, by identity; commands: all other commands, by identity. acknowledged: None if the operator has not resumed it
    after a failure or a deviation."""

    before: GroupSnapshot
    expected: StepExpectation
    commands: dict[str, BegunCommand] = field(default_factory=dict)
    stops: dict[str, BegunCommand] = field(default_factory=dict)
    has_removed: bool = False
    acknowledged: Acknowledgement | None = None

    def begun(self, *, is_stop: bool) -> dict[str, BegunCommand]:
        return self.stops if is_stop else self.commands

    @property
    def stopped(self) -> dict[str, str]:
        """The member ids of the processes that commands were to stop, by identity."""
        begun = [*(self.stops or self.commands).values()]
        return {identity: member_id for one in begun for identity, member_id in one.member_ids.items()}


@dataclass(slots=True, kw_only=True)
class RolloutProgress:
    """steps_done: how many steps are over. left: the group as the last of them left it, or as it was when the rollout
    was planned. overall: the prediction for all steps; None once an operator has resumed a rollout that had stopped,
    for example because it had deviated from the prediction.

    was_stopped: whether kgm stopped it because of a failure or a deviation and reported that, so that resuming it
    acknowledges what has happened; that it was killed, interrupted by a signal, or could not look at the group, tells
    the operator nothing.
    deviations: where the group has deviated from the prediction, in words, although the rollout continues. has_run:
    whether a command has begun in any step. is_over: whether the rollout is complete, or was aborted."""

    left: GroupSnapshot
    overall: StepExpectation | None
    steps_done: int = 0
    totals: StepCounts = field(default_factory=lambda: StepCounts(rebalances=0, handovers=0))
    open_step: OpenStep | None = None
    was_stopped: bool = False
    deviations: list[str] = field(default_factory=list)
    has_run: bool = False
    is_over: bool = False

    @property
    def as_predicted(self) -> bool | None:
        """Whether everything has happened as predicted; None if that is not known."""
        return None if not self.deviations and self.totals.unknown_because is not None else not self.deviations

    @property
    def how_predicted(self) -> str:
        """The same in words, after how many steps there were."""
        if self.deviations:
            return f"done, not as predicted {' and '.join(self.deviations)}"
        return "as predicted" if self.as_predicted else "done, as predicted as far as kgm could see"

    @property
    def _place(self) -> str:
        return f"{'before' if self.open_step is None else 'in'} step {self.steps_done + 1}"

    def deviate(self) -> None:
        """Note that the group has deviated from the prediction in the step that is open, or before the next one."""
        if self._place not in self.deviations:
            self.deviations.append(self._place)

    def begin(self, opened: OpenStep, between: StepCounts | None) -> None:
        """Begin the next step. between: what happened after the one before, which the operator has acknowledged; None:
        the group is as it was left."""
        if between is not None:
            self.deviate()
            self.totals = self.totals.plus(between)
        self.open_step, self.was_stopped = opened, False

    def acknowledge(self, acknowledged: Acknowledgement) -> None:
        """Note what the operator has acknowledged of the open step."""
        assert self.open_step is not None
        if acknowledged.deviations:
            self.deviate()
        self.open_step.acknowledged, self.was_stopped = acknowledged, False

    def judge(self, counts: StepCounts) -> bool | None:
        """Whether everything in the open step has happened as predicted, which is noted; None if that is not known.
        counts: what happened in all. More than was predicted has been acknowledged, or it would have stopped the
        rollout."""
        assert self.open_step is not None
        expected = self.open_step.expected
        if excess(counts, expected, self._place):
            self.deviate()
        if self._place in self.deviations:
            return False
        return None if unknown_because(counts, expected) is not None else True

    def how_far(self, steps: Sequence[RolloutStep]) -> str:
        """Which of the steps are done or have begun, in words."""
        text = f"{self.steps_done} of {many(len(steps), 'step')} done"
        if self.steps_done < len(steps) and self.open_step is not None:
            text += f"; step {self.steps_done + 1} ({', '.join(steps[self.steps_done].members)}) has begun"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutReport:
    """How a rollout ended. error: None if nothing stopped it. interrupted_code: what kgm exits with because it was
    interrupted; None if it was not."""

    steps_done: int
    error: KgmError | None = None
    interrupted_code: int | None = None

    @property
    def exit_code(self) -> int:
        if self.interrupted_code is not None:
            return self.interrupted_code
        return 0 if self.error is None else self.error.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRollout:
    """What a journal contains: what was to be done on which cluster, and how far it has come. run: the run's unique id;
    mark: the mark of its first line as it is now."""

    run: str
    mark: PlanMark
    spec: RolloutSpec
    cluster_id: str | None
    progress: RolloutProgress


def recorded_rollout(lines: Sequence[JournalLine]) -> RecordedRollout:
    """The rollout in a journal. Raises UsageError for a journal that no rollout has written."""
    try:
        plan = lines[0].data
        spec = RolloutSpec.from_json(plan["spec"])
        progress = RolloutProgress(
            left=snapshot_from_json(plan["group"]), overall=StepExpectation.from_json(plan["foretold"])
        )
        for line in lines[1:]:
            _check_step(spec, progress, line)
            _apply(progress, line.kind, line.data)
            _check_open_step(spec, progress)
        return RecordedRollout(
            run=_of(str, plan["run"]), mark=PlanMark.of(plan, spec.commands), spec=spec,
            cluster_id=_of((str, type(None)), plan["cluster_id"]), progress=progress,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the journal is not complete: {type(error).__name__}: {error}") from None


def _of(kinds: type | tuple[type, ...], value: Any) -> Any:
    """The value, from a journal. Raises TypeError if it has a different type."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise TypeError(f"{value!r} has the wrong type")
    return value


def _check_step(spec: RolloutSpec, progress: RolloutProgress, line: JournalLine) -> None:
    """Raises ValueError for a line that cannot follow the previous ones."""
    kind, data = line.kind, line.data
    if progress.is_over:
        raise ValueError(f"{kind} after the end")
    if kind not in _OF_A_STEP:
        return
    number = progress.steps_done + 1
    if number > len(spec.steps) or _of(int, data["step"]) != number:
        raise ValueError(f"{kind} of step {data['step']}, where step {number} is next")
    if (progress.open_step is None) != (kind is JournalKind.STEP_BEGIN):
        raise ValueError(f"{kind} of step {number} at the wrong place")
    if "identity" in data and data["identity"] not in spec.steps[number - 1].members:
        raise ValueError(f"{data['identity']!r} is not of step {number}")


def _check_open_step(spec: RolloutSpec, progress: RolloutProgress) -> None:
    """Raises ValueError if the group before the step is a different one, or lacks the step's members."""
    if progress.open_step is None:
        return
    before = progress.open_step.before
    missing = set(spec.steps[progress.steps_done].members) - {one.identity for one in before.members}
    if before.group_id != spec.group_id or missing:
        raise ValueError(f"the group before step {progress.steps_done + 1} has no {', '.join(sorted(missing))}")


def _apply(progress: RolloutProgress, kind: JournalKind, data: Mapping[str, Any]) -> None:
    step = progress.open_step
    match kind:
        case JournalKind.PLAN:
            raise UsageError("the journal has two plans")
        case JournalKind.STEP_BEGIN:
            between = data.get("between")  # an earlier version of kgm does not write it
            progress.begin(
                OpenStep(
                    before=snapshot_from_json(data["group"]), expected=StepExpectation.from_json(data["foretold"])
                ),
                None if between is None else StepCounts.from_json(between),
            )
        case JournalKind.COMMAND_BEGIN:
            progress.has_run = True
            if step is not None and not data["is_on_failure"]:
                _begun(step, data)[data["identity"]] = BegunCommand(member_ids=_member_ids(step, data))
        case JournalKind.COMMAND_STARTED:
            if step is not None and not data["is_on_failure"]:
                begun = _begun(step, data)[data["identity"]]
                begun.processes[_of(int, data["pid"])] = _of((str, type(None)), data["mark"])
        case JournalKind.COMMAND_END:
            if step is not None and not data["is_on_failure"]:
                begun = _begun(step, data)[data["identity"]]
                remaining = _remaining(data)
                begun.processes |= remaining
                begun.has_ended, begun.is_success = not remaining, _of(bool, data["is_success"])
        case JournalKind.REMOVAL_BEGIN:
            pass
        case JournalKind.REMOVAL_END:
            if step is not None:
                step.has_removed = True
        case JournalKind.ACKNOWLEDGED:
            progress.acknowledge(
                Acknowledgement(
                    group=snapshot_from_json(data["group"]), counts=StepCounts.from_json(data["observed"]),
                    deviations=tuple(map(str, data.get("deviations", ()))),
                )
            )  # fmt: skip
        case JournalKind.STEP_END:
            if data.get("as_predicted") is False:
                progress.deviate()
            progress.steps_done += 1
            progress.open_step, progress.was_stopped = None, False
            progress.left = snapshot_from_json(data["group"])
            progress.totals = progress.totals.plus(StepCounts.from_json(data["observed"]))
        case JournalKind.STOP:
            if _of(bool, data.get("is_seen", False)):
                _stop(progress, _of(int, data["exit_code"]))
            progress.is_over = _of(bool, data["is_final"])
        case JournalKind.RESUME:
            pass
        case JournalKind.DONE:
            progress.is_over = True


def _stop(progress: RolloutProgress, exit_code: int) -> None:
    progress.was_stopped, progress.overall = True, None
    if exit_code == ConditionNotMet.exit_code:
        progress.deviate()


def _begun(step: OpenStep, data: Mapping[str, Any]) -> dict[str, BegunCommand]:
    return step.begun(is_stop=data.get("is_stop", False))


def _remaining(data: Mapping[str, Any]) -> dict[int, str | None]:
    """The processes of a command that may still run; none if an earlier version of kgm has written the line."""
    return {int(pid): _of((str, type(None)), mark) for pid, mark in _of(dict, data.get("remaining", {})).items()}


def _member_ids(step: OpenStep, data: Mapping[str, Any]) -> dict[str, str]:
    """Which processes a command was run for; those before the step if an earlier version of kgm has written the line,
    which does not say."""
    ids = data.get("member_ids")
    if ids is None:
        return {one.identity: one.member_id for one in step.before.members}
    return {_of(str, identity): _of(str, member_id) for identity, member_id in _of(dict, ids).items()}


def without_offsets(group: GroupSnapshot) -> dict[str, Any]:
    """A description as the journal keeps it, without offsets."""
    return replace(group, offsets=()).to_json()

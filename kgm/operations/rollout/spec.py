"""What to run: the steps, the commands and the limits, as they are written to the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import UsageError
from kgm.operations.rollout.commands.template import CommandTemplate
from kgm.simulation.plan.bounce_plan import Plan, Stop, WhatIf

#: A step that is not over has failed after its restart time, session timeout and rebalance timeout, plus this time.
_SPARE_MS: Final = 60_000
#: The ranges of numbers that a journal can contain.
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
_AtLeastOne: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
#: The fields of `RolloutSpec` that decide which programs run.
COMMAND_FIELDS: Final = ("command", "stop_command", "failure_command", "is_shell", "allows_any_value")


class StepKind(StrEnum):
    """What a step does with its members. bounce: they stop and come back. stop: they stop for good. replace: they stop,
    are removed by one LeaveGroup, and start again."""

    BOUNCE = "bounce"
    STOP = "stop"
    REPLACE = "replace"


class OnFailure(StrEnum):
    """What happens if a step fails or the group deviates from the prediction.

    pause: stop; the rollout can be resumed. abort: stop for good. run: run a command for the members of the step, and
    then pause."""

    PAUSE = "pause"
    ABORT = "abort"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStep:
    """Members whose commands run at the same time. members: their identities at the beginning of the rollout, including
    those to be removed. remove: the members that one LeaveGroup removes once all have stopped."""

    kind: StepKind
    members: tuple[str, ...]
    remove: tuple[str, ...] = ()

    @property
    def comes_back(self) -> bool:
        return self.kind is not StepKind.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """settle_ms: how long the group must be quiet before a step is over. step_timeout_ms: how long after its commands a
    step fails if it is not over; None: derived from the group's timeouts. most_lag: the most lag of the whole group, in
    records, with which a step can be over. accept_unseen: whether a step can be over even though rebalances or
    handovers may have been missed."""

    settle_ms: _Count = 5_000
    step_timeout_ms: _Count | None = None
    command_timeout_ms: _Count = 600_000
    interval_ms: _AtLeastOne = 500
    most_lag: _Count | None = None
    accept_unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutCommands:
    """The commands of a rollout, as they were typed, and what happens if one fails.

    command: run for members that bounce. stop_command: run for members that stop for good, and for those that stop and
    are removed before `command` starts them again. failure_command: used with `OnFailure.RUN`. allows_any_value:
    whether values in commands may contain characters that a shell interprets."""

    command: str | None = None
    stop_command: str | None = None
    is_shell: bool = False
    on_failure: OnFailure = OnFailure.PAUSE
    failure_command: str | None = None
    allows_any_value: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSpec(RolloutCommands):
    """Everything that a rollout needs and that its journal has to keep.

    assume_stopped: whether a member counts as stopped once its command has succeeded, even if kgm has no evidence for
    it. pods: by identity, if members were resolved to pods. units: the members of each process with several, for which
    a command runs once. settings: the broker's, as the operator gave them."""

    group_id: str
    steps: tuple[RolloutStep, ...]
    limits: RolloutLimits = field(default_factory=RolloutLimits)
    assume_stopped: bool = False
    pods: Mapping[str, str] = field(default_factory=dict)
    units: tuple[tuple[str, ...], ...] = ()
    restart_time_ms: _Count = 10_000
    pause_ms: _Count = 0
    stop: Stop = Stop.CLEAN
    retry_every_ms: _Count | None = None
    session_timeout_ms: _Count | None = None
    rebalance_timeout_ms: _Count | None = None
    heartbeat_interval_ms: _Count | None = None
    assignor: str | None = None
    library: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    kafka_version: BrokerVersion | None = None
    draws: _AtLeastOne = 200
    seed: int = 1

    def templates(self, step: RolloutStep) -> tuple[CommandTemplate, ...]:
        """The commands of the step, in order; two if its members are removed in between.

        Raises UsageError if one is missing or not valid."""
        match step.kind:
            case StepKind.BOUNCE:
                return (self._template("--exec", "restarts", step),)
            case StepKind.STOP:
                return (self._template("--exec-stop", "stops", step),)
            case StepKind.REPLACE:
                return self._template("--exec-stop", "stops", step), self._template("--exec", "starts", step)

    def _template(self, option: str, does: str, step: RolloutStep) -> CommandTemplate:
        text = self.command if option == "--exec" else self.stop_command
        if text is None:
            raise UsageError(f"{option} is missing: the command that {does} {', '.join(step.members)}")
        return self._parsed(text, option)

    def failure_template(self) -> CommandTemplate | None:
        if self.failure_command is None:
            return None
        return self._parsed(self.failure_command, "--on-failure")

    def _parsed(self, text: str, option: str) -> CommandTemplate:
        return CommandTemplate.parse(
            text, option, is_shell=self.is_shell, allows_any_value=self.allows_any_value
        )  # fmt: skip

    @property
    def members(self) -> tuple[str, ...]:
        """The members of all steps, in order."""
        return tuple(name for step in self.steps for name in step.members)

    def plan_of(self, step: RolloutStep) -> Plan:
        """The plan for one step only."""
        return Plan(
            bounce=step.members if step.comes_back else (),
            scale_in=() if step.comes_back else tuple(name for name in step.members if name not in step.remove),
            remove=() if step.comes_back else step.remove,
            remove_first=step.kind is StepKind.REPLACE,
            restart_time_ms=self.restart_time_ms,
            stop=self.stop,
            retry_every_ms=self.retry_every_ms,
            what_if=WhatIf(
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                assignor=self.assignor,
                library=self.library,
            ),
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            settings=self.settings,
            kafka_version=self.kafka_version,
        )

    def step_timeout_ms(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> int:
        """How long a step may take after its commands have ended, in ms."""
        if self.limits.step_timeout_ms is not None:
            return self.limits.step_timeout_ms
        return self.restart_time_ms + session_timeout_ms + rebalance_timeout_ms + self.limits.settle_ms + _SPARE_MS

    @property
    def commands(self) -> dict[str, Any]:
        """What decides which programs run, as in `to_json`."""
        return {name: getattr(self, name) for name in COMMAND_FIELDS}

    def to_json(self) -> dict[str, Any]:
        version = None if self.kafka_version is None else str(self.kafka_version)
        return {**asdict(self), "stop": self.stop.value, "kafka_version": version}

    @classmethod
    def from_json(cls, data: Any) -> RolloutSpec:
        """Raises UsageError for data that `to_json` did not write."""
        try:
            version = data.get("kafka_version")
            spec = msgspec.convert({**data, "kafka_version": None}, cls)
            spec = replace(spec, kafka_version=None if version is None else BrokerVersion.parse(version))
            unknown = data["limits"].keys() - {each.name for each in fields(RolloutLimits)}
        except (msgspec.ValidationError, UnicodeEncodeError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"the journal has no valid plan: {error}") from None
        if unknown:
            raise UsageError(f"the journal has no valid plan: limits of another version: {', '.join(sorted(unknown))}")
        spec.check()
        return spec

    def check(self) -> None:
        """Raises UsageError for steps that no rollout can have, and for commands that are missing or not valid."""
        if not self.steps or len(set(self.members)) < len(self.members):
            raise UsageError("the journal has no valid plan: it has no steps, or a member twice")
        if any(not step.members or not set(step.remove) <= set(step.members) for step in self.steps):
            raise UsageError("the journal has no valid plan: a step has no members, or removes others")
        for step in self.steps:
            self.templates(step)
        self.failure_template()


def steps_of(plan: Plan) -> tuple[RolloutStep, ...]:
    """The steps of a plan: first the members that stop for good, then the batches.

    Raises UsageError for a plan that a rollout does not support."""
    if plan.scale_out:
        raise UsageError(
            "kgm rollout does not start new members: commands run for members that exist",
            hint="start them with your deployment tool, and follow with `kgm watch`",
        )
    stopping = (*plan.scale_in, *plan.remove)
    if stopping and plan.bounce and plan.rolling is None:
        raise UsageError(
            "members that bounce and members that stop for good are different steps",
            hint="omit --together: the members that stop for good are the first step",
        )
    first: Sequence[RolloutStep] = (
        [RolloutStep(kind=StepKind.STOP, members=stopping, remove=plan.remove)] if stopping else []
    )
    if plan.remove_first:
        return (
            *first,
            *(RolloutStep(kind=StepKind.REPLACE, members=batch, remove=batch) for batch in plan.batches()),
        )
    return (*first, *(RolloutStep(kind=StepKind.BOUNCE, members=batch) for batch in plan.batches()))

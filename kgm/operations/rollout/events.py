"""What a rollout reports while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from kgm.operations.rollout.commands.running import CommandResult
from kgm.operations.rollout.expectation import StepCounts, StepExpectation


class RolloutEventKind(StrEnum):
    """The kinds of events; the values are what JSON and the journal contain.

    predicted: the prediction for the whole rollout before its first step, or for a step when it begins (called
    "foretold" in JSON and in the journal, whose names are fixed). command: twice for each command, when it starts and
    when it has ended. observed: what happened in a step. deviation: the group deviated from the prediction, or a step
    failed. note: something that does not stop the rollout. done: the end."""

    PREDICTED = "foretold"
    STEP = "step"
    COMMAND = "command"
    OBSERVED = "observed"
    DEVIATION = "deviation"
    NOTE = "note"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEvent:
    """One event. step: from 1; None if it is about the whole rollout. argv: the command's words when it starts; result:
    None until it has ended. as_predicted: of what happened in a step, and of the end: whether everything happened as
    predicted; None if that is not known, and for other events."""

    at_ms: int
    group_id: str
    kind: RolloutEventKind
    text: str
    step: int | None = None
    steps: int
    identity: str | None = None
    argv: tuple[str, ...] | None = None
    result: CommandResult | None = None
    expected: StepExpectation | None = None
    observed: StepCounts | None = None
    as_predicted: bool | None = None

    def to_json(self) -> Mapping[str, Any]:
        """Everything but the time and the group, as in the journal and in NDJSON."""
        expected = None if self.expected is None else self.expected.to_json()
        return {
            "event": str(self.kind),
            "step": self.step,
            "steps": self.steps,
            "text": self.text,
            "identity": self.identity,
            "command": None if self.argv is None else list(self.argv),
            "result": None if self.result is None else self.result.to_json(),
            "foretold": expected,
            "observed": None if self.observed is None else self.observed.to_json(),
            "as_predicted": self.as_predicted,
        }


class RolloutObserver(Protocol):
    """Gets the events as they happen. A rollout does not end because its reader has gone away."""

    def show(self, event: RolloutEvent) -> None: ...

"""Which draw of a simulation is played. The same task gives the same draw in every process."""

from dataclasses import dataclass
from typing import Protocol

from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import DrawTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawTask:
    """number: of a random draw, of an extreme one with this timing, or 0 for one with the assignor of this library
    first. is_deleted_when_empty: see `World`."""

    number: int
    extreme: type[DrawTiming] | None = None
    led_by: str | None = None
    is_deleted_when_empty: bool = False
    keeps_holdings: bool = False


class Playable(Protocol):
    """A simulation: plain values that can be pickled."""

    def runner_of(self, task: DrawTask) -> PlanRunner: ...

    def in_process(self, parent_pid: int) -> "Playable":
        """The same, for a process that has this parent and ends when it does."""

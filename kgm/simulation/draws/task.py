"""Which draw of a simulation is played, and what plays it. The same task gives the same draw in every process."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from kgm.simulation.play.timing import DrawTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawTask:
    """number: of a random draw or, if `extreme` is set, of a draw with that timing; 0 for a draw in which the first
    leader runs the assignor of the library `led_by`. is_deleted_when_empty: see `World`."""

    number: int
    extreme: type[DrawTiming] | None = None
    led_by: str | None = None
    is_deleted_when_empty: bool = False
    keeps_holdings: bool = False


T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Playable(Protocol[T_contra, R_co]):
    """Plays tasks: a simulation plays draws, a fleet plays groups. It can be pickled."""

    def play_task(self, task: T_contra, /) -> R_co: ...

    def in_process(self, parent_pid: int) -> "Playable[T_contra, R_co]":
        """A copy for a worker process of this parent, which ends when the parent does."""

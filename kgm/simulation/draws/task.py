"""Which draw of a simulation is played, and what plays it. The same task gives the same draw in every process."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

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


T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Playable(Protocol[T_contra, R_co]):
    """What plays tasks: a simulation its draws, or a fleet its groups. It can be pickled."""

    def play_task(self, task: T_contra, /) -> R_co: ...

    def in_process(self, parent_pid: int) -> "Playable[T_contra, R_co]":
        """The same, for a process that has this parent and ends when it does."""

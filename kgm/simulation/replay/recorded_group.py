"""What a history contains about a group, in a form that can be replayed."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from kgm.model.assignment import Partitions
from kgm.simulation.plan.bounce_plan import GroupProtocol


class RunEnd(enum.Enum):
    """How a process stopped being a member."""

    LEAVE = "leave"
    """It left on its own."""
    EXPIRY = "expiry"
    """It stopped without leaving the group, and its session expired."""
    REMOVAL = "removal"
    """It stopped, and an admin removed it."""
    SUCCESSION = "succession"
    """It stopped, and the next process with its group instance id took its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time that is known within bounds, in ms since 1970. Things with the same bounds happened in the same rebalance,
    at the same time. is_first: whether members that join at this moment find the group without members."""

    earliest_ms: int
    latest_ms: int
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRun:
    """One process, from its first JoinGroup until it is no longer a member.

    member_id: the recorded one. start: None for a member of the group at the beginning. end: None for a run that
    continues. ended: when it left, was removed, or its session expired; for a succession, when the process stopped.
    is_end_sure: whether the records show that it ended in this way, and not by an expiry. is_stall: whether the same
    process continues with the next run, because its application did not poll within max.poll.interval.ms.
    is_stall_sure: whether that is certain."""

    member_id: str
    start: Moment | None
    end: RunEnd | None = None
    ended: Moment | None = None
    is_end_sure: bool = True
    is_stall: bool = False
    is_stall_sure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProcess:
    """A process and the ones that were started in its place, in order: as many `runs` as there were starts.

    name: its group instance id, or a name that stands in for one. is_restart_sure: whether the later runs are known to
    be of the same process. owned: what it has at the beginning."""

    name: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    runs: tuple[MemberRun, ...]
    is_restart_sure: bool = True
    owned: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedGroup:
    """A group during a time about which everything is known. topics: partition counts. leader: a member id. from_ms,
    to_ms: since 1970; nothing is done to the group afterwards, but sessions may still expire. generation: at the
    beginning. expired_after_ms: the session timeout when it was recorded, which is how long before an expiry a process
    stopped."""

    group_id: str
    protocol: GroupProtocol
    assignor: str
    generation: int
    session_timeout_ms: int
    expired_after_ms: int
    rebalance_timeout_ms: int
    topics: Mapping[str, int]
    processes: tuple[RecordedProcess, ...]
    leader: str | None
    from_ms: int
    to_ms: int

    @property
    def unsure_restarts(self) -> int:
        """How many processes are assumed to be restarts of another one, but may not be."""
        return sum(len(process.runs) - 1 for process in self.processes if not process.is_restart_sure)

    @property
    def has_unsure_ends(self) -> bool:
        """Whether for some member it is not known whether it left or its session expired."""
        return any(not run.is_end_sure for process in self.processes for run in process.runs)

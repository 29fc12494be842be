"""A recorded group as it would have been with a change: the same processes, started and stopped at the same times."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from kgm.simulation.replay.recorded_group import MemberRun, Moment, RecordedProcess, ReplayedGroup, RunEnd


class GroupChangeKind(enum.Enum):
    """What can be changed in a group."""

    STATIC_MEMBERSHIP = "static-membership"
    """Each process gets a group instance id."""
    SESSION_TIMEOUT = "session-timeout"
    STATIC_AND_SESSION = "static-membership-and-session-timeout"
    ASSIGNOR = "assignor"
    TOGETHER = "restart-together"
    """Restarts that began shortly after one another begin at the same time."""
    ONE_AT_A_TIME = "restart-one-at-a-time"
    """Restarts that overlapped happen one after the other: each begins when the one before is over."""
    KEEP_RUNNING = "keep-running"
    """Consumers that keep coming and going stay."""
    MAX_POLL_INTERVAL = "max-poll-interval"
    """Members whose applications stalled stay in the group."""

    @property
    def is_about_restarts(self) -> bool:
        """Whether it matters which process was started in place of which."""
        return self not in (GroupChangeKind.SESSION_TIMEOUT, GroupChangeKind.ASSIGNOR)


#: Restarts that begin within this time of the end of another one belong to the same rollout.
_ROLLOUT_GAP_MS = 300_000
#: Fewer restarts than this are not a rollout.
_LEAST_RESTARTS = 3
#: How long the group is left alone between two restarts when they happen one at a time.
_CALM_MS = 10_000
#: A process with at least this many starts keeps coming and going.
_MANY_STARTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A change to a group. processes: for KEEP_RUNNING, the processes whose consumers stay. max_poll_interval_ms: for
    MAX_POLL_INTERVAL; also the rebalance timeout of the members."""

    kind: GroupChangeKind
    session_timeout_ms: int | None = None
    assignor: str | None = None
    processes: tuple[str, ...] = ()
    max_poll_interval_ms: int | None = None

    def applied(self, group: ReplayedGroup) -> ReplayedGroup:
        """The group with the change."""
        if self.session_timeout_ms is not None:
            group = replace(group, session_timeout_ms=self.session_timeout_ms)
        if self.assignor is not None:
            group = replace(group, assignor=self.assignor)
        match self.kind:
            case GroupChangeKind.STATIC_MEMBERSHIP | GroupChangeKind.STATIC_AND_SESSION:
                return _each(group, _with_instance_id)
            case GroupChangeKind.TOGETHER:
                return _moved(group, _together)
            case GroupChangeKind.ONE_AT_A_TIME:
                return _moved(group, _one_at_a_time)
            case GroupChangeKind.KEEP_RUNNING:
                return _each(group, lambda process: _kept(process) if process.name in self.processes else process)
            case GroupChangeKind.MAX_POLL_INTERVAL:
                return _with_max_poll_interval(group, self.max_poll_interval_ms or group.rebalance_timeout_ms)
            case GroupChangeKind.SESSION_TIMEOUT | GroupChangeKind.ASSIGNOR:
                return group


def _each(group: ReplayedGroup, changed: Callable[[RecordedProcess], RecordedProcess]) -> ReplayedGroup:
    return replace(group, processes=tuple(changed(process) for process in group.processes))


def _with_instance_id(process: RecordedProcess) -> RecordedProcess:
    """A static member, named after its process."""
    return replace(process, group_instance_id=process.group_instance_id or process.name)


def _kept(process: RecordedProcess) -> RecordedProcess:
    """One run that replaces all of them."""
    first, last = process.runs[0], process.runs[-1]
    run = MemberRun(
        member_id=first.member_id, start=first.start, end=last.end, ended=last.ended, is_end_sure=last.is_end_sure
    )
    return replace(process, runs=(run,))


def stall_lengths_ms(group: ReplayedGroup) -> list[int]:
    """The length in ms of each stall that ended with the process coming back, from its last poll to the next one,
    shortest first."""
    return sorted(
        _stall_ms(group, run, following)
        for process in group.processes
        for run, following in pairwise(process.runs)
        if run.is_stall
    )


def _stall_ms(group: ReplayedGroup, run: MemberRun, following: MemberRun) -> int:
    """The length of a stall: the member left when max.poll.interval.ms had passed, and joined with its next poll."""
    assert run.ended is not None
    assert following.start is not None
    return group.rebalance_timeout_ms + max(following.start.latest_ms - run.ended.latest_ms, 0)


def _with_max_poll_interval(group: ReplayedGroup, interval_ms: int) -> ReplayedGroup:
    """The group in which no run ends because of a stall of at most `interval_ms`."""

    def lasting(process: RecordedProcess) -> RecordedProcess:
        runs: list[MemberRun] = []
        for run in process.runs:
            before = runs[-1] if runs else None
            if before is not None and before.is_stall and _stall_ms(group, before, run) <= interval_ms:
                runs[-1] = replace(run, member_id=before.member_id, start=before.start)
            else:
                runs.append(run)
        return replace(process, runs=tuple(runs))

    return replace(_each(group, lasting), rebalance_timeout_ms=interval_ms)


def restless_processes(group: ReplayedGroup) -> tuple[str, ...]:
    """The names of processes that keep coming and going, if most others do not."""
    names = tuple(process.name for process in group.processes if len(process.runs) >= _MANY_STARTS)
    return names if 2 * len(names) <= len(group.processes) else ()


# -- rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A process that stopped and was started again: its run of this number ended, and the next one began."""

    process: str
    run: int
    down: Moment
    up: Moment


def rollouts(group: ReplayedGroup) -> list[list[Restart]]:
    """Restarts of several processes shortly after one another, in the order in which the processes stopped."""
    clusters: list[list[Restart]] = []
    for each in sorted(restarts(group), key=lambda each: (each.down.latest_ms, each.process)):
        last = clusters[-1] if clusters else []
        is_near = last and each.down.latest_ms - max(one.up.latest_ms for one in last) <= _ROLLOUT_GAP_MS
        if is_near and each.process not in {one.process for one in last}:
            last.append(each)
        else:
            clusters.append([each])
    return [cluster for cluster in clusters if len(cluster) >= _LEAST_RESTARTS]


def restarts(group: ReplayedGroup) -> Iterable[Restart]:
    """Every restart."""
    for process in group.processes:
        for number, (run, following) in enumerate(zip(process.runs, process.runs[1:], strict=False)):
            if run.ended is not None and following.start is not None:
                down = run.ended
                if run.end is RunEnd.EXPIRY:
                    down = _shifted(down, -group.expired_after_ms)
                yield Restart(process=process.name, run=number, down=down, up=following.start)


def _together(rollout: list[Restart]) -> list[int]:
    """By how much each restart is shifted, in ms, so that all processes stop when the first one does."""
    first = rollout[0].down.latest_ms
    return [first - each.down.latest_ms for each in rollout]


def _one_at_a_time(rollout: list[Restart]) -> list[int]:
    """By how much each restart is shifted, in ms, so that it begins when the one before is over."""
    shifts, free_ms = [], 0
    for each in rollout:
        shifts.append(max(free_ms - each.down.latest_ms, 0))
        free_ms = each.up.latest_ms + shifts[-1] + _CALM_MS
    return shifts


def _moved(group: ReplayedGroup, shifts_of: Callable[[list[Restart]], list[int]]) -> ReplayedGroup:
    """The group with the restarts of its rollouts at other times. Each takes as long as it did."""
    shifts = {
        (each.process, each.run): shift
        for rollout in rollouts(group)
        for each, shift in zip(rollout, shifts_of(rollout), strict=True)
    }
    latest = group.to_ms + max([0, *shifts.values()])
    return replace(_each(group, lambda process: _with_moved_restarts(process, shifts)), to_ms=latest)


def _with_moved_restarts(process: RecordedProcess, shifts: dict[tuple[str, int], int]) -> RecordedProcess:
    runs = []
    for number, run in enumerate(process.runs):
        down_ms, up_ms = shifts.get((process.name, number), 0), shifts.get((process.name, number - 1), 0)
        if run.ended is not None and down_ms:
            run = replace(run, ended=_shifted(run.ended, down_ms))  # noqa: PLW2901
        if run.start is not None and up_ms:
            run = replace(run, start=_shifted(run.start, up_ms))  # noqa: PLW2901
        runs.append(run)
    return replace(process, runs=tuple(runs))


def _shifted(moment: Moment, by_ms: int) -> Moment:
    return replace(moment, earliest_ms=moment.earliest_ms + by_ms, latest_ms=moment.latest_ms + by_ms, is_first=False)

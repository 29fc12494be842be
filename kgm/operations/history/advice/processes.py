"""Which processes a history shows, and which of them replaced others."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kgm.history.causes.verdict import Cause, Confidence
from kgm.history.rows import OwnerRow, RebalanceRow, TenureRow
from kgm.operations.history.advice.window import Window
from kgm.simulation.replay.recorded_group import MemberRun, RecordedProcess, RunEnd

#: A process that comes back later than this counts as a different one.
_RESTART_WITHIN_MS = 3_600_000
#: A member is taken for the predecessor of one with the same client id and host if it stopped at most this long after
#: the other's start, because times are known only to within a heartbeat.
_SLACK_MS = 3_500
_ENDS = {
    Cause.LEAVE.value: RunEnd.LEAVE, Cause.MAX_POLL.value: RunEnd.LEAVE, Cause.SESSION_EXPIRY.value: RunEnd.EXPIRY,
    Cause.REMOVAL.value: RunEnd.REMOVAL, Cause.BOUNCE.value: RunEnd.SUCCESSION, "replaced": RunEnd.SUCCESSION,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """What a member sent when it joined."""

    topics: tuple[str, ...]
    rebalance_timeout_ms: int
    server_assignor: str | None = None


def processes(
    tenures: Sequence[TenureRow], window: Window, owners: Sequence[OwnerRow], subscriptions: Mapping[str, Subscribed],
    stalled: Mapping[str, bool],
) -> list[RecordedProcess]:  # fmt: skip
    """The processes of a group within the window. subscriptions: by member id; stalled: the result of `stalls`."""
    chains: list[_Chain] = []
    for tenure in _within(tenures, window):
        run = _run(tenure, window)
        if run.ended is not None and tenure.member_id in stalled:
            run = replace(run, is_stall=True, is_stall_sure=stalled[tenure.member_id])
        chain = _chain_of(tenure, run, chains, window.session_ms)
        if chain is None:
            chains.append(_Chain(tenure, run))
        else:
            chain.add(tenure, run)
    names = Counter(chain.name for chain in chains)
    owned = _owned_before(owners, window.begin)
    topics = tuple(sorted({topic for each in subscriptions.values() for topic in each.topics}))
    return [
        RecordedProcess(
            name=chain.name if names[chain.name] == 1 else f"{chain.name}-{number}",
            group_instance_id=chain.first.group_instance_id, client_id=chain.first.client_id or "",
            client_host=chain.first.client_host or "/127.0.0.1",
            topics=subscriptions[chain.member_id].topics if chain.member_id in subscriptions else topics,
            runs=tuple(chain.runs), is_restart_sure=chain.is_sure, owned=owned.get(chain.first.seat, {}),
        )
        for number, chain in enumerate(chains)
    ]  # fmt: skip


def stalls(tenures: Sequence[TenureRow], rebalances: Iterable[RebalanceRow]) -> dict[str, bool]:
    """The member ids that ended because their applications did not poll within max.poll.interval.ms, according to their
    own records or to what a broker logged about the rebalance; the value is whether that is certain."""
    known = {
        row.member_id: row.end_confidence == Confidence.CERTAIN
        for row in tenures
        if row.end_cause == Cause.MAX_POLL.value
    }
    for rebalance in rebalances:
        if rebalance.cause == Cause.MAX_POLL.value and rebalance.left == 1:
            ended = [row.member_id for row in tenures if row.to_timestamp == rebalance.timestamp]
            if len(ended) == 1:
                known[ended[0]] = rebalance.confidence == Confidence.CERTAIN.value
    return known


class _Chain:
    """The tenures of one process and of the processes that replaced it."""

    def __init__(self, tenure: TenureRow, run: MemberRun) -> None:
        self.first, self.last, self.runs, self.is_sure = tenure, tenure, [run], True
        self.member_id = tenure.member_id

    def add(self, tenure: TenureRow, run: MemberRun) -> None:
        self.last, self.member_id = tenure, tenure.member_id
        self.runs.append(run)

    @property
    def key(self) -> tuple[str | None, ...]:
        return _key(self.first)

    @property
    def name(self) -> str:
        return self.first.group_instance_id or self.first.client_id or self.first.member_id


def _key(tenure: TenureRow) -> tuple[str | None, ...]:
    """What identifies a process: the group instance id, or else the client id and the host."""
    if tenure.group_instance_id is not None:
        return (tenure.group_instance_id,)
    return tenure.client_id, tenure.client_host


def _chain_of(tenure: TenureRow, run: MemberRun, chains: Sequence[_Chain], session_ms: int) -> _Chain | None:
    """The chain of the stopped process that this one replaces; None if there is none."""
    alike = [chain for chain in chains if chain.key == _key(tenure)]
    start = run.start
    if start is None or not alike:
        return None
    stopped = [(chain, _stopped_ms(chain.runs[-1], session_ms)) for chain in alike]
    waiting = [
        (at_ms, chain)
        for chain, at_ms in stopped
        if at_ms is not None and at_ms <= start.latest_ms + _SLACK_MS and start.latest_ms - at_ms <= _RESTART_WITHIN_MS
    ]
    if not waiting:
        return None
    _, chain = min(waiting, key=lambda each: each[0])
    if len(alike) > 1:
        chain.is_sure = False
    return chain


def _stopped_ms(run: MemberRun, session_ms: int) -> int | None:
    if run.ended is None:
        return None
    return run.ended.latest_ms - (session_ms if run.end is RunEnd.EXPIRY else 0)


def _run(tenure: TenureRow, window: Window) -> MemberRun:
    start = None
    if tenure.from_offset >= window.begin:
        start = window.moment(tenure.from_offset, tenure.from_timestamp)
    run = MemberRun(member_id=tenure.member_id, start=start)
    if tenure.to_offset is None or tenure.to_timestamp is None or tenure.to_offset > window.last:
        return run
    end = _ENDS.get(tenure.end_cause or "", RunEnd.LEAVE)
    if end is RunEnd.LEAVE and tenure.group_instance_id is not None:
        end = RunEnd.REMOVAL  # closed so that it leaves the group (KIP-1092)
    # A static member sends nothing when it is closed: its session expires however it stopped.
    is_sure = tenure.group_instance_id is not None or (
        tenure.end_cause in _ENDS and tenure.end_confidence in (Confidence.CERTAIN, Confidence.LIKELY)
    )
    return replace(run, end=end, ended=window.moment(tenure.to_offset, tenure.to_timestamp), is_end_sure=is_sure)


def _within(tenures: Iterable[TenureRow], window: Window) -> list[TenureRow]:
    """The tenures that overlap the window, oldest first."""
    return sorted(
        (
            row
            for row in tenures
            if row.from_offset <= window.last and (row.to_offset is None or row.to_offset >= window.begin)
        ),
        key=lambda row: row.from_offset,
    )


def _owned_before(owners: Sequence[OwnerRow], begin: int) -> dict[str, dict[str, tuple[int, ...]]]:
    """What each identity owned just before the first rebalance."""
    owned: dict[str, dict[str, tuple[int, ...]]] = {}
    for row in sorted(owners, key=lambda row: row.topic_partition):
        if row.from_offset < begin and (row.to_offset is None or row.to_offset >= begin):
            name = row.topic or row.place
            of_seat = owned.setdefault(row.seat, {})
            of_seat[name] = (*of_seat.get(name, ()), row.topic_partition)
    return owned

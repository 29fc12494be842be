"""Processes that leave and come back: a row of `gold_restart` for each, and which ones may still come back.

A static member is known by its group instance id. A dynamic one gets another member id each time; the same client id on
the same host counts as the same process, which is never certain, and likely only if no other member has both."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kgm.history.causes.classic_causes import HEARTBEAT_MS
from kgm.history.causes.verdict import RETURN_WITHIN_MS, Cause, Departure, ReturnedMember, session_of
from kgm.history.reconstruct.classic_snapshots import MemberChange, SnapshotMember
from kgm.history.row_parts import GroupRecord
from kgm.history.row_tables import RowCollector
from kgm.history.rows import RebalanceRow, RestartRow
from kgm.history.state_json import json_name

#: A process that comes back after this time counts as a new one.
_FORGET_MS = 3_600_000
#: This many processes that left are recognized again, no matter how long they were away.
_MAX_ONCE = 1_000
#: The number of restarts on which the advice on the session timeout is based.
_MAX_RESTARTS = 2_000
#: How a static member leaves whose session expires, as far as the records show it.
_EXPIRED = frozenset((Cause.SESSION_EXPIRY, Cause.DEPARTURE))
#: The causes of a rebalance that only consists of such departures and of returns.
_OF_RESTARTS = frozenset((*_EXPIRED, Cause.BOUNCE, Cause.ALL_GONE))


def process_key(member: SnapshotMember) -> str:
    """What identifies a process across restarts."""
    record = member.record
    if record.group_instance_id is not None:
        return f"i{record.group_instance_id}"
    return f"c{record.client_id}\0{record.client_host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A process that left. at: when the group was without it, in ms; offset: of the record that shows it, None if that
    is the record with which it returned. down_min, down_max: the earliest and latest time at which it can have
    stopped. expired: whether its session can have expired, judging by how it left."""

    member_id: str
    at: int
    offset: int | None
    down_min: int | None
    down_max: int
    expired: bool = False
    identity: str | None = field(default=None, metadata=json_name("seat"))
    session_timeout_ms: int | None = field(default=None, metadata=json_name("session"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A member that is back. down_min, down_max: when it stopped; up_at: when it was a member again; all in ms.
    left_at, expired: as in `Absence`."""

    old_member_id: str | None
    down_min: int | None
    down_max: int | None
    up_at: int
    absorbed: bool | None
    complete: bool
    confidence: str
    left_at: int | None = None
    expired: bool = False


@dataclass(slots=True, kw_only=True)
class RestartState:
    """gone: processes that left in earlier rebalances, by `process_key`, oldest first. absences: (ms at most, absorbed,
    static) of the newest restarts. expiries: (ms at most, offset of the rebalance in which it left or -1, that of the
    one in which it returned) of those static ones that a longer session would have covered. rounds: (offset, number of
    members that left or returned) of the newest rebalances that had no other cause. once: the keys of the newest
    processes that have ever left; once_more: whether there were more than those."""

    gone: dict[str, list[Absence]] = field(default_factory=dict)
    absences: list[tuple[int, int, int]] = field(default_factory=list)
    expiries: list[tuple[int, int, int]] = field(default_factory=list)
    rounds: list[tuple[int, int]] = field(default_factory=list)
    once: list[str] = field(default_factory=list)
    once_more: bool = False

    def saved_by(self, session_ms: int) -> int:
        """How many rebalances would not have happened with this session timeout: those in which only members left and
        returned that it would have covered."""
        covered: Counter[int] = Counter()
        for most, left_at, returned_at in self.expiries:
            if most <= session_ms:
                covered.update((left_at, returned_at))
        return sum(covered[offset] >= members for offset, members in self.rounds)


class Restarts:
    """A group's restarts, regardless of its type: a group can change its type."""

    def __init__(self, rows: RowCollector, state: RestartState) -> None:
        self.rows, self.state = rows, state

    def went(self, departure: Departure, at: int, offset: int, since: int) -> None:
        """A member left. since: the time of the last record that has it, a sign of life."""
        missing = departure.missing
        member = missing.change.member
        least = max(missing.last_commit or since, since)
        most = at
        if departure.cause is Cause.SESSION_EXPIRY:
            # Its last heartbeat was one session timeout before the expiry, and it stopped before the next heartbeat.
            most = max(at - member.record.session_timeout + HEARTBEAT_MS, least)
        self.gone(member, at=at, offset=offset, down_min=min(least, most), down_max=most, cause=departure.cause)

    def gone(
        self, member: SnapshotMember, *, at: int, offset: int | None, down_min: int, down_max: int,
        cause: Cause | None = None,
    ) -> None:  # fmt: skip
        """Remember a member that may come back. cause: how it left; None if it did not leave, but the group changed its
        type."""
        absence = Absence(
            identity=member.identity, member_id=member.record.member_id, at=at, offset=offset,
            session_timeout_ms=session_of(member.record), down_min=down_min, down_max=down_max,
            expired=cause in _EXPIRED,
        )  # fmt: skip
        self.state.gone.setdefault(process_key(member), []).append(absence)
        self.saw(member)

    def saw(self, member: SnapshotMember) -> None:
        """Note that the process was a member and is gone, regardless of when it left."""
        key = process_key(member)
        if key not in self.state.once:
            self.state.once_more = self.state.once_more or len(self.state.once) >= _MAX_ONCE
            self.state.once = [*self.state.once[-_MAX_ONCE + 1 :], key]

    def is_awaited(self, member: SnapshotMember) -> bool:
        """Whether a process with the same key left and has not come back yet."""
        return process_key(member) in self.state.gone

    def was_member(self, member: SnapshotMember) -> bool:
        """Whether the process, or another one with its client id and host, may have been a member that left before."""
        return self.state.once_more or process_key(member) in self.state.once

    def back(self, change: MemberChange, at: int) -> Absence | None:
        """The absence that ends now that this member joined; it is then forgotten. None if there is none."""
        key = process_key(change.member)
        waiting = self.state.gone.get(key)
        if not waiting:
            return None
        absence = waiting.pop(0)
        if not waiting:
            del self.state.gone[key]
        return absence if at - absence.at <= _FORGET_MS else None

    def converted(self, member: SnapshotMember, at: int, since: int) -> None:
        """The group changed its type, and this was a member; for one that remains a member, `stays` is called."""
        self.gone(member, at=at, offset=None, down_min=since, down_max=at)

    def stays(self, member: SnapshotMember) -> None:
        """Note that the member was not away."""
        key = process_key(member)
        others = [each for each in self.state.gone.get(key, ()) if each.member_id != member.record.member_id]
        self.state.gone[key] = others
        if not others:
            del self.state.gone[key]

    def forget(self, at: int) -> None:
        """Drop the processes that have been away for too long."""
        gone = self.state.gone
        for key, waiting in list(gone.items()):
            recent = [each for each in waiting if at - each.at <= _FORGET_MS]
            if recent:
                gone[key] = recent
            else:
                del gone[key]

    def ended(self, record: GroupRecord, change: MemberChange, back: Return) -> None:
        """A restart is over."""
        member = change.member.record
        static = member.group_instance_id is not None
        least = None if back.down_max is None else max(back.up_at - back.down_max, 0)
        most = None if back.down_min is None else max(back.up_at - back.down_min, 0)
        session_ms = session_of(member)
        if back.absorbed and most is not None and session_ms is not None:
            # If it had taken longer, its session would have expired.
            most = min(most, session_ms)
        self.rows.put(
            RestartRow(
                **record.columns, seat=change.identity, static=static, member_id=member.member_id,
                client_id=member.client_id, client_host=member.client_host, session_timeout_ms=session_ms,
                min_ms=least, max_ms=most, down_at_min=back.down_min, down_at_max=back.down_max, up_at=back.up_at,
                absorbed=back.absorbed, old_member_id=back.old_member_id, confidence=back.confidence,
                complete=back.complete,
            )
        )  # fmt: skip
        if most is not None:
            restart = (most, int(bool(back.absorbed)), int(static))
            self.state.absences = [*self.state.absences[-_MAX_RESTARTS + 1 :], restart]
            # A member that was back before its session could expire caused no rebalance by being away.
            if static and back.expired and not back.absorbed and (session_ms is None or most > session_ms):
                expiry = (most, -1 if back.left_at is None else back.left_at, record.offset)
                self.state.expiries = [*self.state.expiries[-_MAX_RESTARTS + 1 :], expiry]

    def folded(self, offsets: Collection[int], into: int) -> None:
        """The records at these offsets turned out to be parts of the rebalance of the record at offset `into`."""
        if [*offsets] == [into]:
            return

        self.state.expiries = [
            (most, into if left in offsets else left, into if returned in offsets else returned)
            for most, left, returned in self.state.expiries
        ]
        for key, gone in self.state.gone.items():
            self.state.gone[key] = [replace(each, offset=into) if each.offset in offsets else each for each in gone]

    def rebalanced(self, row: RebalanceRow) -> None:
        """Take note of a rebalance."""
        if row.complete and _OF_RESTARTS.issuperset((row.cause, *row.also)):
            members = (row.joined or 0) + (row.left or 0) + (row.replaced or 0)
            self.state.rounds = [*self.state.rounds[-2 * _MAX_RESTARTS + 1 :], (row.offset, members)]


def returns(
    joined: Iterable[MemberChange], departures: Iterable[Departure], restarts: Restarts, counts: Mapping[str, int],
    at: int,
) -> tuple[list[tuple[ReturnedMember, Absence]], list[Departure]]:  # fmt: skip
    """(members that came back, each with what is known about its absence; departures of members that did not). counts:
    how many members had each `process_key` before."""
    left: dict[str, list[Departure]] = {}
    for each in departures:
        left.setdefault(process_key(each.missing.change.member), []).append(each)
    returned = []
    for change in joined:
        key = process_key(change.member)
        unique = change.member.record.group_instance_id is not None or counts.get(key, 0) <= 1
        if left.get(key):
            missing = left[key].pop(0).missing
            absence = Absence(
                member_id=missing.change.member.record.member_id, at=at, offset=None, down_min=missing.last_commit,
                down_max=at,
            )  # fmt: skip
        else:
            earlier = restarts.back(change, at)
            if earlier is None:
                continue
            absence = earlier
        absent = None if absence.down_min is None else max(at - absence.down_min, 0)
        if at - absence.at <= RETURN_WITHIN_MS:
            back = ReturnedMember(change=change, old_member_id=absence.member_id, absent_ms=absent, unique=unique)
            returned.append((back, absence))
    return returned, [each for gone in left.values() for each in gone]

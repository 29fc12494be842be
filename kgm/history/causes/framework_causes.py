"""Why a group of Kafka Streams or of Connect workers rebalanced although its members are the same: the assignments from
the previous rebalance show which member was to trigger the next one, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from kgm.frameworks.connect import decode_worker_assignment
from kgm.frameworks.streams import StreamsAssignment, decode_streams_assignment
from kgm.history.causes.verdict import Cause, Confidence, Verdict, member_who, seconds
from kgm.history.reconstruct.classic_snapshots import Snapshot, SnapshotMember
from kgm.history.row_parts import Involvement
from kgm.model.errors import DecodeError
from kgm.model.work import CONNECT_PROTOCOL_TYPE, STREAMS_ASSIGNOR
from kgm.protocol.subscription import decode_assignment

T = TypeVar("T")
#: How far the clocks of members and coordinator may differ, plus how late a record may be.
_SLACK_MS: Final = 2_000
_SAME: Final = "the members are the same"


def framework_verdict(previous: Snapshot, snapshot: Snapshot) -> Verdict | None:
    """The cause that the assignments of `previous` show. None for a group of plain consumers, and if they show none.
    Both snapshots have the same members."""
    if previous.protocol_type == CONNECT_PROTOCOL_TYPE:
        return _of_connect(previous, snapshot)
    return _of_streams(previous, snapshot) if previous.protocol == STREAMS_ASSIGNOR else None


def _of_connect(previous: Snapshot, snapshot: Snapshot) -> Verdict | None:
    given = [*_read(previous.members.values(), decode_worker_assignment)]
    gave_up = [(member, one) for member, one in given if one.revoked]
    if gave_up:
        return _follow_up(gave_up, "had to give up connectors or tasks, and rejoined to do so")
    delay_ms = max((one.delay_ms for _, one in given), default=0)
    passed_ms = snapshot.joined_at - previous.timestamp
    if delay_ms and passed_ms >= delay_ms - _SLACK_MS:
        line = (
            f"a lost worker's connectors and tasks were held back for {seconds(delay_ms)} "
            f"(scheduled.rebalance.max.delay.ms); {seconds(passed_ms)} later, that delay had ended"
        )
        return Verdict(Cause.DELAY, Confidence.LIKELY, evidence=(line, _SAME))
    line = "a worker joined again, as workers do when the configuration of a connector has changed"
    return Verdict(Cause.REJOIN, Confidence.POSSIBLE, evidence=(line, _SAME))


def _of_streams(previous: Snapshot, snapshot: Snapshot) -> Verdict | None:
    until_ms = snapshot.joined_at + _SLACK_MS
    given = _read(previous.members.values(), _streams_assignment)
    due = [
        (member, at_ms) for member, one in given if (at_ms := one.next_rebalance_ms) is not None and at_ms <= until_ms
    ]
    at_once = [(member, at_ms) for member, at_ms in due if at_ms <= previous.timestamp + _SLACK_MS]
    if at_once:
        return _follow_up(at_once, "had to rebalance immediately, after tasks had left their owners")
    if due:
        line = "it was time to check whether tasks have caught up on their destinations (probing.rebalance.interval.ms)"
        people = tuple(member_who(member, Involvement.PROBED) for member, _ in due)
        return Verdict(Cause.PROBING, Confidence.LIKELY, people, (line, _SAME))
    return None


def _follow_up(some: Iterable[tuple[SnapshotMember, object]], what: str) -> Verdict:
    members = [member for member, _ in some]
    lines = tuple(f"{member.identity} {what}" for member in members[:3])
    people = tuple(member_who(member, Involvement.JOINED_AGAIN) for member in members)
    return Verdict(Cause.COOPERATIVE, Confidence.LIKELY, people, (*lines, _SAME))


def _read(members: Iterable[SnapshotMember], decode: Callable[[bytes], T]) -> Iterator[tuple[SnapshotMember, T]]:
    """The members whose assignment can be decoded, with it."""
    for member in members:
        try:
            yield member, decode(member.record.assignment)
        except DecodeError:
            continue


def _streams_assignment(data: bytes) -> StreamsAssignment:
    return decode_streams_assignment(decode_assignment(data).user_data or b"")

"""Processes that go and come back: a row of `gold_restart` for each, and who may still come back.

A static member is known by its group instance id. A dynamic one gets another member id each time; the same client id on
the same host is taken for the same process, which is certain for nobody and unique only where nobody else has both."""

from collections.abc import Iterable
from typing import Any

from kgm.history.causes.classic_causes import HEARTBEAT_MS, RETURN_WITHIN_MS, Cause, Departed, Return
from kgm.history.reconstruct.classic_snapshots import Change, Member
from kgm.history.rows import Row, Rows

#: A process that is back after this time is a new one.
_FORGET_MS = 3_600_000
#: So many absences are kept for the advice on the session timeout.
_KEPT = 2_000


def identity(member: Member) -> str:
    """What a process has again when it is started again."""
    record = member.record
    if record.group_instance_id is not None:
        return f"i{record.group_instance_id}"
    return f"c{record.client_id}\0{record.client_host}"


class Restarts:
    """gone: those who left in earlier rebalances, by identity, oldest first. absences: [ms at most, absorbed, static]
    of the restarts so far, the newest `_KEPT`."""

    def __init__(self, state: Row | None = None) -> None:
        state = state or {}
        self.gone: dict[str, list[Row]] = state.get("gone", {})
        self.absences: list[list[int]] = state.get("absences", [])

    def state(self) -> Row:
        """As JSON has it."""
        return {"gone": self.gone, "absences": self.absences}

    def went(self, departed: Departed, at: int, offset: int, since: int) -> None:
        """Remember who went; `since`: the last record that had it, a sign of life."""
        gone = departed.gone
        record = gone.change.member.record
        least = max(gone.last_commit or since, since)
        most = at
        if departed.cause is Cause.SESSION_EXPIRY:
            # Its last heartbeat was one session timeout before it expired, and it stopped before the next one.
            most = max(at - record.session_timeout + HEARTBEAT_MS, least)
        self.gone.setdefault(identity(gone.change.member), []).append({
            "seat": gone.change.seat, "member_id": record.member_id, "at": at, "offset": offset,
            "session": record.session_timeout, "down_min": min(least, most), "down_max": most,
        })  # fmt: skip

    def back(self, change: Change, at: int) -> Row | None:
        """Who of those that went is back with this one that joined; it is forgotten with that."""
        waiting = self.gone.get(identity(change.member))
        if not waiting:
            return None
        found = waiting.pop(0)
        if not waiting:
            del self.gone[identity(change.member)]
        return found if at - found["at"] <= _FORGET_MS else None

    def converted(self, member: Member, at: int, since: int) -> None:
        """The group got another type, and this was a member; who goes on being one `stays`."""
        record = member.record
        self.gone.setdefault(identity(member), []).append({
            "seat": member.seat, "member_id": record.member_id, "at": at, "offset": None,
            "session": record.session_timeout, "down_min": since, "down_max": at,
        })  # fmt: skip

    def stays(self, member: Member) -> None:
        """It was not away."""
        name = identity(member)
        kept = [row for row in self.gone.get(name, ()) if row["member_id"] != member.record.member_id]
        self.gone[name] = kept
        if not kept:
            del self.gone[name]

    def forget(self, at: int) -> None:
        """Drop who has been away for too long."""
        for name, waiting in list(self.gone.items()):
            kept = [row for row in waiting if at - row["at"] <= _FORGET_MS]
            if kept:
                self.gone[name] = kept
            else:
                del self.gone[name]

    def note(self, rows: Rows, base: Row, change: Change, **known: Any) -> None:
        """A restart is over. known: the columns down_at_min, down_at_max, up_at, absorbed, old_member_id, confidence,
        complete."""
        record = change.member.record
        static = record.group_instance_id is not None
        low, high, up = known["down_at_min"], known["down_at_max"], known["up_at"]
        most = None if low is None else max(up - low, 0)
        if known["absorbed"] and most is not None:
            # Had it been longer, its session would have expired.
            most = min(most, record.session_timeout)
        rows.put("gold_restart", {
            **base, "seat": change.seat, "static": static, "member_id": record.member_id,
            "client_id": record.client_id, "client_host": record.client_host,
            "session_timeout_ms": record.session_timeout,
            "min_ms": None if high is None else max(up - high, 0), "max_ms": most, **known,
        })  # fmt: skip
        if most is not None:
            self.absences = [*self.absences[-_KEPT + 1 :], [most, int(bool(known["absorbed"])), int(static)]]


def returns(
    joined: Iterable[Change], departed: Iterable[Departed], restarts: Restarts, everybody: dict[str, int], at: int
) -> tuple[list[tuple[Return, Row]], list[Departed]]:
    """(who came back, with what is known of the absence; those who went for good). everybody: how many members each
    identity had before."""
    left: dict[str, list[Departed]] = {}
    for each in departed:
        left.setdefault(identity(each.gone.change.member), []).append(each)
    found = []
    for change in joined:
        name = identity(change.member)
        unique = change.member.record.group_instance_id is not None or everybody.get(name, 0) <= 1
        if left.get(name):
            gone = left[name].pop(0).gone
            row: Row = {
                "member_id": gone.change.member.record.member_id, "at": at, "offset": None,
                "down_min": gone.last_commit, "down_max": at,
            }  # fmt: skip
        else:
            earlier = restarts.back(change, at)
            if earlier is None:
                continue
            row = earlier
        absent = None if row["down_min"] is None else max(at - row["down_min"], 0)
        if at - row["at"] <= RETURN_WITHIN_MS:
            found.append((Return(change=change, old_member_id=row["member_id"], absent_ms=absent, unique=unique), row))
    return found, [each for those in left.values() for each in those]

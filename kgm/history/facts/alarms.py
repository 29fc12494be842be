"""Things to look at in a group: rows of `gold_alarm`.

Everything here is decided when a record of the group is met, never by what is missing at the end of what was read: a
log that goes on can clear an alarm, and does not make one disappear."""

from enum import StrEnum
from typing import Any

from kgm.history.causes.classic_causes import Cause, Confidence, Step
from kgm.history.reconstruct.classic_snapshots import Change
from kgm.history.rows import Row, Rows


class Alarm(StrEnum):
    #: Two processes with one group instance id fence each other.
    DUPLICATE = "duplicate-instance-id"
    #: Sessions of one seat expire again and again, and it comes back: its session timeout is too short for it.
    FLAPPING = "timeout-flapping"
    #: Group instance ids that come once, expire, and are followed by others: names that change with each restart.
    NEVER_RETURNS = "seat-never-returns"
    #: An owner that does not commit any more, while the group goes on.
    ZOMBIE = "zombie-seat"


_HOUR_MS = 3_600_000
_DUPLICATE_COUNT = 3
_FLAPPING_COUNT = 3
_STRANGERS = 3


class Alarms:
    """raised: rows that are not cleared, by alarm and seat. times: when each seat was replaced or expired. strangers:
    static seats that expired and were followed by others."""

    def __init__(self, state: Row | None = None) -> None:
        state = state or {}
        self.raised: dict[str, Row] = state.get("raised", {})
        self.times: dict[str, list[Any]] = state.get("times", {})
        self.strangers: dict[str, int] = state.get("strangers", {})

    def state(self) -> Row:
        """As JSON has it."""
        return {"raised": self.raised, "times": self.times, "strangers": self.strangers}

    def replaced(self, rows: Rows, base: Row, change: Change) -> None:
        """A seat was taken over without a rebalance."""
        record = change.member.record
        window = 2 * record.session_timeout
        seen = self._within(f"r{change.seat}", base["timestamp"], window, record.member_id)
        if len(seen) >= _DUPLICATE_COUNT:
            line = f"{len(seen)} processes took the seat within {window} ms, each fencing the one before"
            self._raise(rows, base, Alarm.DUPLICATE, change.seat, Confidence.LIKELY, [name for _, name in seen], line)

    def rebalanced(self, rows: Rows, base: Row, step: Step) -> None:
        """A rebalance was explained."""
        for departed in step.departed:
            change = departed.gone.change
            if departed.cause is Cause.SESSION_EXPIRY and change.member.record.group_instance_id is not None:
                self.strangers[change.seat] = base["timestamp"]
        for back in step.returned:
            self.strangers.pop(back.change.seat, None)
            record = back.change.member.record
            if back.absent_ms is None or back.absent_ms < record.session_timeout:
                continue
            seen = self._within(f"f{back.change.seat}", base["timestamp"], _HOUR_MS, record.member_id)
            if len(seen) >= _FLAPPING_COUNT:
                line = f"its session expired {len(seen)} times within an hour, and each time it came back"
                names = [name for _, name in seen]
                self._raise(rows, base, Alarm.FLAPPING, back.change.seat, Confidence.LIKELY, names, line)
        self._strangers(rows, base, step)

    def _strangers(self, rows: Rows, base: Row, step: Step) -> None:
        new = [
            each.seat
            for each in step.changes
            if each.kind == "joined" and each.member.record.group_instance_id is not None
        ]
        if len(self.strangers) >= _STRANGERS and new:
            names = sorted(self.strangers)
            line = f"{len(names)} group instance ids expired and never came back, others came: {', '.join(names[:8])}"
            self._raise(rows, base, Alarm.NEVER_RETURNS, "", Confidence.POSSIBLE, names, line)

    def _within(self, name: str, now: int, window: int, what: str) -> list[Any]:
        seen = [each for each in self.times.get(name, []) if now - each[0] <= window]
        seen.append([now, what])
        self.times[name] = seen
        return seen

    def _raise(
        self, rows: Rows, base: Row, alarm: Alarm, seat: str, confidence: Confidence, members: list[str], line: str
    ) -> None:
        name = f"{alarm.value} {seat}"
        row = self.raised.get(name)
        if row is None:
            row = {
                **base, "alarm": alarm.value, "seat": seat, "confidence": confidence.value,
                "count": 0,
            }  # fmt: skip
            self.raised[name] = row
        row |= {
            "count": row["count"] + 1, "last_offset": base["offset"], "last_timestamp": base["timestamp"],
            "member_ids": members, "evidence": [line],
        }  # fmt: skip
        rows.put("gold_alarm", row)

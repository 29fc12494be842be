"""Things to look at in a group: rows of `gold_alarm`.

An alarm is raised when a record of the group is seen, never because something is missing at the end of what was read: a
log that continues does not make an alarm disappear."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from kgm.history.causes.classic_causes import RebalanceContext
from kgm.history.causes.verdict import Cause, Confidence, seconds
from kgm.history.reconstruct.classic_snapshots import ChangeKind, MemberChange
from kgm.history.row_parts import GroupRecord
from kgm.history.row_tables import RowCollector
from kgm.history.rows import AlarmRow
from kgm.model.takeovers import ran_together


class AlarmKind(StrEnum):
    """The column `alarm`."""

    #: Several processes with one group instance id fence each other.
    DUPLICATE = "duplicate-instance-id"
    #: A static member's session expires again and again, and it comes back: its session timeout is too short.
    FLAPPING = "timeout-flapping"
    #: Group instance ids expire and other ones follow: they change with each restart.
    NEVER_RETURNS = "seat-never-returns"


_HOUR_MS = 3_600_000
_DUPLICATE_COUNT = 3
_FLAPPING_COUNT = 3
_STRANGERS = 3
_IDS_SHOWN = 8


@dataclass(slots=True, kw_only=True)
class AlarmState:
    """raised: rows, by alarm and identity. times: when each identity was replaced or expired, with the member id, or
    the host, from then on. strangers: static members that expired and have not come back, by identity, with the
    time."""

    raised: dict[str, AlarmRow] = field(default_factory=dict)
    times: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    strangers: dict[str, int] = field(default_factory=dict)


class Alarms:
    """The alarms of one classic group."""

    def __init__(self, rows: RowCollector, state: AlarmState) -> None:
        self.rows, self.state = rows, state

    def replaced(self, record: GroupRecord, change: MemberChange) -> None:
        """Another process took over a group instance id without a rebalance; raises an alarm if several processes ran
        at the same time."""
        member = change.member.record
        window = 2 * member.session_timeout
        seen = self._within(f"r{change.identity}", record.timestamp, window, member.member_id)
        hosts = self._within(f"h{change.identity}", record.timestamp, window, member.client_host)
        if len(seen) >= _DUPLICATE_COUNT and ran_together(hosts):
            count = f"{len(seen)} processes took over the group instance id within {seconds(window)}"
            line = f"{count}, each fencing the one before"
            self._raise(
                record, AlarmKind.DUPLICATE, change.identity, Confidence.LIKELY, [name for _, name in seen], line
            )

    def rebalanced(self, record: GroupRecord, context: RebalanceContext) -> None:
        """A rebalance was explained; raises alarms for sessions that keep expiring and ids that do not return."""
        strangers = self.state.strangers
        for departure in context.departures:
            change = departure.missing.change
            if departure.cause is Cause.SESSION_EXPIRY and change.member.record.group_instance_id is not None:
                strangers[change.identity] = record.timestamp
        for back in context.returned:
            strangers.pop(back.change.identity, None)
            member = back.change.member.record
            if back.absent_ms is None or back.absent_ms < member.session_timeout:
                continue
            seen = self._within(f"f{back.change.identity}", record.timestamp, _HOUR_MS, member.member_id)
            if len(seen) >= _FLAPPING_COUNT:
                line = f"its session expired {len(seen)} times within an hour, and each time it came back"
                names = [name for _, name in seen]
                self._raise(record, AlarmKind.FLAPPING, back.change.identity, Confidence.LIKELY, names, line)
        new = any(
            each.kind is ChangeKind.JOINED and each.member.record.group_instance_id is not None
            for each in context.changes
        )
        if len(strangers) >= _STRANGERS and new:
            names = sorted(strangers)
            shown = ", ".join(names[:_IDS_SHOWN])
            line = f"{len(names)} group instance ids expired and did not come back, and new ones joined: {shown}"
            self._raise(record, AlarmKind.NEVER_RETURNS, "", Confidence.POSSIBLE, names, line)

    def _within(self, name: str, now: int, window: int, member_id: str) -> list[tuple[int, str]]:
        """The events within the window, including this one."""
        seen = [each for each in self.state.times.get(name, []) if now - each[0] <= window]
        seen.append((now, member_id))
        self.state.times[name] = seen
        return seen

    def _raise(
        self, record: GroupRecord, alarm: AlarmKind, identity: str, confidence: Confidence, members: list[str],
        line: str,
    ) -> None:  # fmt: skip
        name = f"{alarm.value} {identity}"
        row = self.state.raised.get(name)
        if row is None:
            row = AlarmRow(**record.columns, alarm=alarm.value, seat=identity, confidence=confidence.value, count=0)
        row = replace(
            row, count=row.count + 1, last_offset=record.offset, last_timestamp=record.timestamp,
            member_ids=tuple(members), evidence=(line,),
        )  # fmt: skip
        self.state.raised[name] = row
        self.rows.put(row)

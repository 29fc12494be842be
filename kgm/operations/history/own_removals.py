"""Rebalances that kgm itself caused: this machine's audit log has the member ids that it removed.

A member id is issued only once, so a member in a rebalance and one in the log with the same id are the same, whatever
the clocks say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from kgm.history.causes.verdict import Cause, Confidence
from kgm.history.row_parts import Involvement
from kgm.history.rows import RebalanceRow
from kgm.model.errors import KgmError
from kgm.operations.audit.audit_log import REMOVAL, AuditedRemoval, AuditLog, default_path

#: How members that were removed may be recorded.
_GONE: Final = frozenset({Cause.REMOVAL, Cause.LEAVE, Cause.DEPARTURE, Cause.SESSION_EXPIRY, Cause.MAX_POLL})
#: Results that prove that the member id was removed. A member that returned has a new id.
_REMOVED: Final = frozenset({"removed", "returned"})


def own_removals(environment: Mapping[str, str]) -> dict[tuple[str | None, str], AuditedRemoval]:
    """{(group id, member id): removal} from this machine's audit log; empty if there is no readable log."""
    try:
        removals = AuditLog(default_path(environment)).read().removals
    except (KgmError, OSError):
        return {}
    return {
        (one.group_id, one.member_id): one
        for one in removals
        if one.action == REMOVAL and one.member_id is not None and one.result in _REMOVED
    }


def audited(
    rows: Iterable[RebalanceRow], removals: Mapping[tuple[str | None, str], AuditedRemoval]
) -> list[RebalanceRow]:
    """The rebalances, with what the audit log says about members that are gone. The cause is certain if kgm removed all
    of them and nothing else happened."""
    return [_audited(row, removals) for row in rows] if removals else list(rows)


def _audited(row: RebalanceRow, removals: Mapping[tuple[str | None, str], AuditedRemoval]) -> RebalanceRow:
    gone = [each for each in row.who if each.what in _GONE]
    found = [
        (each, removals[row.group_id, each.member_id])
        for each in gone
        if each.member_id is not None and (row.group_id, each.member_id) in removals
    ]
    if not found:
        return row
    mine = [each for each, _ in found]
    lines = [
        f"{each.seat}: kgm removed it at {one.time}" + (f" ({one.reason})" if one.reason else "") for each, one in found
    ]
    who = tuple(replace(each, what=Involvement.REMOVAL.value) if each in mine else each for each in row.who)
    row = replace(row, who=who, evidence=(*lines, *row.evidence))
    if len(found) < len(gone) or not {row.cause, *row.also} <= _GONE:
        return row
    return replace(row, cause=Cause.REMOVAL.value, confidence=Confidence.CERTAIN.value, also=())

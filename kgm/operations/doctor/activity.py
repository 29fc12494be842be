"""What the group does: its state, and what its committed offsets say of its members' work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kgm.model.changes import REBALANCING
from kgm.model.snapshot import OffsetSnapshot
from kgm.operations.doctor.case import Case, Finding, grouped, names_of
from kgm.text.durations import show_duration
from kgm.text.wording import many

_AT_WORK: Final = REBALANCING | {"Assigning", "Reconciling"}
_STATES: Final = _AT_WORK | {"Stable", "Empty"}
_DAY_MS: Final = 86_400_000
#: Of the retention of offsets: less than this share left is soon.
_SOON: Final = 0.25


def odd_state(case: Case) -> Iterator[Finding]:
    """A group that is dying, or in a state that nobody knows; or one that does not get out of a rebalance."""
    state = case.group.state
    if state not in _STATES:
        yield case.finding(
            "odd-state", "error", f"the state of the group is {state}", about=[state],
            run=("kgm", "describe", case.group.group_id, "--state"),
        )  # fmt: skip
    elif state in _AT_WORK and case.earlier is not None and case.earlier.state in _AT_WORK:
        yield case.finding(
            "rebalancing", "warning", "the group rebalances; in a rebalance of the classic protocol nobody may consume",
            f"{case.earlier.state}, and {show_duration(case.window_ms)} later {state}",
            f"{many(len(case.group.members), 'member')}",
            run=("kgm", "watch", case.group.group_id, "--until", "stable", "--timeout", "5m"),
        )  # fmt: skip


def left_behind(case: Case) -> Iterator[Finding]:
    """An empty group that has not read everything, and whose offsets do not stay for ever."""
    group = case.group
    if group.state != "Empty" or group.members:
        return
    lagging = [row for row in group.offsets if row.lag]
    since_ms = case.past[-1].at_ms if case.past and not case.past[-1].group.members else None
    since = () if since_ms is None else (f"empty for {_long(case.now_ms - since_ms)}",)
    if lagging:
        lag = sum(row.lag or 0 for row in lagging)
        pairs = [(row.topic, row.partition) for row in lagging]
        yield case.finding(
            "empty-with-lag", "warning", f"nobody is in the group, and {lag} records wait for it",
            f"lag in {grouped(pairs)}", *since, about=names_of(pairs),
            run=("kgm", "describe", group.group_id, "--offsets"),
        )  # fmt: skip
    if since_ms is None or case.retention_ms is None or not group.offsets:
        return
    left_ms = since_ms + case.retention_ms - case.now_ms
    if left_ms < max(_DAY_MS, case.retention_ms * _SOON):
        when = f"in {_long(left_ms)}" if left_ms > 0 else "at any moment"
        yield case.finding(
            "offsets-expire-soon", "error" if left_ms < _DAY_MS else "warning",
            f"the committed offsets will be deleted {when}; who comes then starts where auto.offset.reset says", *since,
            f"offsets.retention.minutes is {case.retention_ms // 60_000}",
            run=("kgm", "describe", group.group_id, "--offsets", "-o", "json"),
        )  # fmt: skip


def stalled_owners(case: Case) -> Iterator[Finding]:
    """Owners that commit nothing while records wait for them."""
    before, now = case.earlier, case.group
    if before is None or now.state != "Stable" or not case.window_ms:
        return
    old = {(row.topic, row.partition): row for row in before.offsets}
    by_owner: dict[str, list[OffsetSnapshot]] = {}
    for row in now.offsets:
        then = old.get((row.topic, row.partition))
        if row.member_id is None or then is None or then.member_id != row.member_id or row.committed is None:
            continue
        owner = row.group_instance_id or row.member_id
        by_owner.setdefault(owner, []).append(row)
    stalled = {owner: rows for owner, rows in sorted(by_owner.items()) if _is_stalled(rows, old)}
    if not stalled:
        return
    lag = {owner: sum(row.lag or 0 for row in rows) for owner, rows in stalled.items()}
    grown = {owner: lag[owner] - sum(old[row.topic, row.partition].lag or 0 for row in rows)
             for owner, rows in stalled.items()}  # fmt: skip
    growing = sum(more for more in grown.values() if more > 0)
    pairs = {owner: [(row.topic, row.partition) for row in rows] for owner, rows in stalled.items()}
    yield case.finding(
        "stalled-owner", "error" if growing else "warning",
        f"{len(stalled)} of {len(now.members)} members committed nothing for {show_duration(case.window_ms)}, and "
        + (f"{growing} more records came" if growing else f"{sum(lag.values())} records wait"),
        *(f"{_known_as(case, owner)}: lag {lag[owner]} in {grouped(pairs[owner])}" for owner in list(stalled)[:5]),
        about=stalled, run=("kgm", "describe", now.group_id, "--offsets"),
    )  # fmt: skip


def _is_stalled(rows: list[OffsetSnapshot], old: dict[tuple[str, int], OffsetSnapshot]) -> bool:
    """Nothing was committed for any of its partitions, and records waited in one all the time."""
    if any(row.committed != old[row.topic, row.partition].committed for row in rows):
        return False
    return any(row.lag and old[row.topic, row.partition].lag for row in rows)


def _known_as(case: Case, owner: str) -> str:
    member = next((one for one in case.group.members if one.identity == owner), None)
    return owner if member is None or not member.client_host else f"{owner} ({member.client_id}, {member.client_host})"


def odd_offsets(case: Case) -> Iterator[Finding]:
    """Committed offsets that cannot be right, that nobody uses, or that are not there."""
    group = case.group
    beyond = [
        (r.topic, r.partition)
        for r in group.offsets
        if r.committed is not None and r.end is not None and r.committed > r.end
    ]
    if beyond:
        yield case.finding(
            "committed-beyond-end", "error",
            f"{many(len(beyond), 'committed offset')} lie behind the end of the partition: a topic that was made anew, "
            "or records that were lost",
            f"in {grouped(beyond)}", about=names_of(beyond), run=("kgm", "describe", group.group_id, "--offsets"),
        )  # fmt: skip
    subscribed = {topic for member in group.members for topic in member.topics}
    if group.state != "Stable" or not subscribed:
        return
    unused = sorted({row.topic for row in group.offsets if row.member_id is None and row.topic not in subscribed})
    if unused:
        yield case.finding(
            "offsets-of-other-topics", "info",
            "there are committed offsets of topics that nobody in the group subscribes to; they expire",
            f"topics: {', '.join(unused[:5])}", about=unused, run=("kgm", "describe", group.group_id, "--offsets"),
        )  # fmt: skip
    silent = [row for row in group.offsets if row.member_id is not None and row.end and row.committed is None]
    if silent:
        pairs = [(row.topic, row.partition) for row in silent]
        yield case.finding(
            "nothing-committed", "info",
            f"nothing was ever committed for {many(len(silent), 'partition')} with records: nobody knows the lag there",
            f"in {grouped(pairs)}", about=names_of(pairs), run=("kgm", "describe", group.group_id, "--offsets"),
        )  # fmt: skip


def _long(span_ms: int) -> str:
    """`3 days`, `5 hours`, `20m`."""
    if span_ms >= 2 * _DAY_MS:
        return f"{span_ms // _DAY_MS} days"
    if span_ms >= _DAY_MS // 12:
        return f"{span_ms // 3_600_000} hours"
    return show_duration(max(span_ms, 0) // 1000 * 1000)


CHECKS: Final = (odd_state, left_behind, stalled_owners, odd_offsets)

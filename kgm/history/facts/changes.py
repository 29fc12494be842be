"""What became of a member: rows of `silver_member_change`, alike for both types of groups."""

from collections.abc import Collection, Mapping
from typing import Any

from kgm.history.reconstruct.classic_snapshots import Change, ChangeKind, Member, Snapshot
from kgm.history.rows import Row


def change_row(
    base: Mapping[str, Any], change: Change, topics: tuple[Collection[str], Collection[str]], held: tuple[int, int]
) -> Row:
    """topics: subscribed before and after. held: how many partitions before and after."""
    record = change.member.record
    before, after = map(set, topics)
    return {
        **base, "generation": change.generation, "kind": change.kind.value, "member_id": record.member_id,
        "old_member_id": change.old_member_id, "group_instance_id": record.group_instance_id,
        "client_id": record.client_id, "client_host": record.client_host,
        "session_timeout_ms": record.session_timeout, "absorbed": change.absorbed, "complete": change.complete,
        "seat": change.seat, "rebalance_timeout_ms": record.rebalance_timeout,
        "topics_added": sorted(after - before), "topics_removed": sorted(before - after),
        "partitions_before": held[0], "partitions_after": held[1],
    }  # fmt: skip


def classic_change_row(base: Mapping[str, Any], change: Change, previous: Snapshot | None) -> Row:
    """Of a classic group, whose records have members with their assignments."""
    before = None if previous is None else previous.members.get(change.seat)
    after = None if change.kind is ChangeKind.LEFT else change.member
    return change_row(base, change, (_topics(before), _topics(after)), (_held(before), _held(after)))


def _topics(member: Member | None) -> Collection[str]:
    return () if member is None or member.topics is None else member.topics


def _held(member: Member | None) -> int:
    return 0 if member is None else sum(len(numbers) for numbers in (member.assigned or {}).values())

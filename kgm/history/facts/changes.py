"""How a member changed: rows of `silver_member_change`, the same for both types of groups."""

from collections.abc import Collection

from kgm.history.causes.verdict import session_of
from kgm.history.reconstruct.classic_snapshots import ChangeKind, MemberChange, Snapshot, SnapshotMember
from kgm.history.row_parts import GroupRecord
from kgm.history.rows import MemberChangeRow


def change_row(
    record: GroupRecord,
    change: MemberChange,
    topics: tuple[Collection[str], Collection[str]],
    partitions: tuple[int, int],
) -> MemberChangeRow:
    """topics: subscribed before and after. partitions: how many assigned before and after."""
    member = change.member.record
    before, after = map(set, topics)
    return MemberChangeRow(
        **record.columns, generation=change.generation, kind=change.kind.value, member_id=member.member_id,
        old_member_id=change.old_member_id, group_instance_id=member.group_instance_id, client_id=member.client_id,
        client_host=member.client_host, session_timeout_ms=session_of(member), absorbed=change.absorbed,
        complete=change.complete, seat=change.identity, rebalance_timeout_ms=member.rebalance_timeout,
        topics_added=tuple(sorted(after - before)), topics_removed=tuple(sorted(before - after)),
        partitions_before=partitions[0], partitions_after=partitions[1],
    )  # fmt: skip


def classic_change_row(record: GroupRecord, change: MemberChange, previous: Snapshot | None) -> MemberChangeRow:
    """The row for a classic group, whose records contain members with their assignments."""
    before = None if previous is None else previous.members.get(change.identity)
    after = None if change.kind is ChangeKind.LEFT else change.member
    return change_row(record, change, (_topics(before), _topics(after)), (_partitions(before), _partitions(after)))


def _topics(member: SnapshotMember | None) -> Collection[str]:
    return () if member is None or member.topics is None else member.topics


def _partitions(member: SnapshotMember | None) -> int:
    return 0 if member is None else sum(len(numbers) for numbers in (member.assigned or {}).values())

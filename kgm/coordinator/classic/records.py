"""A classic group as the log has it: one GroupMetadata record (Kafka: GroupCoordinatorRecordHelpers)."""

from collections.abc import Mapping

from kgm.coordinator.classic.group import ClassicGroup, ClassicMember, Protocol, Rows
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.contract.outcome import Millis
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record

_UNKNOWN = -1


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
    """The group with its members and these assignments by member id (each member must have one)."""
    return _record(group, [_row(group, member, assignments[member.member_id]) for member in group.members.values()])


def settled_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
    """Likewise for a group that is Stable from now on; it remembers its rows for `replaced_record`."""
    record = group_record(group, assignments)
    assert isinstance(record.value, GroupMetadataValue)
    group.rows = Rows([row.member_id for row in record.value.members], record.value.members)
    return record


def replaced_record(group: ClassicGroup, before: Rows | None, old_id: str, member: ClassicMember) -> Record:
    """A Stable group in which a member has just taken the place of another, whose rows were these before."""
    if before is None:
        return settled_record(group, {each.member_id: each.assignment for each in group.members.values()})
    # Each step is a copy of pointers: the only part of a restart that grows with the group, as the record does.
    member_ids, rows = before.member_ids.copy(), before.rows.copy()
    place = member_ids.index(old_id)
    del member_ids[place], rows[place]
    member_ids.append(member.member_id)
    rows.append(_row(group, member, member.assignment))
    group.rows = Rows(member_ids, rows)
    return _record(group, rows)


def _record(group: ClassicGroup, rows: list[MemberMetadata]) -> Record:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=_UNKNOWN if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=rows,
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def _row(group: ClassicGroup, member: ClassicMember, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(group.protocol),
        assignment=assignment,
    )


def new_group_record(group: ClassicGroup) -> Record:
    """A group that has just been created: generation 0, whatever the group has become since in memory."""
    return group_record(
        ClassicGroup(group_id=group.group_id, state_timestamp_ms=group.state_timestamp_ms),
        {},
    )


def tombstone(group_id: str) -> Record:
    return Record(GroupMetadataKey(group=group_id), None)


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as a coordinator that loads the log knows it: Stable with members, Empty without.

    Of a member's protocols only the selected one is in the log. A member of before KIP-62 has no rebalance timeout
    and gets its session timeout for it."""
    timestamp = value.current_state_timestamp
    group = ClassicGroup(
        group_id=group_id,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        state_timestamp_ms=None if timestamp == _UNKNOWN else Millis(timestamp),
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        generation=value.generation,
        leader=value.leader,
    )
    for row in value.members:
        member = ClassicMember(
            member_id=row.member_id,
            group_instance_id=row.group_instance_id,
            client_id=row.client_id,
            client_host=row.client_host,
            rebalance_timeout_ms=row.session_timeout if row.rebalance_timeout == _UNKNOWN else row.rebalance_timeout,
            session_timeout_ms=row.session_timeout,
            protocols=(Protocol(value.protocol or "", row.subscription),),
            assignment=row.assignment,
        )
        group.add(member, value.protocol_type)
    group.subscribed_topics = group.read_subscribed_topics()
    return group

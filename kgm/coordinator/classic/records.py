"""A classic group in the log: one GroupMetadata record (Kafka: GroupCoordinatorRecordHelpers).

Kafka writes a classic group at four points: when it is created (with the Java coordinator), when it becomes Empty, when
a static member is replaced, and when the leader has assigned."""

from collections.abc import Collection, Mapping

from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.groups.classic_group import (
    ClassicGroup,
    ClassicHardState,
    ClassicMember,
    LoggedMembers,
    OfferedProtocol,
)
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record

_UNKNOWN = -1


# -- to the log


def group_record(group: ClassicHardState, assignments: Mapping[str, bytes]) -> Record:
    """The record of the group, with its members and these assignments by member id, one for each member."""
    return _record(group, [_row(group, member, assignments[member.member_id]) for member in group.members.values()])


def stable_record(
    group: ClassicHardState, members: Collection[ClassicMember], assignments: Mapping[str, bytes]
) -> tuple[Record, LoggedMembers]:
    """The record of a group that becomes Stable, and its rows for `replaced_record`. members: all members, in the order
    in which they are written."""
    rows = [_row(group, member, assignments[member.member_id]) for member in members]
    return _record(group, rows), LoggedMembers([row.member_id for row in rows], rows)


def replaced_record(
    group: ClassicHardState, before: LoggedMembers | None, old_id: str, member: ClassicMember
) -> tuple[Record, LoggedMembers]:
    """The record of a Stable group in which a member has just replaced another, and its rows. before: the previous
    rows; None if they are not known."""
    if before is None:
        return current_record(group, group.members.values())
    # Copying these pointers is the only cost of a static restart that grows with the group; the record grows the same
    # way.
    member_ids, rows = before.member_ids.copy(), before.rows.copy()
    place = member_ids.index(old_id)
    del member_ids[place], rows[place]
    member_ids.append(member.member_id)
    rows.append(_row(group, member, member.assignment))
    return _record(group, rows), LoggedMembers(member_ids, rows)


def current_record(
    group: ClassicHardState, members: Collection[ClassicMember]
) -> tuple[Record, LoggedMembers]:  # fmt: skip
    """The record of a Stable group with the assignments that its members have."""
    return stable_record(group, members, {each.member_id: each.assignment for each in members})


def new_group_record(group: ClassicHardState) -> Record:
    """The record of a group that was just created: generation 0, even if the group in memory has changed since."""
    return group_record(ClassicHardState(group_id=group.group_id, state_timestamp_ms=group.state_timestamp_ms), {})


def tombstone(group_id: str) -> Record:
    return Record(GroupMetadataKey(group=group_id), None)


def _record(group: ClassicHardState, rows: list[MemberMetadata]) -> Record:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=_UNKNOWN if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=rows,
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def _row(group: ClassicHardState, member: ClassicMember, assignment: bytes) -> MemberMetadata:
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


# -- from the log


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as a coordinator knows it after loading the log: Stable with members, Empty without, and no soft state.

    Of a member's protocols, the log has only the selected one. A member from before KIP-62 has no rebalance timeout, so
    its session timeout is used."""
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
            protocols=(OfferedProtocol(value.protocol or "", row.subscription),),
            assignment=row.assignment,
        )
        group.add(member, value.protocol_type)
    group.subscribed_topics = group.read_subscribed_topics()
    return group

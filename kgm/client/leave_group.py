"""LeaveGroup (v0-5), sent once: members of a group, by instance id, by member id, or by both.

v3 added multiple members and instance ids (KIP-345, Kafka 2.4), v5 a reason (KIP-800, Kafka 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import ErrorCode, UnsupportedError
from kgm.protocol.apis import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberToRemove:
    """A member to remove, by instance id, by member id, or by both, which must then belong to the same member."""

    group_instance_id: str | None = None
    member_id: str = ""

    @property
    def id(self) -> str:
        return self.member_id if self.group_instance_id is None else self.group_instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """What the coordinator answered: an error for the whole request, and one error code for each member in the
    answer."""

    error_code: int
    codes: dict[MemberToRemove, int]
    version: int
    broker: str


def leave_group(
    connection: BrokerConnection,
    group_id: str,
    members: Sequence[MemberToRemove],
    reason: str | None,
    deadline: Deadline,
) -> LeaveAnswer:
    """Send one request; error codes in the answer are data. Raises KgmError; UnsupportedError before anything is
    sent."""
    from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
    from kgm.protocol.messages.leave_group_response import LeaveGroupResponse

    version = connection.version(ApiKey.LEAVE_GROUP)
    if version < 3:  # one member, no instance ids (before KIP-345)
        if len(members) != 1 or members[0].group_instance_id is not None:
            raise UnsupportedError(
                f"broker {connection.address} supports only one dynamic member in LeaveGroup v{version}"
            )
        member = members[0]
        request = LeaveGroupRequest(group_id=group_id, member_id=member.member_id)
        answer = connection.call(request, LeaveGroupResponse, version=version, deadline=deadline)
        code = answer.error_code
        codes = {member: code}
        top = code if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID) else 0
        return LeaveAnswer(error_code=top, codes={} if top else codes, version=version, broker=str(connection.address))
    identities = [
        MemberIdentity(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            reason=reason if version >= 5 else None,
        )
        for member in members
    ]
    request = LeaveGroupRequest(group_id=group_id, members=identities)
    answer = connection.call(request, LeaveGroupResponse, version=version, deadline=deadline)
    requested = set(members)
    codes = {}
    for row in answer.members:  # by identity, not by position: the order is not guaranteed
        member = MemberToRemove(group_instance_id=row.group_instance_id, member_id=row.member_id)
        if member in requested:
            codes.setdefault(member, row.error_code)
    return LeaveAnswer(
        error_code=answer.error_code, codes=codes, version=version, broker=str(connection.address)
    )  # fmt: skip

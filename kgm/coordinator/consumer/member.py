"""One member of a consumer group (KIP-848), as the log has it (Kafka: ConsumerGroupMember).

Epochs: 0 a member that has just joined; -1 one that is being removed; -2 a static member that is away and whose place
is kept (KIP-848). Partitions go by topic id; those that a member has come with the epoch in which it got them
(KIP-1251)."""

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEAVING = -1
AWAY = -2

#: Partitions by topic id; each with the member epoch in which it was assigned.
Assigned = Mapping[bytes, Mapping[int, int]]
#: Partitions by topic id, ascending.
Target = Mapping[bytes, tuple[int, ...]]
#: Likewise, as the coordinator goes through them (`target_order`).
Listed = Mapping[bytes, Sequence[int]]
NOTHING: Assigned = {}
NO_TARGET: Target = {}


class MemberState(enum.IntEnum):
    """How far a member is on its way to its target assignment; the number is the one in the log."""

    STABLE = 0
    """At the epoch that it was last given, with nothing to revoke and nothing to wait for."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions before it gets to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """At the next epoch, but others have not given up all that it is to get."""
    UNKNOWN = 127
    """Of a later version of Kafka."""


class ClassicProtocols(NamedTuple):
    """What a member of a consumer group that speaks the classic protocol said in JoinGroup: (name, metadata) each."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """A member. classic: not None for one that speaks the classic protocol. Never changed, but replaced."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    group_instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Assigned = NOTHING
    pending_revocation: Assigned = NOTHING
    classic: ClassicProtocols | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which the member got a partition that it has or has to give up; None if it has it not."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch


def member_state(number: int) -> MemberState:
    return MemberState(number) if number in _STATES else MemberState.UNKNOWN


_STATES = frozenset(state.value for state in MemberState)

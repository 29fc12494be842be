"""A member of a consumer group (KIP-848), as stored in the log (Kafka: ConsumerGroupMember).

Member epochs: 0 for a member that has just joined; -1 for one that is being removed; -2 for a static member that is
away and whose assignment is kept. Partitions are keyed by topic id; the partitions that a member has carry the epoch in
which they were assigned (KIP-1251)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kgm.records.member_states import MemberState

LEAVING = -1
AWAY = -2

#: Partitions by topic id, each with the member epoch in which it was assigned.
Assigned = Mapping[bytes, Mapping[int, int]]
#: Partitions by topic id, ascending.
Target = Mapping[bytes, tuple[int, ...]]
#: Partitions by topic id; topics and partitions are in the order in which Kafka iterates over them
#: (`consumer.target_order`).
ListedTarget = Mapping[bytes, Sequence[int]]
NOTHING: Assigned = {}
NO_TARGET: Target = {}


class ClassicProtocols(NamedTuple):
    """What a member that uses the classic protocol sent in JoinGroup; protocols: (name, metadata)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """A member. classic: None unless the member uses the classic protocol. Immutable: members are replaced."""

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

    def moved(
        self, state: MemberState, epoch: int, previous_epoch: int, assigned: Assigned, pending: Assigned
    ) -> "ConsumerMember":
        """The member after a step of its reconciliation; faster than `_replace`."""
        return ConsumerMember(
            self.member_id, epoch, previous_epoch, state, self.group_instance_id, self.rack_id,
            self.rebalance_timeout_ms, self.client_id, self.client_host, self.subscribed_topic_names,
            self.subscribed_topic_regex, self.server_assignor, assigned, pending, self.classic,
        )  # fmt: skip

    def says_the_same_as(self, other: "ConsumerMember") -> bool:
        """Whether this is `other` with the same metadata, only `moved`. Also False if finding out would require
        comparing sets."""
        return (
            self.subscribed_topic_names is other.subscribed_topic_names
            and self.subscribed_topic_regex == other.subscribed_topic_regex
            and self.server_assignor == other.server_assignor
            and self.classic is other.classic
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which the member got a partition that it has, or must give up; None if it does not have it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

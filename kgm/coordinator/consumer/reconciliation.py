"""How a member gets from the partitions that it has to those that it is to have (Kafka: CurrentAssignmentBuilder).

                     something to revoke
      STABLE  ------------------------------->  UNREVOKED_PARTITIONS
        ^  |                                       |           |
        |  | nothing to revoke,                    | revoked   | revoked, but others have not
        |  | others have not released              v           v
        |  +------------------------> UNRELEASED_PARTITIONS <--+
        +-------- all is released --------------------+

A member that has something to revoke stays in its epoch until it says that it owns it no longer. Only then it goes to
the epoch of the target, and gets what is free: what nobody has, or has still to give up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kgm.coordinator.consumer.member import NOTHING, Assigned, ConsumerMember, MemberState, Target

#: Partitions by topic id that a member says it owns; None: it says nothing of it.
Owned = Mapping[bytes, Sequence[int]] | None


class UnknownStateError(Exception):
    """The member is in a state of a later Kafka, and owns something: it has to begin anew (FENCED_MEMBER_EPOCH)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """One member on its way.

    is_subscribed: whether a topic (by id) is still one that the member subscribes to; what is not counts as no part of
    the target. wants_nothing: it subscribes to no topic at all, whether there or not. owner_epoch: the epoch of who has
    a partition, or None if nobody has it. subscription_changed: it has just said that it wants other topics."""

    member: ConsumerMember
    target_epoch: int
    target: Target
    is_subscribed: Callable[[bytes], bool]
    owner_epoch: Callable[[bytes, int], int | None]
    owned: Owned
    wants_nothing: bool = False
    subscription_changed: bool = False

    def next(self) -> ConsumerMember:
        """The member after the next step; the same object if there is none to take. Raises UnknownStateError."""
        member = self.member
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch != self.target_epoch:
                    return self._advance()
                return self._trim() if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._owns_any(member.pending_revocation):
                    return self._trim() if self.subscription_changed else member
                return self._advance()
            case MemberState.UNRELEASED_PARTITIONS:
                return self._advance()
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned:
                    raise UnknownStateError
                return self._advance()

    def _owns_any(self, assigned: Assigned) -> bool:
        """Whether the member may still own any of these: it says so, or says nothing."""
        if self.owned is None:
            return True
        return any(
            partition in assigned[topic_id]
            for topic_id, partitions in self.owned.items()
            if topic_id in assigned
            for partition in partitions
        )

    def _trim(self) -> ConsumerMember:
        """Take away the topics that the member has just left, and nothing else."""
        member = self.member
        left = [topic_id for topic_id in member.assigned if not self.is_subscribed(topic_id)]
        # Kafka compares by identity: it takes one empty map for another, but in a member that has just been made.
        is_new = member.previous_member_epoch < 0
        if not left and (is_new or not self.wants_nothing or member.pending_revocation):
            return member
        assigned = {topic_id: those for topic_id, those in member.assigned.items() if topic_id not in left}
        pending = dict(member.pending_revocation)
        for topic_id in left:
            pending[topic_id] = {**pending.get(topic_id, {}), **member.assigned[topic_id]}
        if pending and self._owns_any(pending):
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, assigned, pending)
        # It has already given them up. It stays in the state that it is in.
        return _moved(member, member.state, member.member_epoch, assigned, member.pending_revocation)

    def _advance(self) -> ConsumerMember:
        """Revoke what is not in the target, and if there is nothing to wait for, go to its epoch."""
        member = self.member
        kept: dict[bytes, Mapping[int, int]] = {}
        revoked: dict[bytes, Mapping[int, int]] = {}
        gained: dict[bytes, list[int]] = {}
        is_blocked = False
        for topic_id in {**self.target, **member.assigned}:
            target = self.target.get(topic_id, ()) if self.is_subscribed(topic_id) else ()
            has = member.assigned.get(topic_id, {})
            wanted = frozenset(target)
            keep = {partition: since for partition, since in has.items() if partition in wanted}
            if keep:
                kept[topic_id] = has if len(keep) == len(has) else keep
            if len(keep) < len(has):
                revoked[topic_id] = {partition: since for partition, since in has.items() if partition not in wanted}
            if len(keep) < len(target):
                missing = [partition for partition in target if partition not in keep]
                free = self._free(topic_id, missing)
                is_blocked |= len(free) < len(missing)
                if free:
                    gained[topic_id] = free
        if revoked and self._owns_any(revoked):
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoked)
        for topic_id, free in gained.items():
            kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(free, self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
        return _moved(member, state, self.target_epoch, kept, NOTHING)

    def _free(self, topic_id: bytes, partitions: Sequence[int]) -> list[int]:
        """Those that nobody has. What the member itself has still to give up does not hold it up (KAFKA-19449)."""
        mine = self.member.pending_revocation.get(topic_id, {})
        owner_epoch = self.owner_epoch
        return [p for p in partitions if owner_epoch(topic_id, p) is None or p in mine]


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assigned, pending: Assigned
) -> ConsumerMember:
    return member._replace(
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=pending,
    )

"""How a member moves from its current assignment to its target assignment (Kafka: CurrentAssignmentBuilder).

                     something to revoke
      STABLE  ------------------------------->  UNREVOKED_PARTITIONS
        ^  |                                       |           |
        |  | nothing to revoke,                    | revoked   | revoked, but others have not
        |  | others have not released              v           v
        |  +------------------------> UNRELEASED_PARTITIONS <--+
        +-------- all is released --------------------+

A member that has partitions to revoke stays in its epoch until it reports that it no longer owns them. Only then does
it advance to the target epoch, and get the partitions that are free, that is, the ones that no member has or must still
revoke."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.groups.consumer_member import NOTHING, Assigned, ConsumerMember, Target
from kgm.records.member_states import MemberState

#: Partitions by topic id that a member reports as owned; None: it reports nothing.
Owned = Mapping[bytes, Sequence[int]] | None


class UnknownStateError(Exception):
    """The member is in a state from a later Kafka version and owns partitions: it must rejoin (FENCED_MEMBER_EPOCH)."""


# Not frozen: one is created for every heartbeat of a member that has not reached its target, and creating a frozen one
# takes twice as long.
@dataclass(slots=True, kw_only=True)
class Reconciliation:
    """The reconciliation of one member.

    is_subscribed: whether the member still subscribes to a topic (by id); other topics in the target are ignored.
    subscribes_to_nothing: the member subscribes to no topic, existing or not. owner_epoch: the epoch of the member that
    has a partition, or None if no member has it. subscription_changed: this request changes the subscription."""

    member: ConsumerMember
    target_epoch: int
    target: Target
    is_subscribed: Callable[[bytes], bool]
    owner_epoch: Callable[[bytes, int], int | None]
    owned: Owned
    subscribes_to_nothing: bool = False
    subscription_changed: bool = False
    behavior: CoordinatorBehavior = REFERENCE_BEHAVIOR

    def next(self) -> ConsumerMember:
        """The member after the next transition; the same object if there is none. Raises UnknownStateError."""
        member = self.member
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch != self.target_epoch:
                    return self._advance()
                return self._trim() if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._owns_any(member.pending_revocation):
                    return self._trim() if self.subscription_changed else member
                return self._advance(epochs_ahead=int(self.behavior.increments_epoch_of_revocation))
            case MemberState.UNRELEASED_PARTITIONS:
                return self._advance()
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned:
                    raise UnknownStateError
                return self._advance()

    def _owns_any(self, assigned: Assigned) -> bool:
        """Whether the member may still own any of these: it reports so, or reports nothing."""
        if self.owned is None:
            return True
        return any(
            partition in assigned[topic_id]
            for topic_id, partitions in self.owned.items()
            if topic_id in assigned
            for partition in partitions
        )

    def _trim(self) -> ConsumerMember:
        """Remove the topics that the member no longer subscribes to, and nothing else."""
        member = self.member
        left = [topic_id for topic_id in member.assigned if not self.is_subscribed(topic_id)]
        # Kafka compares by identity: if there is no subscription, it treats an empty map as a change, unless the member
        # is new.
        is_new = member.previous_member_epoch < 0
        if not left and (is_new or not self.subscribes_to_nothing or member.pending_revocation):
            return member
        assigned = {topic_id: those for topic_id, those in member.assigned.items() if topic_id not in left}
        pending = dict(member.pending_revocation)
        for topic_id in left:
            pending[topic_id] = {**pending.get(topic_id, {}), **member.assigned[topic_id]}
        if pending and self._owns_any(pending):
            return self._trimmed(MemberState.UNREVOKED_PARTITIONS, assigned, pending)
        # The member has already revoked them, and stays in its state.
        return self._trimmed(member.state, assigned, member.pending_revocation)

    def _trimmed(self, state: MemberState, assigned: Assigned, pending: Assigned) -> ConsumerMember:
        """The trimmed member, still in its epoch, which from Kafka 4.3 on also becomes its previous epoch."""
        member = _moved(self.member, state, self.member.member_epoch, assigned, pending)
        if self.behavior.has_assignment_epochs:
            return member
        return member._replace(previous_member_epoch=self.member.previous_member_epoch)

    def _advance(self, *, epochs_ahead: int = 0) -> ConsumerMember:
        """Revoke what is not in the target; if there is nothing to revoke, advance to the target epoch.

        epochs_ahead: how far the member's epoch advances if it has to revoke."""
        member = self.member
        kept: dict[bytes, Mapping[int, int]] = {}
        revoked: dict[bytes, Mapping[int, int]] = {}
        gained: dict[bytes, list[int]] = {}
        is_blocked = False
        for topic_id in {**self.target, **member.assigned}:
            target = self.target.get(topic_id, ()) if self.is_subscribed(topic_id) else ()
            has = member.assigned.get(topic_id, {})
            wanted = frozenset(target)
            if has.keys() == wanted:
                if has:
                    kept[topic_id] = has
                continue
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
            epoch = member.member_epoch + epochs_ahead
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
        for topic_id, free in gained.items():
            kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(free, self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
        return _moved(member, state, self.target_epoch, kept, NOTHING)

    def _free(self, topic_id: bytes, partitions: Sequence[int]) -> list[int]:
        """The partitions that no member has. Those that the member itself must revoke are free for it, depending on the
        version (KAFKA-19449)."""
        mine = self.member.pending_revocation.get(topic_id, {}) if self.behavior.frees_own_revocations else {}
        owner_epoch = self.owner_epoch
        return [p for p in partitions if owner_epoch(topic_id, p) is None or p in mine]


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assigned, pending: Assigned
) -> ConsumerMember:
    return member.moved(state, epoch, member.member_epoch, assigned, pending)

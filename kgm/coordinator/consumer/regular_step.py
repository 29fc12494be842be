"""The next step of a member that behaves as expected, without a request: the combined result of `reconciliation` and
the replay of the member's record, for callers that simulate many members of one group.

The expected behavior: a member answers each new assignment with a heartbeat in which it owns exactly that assignment,
and sends no other heartbeat before; its target has only topics that exist and that it subscribes to; and no two members
have the same partition."""

from collections.abc import Mapping, Sequence
from typing import Final

from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import NOTHING, Assigned, ConsumerMember, Target
from kgm.records.member_states import MemberState

_NO_EPOCHS: Final[Mapping[int, int]] = {}


def next_step(group: ConsumerGroup, member: ConsumerMember, target: Target) -> ConsumerMember:
    """The member after its next heartbeat; the same object if that changes nothing. The group is not changed
    (`take_step`). target: its target assignment."""
    epoch = group.assignment_epoch
    if member.is_reconciled_to(epoch):
        return member
    assigned = member.assigned
    kept: dict[bytes, Mapping[int, int]] = {}
    revoked: dict[bytes, Mapping[int, int]] = {}
    missing: dict[bytes, Sequence[int]] = {}
    for topic_id in target if target.keys() == assigned.keys() else {**target, **assigned}:
        wanted, has = target.get(topic_id, ()), assigned.get(topic_id, _NO_EPOCHS)
        if has.keys().isdisjoint(wanted):
            if has:
                revoked[topic_id] = has
            if wanted:
                missing[topic_id] = wanted
            continue
        lost = has.keys() - wanted
        if lost:
            revoked[topic_id] = {partition: since for partition, since in has.items() if partition in lost}
            has = {partition: since for partition, since in has.items() if partition not in lost}
        kept[topic_id] = has
        if len(has) < len(wanted):
            missing[topic_id] = [partition for partition in wanted if partition not in has]
    if revoked:
        is_again = member.state is MemberState.UNREVOKED_PARTITIONS
        ahead = int(is_again and group.behavior.increments_epoch_of_revocation)
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch + ahead, kept, revoked)
    state = MemberState.STABLE
    for topic_id, partitions in missing.items():
        free = _free(group, member, topic_id, partitions)
        if free:
            kept[topic_id] = {**kept.get(topic_id, _NO_EPOCHS), **dict.fromkeys(free, epoch)}
        if len(free) < len(partitions):
            state = MemberState.UNRELEASED_PARTITIONS
    return _moved(member, state, epoch, kept, NOTHING)


def _free(group: ConsumerGroup, member: ConsumerMember, topic_id: bytes, partitions: Sequence[int]) -> Sequence[int]:
    """The subset of these partitions that no member has, or that this member must itself give up."""
    held = group.partition_epochs.get(topic_id, _NO_EPOCHS)
    if held.keys().isdisjoint(partitions):
        return partitions
    own = _NO_EPOCHS
    if group.behavior.frees_own_revocations:
        own = member.pending_revocation.get(topic_id, _NO_EPOCHS)
    return [partition for partition in partitions if partition not in held or partition in own]


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assigned, pending: Assigned
) -> ConsumerMember:
    before = member.member_epoch
    if (
        member.state is state
        and before == epoch == member.previous_member_epoch
        and member.assigned == assigned
        and member.pending_revocation == pending
    ):
        return member
    return member.moved(state, epoch, before, assigned, pending)


def take_step(group: ConsumerGroup, after: ConsumerMember) -> ConsumerMember:
    """Replace a member in the group with the member after its next step. Returns it as a replay of its record would
    leave it."""
    if not group.behavior.has_assignment_epochs:
        epoch = max(after.member_epoch, 0)
        after = after._replace(
            assigned={topic_id: dict.fromkeys(those, epoch) for topic_id, those in after.assigned.items()},
            pending_revocation={
                topic_id: dict.fromkeys(those, epoch) for topic_id, those in after.pending_revocation.items()
            },
        )
    group.put_step(after)
    return after

"""The step of a member that does what is expected of it is what its heartbeat comes to, record and all."""

from __future__ import annotations

import random

import pytest

from kgm.coordinator.consumer import records
from kgm.coordinator.consumer.reconciliation import Reconciliation
from kgm.coordinator.consumer.regular_step import next_step, take_step
from kgm.coordinator.contract.behavior import behavior_of
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.model.broker_version import BrokerVersion
from kgm.records.member_states import MemberState

TOPICS = {b"t" * 16: 12, b"u" * 16: 6, b"v" * 16: 3}
VERSIONS = ["4.0", "4.1", "4.2", "4.3", "4.4"]
FIELDS = [*{*ConsumerGroup.__slots__} - {"order", "resolved_order", "assignors_order"}]
MEMBERS = ["m0", "m1", "m2", "m3", "m4"]


def some_targets(r, topics, is_in_blocks):
    """A target for each member, without a partition that two of them have."""
    targets = {member_id: {} for member_id in MEMBERS}
    for topic_id, count in topics.items():
        owners = sorted(r.choices(MEMBERS, k=count)) if is_in_blocks else r.choices([*MEMBERS, None], k=count)
        for member_id in r.sample(MEMBERS, len(MEMBERS)):
            partitions = tuple(p for p, owner in enumerate(owners) if owner == member_id)
            if partitions:
                targets[member_id][topic_id] = partitions
    return targets


def both(group, twin, member_id):
    """One heartbeat of a member both ways. Returns the member before and after."""
    before, wanted = group.members[member_id], group.target_of(member_id)
    after = next_step(group, before, wanted)
    is_revoking = before.state is MemberState.UNREVOKED_PARTITIONS
    whole = Reconciliation(
        member=twin.members[member_id], target_epoch=twin.assignment_epoch, target=wanted, is_subscribed=TOPICS.__contains__,
        owner_epoch=twin.owner_epoch, behavior=twin.behavior,
        owned={topic_id: [*partitions] for topic_id, partitions in before.assigned.items()} if is_revoking else None,
    ).next()  # fmt: skip
    assert after == whole
    assert (after is before) == (whole == before)
    if after is not before:
        record = records.current_record(twin, whole)
        assert records.current_record(group, after) == record  # in the same order
        known = take_step(group, after)
        records.replay(twin, record.key, record.value)
        assert known == twin.members[member_id]
    for name in FIELDS:
        assert getattr(group, name) == getattr(twin, name)
    assert group.order.capacity == twin.order.capacity
    return before, after


@pytest.mark.few(50)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(30))
def test_members_on_their_way_to_changing_targets(version, seed):
    """Heartbeats in any order; the next epoch begins while some still wait, or have to give up partitions."""
    r = random.Random(seed)
    topics = dict(list(TOPICS.items())[: r.randint(1, 3)])
    groups = [ConsumerGroup.new("g", behavior_of(BrokerVersion.parse(version))) for _ in range(2)]
    seen = set()
    for member_id in MEMBERS:
        for each in groups:
            each.put(ConsumerMember(member_id, member_epoch=1, previous_member_epoch=1))
    for epoch in range(2, 12):
        for member_id, target in some_targets(r, topics, is_in_blocks=bool(seed % 2)).items():
            for each in groups:
                each.put_target(member_id, target, {})
        for each in groups:
            each.group_epoch = each.assignment_epoch = epoch
        for _ in range(r.choice([2, 6, 40])):
            before, after = both(*groups, r.choice(MEMBERS))
            seen.add((before.state, after.state))
    changes = {pair for pair in seen if pair[0] is not pair[1]}
    assert len(changes) > 3
    assert (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS) in changes
    assert (MemberState.UNRELEASED_PARTITIONS, MemberState.STABLE) in changes


def test_a_member_that_waits_in_vain_is_written_once_more_and_then_no_longer():
    """Its previous epoch becomes that of its target, as Kafka has it."""
    group = ConsumerGroup.new("g", behavior_of(BrokerVersion.parse("4.3")))
    (topic_id, *_) = TOPICS
    group.put(ConsumerMember("other", member_epoch=1, assigned={topic_id: {0: 1}}))
    group.put(ConsumerMember("m0", member_epoch=1))
    group.put_target("m0", {topic_id: (0,)}, {})
    group.assignment_epoch = 5
    waits = take_step(group, next_step(group, group.members["m0"], group.target_of("m0")))
    assert (waits.state, waits.member_epoch, waits.previous_member_epoch) == (MemberState.UNRELEASED_PARTITIONS, 5, 1)
    waits = take_step(group, next_step(group, waits, group.target_of("m0")))
    assert (waits.member_epoch, waits.previous_member_epoch) == (5, 5)
    assert next_step(group, waits, group.target_of("m0")) is waits

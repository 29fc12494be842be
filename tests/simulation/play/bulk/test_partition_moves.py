"""What heartbeats in arrays change is what the coordinator's rules say, record and all."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from kgm.coordinator.consumer import records
from kgm.coordinator.consumer.reconciliation import Reconciliation
from kgm.coordinator.contract.behavior import behavior_of
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.model.broker_version import BrokerVersion
from kgm.records.member_states import MemberState
from kgm.simulation.play.bulk.partition_moves import PartitionMoves

TOPICS = {b"t" * 16: 12, b"u" * 16: 6, b"v" * 16: 3}
VERSIONS = ["4.0", "4.1", "4.2", "4.3", "4.4"]
MEMBERS = ["m0", "m1", "m2", "m3", "m4"]

now_ms = itertools.count()


def places_of(topics):
    """The first partition of each topic, and how many it has."""
    firsts = itertools.accumulate(topics.values(), initial=0)
    return {topic_id: (first, count) for (topic_id, count), first in zip(topics.items(), firsts, strict=False)}


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


def by_requests(twin, member_ids):
    """One heartbeat of each member by the rules of the coordinator, in this order. Returns those that changed, before
    and after, and their records."""
    changed = []
    for member_id in member_ids:
        before = twin.members[member_id]
        is_revoking = before.state is MemberState.UNREVOKED_PARTITIONS
        after = Reconciliation(
            member=before, target_epoch=twin.assignment_epoch, target=twin.target_of(member_id),
            is_subscribed=TOPICS.__contains__, owner_epoch=twin.owner_epoch, behavior=twin.behavior,
            owned={topic_id: [*partitions] for topic_id, partitions in before.assigned.items()} if is_revoking else None,
        ).next()  # fmt: skip
        if not before.is_reconciled_to(twin.assignment_epoch) and after != before:
            record = records.current_record(twin, after)
            records.replay(twin, record.key, record.value)
            changed.append((before, twin.members[member_id], record))
    return changed


def in_arrays(moves, group, member_ids):
    """The same heartbeats, in two steps: first those of members that get nothing. Returns who changed, and which of
    them are assigned other partitions."""
    slots = np.array([MEMBERS.index(member_id) for member_id in member_ids])
    arrives_ms = np.zeros(len(MEMBERS))
    arrives_ms[slots] = next(now_ms) + np.arange(len(slots)) / len(slots)
    gets_some = moves.gets_some(slots)
    changed, assigned = set(), set()
    for places in (slots[~gets_some], slots[gets_some]):
        changes, is_assigned = moves.step(places, arrives_ms, group.assignment_epoch)
        changed.update(places[changes].tolist())
        assigned.update(places[is_assigned].tolist())
    return changed, assigned


def assert_same(moves, group, twin):
    """Every member, and whether each partition is free."""
    moves.publish(group, None)
    for slot, member_id in enumerate(MEMBERS):
        known = moves.known(slot, group.members[member_id])
        assert known == twin.members[member_id]
        assert records.current_record(twin, known) == records.current_record(twin, twin.members[member_id])
    for topic_id, count in TOPICS.items():
        held = [[each.owner_epoch(topic_id, p) is not None for p in range(count)] for each in (group, twin)]
        assert held[0] == held[1]


@pytest.mark.few(4)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(30))
def test_members_on_their_way_to_changing_targets(version, seed):
    """Heartbeats in any order, some of them together; the next epoch begins while some still wait, or have to give up
    partitions."""
    r = random.Random(seed)
    topics = dict(list(TOPICS.items())[: r.randint(1, 3)])
    group, twin = (ConsumerGroup.new("g", behavior_of(BrokerVersion.parse(version))) for _ in range(2))
    moves, seen = PartitionMoves(len(MEMBERS), places_of(topics), group.behavior), set()
    moves.begin(group)
    for slot, member_id in enumerate(MEMBERS):
        member = ConsumerMember(member_id, member_epoch=1, previous_member_epoch=1)
        for each in (group, twin):
            each.put(member)
        moves.add(slot, member, {})
    for epoch in range(2, 12):
        targets = some_targets(r, topics, is_in_blocks=bool(seed % 2))
        for member_id, target in targets.items():
            twin.put_target(member_id, target, {})
        moves.aim(range(len(MEMBERS)), [targets[member_id] for member_id in MEMBERS])
        for each in (group, twin):
            each.group_epoch = each.assignment_epoch = epoch
        for _ in range(r.choice([2, 6, 40])):
            member_ids = r.sample(MEMBERS, r.choice([1, 1, 2, len(MEMBERS)]))
            changed, assigned = in_arrays(moves, group, member_ids)
            expected = by_requests(twin, member_ids)
            assert changed == {MEMBERS.index(before.member_id) for before, _, _ in expected}
            assert assigned == {
                MEMBERS.index(before.member_id)
                for before, after, _ in expected
                if {t: {*p} for t, p in before.assigned.items()} != {t: {*p} for t, p in after.assigned.items()}
            }
            assert_same(moves, group, twin)
            seen.update((before.state, after.state) for before, after, _ in expected)
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
    group.assignment_epoch = 5
    moves = PartitionMoves(1, places_of(TOPICS), group.behavior)
    moves.begin(group)
    moves.add(0, group.members["m0"], {topic_id: (0,)})
    written = []
    for _ in range(3):
        changes, is_assigned = moves.step(np.array([0]), np.zeros(1), 5)
        assert not is_assigned
        waits = moves.known(0, group.members["m0"])
        written.append((bool(changes[0]), waits.state, waits.member_epoch, waits.previous_member_epoch))
    unreleased = MemberState.UNRELEASED_PARTITIONS
    assert written == [(True, unreleased, 5, 1), (True, unreleased, 5, 5), (False, unreleased, 5, 5)]

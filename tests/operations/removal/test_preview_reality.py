"""What a removal from a consumer group (KIP-848) would do, told before it is done, and what a real Kafka then did.

Who gets a freed partition depends on the order in which the broker goes through members and topics, and that on hash maps
of their ids which remember how large the group once was: so groups of many sizes and pasts, each with ids of its own.
The simulator plays the same removal."""

import random

import pytest

from kgm.client import connect
from kgm.model.assignment import moves
from kgm.operations.removal.preview import preview_moves
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from tests.kafka.heartbeat_group import PROMPT, HeartbeatGroup, random_member_ids, wait_coordinator_knows
from tests.selection import first_seed, sized
from tests.server.wire_client import WireClient
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
SEEDS = range(first_seed(), first_seed() + sized(5, 60))
SIZES = {"few": 5, "some": 12, "more": 33, "most": 40, "even": 10, "odd": 7, "prime": 31, "one": 1}
TOPICS = {f"removal-{name}": count for name, count in SIZES.items()}
MORE_ONCE = (0, 0, 4, 20)
DRAWS = 20


@pytest.fixture(scope="module")
def cluster(kafka):
    kafka.create_topics(TOPICS)
    wait_coordinator_knows(kafka.bootstrap, TOPICS)
    return kafka


@pytest.fixture
def wire(cluster):
    with WireClient(cluster.port) as connection:
        yield connection


def formed(cluster, wire, seed):
    """A settled group that may have been larger once, and the random numbers it was made by."""
    chance = random.Random(seed)
    topics = chance.sample(sorted(TOPICS), chance.randint(1, 5))
    group = HeartbeatGroup(wire, f"removal-{seed}", topics, chance.choice(("uniform", "uniform", "uniform", "range")))
    cluster.configure_group(group.group_id, PROMPT)
    unlike = chance.random() < 0.25
    size = chance.randint(3, 24)
    members = random_member_ids(chance, size + chance.choice(MORE_ONCE))
    for number, member_id in enumerate(members):
        wanted = chance.sample(topics, chance.randint(1, len(topics))) if unlike else None
        group.join(member_id, f"seat-{number}", topics=wanted)
        if chance.random() < 0.3:
            group.heartbeat_until_stable()
    group.heartbeat_until_stable()
    chance.shuffle(members)
    for member_id in members[size:]:
        group.leave(member_id)
    group.heartbeat_until_stable()
    return group, chance


def removed(group, member_ids):
    """One LeaveGroup, as `kgm remove-members` sends it; then the others settle."""
    rows = [MemberIdentity(member_id="", group_instance_id=group.instance_ids[member_id]) for member_id in member_ids]
    answer = group.wire.ask(LeaveGroupRequest(group_id=group.group_id, members=rows))
    assert [row.error_code for row in answer.members] == [0] * len(rows), answer
    for member_id in member_ids:
        group.forget(member_id)
    group.heartbeat_until_stable()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_removal_did_what_was_told(cluster, wire, seed):
    group, chance = formed(cluster, wire, seed)
    there = sorted(group.instance_ids)
    gone = chance.sample(there, chance.randint(1, max(1, len(there) // 3)))
    with connect(cluster.bootstrap, timeout_ms=20_000) as client:

        def described():
            group.heartbeat_until_stable()
            return client.describe_group(group.group_id)

        before = until(described, "the group does not come to rest", accept=lambda found: found.state == "Stable")
        identities = tuple(str(group.instance_ids[member_id]) for member_id in gone)
        removed(group, gone)
        after = client.describe_group(group.group_id)
    # From what was there before: nobody sends heartbeats meanwhile, so the group does not wait for it.
    told = preview_moves(before, gone, stated_assignor=before.assignor).moves
    unstated = preview_moves(before, gone).moves
    # All members ask for the group's assignor, which no API returns; uniform is the default.
    stated = WhatIf(assignor=before.assignor) if before.assignor == "range" else WhatIf()
    played = simulate(before, Plan(remove=identities, what_if=stated), draws=DRAWS)
    owners = {member.identity: member.assignment for member in after.members}
    happened = moves({member.identity: member.assignment for member in before.members}, owners)
    assert happened or not any(member.assignment for member in before.members if member.member_id in gone)
    assert set(told) == set(happened)
    assert unstated == told or (unstated is None and before.assignor == "range")
    assert played.exact
    assert held(played.typical.final_assignment) == held(owners)


def test_nothing_was_told_of_a_removal_that_changed_the_assignor(cluster, wire):
    """Only the member that is removed asks for range, so that the group gets the default."""
    group = HeartbeatGroup(wire, "removal-of-the-voter", ["removal-some"], "range")
    cluster.configure_group(group.group_id, PROMPT)
    for number, member_id in enumerate(random_member_ids(random.Random(1), 4)):
        group.join(member_id, f"seat-{number}")
        group.assignor = None  # the members after the first ask for none
    group.heartbeat_until_stable()
    (voter, *_) = group.instance_ids
    with connect(cluster.bootstrap, timeout_ms=20_000) as client:
        before = client.describe_group(group.group_id)
        removed(group, [voter])
        after = client.describe_group(group.group_id)
    assert (before.assignor, after.assignor) == ("range", "uniform")
    assert preview_moves(before, {voter}).moves is None


def held(assignment):
    return {
        who: {topic: set(numbers) for topic, numbers in topics.items() if numbers} for who, topics in assignment.items()
    }

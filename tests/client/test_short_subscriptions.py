"""What is told of consumers whose subscription ends early, or cannot be read at all."""

from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.model.snapshot_json import snapshot_from_json
from kgm.operations.doctor.diagnosis import run_checks
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.operations.removal.preview import preview_moves
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan

# As kafka-go writes it: version 1 of the topic "orders", user data null, and no owned partitions.
SHORT = bytes.fromhex("0001 00000001 0006 6f7264657273 ffffffff")
UNREADABLE = SHORT[:-1]
SEVEN = [f"seat-{number}" for number in range(7)]


@pytest.fixture
def described(server, group, form):
    """`described(metadata)`: a group of seven members on six partitions, each with this subscription; and the checks of
    the doctor that find something in it."""

    def make(metadata):
        form(*SEVEN, metadata=metadata)
        with connect(f"127.0.0.1:{server.port}", timeout_ms=30_000) as cluster:
            found = cluster.describe_group(group)
        # The leader of the fixture gives partition i to member i, and so one that does not exist to the seventh.
        members = [
            replace(one, assignment={} if one.identity == SEVEN[-1] else one.assignment) for one in found.members
        ]
        found = replace(found, members=tuple(members))
        return found, {one.check for one in run_checks(GroupFacts(group=found, now_ms=0))}

    return make


def test_a_subscription_without_owned_partitions_has_topics(described):
    found, checks = described(SHORT)
    assert {member.topics for member in found.members} == {("orders",)}
    assert "more-members-than-partitions" in checks
    assert "idle-members" not in checks
    # The idle member takes over what the removed one owned.
    removed = next(one for one in found.members if one.identity == "seat-0")
    moves = preview_moves(found, {removed.member_id}).moves
    assert {move.owner_after for move in moves if move.owner_before == "seat-0"} <= set(SEVEN) - {"seat-0"}


def test_a_subscription_that_cannot_be_read_is_unknown_and_not_nothing(described):
    found, checks = described(UNREADABLE)
    assert {member.topics for member in found.members} == {None}
    written = found.to_json()
    assert [member["subscription"]["topics"] for member in written["members"]] == [None] * 7
    assert snapshot_from_json(written).to_json() == written
    assert not {"idle-members", "missing-topics", "more-members-than-partitions"} & checks
    assert preview_moves(found, {found.members[0].member_id}).moves is None


def test_what_a_rebalance_does_to_unread_subscriptions_is_not_exact(described):
    found, _ = described(UNREADABLE)
    found = replace(found, session_timeout_ms=45_000, rebalance_timeout_ms=60_000)
    gone = simulate(found, Plan(scale_in=("seat-0",)), draws=3)
    assert not gone.exact
    assert any("the subscription of seat-6 cannot be read" in text for text in gone.caveats)
    assert simulate(found, Plan(bounce=("seat-0",)), draws=3).typical.rebalances == 0

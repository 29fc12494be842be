"""What the preview of a removal says where the leader is of another library than Java."""

from dataclasses import replace

import pytest

from kgm.model.client_library import stated_library
from kgm.operations.removal.preview import preview_moves
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.clients.recorded_groups import described
from tests.simulation.groups import made_up


def notes(group):
    first = group.members[0]
    found = preview_moves(group, {first.member_id})
    return found.moves, found.notes


def test_the_moves_are_an_estimate_where_the_leader_assigns_otherwise():
    moves, said = notes(replace(described("sarama", "sticky"), leader_library=stated_library("kafka-go")))
    assert moves
    assert "the leader runs kafka-go, whose sticky assigns differently than Java's: the moves are an estimate" in said


def test_the_moves_are_one_possibility_where_the_order_of_a_go_map_decides():
    """sarama 1.61.1 takes free partitions in any order, franz-go 1.22.3 topics: it has none of two topics to choose from
    where the members have one topic."""

    def said(library, assignor):
        moves, texts = notes(made_up(3, 12, assignor=assignor, library=library))
        assert len(moves) == 4
        return [text for text in texts if "one of many possibilities" in text]

    assert len(said("sarama", "sticky")) == 1
    assert len(said("sarama", "cooperative-sticky")) == 1
    assert said("franz-go", "sticky") == []
    assert said("franz-go", "cooperative-sticky") == []


def test_the_assignor_of_the_leaders_library_assigns():
    """sarama 1.61.1 sorts the text topic-partition, so that orders-10 comes before orders-2: one of three members gets what
    follows in that order, every other one of them."""
    group = made_up(3, 12, assignor="roundrobin", library="sarama")
    text = sorted(range(12), key=str)
    shown = tuple(
        replace(one, assignment={"t": tuple(sorted(text[at::3]))}, topics=("t",))
        for at, one in enumerate(group.members)
    )
    moves, said = notes(replace(group, members=shown, leader_library=stated_library("sarama")))
    after = {"member-2": {*text[0::2]}, "member-3": {*text[1::2]}}
    moved = {(move.partition, move.owner_after) for move in moves}
    assert moved == {
        (number, who)
        for who, numbers in after.items()
        for number in numbers
        if number not in shown[int(who[-1]) - 1].assignment["t"]
    }
    assert said == ()


def test_an_assignment_that_the_assignor_does_not_explain_is_told():
    _, said = notes(replace(described("kafka-go", static=False), leader_library=stated_library("java")))
    assert any("does not explain the current assignment" in note for note in said)


def test_nothing_is_added_where_the_library_assigns_what_java_does():
    for library in ("franz-go", "sarama", "kafka-python", "aiokafka", "librdkafka"):
        moves, said = notes(described(library))
        assert moves
        assert not any("assigns differently than Java's" in note or "does not explain" in note for note in said)


def test_the_round_robin_of_kafkajs_is_that_of_java():
    group = described("kafkajs", "RoundRobinAssigner", static=False)
    moves, _ = notes(group)
    java = preview_moves(replace(group, assignor="roundrobin"), {group.members[0].member_id})
    assert moves == java.moves
    assert {move.owner_after for move in moves} == {group.members[1].identity}


def test_the_moves_are_an_estimate_if_members_may_give_up_all_partitions():
    """Whose subscriptions name no partitions that they owned, with a cooperative assignor."""
    group = made_up(3, 12, assignor="cooperative-sticky")
    unclear = replace(group, members=tuple(replace(one, names_owned=False) for one in group.members))
    moves, said = notes(unclear)
    assert len(moves) == 4
    assert any("an eager assignor is configured along with cooperative-sticky" in text for text in said)
    assert notes(group) == (moves, ())


@pytest.mark.parametrize(("library", "assignor"), [("aiokafka", "sticky"), ("franz-go", "sticky")])
def test_how_many_may_move_is_told_where_that_is_not_certain(library, assignor):
    """By the same rule as a simulated removal."""
    group = described(library, assignor)
    moves, said = notes(group)
    moved = simulate(group, Plan(remove=(group.members[0].identity,)), draws=5).ranges.moved_partitions
    assert moved.min < moved.max
    assert any(f"from {moved.min} to {moved.max} partitions may move" in note for note in said)
    assert moves


def test_members_that_may_forget_with_sticky_are_told_of():
    """franz-go 1.22.3 forgets what it had, 1.15 does not."""
    _, said = notes(made_up(4, 10, assignor="sticky", library="franz-go"))
    assert any("most versions of which forget" in note for note in said)


def test_members_of_several_libraries_may_misread_each_other():
    """Observed with four aiokafka members of which three looked like sarama's."""
    group = made_up(4, 10, assignor="sticky", library="sarama")
    *others, last = group.members
    mixed = replace(group, members=(*others, replace(last, client_library=stated_library("kafka-python"))))
    assert any("from 3 to 10 partitions may move" in note for note in notes(mixed)[1])

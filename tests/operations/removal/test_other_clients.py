"""What the preview of a removal says where the leader is of a library that kgm does not play."""

from dataclasses import replace

from kgm.operations.removal.preview import preview_moves
from tests.clients.recorded_groups import described


def notes(group):
    first = group.members[0]
    found = preview_moves(group, {first.member_id})
    return found.moves, found.notes


def test_the_moves_are_an_estimate_where_the_leader_assigns_otherwise():
    moves, said = notes(described("sarama", "roundrobin"))
    assert moves
    assert "the leader runs sarama, whose roundrobin assigns otherwise than Java's: the moves are an estimate" in said


def test_an_assignment_that_the_assignor_does_not_explain_is_told():
    _, said = notes(described("kafka-go", static=False))
    assert any("does not explain the assignment that is there" in note for note in said)


def test_nothing_is_added_where_the_library_assigns_what_java_does():
    for library in ("franz-go", "sarama", "kafka-python", "aiokafka", "librdkafka"):
        moves, said = notes(described(library))
        assert moves
        assert not any("assigns otherwise than Java's" in note or "does not explain" in note for note in said)


def test_the_round_robin_of_kafkajs_is_that_of_java():
    group = described("kafkajs", "RoundRobinAssigner", static=False)
    moves, _ = notes(group)
    java = preview_moves(replace(group, assignor="roundrobin"), {group.members[0].member_id})
    assert moves == java.moves
    assert {move.owner_after for move in moves} == {group.members[1].identity}

from kgm.model.assignment import Move
from kgm.text.joined_moves import joined_moves
from kgm.text.wording import group_command, many, moves_text, partitions_text, typed


def move(partition, before, after, topic="t"):
    return Move(topic=topic, partition=partition, owner_before=before, owner_after=after)


def test_counts():
    assert (many(0, "move"), many(1, "move"), many(2, "move")) == ("0 moves", "1 move", "2 moves")


def test_partitions_by_topic_in_runs():
    assert partitions_text({"b": [1], "a": [2, 0, 1, 5], "c": []}) == "a[0-2,5] b[1]"


def test_moves_are_joined_by_topic_and_owners():
    moved = [move(1, "a", "b"), move(0, "a", "b"), move(4, "a", None), move(0, None, "c", topic="u")]
    assert moves_text(moved) == "t[0-1] a -> b, t[4] a -> no consumer, u[0] no consumer -> c"


def test_a_long_list_is_cut():
    text = moves_text([move(i, f"m{i}", "z") for i in range(10)])
    assert text.endswith(", and 2 more handovers")
    assert text.count("->") == 8


def test_handovers_name_all_partitions():
    moved = [move(p, None if p > 3 else "a", f"b{p % 2}") for p in range(6)]
    assert [(one.what, one.owners) for one in joined_moves(moved)] == [
        ("t[0,2]", "a -> b0"), ("t[1,3]", "a -> b1"), ("t[4]", "no consumer -> b0"), ("t[5]", "no consumer -> b1"),
    ]  # fmt: skip


def test_commands_can_be_run_as_they_are_printed():
    assert group_command("describe", "g", "--offsets") == "kgm describe g --offsets"
    assert group_command("watch", "g; rm -rf ~", "--until", "a b") == "kgm watch 'g; rm -rf ~' --until 'a b'"
    assert typed("-x") == "--group=-x"
    assert typed("  ") == "--group='  '"

from kgm.model.assignment import Move
from kgm.text.wording import many, moves_text, partitions_text


def move(partition, before, after, topic="t"):
    return Move(topic=topic, partition=partition, owner_before=before, owner_after=after)


def test_counts():
    assert (many(0, "move"), many(1, "move"), many(2, "move")) == ("0 moves", "1 move", "2 moves")


def test_partitions_by_topic_in_runs():
    assert partitions_text({"b": [1], "a": [2, 0, 1, 5], "c": []}) == "a[0-2,5] b[1]"


def test_moves_are_told_by_handover():
    moved = [move(1, "a", "b"), move(0, "a", "b"), move(4, "a", None), move(0, None, "c", topic="u")]
    assert moves_text(moved) == "t[0-1] a -> b, t[4] a -> nobody, u[0] nobody -> c"


def test_a_long_list_is_cut():
    text = moves_text([move(i, f"m{i}", "z") for i in range(10)])
    assert text.endswith(", and 2 more handovers")
    assert text.count("->") == 8

from kgm.model.assignment import Move, as_ranges, count, moves, owners


def test_moves_between_two_assignments():
    before = {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2]}}
    after = {"a": {"t": [0]}, "b": {"t": [1, 2]}, "c": {"v": [0]}}
    assert moves(before, after) == (
        Move(topic="t", partition=1, owner_before="a", owner_after="b"),
        Move(topic="u", partition=0, owner_before="a", owner_after=None),
        Move(topic="v", partition=0, owner_before=None, owner_after="c"),
    )


def test_nothing_moves_between_equals():
    assignment = {"a": {"t": [1, 0]}}
    assert moves(assignment, {"a": {"t": (0, 1)}}) == ()
    assert owners(assignment) == {("t", 0): "a", ("t", 1): "a"}


def test_count_and_ranges():
    assert count({"t": [0, 1], "u": [4]}) == 3
    assert as_ranges([5, 0, 1, 2]) == "0-2,5"
    assert as_ranges([]) == ""

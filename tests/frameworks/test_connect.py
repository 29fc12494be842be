"""What the tasks of Connect workers say about work that no worker runs."""

from __future__ import annotations

from kgm.frameworks.connect import CONNECTOR, missing_work


def test_work_between_what_runs_is_missing():
    assert missing_work([("a", 0), ("a", 3), ("b", CONNECTOR)]) == (("a", CONNECTOR), ("a", 1), ("a", 2))
    assert missing_work([("a", CONNECTOR), ("a", 0), ("a", 1)]) == ()


def test_a_task_with_a_huge_number_does_not_fill_the_memory():
    missing = missing_work([("a", 2**31 - 1)])
    assert len(missing) <= 100_001
    assert missing[0] == ("a", CONNECTOR)

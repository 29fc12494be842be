"""The one partition hash, by values of Java itself."""

import pytest

from kgm.java.partitions import partition_for


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0), ("a", 47), ("g", 3), ("console-consumer-1", 24), ("console-consumer-81456", 5), ("grp über", 42),
        ("emoji-😀", 6), ("polygenelubricants", 0), ("\U0001f600", 49),
    ],
)  # fmt: skip
def test_groups_are_placed_by_their_hash_code(group_id, partition):
    """`Utils.abs(id.hashCode()) % 50`; the last but one hashes to Integer.MIN_VALUE, which counts as 0."""
    assert partition_for(group_id, 50) == partition


@pytest.mark.parametrize("partitions", [1, 4, 50])
def test_every_group_has_a_partition(partitions):
    assert {partition_for(str(n), partitions) for n in range(1_000)} == set(range(partitions))

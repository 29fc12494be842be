"""The order of Java's hash sets."""

import pytest

from kgm.java.hash_set import PartitionHashSet, copied_run_order, copied_set_order


def test_copied_sets_of_java():
    # new HashSet<>(List.of(17, 1, 33, 2)): 1, 17 and 33 share a bucket of 16 and keep their order.
    assert copied_set_order([17, 1, 33, 2]) == [17, 1, 33, 2]
    assert copied_set_order(range(20, 33)) == [32, *range(20, 32)]


@pytest.mark.parametrize("size", [0, 1, 11, 12, 13, 100])
@pytest.mark.parametrize("first", [0, 3, 16, 31, 127, 1000, 65_530, 70_000])
def test_a_run_in_a_hash_set_is_cut_at_most_once(first, size):
    run = tuple(range(first, first + size))
    assert list(copied_run_order(run)) == copied_set_order(run)


def test_the_first_of_a_hash_set():
    partitions = PartitionHashSet()
    for number in range(13):
        partitions.add(number, 12 - number)
    assert partitions.first() == 12
    partitions.remove(12)
    assert (partitions.first(), len(partitions)) == (11, 12)

"""The orders of Scala's maps. `tests/coordinator/lockstep/test_scala_histories.py` holds them against Scala itself."""

import pytest

from kgm.java.scala_map import (
    first_in_scala_map,
    grouped_order,
    grown_scala_capacity,
    scala_map_capacity,
    scala_map_order,
)


@pytest.mark.parametrize(("entries", "buckets"), [(0, 16), (11, 16), (12, 32), (23, 32), (24, 64), (100, 256)])
def test_a_map_grows_one_entry_before_it_is_three_quarters_full(entries, buckets):
    assert grown_scala_capacity(entries) == buckets


def test_keys_of_one_bucket_are_in_the_order_of_their_hashes():
    # String.hashCode of both is 2112.
    assert scala_map_order(["BB", "Aa"], 16) == [0, 1]
    assert scala_map_order(["Aa", "BB"], 16) == [0, 1]
    # 1 and 17 after the bits are spread: the same bucket of 16, whatever came first.
    assert scala_map_order(["\x11", "\x01"], 16) == [1, 0]
    assert scala_map_order(["\x01", "\x11"], 16) == [0, 1]


def test_the_first_key_is_the_first_of_the_order():
    keys = [f"member-{number}" for number in range(40)]
    for capacity in (16, 64, 256):
        assert first_in_scala_map(keys, capacity) == keys[scala_map_order(keys, capacity)[0]]
    assert first_in_scala_map([], 16) is None


def test_an_order_tells_the_size_of_the_map():
    keys = [f"member-{number}" for number in range(30)]
    for capacity in (64, 256):
        listed = [keys[at] for at in scala_map_order(keys, capacity)]
        found = scala_map_capacity(listed)
        assert found is not None
        assert 64 <= found <= capacity
        assert [listed[at] for at in scala_map_order(listed, found)] == listed
    assert scala_map_capacity(keys[::-1]) is None


def test_groups_have_an_order_of_their_own():
    assert sorted(grouped_order(["range", "roundrobin", "sticky"])) == ["range", "roundrobin", "sticky"]
    assert grouped_order(["range", "sticky"]) == grouped_order(["sticky", "range"])

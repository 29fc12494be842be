"""Names in the order in which people count, and the name that was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.text.names import closest, did_you_mean, in_order


def test_numbers_in_names_count_as_numbers():
    names = ["svc-10", "svc-2", "svc-1-10", "svc-1-9", "svc", "10", "9", "a10b2", "a10b10", "Svc-1"]
    assert in_order(names) == ["9", "10", "Svc-1", "a10b2", "a10b10", "svc", "svc-1-9", "svc-1-10", "svc-2", "svc-10"]


def test_a_number_may_have_more_digits_than_python_converts():
    assert in_order(["g-" + "9" * 5_000, "g-1" + "0" * 5_000, "g-3"])[0] == "g-3"
    assert in_order(["g-1" + "0" * 5_000, "g-" + "9" * 5_000])[0] == "g-" + "9" * 5_000


@given(st.sets(st.integers(0, 10_000), min_size=1), st.text(st.characters(exclude_categories=["Nd"]), max_size=4))
def test_numbered_names_are_in_the_order_of_their_numbers(numbers, word):
    assert in_order(f"{word}-{number}" for number in numbers) == [f"{word}-{number}" for number in sorted(numbers)]


@given(st.lists(st.text(max_size=8)))
def test_any_names_have_one_order(names):
    assert in_order(names) == in_order(reversed(names))
    assert sorted(in_order(names)) == sorted(names)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("ordrs", "orders"), ("Orders", "orders"), ("orders", "orders"), ("paymnets", "payments"), ("zzz", None), ("", None)],
)  # fmt: skip
def test_the_name_that_was_meant(typed, meant):
    assert closest(typed, ["orders", "payments", "orders-archive-of-last-year"]) == meant
    assert did_you_mean(typed, []) is None

"""Waiting for a condition: the value comes back, and a failure says what was waited for and what was seen."""

import itertools

import pytest

from tests.waiting import stays, until


def test_the_first_accepted_value_is_returned():
    numbers = itertools.count()
    assert until(lambda: next(numbers), "a number", every_s=0) == 1
    assert until(lambda: next(numbers), "a large number", accept=lambda number: number > 5, every_s=0) == 6


@pytest.mark.parametrize("what", ["the lights are red", lambda: "the lights are red"], ids=["text", "function"])
def test_a_failure_says_what_was_waited_for_and_what_was_seen_last(what):
    with pytest.raises(TimeoutError) as failure:
        until(lambda: "red", what, 0.01, accept=lambda seen: seen == "green", every_s=0.001)
    assert str(failure.value) == "not within 0.01 s: the lights are red (last seen: 'red')"


def test_it_looks_once_more_when_its_time_is_up():
    """A process that did not run while the time passed sees what has happened meanwhile."""
    looks = iter([False, True])
    assert until(lambda: next(looks), "the second look", 0, every_s=0)


def test_what_must_stay_is_looked_at_again_and_again():
    looks = iter([True, True, False])
    with pytest.raises(AssertionError, match="it changed"):
        stays(lambda: next(looks), "it changed", 10, every_s=0)

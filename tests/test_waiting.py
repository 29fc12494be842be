"""Waiting for a condition: the value comes back, and a failure says what was waited for and what was seen."""

import itertools
import time

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


def test_it_looks_once_more_when_a_look_ended_after_the_deadline():
    """On a busy machine all the time may pass in one look."""
    looks = 0

    def second_look():
        nonlocal looks
        looks += 1
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        return looks == 2

    assert until(second_look, "the second look", 0.01, every_s=0)


def test_what_must_stay_is_looked_at_again_and_again():
    looks = iter([True, True, False])
    with pytest.raises(AssertionError, match="it changed"):
        stays(lambda: next(looks), "it changed", 10, every_s=0)

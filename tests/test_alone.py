"""Turns of tests that run apart from the others."""

import threading

import pytest

from tests.alone import Turns
from tests.waiting import stays, until


@pytest.fixture
def three(tmp_path, monkeypatch):
    """As three processes have them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    turns = [Turns("x", place) for place in range(3)]
    yield turns
    for each in turns:
        each.close()


def begun_in_thread(turns, *, alone):
    begun = threading.Event()

    def work():
        turns.begin(alone=alone)
        begun.set()

    threading.Thread(target=work, daemon=True).start()
    return begun


@pytest.mark.parametrize("alone", [True, False])
def test_tests_of_one_kind_run_beside_each_other_and_none_of_the_other_kind(three, alone):
    first, second, other = three
    first.begin(alone=alone)
    second.begin(alone=alone)
    begun = begun_in_thread(other, alone=not alone)
    stays(lambda: not begun.is_set(), "it began beside the others", 0.1)
    first.end(next_alone=None)
    stays(lambda: not begun.is_set(), "it began beside the other", 0.1)
    second.end(next_alone=None)
    until(begun.is_set, "it begins when they have ended")
    other.end(next_alone=None)


def test_who_waits_is_not_overtaken(three):
    first, waiting, late = three
    first.begin(alone=False)
    begun = begun_in_thread(waiting, alone=True)
    stays(lambda: not begun.is_set(), "it began beside another", 0.1)
    overtaken = begun_in_thread(late, alone=False)
    stays(lambda: not overtaken.is_set(), "it began before the one that waits", 0.1)
    first.end(next_alone=None)
    until(begun.is_set, "the one that has waited begins")
    stays(lambda: not overtaken.is_set(), "it began beside one that is alone", 0.1)
    waiting.end(next_alone=None)
    until(overtaken.is_set, "the last one begins")
    late.end(next_alone=None)


@pytest.mark.parametrize("alone", [True, False])
def test_two_of_one_kind_in_a_row_are_one_turn(three, alone):
    first, other, _ = three
    first.begin(alone=alone)
    first.end(next_alone=alone)
    begun = begun_in_thread(other, alone=not alone)
    stays(lambda: not begun.is_set(), "it began between the two", 0.1)
    first.begin(alone=alone)
    first.end(next_alone=not alone)
    until(begun.is_set, "it begins when both have ended")
    other.end(next_alone=None)


def test_of_those_in_one_place_only_one_is_alone_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second, elsewhere = Turns("x", 0), Turns("x", 0), Turns("x", 1)
    first.begin(alone=True)
    begun = begun_in_thread(second, alone=True)
    elsewhere.begin(alone=True)
    stays(lambda: not begun.is_set(), "it began in a place that is taken", 0.1)
    first.end(next_alone=None)
    until(begun.is_set, "it begins when the place is free")
    for each in (second, elsewhere):
        each.end(next_alone=None)
    for each in (first, second, elsewhere):
        each.close()

"""Several things at once, none past the deadline."""

import threading

import pytest

from kgm.client.transport.deadline import Deadline
from kgm.client.transport.parallel import first_of, run_parallel
from kgm.model.errors import BrokerError, KgmError, UnreachableError


@pytest.fixture
def hanging():
    """A task that hangs until the test is over."""
    ended = threading.Event()
    yield lambda: ended.wait(30)
    ended.set()


def fails():
    raise BrokerError("no")


def test_results_and_errors_by_key():
    found = run_parallel({"a": lambda: 1, "b": fails, "c": lambda: 3}, Deadline.after(60_000), "x")
    assert (found["a"], found["c"]) == (1, 3)
    assert isinstance(found["b"], BrokerError)
    endless = Deadline.after(10**20)  # beyond what the system's clocks can take
    assert run_parallel({"a": lambda: 1, "c": lambda: 3}, endless, "x") == {"a": 1, "c": 3}
    alone = run_parallel({"b": fails}, Deadline.after(60_000), "x")
    assert isinstance(alone["b"], BrokerError)


def test_what_hangs_is_an_error_and_the_rest_is_there(hanging):
    found = run_parallel({"a": lambda: 1, "b": hanging}, Deadline.after(100), "broker")
    assert found["a"] == 1
    assert isinstance(found["b"], UnreachableError)
    assert "100 ms" in found["b"].message


def test_a_bug_is_not_swallowed():
    def bug():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_parallel({"a": bug, "b": lambda: 1}, Deadline.after(60_000), "x")
    with pytest.raises(ZeroDivisionError):
        first_of([bug], Deadline.after(60_000), stagger=0.01, discard=lambda _: None)


def test_the_first_success_wins_over_failures_and_silence(hanging):
    found = first_of([fails, hanging, lambda: "here"], Deadline.after(60_000), stagger=0.01, discard=lambda _: None)
    assert found == "here"


def test_all_failures_are_told_in_order():
    found = first_of([fails, fails], Deadline.after(60_000), stagger=5, discard=lambda _: None)
    assert isinstance(found, list)
    assert all(isinstance(one, KgmError) for one in found)
    assert len(found) == 2


def test_silence_ends_at_the_deadline(hanging):
    assert first_of([hanging, hanging], Deadline.after(100), stagger=0.01, discard=lambda _: None) == []


def test_a_late_success_is_discarded():
    let_go, discarded = threading.Event(), threading.Event()

    def late():
        let_go.wait(5)
        return "late"

    found = first_of([late, lambda: "now"], Deadline.after(60_000), stagger=0.01, discard=lambda _: discarded.set())
    assert found == "now"
    let_go.set()
    assert discarded.wait(5)


def test_deadlines_nest():
    now = [100.0]
    whole = Deadline.after(10_000, clock=lambda: now[0])
    part, short = whole.part(0.5), whole.within(3)
    assert (whole.remaining(), part.remaining(), short.remaining()) == (10, 5, 3)
    assert whole.within(60).remaining() == 10
    now[0] += 4
    assert (whole.remaining(), part.remaining(), short.remaining()) == (6, 1, 0)
    assert short.expired
    assert not part.expired

"""The scorer itself: what it calls right and wrong, and its intervals."""

import pyarrow as pa
import pytest

from kgm.history.rows import ROW_CLASSES
from kgm.history.schema import TABLES
from tests.history.truth.judge import Act, Judge
from tests.history.truth.scores import Scores, interval

GROUP = "g"


def row(cause, *people, at=100, confidence="likely", generation=1):
    who = [
        {"seat": name, "what": what, "member_id": f"{name}-id", "client_id": f"{GROUP}-{name}", "client_host": "/h"}
        for name, what in people
    ]
    return {
        "partition": 0, "offset": at, "timestamp": at, "group_id": GROUP, "group_type": "classic", "cause": cause,
        "confidence": confidence, "inferred_cause": cause, "inferred_confidence": confidence, "who": who, "also": [],
        "from_generation": generation, "to_generation": generation + 1, "moved": 0, "kept": 0, "complete": True,
        "evidence": [], "source": "log", "members_before": 1, "members_after": 1, "joined": 0, "left": 0, "replaced": 0,
    }  # fmt: skip


def judged(verdict, act, log=()):
    """Whether the verdict is right; None if it is not judged."""
    tables = {name: schema.empty_table() for name, schema in TABLES.items() if name in ROW_CLASSES}
    tables["gold_rebalance"] = pa.Table.from_pylist([verdict], schema=TABLES["gold_rebalance"])
    (rebalances, ends) = Judge([act], {}, log).judge(tables)
    assert ends == []
    return rebalances[0].right if rebalances else None


def act(members=None, *causes):
    done = {name: frozenset(what) for name, what in (members or {}).items()}
    return Act(GROUP, 0, 1_000, None, done, frozenset(causes))


@pytest.mark.parametrize(
    ("verdict", "done", "right"),
    [
        (row("join", ("a", "joined")), act({"a": {"joined"}}), True),
        (row("join", ("a", "joined")), act({"b": {"joined"}}), False),
        (row("join", ("a", "joined")), act({"a": {"returned"}}), False),
        (row("join", ("a", "joined"), ("b", "joined")), act({"a": {"joined"}}), False),
        (row("bounce", ("a", "returned")), act({"a": {"returned"}}), True),
        (row("leave", ("a", "leave")), act({"a": {"session-expiry"}}), False),
        (row("admin-removal", ("a", "admin-removal")), act({"a": {"session-expiry"}}), False),
        (row("departure", ("a", "departure")), act({"a": {"max-poll"}}), True),
        (row("departure", ("a", "departure")), act({"a": {"joined"}}), False),
        (row("partition-change"), act({}, "partition-change"), True),
        (row("partition-change"), act({"a": {"joined"}}), False),
        (row("all-gone", ("a", "leave")), act({"a": {"leave"}}), False),
        (row("all-gone", ("a", "leave")), act({"a": {"leave"}}, "all-gone"), True),
        (row("join", ("a", "joined"), at=2_000), act({"a": {"joined"}}), None),
        (row("unknown", confidence="unknown"), act(), None),
    ],
)
def test_a_verdict_is_right_if_it_is_what_was_done(verdict, done, right):
    assert judged(verdict, done) is right


EXPIRED = (
    f"Preparing to rebalance group {GROUP} in state PreparingRebalance with old generation 1 "
    "(reason: removing member a-id on heartbeat expiration)."
)


@pytest.mark.parametrize(
    ("done", "log", "right"),
    [
        (act(), [], False),
        (act(), [EXPIRED], True),
        (act(), [f"Member a-id in group {GROUP} has failed, removing it from the group."], True),
        (act(), [f"Member b-id in group {GROUP} has failed, removing it from the group."], False),
        # What was done to the member counts more than what a broker calls it.
        (act({"a": {"leave"}}), [EXPIRED], False),
        (act(), [EXPIRED.replace("generation 1", "generation 2")], False),
    ],
)
def test_what_clients_do_unasked_is_in_the_brokers_log(done, log, right):
    assert judged(row("session-expiry", ("a", "session-expiry")), done, log) is right


JOINED = (
    f"Preparing to rebalance group {GROUP} in state PreparingRebalance with old generation 1 "
    "(reason: Adding new member a-id with group instance id null)."
)


@pytest.mark.parametrize(
    ("done", "log", "right"),
    [
        (act(), [JOINED], True),
        (act(), [EXPIRED], False),
        # Another process with its ids is new: the log does not know that.
        (act({"a": {"joined"}}), [JOINED], False),
    ],
)
def test_a_member_that_comes_back_unasked_joins_by_the_brokers_log(done, log, right):
    assert judged(row("bounce", ("a", "returned")), done, log) is right


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_intervals_are_those_of_the_literature(right, total, low, high):
    """Newcombe, Two-sided confidence intervals for the single proportion (1998), table I, method 3."""
    assert interval(right, total) == pytest.approx((low, high), abs=6e-5)


def test_promises_are_held_against_what_was_measured():
    scores = Scores()
    for confidence, right in (("certain", True), ("likely", False), ("likely", True), ("possible", False)):
        scores.verdict("join", confidence, right)
    lines = scores.calibration().splitlines()[2:]
    assert [line.split(" | ")[1:2] for line in lines] == [["at least 0.99"], ["at least 0.9"], ["nothing"]]
    assert [line.removesuffix(" |").split(" | ")[-2:] for line in lines] == [["1", "1"], ["1", "2"], ["0", "1"]]


@pytest.mark.parametrize(
    ("wrong", "broken"), [(0, []), (1, []), (4, []), (10, ["certain"]), (50, ["certain", "likely"])]
)
def test_a_promise_is_broken_where_chance_does_not_explain_it(wrong, broken):
    """Of 200: up to 2 and 20 wrong ones keep the promises; chance explains 4, but neither 10 nor 50."""
    scores = Scores()
    for confidence in ("certain", "likely"):
        for number in range(200):
            scores.verdict("join", confidence, number >= wrong)
    assert scores.broken_promises() == broken

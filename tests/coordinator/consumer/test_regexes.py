"""Consumer groups (KIP-848) that subscribe by regular expression."""

import pytest

from kgm.coordinator.contract.outcome import Request, Ticket, TimerKey, TimerKind
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.coordinator.consumer.harness import Consumers, assigned


@pytest.fixture
def h():
    return Consumers()


def test_expressions_are_resolved_beside_the_heartbeat(h):
    h.topics({"a": 6, "b": 3, "ab": 1})
    reply = h.beat("m1", regex="a.?")
    assert (reply.member_epoch, assigned(reply)) == (1, {})
    assert h.written() == ["member m1", "current m1"]
    assert h.engine.deadline(TimerKey(TimerKind.REGEX, "g")) == h.now
    h.sleep(0)
    assert h.written(2) == ["regex a.?", "epoch"]
    assert h.log[2].value.topics == ["a", "ab"]
    reply = h.beat("m1", 1)
    assert (reply.member_epoch, assigned(reply)) == (2, {"a": [0, 1, 2, 3, 4, 5], "ab": [0]})


def test_the_whole_name_has_to_match_in_the_syntax_of_re2(h):
    h.topics({"a": 1, "ab": 1, "A": 1, "x.y": 1})
    for regex, found in {"a": ["a"], "(?i)a": ["A", "a"], "[ab]+": ["a", "ab"], r"\w\.\w": ["x.y"], "": []}.items():
        h.beat("m1", group=f"g{regex}", regex=regex)
        h.sleep(0)
        row = h.engine._state.groups[f"g{regex}"].resolved.get(regex)
        assert sorted(row.topics if row else ()) == found


def test_a_long_one_takes_no_time(h):
    """RE2 is linear: this one takes engines that go back and forth longer than the universe."""
    h.topics({"a" * 200: 1})
    assert h.error(regex="(a*)*b") == E.NONE
    h.sleep(0)
    assert h.engine._state.groups["g"].resolved["(a*)*b"].topics == frozenset()


def test_an_expression_that_is_resolved_already_counts_at_once(h):
    h.beat("m1", regex="a")
    h.sleep(0)
    h.beat("m1", 1)
    reply = h.beat("m2", regex="a")
    assert reply.member_epoch == 3
    assert h.epochs() == (3, 3, {"m1": 2, "m2": 3})
    # m2 turns to names: its expression is still m1's.
    before = len(h.log)
    h.beat("m2", 3, names=["b"], regex="", owned={})
    assert "-regex a" not in h.written(before)
    before = len(h.log)
    h.beat("m1", 2, names=["a"], regex="")
    assert h.written(before)[:2] == ["member m1", "-regex a"]


def test_the_last_one_that_leaves_takes_its_expression_along(h):
    h.beat("m1", regex="a")
    h.beat("m2", regex="a")
    h.sleep(0)
    h.beat("m1", -1)
    before = len(h.log)
    h.beat("m2", -1)
    assert h.written(before) == ["-current m2", "-target m2", "-member m2", "-regex a", "epoch"]
    assert h.log[-1].value.metadata_hash == 0


def test_new_topics_are_found_after_some_rest(h):
    h.beat("m1", regex=".*")
    h.sleep(0)
    h.calm()
    h.topics({"a": 6, "b": 3, "c": 2})
    h.sleep(10_000)
    h.beat("m1", 2)
    assert h.engine.deadline(TimerKey(TimerKind.REGEX, "g")) is None, "the last time was 10 s ago, not more"
    h.sleep(1)
    h.beat("m1", 2)
    h.sleep(0)
    assert h.engine._state.groups["g"].resolved[".*"].topics == {"a", "b", "c"}
    h.calm()
    assert h.held()["m1"]["c"] == (0, 1)
    # When nothing is new, nothing happens, until the refresh interval is over.
    for _ in range(20):
        h.sleep(30_000)
        h.calm()
    assert h.engine.deadline(TimerKey(TimerKind.REGEX, "g")) is None
    h.sleep(1)
    h.calm()
    before = len(h.log)
    h.sleep(0)
    assert h.written(before) == ["regex .*"]


def test_while_they_are_resolved_nobody_asks_again(h):
    h.beat("m1", regex="a")
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m2", rebalance_timeout_ms=1_000, subscribed_topic_regex="b.*", topic_partitions=[]
    )
    # At the same time, before the alarm has gone off.
    outcome = h.engine.handle(Request(message=message, version=1), ticket=Ticket(99), now=h.now)
    assert [timer.key.kind for timer in outcome.timers] == [TimerKind.SESSION]


def test_expressions_that_cannot_be_written_wait_for_the_next_heartbeat(h):
    h.beat("m1", regex="a")
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    h.sleep(0)
    assert h.engine.deadline(TimerKey(TimerKind.REGEX, "g")) is None
    h.fail_with = None
    h.beat("m1", 1)
    h.sleep(0)
    assert h.engine._state.groups["g"].resolved["a"].topics == {"a"}

"""Targets that are kept as spans, beside a mapping; and their records, read one by one or taken as one run."""

from __future__ import annotations

import random

import pytest

from kgm.coordinator.consumer import records, target_order
from kgm.coordinator.contract.outcome import RecordRuns, Request, Ticket, of_runs, runs_of
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.targets import Targets, listed, spread
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.coordinator.consumer.harness import Consumers, topic_id

TOPICS = tuple(bytes([number]) * 16 for number in (7, 3, 11))


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_a_mapping(seed):
    """Whatever is changed one by one in between; topics come and go."""
    r = random.Random(seed)
    targets, plain = Targets(), {}
    for _ in range(30):
        member_ids = r.sample("abcdefg", r.randint(1, 7))
        topics = TOPICS[: r.choice([1, 2, 2, 3])]
        match r.choice(["spans", "spans", "one", "gone"]):
            case "spans":
                spans = {
                    each: tuple(
                        n for _ in topics for n in sorted(r.sample(range(40), 2) if r.random() < 0.8 else [5, 5])
                    )
                    for each in member_ids
                }
                rows = {each: spread(topics, spans[each]) for each in spans}
                assert targets.differing(topics, spans) == {each for each in spans if plain.get(each) != rows[each]}
                targets.put_spans(topics, spans)
                plain.update(rows)
            case "one":
                targets[member_ids[0]] = plain[member_ids[0]] = {TOPICS[0]: (1, 2)}
            case "gone":
                assert targets.pop(member_ids[0], None) == plain.pop(member_ids[0], None)
        assert targets == plain
        assert targets.copy() == plain
        assert len(targets) == len(plain)
        assert {each for each in "abcdefg" if each in targets} == plain.keys()


def test_the_records_of_a_run():
    run = records.TargetRecords("g", TOPICS, {"a": (0, 2, 5, 5, 1, 2), "b": (2, 3, 5, 7, 2, 2)})
    assert run[1] == records.target_record("g", "b", {TOPICS[0]: [2], TOPICS[1]: [5, 6]})
    first, last = records.epoch_record("g", 4, 0), records.target_epoch_record("g", 4, 0)
    every = of_runs([first, run, last])
    assert isinstance(every, RecordRuns)
    assert [*every] == [first, *run, last] == [every[at] for at in range(len(every))]
    assert runs_of(every) == (first, run, last)
    assert of_runs([first, last]) == runs_of((first, last)) == (first, last)


def test_a_run_is_replayed_as_its_records_are():
    run = records.TargetRecords("g", TOPICS, {"a": (0, 2, 5, 5, 1, 20), "b": (2, 30, 5, 7, 20, 20)})
    one, other = (ConsumerGroup(group_id="g", targets=Targets()) for _ in range(2))
    one.put_spans(run.topics, run.spans)
    for record in run:
        records.replay(other, record.key, record.value)
    assert one.targets == other.targets
    assert [[*one.targets[each].items()] for each in "ab"] == [[*other.targets[each].items()] for each in "ab"]
    assert not other.unusual_orders
    assert target_order.replayed(listed(TOPICS, run.spans["b"]))[0] == one.targets["b"]


def test_the_caller_may_replay_each_record_of_a_run():
    """As one that reads them back from its log does."""
    h = Consumers(topics={"t": 12})
    for member_id in "abc":
        h.beat(member_id, names=["t"], server_assignor="range")
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="aa", member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    seen = []
    for is_each in (False, True):
        engine = h.engine.fork()
        outcome = engine.handle(Request(message, 1), ticket=Ticket(1), now=h.now)
        assert isinstance(outcome.records, RecordRuns)
        for run in outcome.records if is_each else runs_of(outcome.records):
            engine.replay(run)
        seen.append(engine.group("g"))
        assert engine.consumer_group("g").targets["aa"] == {topic_id("t"): (3, 4, 5)}
    assert seen[0] == seen[1]

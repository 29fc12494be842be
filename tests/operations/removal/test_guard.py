"""How long kgm watches, and what ends it. Time passes with each look, so that no test waits for it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.operations.removal import guard
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.server.cluster.topics import topic_id
from tests.server.wire_client import WireClient, batch

BUDGET_MS = 60_000


@pytest.fixture
def watch(server, group):
    """Watch members: the report. step_s: what passes between two looks at the clock."""
    opened = []

    def watch(*joiners, step_s=0.4, meanwhile=lambda: None, away=(), **how):
        cluster = connect(server.bootstrap, timeout_ms=BUDGET_MS)
        opened.append(cluster)
        snapshot = cluster.describe_group(group)
        gone = {joiner.member_id for joiner in away}
        members = [replace(one, status="away") if one.member_id in gone else one for one in snapshot.members]
        snapshot = replace(snapshot, members=tuple(members))
        meanwhile()
        clock = itertools.count(0, step_s)
        names = [joiner.member_id for joiner in joiners]
        return guard.GuardWatch(cluster, snapshot, names, clock=lambda: next(clock), **how).run()

    yield watch
    for cluster in opened:
        cluster.close()


@pytest.mark.slow
def test_by_default_a_member_that_has_read_everything_is_looked_at_for_a_moment(watch, form):
    a, _ = form("a", "b")
    report = watch(a)
    assert guard._IDLE_MS <= report.watched_ms < guard.WINDOW_MS
    assert report.verdict_of(a.member_id) is LivenessVerdict.UNKNOWN


@pytest.mark.slow
def test_a_moment_is_not_one_look(watch, form):
    a, _ = form("a", "b")
    assert watch(a, step_s=0.01).watched_ms >= guard._IDLE_MS


@pytest.mark.slow
@pytest.mark.parametrize("window_ms", [3_000, 40_000])
def test_a_window_that_was_asked_for_is_watched_to_its_end(watch, form, window_ms):
    """Shorter than by default or longer, and although nothing more can be learnt of who has read everything."""
    a, _ = form("a", "b")
    assert window_ms <= watch(a, window_ms=window_ms, step_s=window_ms / 10_000).watched_ms < 2 * window_ms


@pytest.mark.slow
def test_while_records_wait_it_is_watched_for_the_whole_default_window(watch, form, server):
    a, _ = form("a", "b")
    with WireClient(server.port) as client:
        assert client.ask(produce_to_orders()).responses[0].partition_responses[0].error_code == 0
    assert a.commit(0, 0) == 0
    assert guard.WINDOW_MS <= watch(a).watched_ms < 2 * guard.WINDOW_MS


@pytest.mark.slow
@pytest.mark.parametrize("stop_when_alive", [True, False])
def test_a_member_that_is_alive_ends_it_unless_it_may_be_removed(watch, form, stop_when_alive):
    """Then the others are still to be judged, and the window goes on for them."""
    a, b, _ = form("a", "b", "c")
    a.commit(0, 1)
    how = {"window_ms": 20_000, "stop_when_alive": stop_when_alive, "meanwhile": lambda: a.commit(0, 2)}
    report = watch(a, b, **how)
    assert report.verdict_of(a.member_id) is LivenessVerdict.ALIVE
    assert report.verdict_of(b.member_id) is LivenessVerdict.UNKNOWN
    assert (report.watched_ms >= 20_000) is not stop_when_alive


@pytest.mark.slow
def test_it_ends_when_every_verdict_is_known(watch, form):
    a, _ = form("a", "b")
    a.commit(0, 1)
    report = watch(a, window_ms=20_000, stop_when_alive=False, meanwhile=lambda: a.commit(0, 2))
    assert report.verdict_of(a.member_id) is LivenessVerdict.ALIVE
    assert report.watched_ms < 20_000


@pytest.mark.slow
def test_members_that_left_to_come_back_need_no_watching(watch, form):
    a, b, _ = form("a", "b", "c")
    report = watch(a, b, away=(a, b), step_s=0.1)
    assert report.watched_ms < guard._IDLE_MS
    assert {report.verdict_of(one.member_id) for one in (a, b)} == {LivenessVerdict.STOPPED}
    assert all(report.liveness[one.member_id].was_seen for one in (a, b))


def produce_to_orders():
    """A record for partition 0, which somebody has to read."""
    data = TopicProduceData(
        topic_id=topic_id("orders"), partition_data=[PartitionProduceData(index=0, records=batch())]
    )
    return ProduceRequest(acks=-1, topic_data=[data])

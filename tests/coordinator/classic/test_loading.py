"""Groups that are loaded from the log, and unloaded: behaviours B085 and B086 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.model.errors import ErrorCode as E
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def h():
    return Harness()


@rule("B085")
def test_loading_rebuilds_stable_and_empty_groups_with_their_timers(h):
    a, b = h.stable("a", dynamic=1)
    h.stable("z", group="empty")
    h.leave(("", "z"), group="empty")
    h.commit(group="simple")
    h.sleep(5_000)
    other = h.reload()
    assert [(g.group_id, g.state, g.generation) for g in other.engine.groups()] == [
        ("empty", "Empty", 2),
        ("g", "Stable", 1),
        ("simple", "Empty", 0),
    ]
    assert other.engine.group("simple").protocol_type is None
    assert [(m.member_id, m.session_deadline_ms) for m in other.engine.group("g").members] == [
        (a, h.now + SESSION_MS),
        (b, h.now + SESSION_MS),
    ]
    assert other.heartbeat(a, 1, "a") == E.NONE
    assert other.got(other.sync(b, 1)).assignment == b.encode()
    other.sleep(SESSION_MS)
    assert other.state() == "Empty"


@rule("B086")
def test_unloading_answers_parked_requests(h):
    a, _ = h.stable("a", "b")
    joining = h.join(a, "a")
    _c, d = h.completing("c", "d", group="other")
    syncing = h.sync(d, 1, group="other")
    h.take(h.runtime.unload(now=h.now))
    assert (h.got(joining).error_code, h.got(joining).member_id) == (E.NOT_COORDINATOR, a)
    assert h.got(syncing).error_code == E.NOT_COORDINATOR
    assert {group.state for group in h.engine.groups()} == {"Dead"}
    assert h.runtime.next_deadline() is None


def test_the_rebalance_timeout_is_the_longest_of_the_members(h):
    a = h.stable("a", session=1_800_000, rebalance=20_000)[0]
    b = h.join("", "b", session=1_800_000, rebalance=40_000)
    assert h.engine.group("g").deadline_ms == h.now + 40_000
    h.join(a, "a", session=1_800_000, rebalance=REBALANCE_MS)
    assert h.got(b).error_code == E.NONE

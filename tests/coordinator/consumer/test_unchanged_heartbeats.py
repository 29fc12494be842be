"""The short way of a heartbeat that says nothing of its member, apart from what it owns, comes to what the long way comes
to, and is taken by no other."""

import pytest

from kgm.coordinator.consumer import heartbeat
from kgm.model.errors import ErrorCode as E
from tests.coordinator.consumer.harness import Consumers

NEAR = {
    "a static member": {"member": "s1", "instance": "app-1"},
    "a static member that does not say so": {"member": "s1"},
    "a static member that had another id before": {"member": "s2", "instance": "app-3"},
    "the instance id that a static member had before": {"member": "s2", "instance": "app-2"},
    "another's instance id": {"instance": "app-1"},
    "nobody's instance id": {"instance": "app-9"},
    "an empty instance id": {"instance": ""},
    "an older epoch": {"epoch": 1},
    "a newer epoch": {"epoch": 9},
    "joins again": {"epoch": 0},
    "leaves": {"epoch": -1},
    "steps away": {"member": "s1", "epoch": -2, "instance": "app-1"},
    "the same topics": {"names": ["a"]},
    "other topics": {"names": ["b"]},
    "a regular expression": {"regex": "b.*"},
    "a rack": {"rack_id": "r1"},
    "another assignor": {"server_assignor": "range"},
    "an assignor that there is not": {"server_assignor": "best"},
    "another rebalance timeout": {"rebalance_timeout_ms": 7},
    "what it owns": {"owned": {"a": [0]}},
    "that it owns what it does not": {"owned": {"a": [0, 1, 2, 3], "b": [0]}},
    "that it owns nothing": {"owned": {}},
    "an older epoch and what it owns": {"epoch": 1, "owned": {"a": [0]}},
    "everything again": {"names": ["a"], "owned": {"a": [0]}, "rebalance_timeout_ms": 300_000},
    "a stranger": {"member": "m9"},
    "the first version": {"v": 0},
    "no such group": {"group": "other"},
}


@pytest.fixture
def h():
    group = Consumers()
    group.beat("m1")
    group.beat("s1", instance="app-1")
    group.beat("s2", instance="app-2")
    group.beat("s2", instance="app-3")
    group.calm()
    return group


def both_ways(h, monkeypatch, **said):
    """(answer, records, session) of a heartbeat, and of the same one the long way round."""
    found = []
    for is_long in (False, True):
        twin = Consumers()
        twin.use(h.engine.image)
        twin.runtime.load(h.log, now=h.now)
        twin.now = h.now + 1_000
        epoch = h.epochs()[0]
        # A group that was just loaded looks at its topics with the first heartbeat.
        assert twin.beat("m1", twin.member("m1").member_epoch).error_code == E.NONE
        twin.now += 1
        with monkeypatch.context() as patch:
            if is_long:
                patch.setattr(heartbeat, "_unchanged", lambda *_: None)
            answer = twin.beat(**{"member": "m1", "epoch": epoch, **said})
        found.append((answer, twin.log, dict(twin.engine.deadlines)))
    return found


@pytest.mark.parametrize("said", NEAR.values(), ids=NEAR)
def test_whatever_a_heartbeat_says_both_ways_come_to_the_same(h, monkeypatch, said):
    short, long = both_ways(h, monkeypatch, **said)
    assert short == long


@pytest.mark.parametrize("member", [" ", "\t", "\0", "\u2003", " m"], ids=ascii)
def test_a_member_that_has_joined_with_a_blank_id_is_refused_both_ways(h, monkeypatch, member):
    """Version 0 lets it join. What `String.trim` leaves is not blank."""
    assert h.beat(member, v=0).error_code == E.NONE
    short, long = both_ways(h, monkeypatch, member=member)
    assert short == long
    assert short[0].error_code == (E.INVALID_REQUEST if member in (" ", "\t", "\0") else E.NONE)


@pytest.mark.parametrize("said", [{}, {"owned": {"a": [0]}}, {"owned": {}}, {"epoch": 1, "owned": {}}], ids=str)
@pytest.mark.parametrize("member", ["m1", "m2", "m3"])
@pytest.mark.parametrize("joined", [1, 2])
def test_who_has_not_got_there_yet_comes_to_the_same_both_ways(h, monkeypatch, said, member, joined):
    for name in ("m2", "m3")[:joined]:
        h.beat(name)
    epoch = h.member(member).member_epoch if member in h.ids_of("g") else 1
    short, long = both_ways(h, monkeypatch, **{"member": member, "epoch": epoch, **said})
    assert short == long


def test_the_first_heartbeat_after_the_target_assignment_is_due_computes_it_both_ways(h, monkeypatch):
    found = []
    for is_long in (False, True):
        twin = Consumers(group_consumer_assignment_interval_ms=1_000)
        twin.use(h.engine.image)
        with monkeypatch.context() as patch:
            if is_long:
                patch.setattr(heartbeat, "_unchanged", lambda *_: None)
            answers = [twin.beat("m1"), twin.beat("m2"), twin.beat("m3")]
            for delay_ms in (0, 300, 300, 1_000, 0, 5_000, 0):
                twin.now += delay_ms
                for member in ("m1", "m2", "m3"):
                    row = twin.member(member)
                    answers.append(twin.beat(member, row.member_epoch))
                    answers.append(twin.beat(member, twin.member(member).member_epoch, owned=row.assigned))
        found.append((answers, twin.log, dict(twin.engine.deadlines)))
    assert found[0] == found[1]
    assert {answer.member_epoch for answer in found[0][0]} == {2, 4}


def test_almost_all_heartbeats_go_the_short_way(h, monkeypatch):
    h.beat("m2")
    h.now += 5_000
    h.beat("m1", h.member("m1").member_epoch)  # has the target assignment computed
    monkeypatch.setattr(heartbeat, "_join_or_stay", None)
    h.calm()
    epoch = h.epochs()[0]
    assert {h.member(name).member_epoch for name in h.ids_of("g")} == {epoch}
    assert h.beat("m1", epoch).error_code == E.NONE
    assert h.beat("m1", epoch, owned={}).error_code == E.NONE
    assert h.beat("s1", epoch, instance="app-1").member_epoch == epoch
    with pytest.raises(TypeError):
        h.beat("m1", epoch, names=["a"])

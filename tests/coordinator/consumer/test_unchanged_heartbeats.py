"""The short way of a heartbeat that changes nothing comes to what the long way comes to, and is taken by no other."""

import pytest

from kgm.coordinator.consumer import heartbeat
from kgm.model.errors import ErrorCode as E
from tests.coordinator.consumer.harness import Consumers

NEAR = {
    "a static member": {"member": "s1", "instance": "app-1"},
    "a static member that does not say so": {"member": "s1"},
    "another's instance id": {"instance": "app-1"},
    "nobody's instance id": {"instance": "app-2"},
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
    "a stranger": {"member": "m9"},
    "the first version": {"v": 0},
    "no such group": {"group": "other"},
}


@pytest.fixture
def h():
    group = Consumers()
    group.beat("m1")
    group.beat("s1", instance="app-1")
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
        with monkeypatch.context() as patch:
            if is_long:
                patch.setattr(heartbeat, "_unchanged", lambda *_: None)
            epoch = h.epochs()[0]
            answer = twin.beat(**{"member": "m1", "epoch": epoch, **said})
        found.append((answer, twin.log, dict(twin.engine.deadlines)))
    return found


@pytest.mark.parametrize("said", NEAR.values(), ids=NEAR)
def test_whatever_a_heartbeat_says_both_ways_come_to_the_same(h, monkeypatch, said):
    short, long = both_ways(h, monkeypatch, **said)
    assert short == long


def test_who_has_not_got_there_yet_goes_the_long_way(h, monkeypatch):
    h.beat("m2")
    short, long = both_ways(h, monkeypatch, epoch=3)
    assert short == long
    assert short[0].assignment is not None


def test_almost_all_heartbeats_go_the_short_way(h, monkeypatch):
    monkeypatch.setattr(heartbeat, "_join_or_stay", None)
    epoch = h.epochs()[0]
    assert h.beat("m1", epoch).error_code == E.NONE
    assert h.beat("s1", epoch, instance="app-1").member_epoch == epoch
    with pytest.raises(TypeError):
        h.beat("m1", epoch, names=["a"])

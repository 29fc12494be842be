"""Overlays behave as copies do, and what they are made from stays as it is until they are merged."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kgm.coordinator.groups import overlay
from kgm.coordinator.groups.overlay import Overlay, copied, overlaid, whole
from kgm.model.errors import ErrorCode as E
from tests.coordinator.harness import Harness

KEYS = st.integers(0, 5)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 99)),
        st.tuples(st.just("pop"), KEYS),
        st.tuples(st.just("del"), KEYS),
        st.tuples(st.just("whole set"), KEYS, st.integers(0, 99)),
        st.tuples(st.just("clear")),
        st.tuples(st.just("iterate")),
    ),
    max_size=12,
)


def change(mapping, deed):
    """What came of it."""
    match deed:
        case ("set", key, value):
            mapping[key] = value
        case ("pop", key):
            return mapping.pop(key, None)
        case ("del", key):
            with pytest.raises(KeyError) if key not in mapping else pytest.MonkeyPatch.context():
                del mapping[key]
        case ("whole set", key, value):
            whole(mapping)[key] = value
        case ("clear",):
            mapping.clear()
        case ("iterate",):
            return list(mapping), list(mapping.keys()), list(mapping.values()), list(mapping.items())
    return None


@given(st.dictionaries(KEYS, st.integers(0, 99)), CHANGES)
def test_an_overlay_is_a_copy(start, deeds):
    base, copy, lazy = start.copy(), start.copy(), Overlay(start)
    for deed in deeds:
        assert change(lazy, deed) == change(copy, deed)
        assert len(lazy) == len(copy)
        for key in range(6):
            assert (key in lazy, lazy.get(key)) == (key in copy, copy.get(key))
            if key in copy:
                assert lazy[key] == copy[key]
        assert list(start.items()) == list(base.items())
    assert list(lazy.merge().items()) == list(copy.items())


@given(st.dictionaries(KEYS, st.integers(0, 99)), CHANGES)
def test_merging_costs_what_was_changed(start, deeds):
    """Unless somebody went through all of it, what comes out is the base itself."""
    lazy = Overlay(start)
    for deed in deeds:
        change(lazy, deed)
    through = any(deed[0] in ("iterate", "whole set", "clear") for deed in deeds)
    assert (lazy.merge() is start) is not through


def test_what_is_missing_is_missing():
    lazy = Overlay({1: 2})
    with pytest.raises(KeyError):
        lazy[2]
    with pytest.raises(KeyError):
        lazy.pop(2)
    assert lazy.pop(1) == 2
    with pytest.raises(KeyError):
        lazy.pop(1)


def test_small_mappings_are_copied_and_shared_ones_are_never_merged_into():
    small, large = {1: 1}, dict.fromkeys(range(overlay.SMALL + 1))
    assert type(overlaid(small)) is dict
    assert type(copied(large)) is dict
    assert type(overlaid(large)) is Overlay
    assert type(copied(Overlay(large))) is dict
    assert overlaid(large).merge() is large


# -- groups as if they were large


@pytest.fixture
def h(monkeypatch):
    monkeypatch.setattr(overlay, "SMALL", 0)
    return Harness(group_initial_rebalance_delay_ms=1_000)


def parts(group):
    """All of a group; containers as lists, since order counts."""
    values = {name: getattr(group, name) for name in group.__slots__ if name != "is_shared"}
    return {name: list(value.items()) if hasattr(value, "items") else value for name, value in values.items()}


def test_an_aborted_restart_leaves_the_group_as_it_was(h):
    h.stable("a", "b", "c")
    before = parts(h.engine._state.groups["g"])
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    assert h.got(h.join("", "b")).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert parts(h.engine._state.groups["g"]) == before


def test_a_draft_is_all_of_a_group_and_nothing_of_it_is_in_effect(h):
    h.stable("a", "b", dynamic=1)
    group = h.engine._state.groups["g"]
    before = parts(group)
    draft = group.draft()
    assert parts(draft) == before
    draft.remove(next(iter(draft.members)))
    draft.generation += 1
    assert parts(group) == before


def test_a_fork_and_its_origin_go_their_own_ways(h):
    _, b, _ = h.stable("a", "b", "c")
    twin = h.runtime.fork()
    before = parts(twin.engine._state.groups["g"])
    assert h.leave((b, "b")).members[0].error_code == E.NONE
    h.join("", "a")
    assert parts(twin.engine._state.groups["g"]) == before
    after = parts(h.engine._state.groups["g"])
    twin.advance(h.now + 60_000)
    assert twin.engine.group("g").state == "Empty"
    assert parts(h.engine._state.groups["g"]) == after
    assert len(h.engine._state.groups["g"].members) == 2


def test_rows_of_a_record_are_remembered_and_never_stale(h):
    """Whatever happens to a group, a restart writes what a new record of all its members would say."""
    h.stable("a", "b", "c")
    for instance, session in (("b", 10_000), ("a", 20_000), ("b", 30_000)):
        h.joined(h.join("", instance, v=9, session=session))
        written = h.log[-1].value
        members = h.engine._state.groups["g"].members
        assert [(row.member_id, row.session_timeout, row.assignment) for row in written.members] == [
            (member.member_id, member.session_timeout_ms, member.assignment) for member in members.values()
        ]
        assert [view.member_id for view in h.reload().engine.group("g").members] == list(members)

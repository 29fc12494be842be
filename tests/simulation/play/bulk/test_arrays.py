"""What members give up and take in one step, beside a ledger that is told of one member at a time."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.simulation.play.bulk.arrays import NO_MEMBER, ArrayLedger
from kgm.simulation.play.ownership_ledger import OwnershipLedger
from tests.selection import sized

TOPIC, START_MS = "t", 1_000.0
MEMBERS = ("a", "b", "c", "d")


@st.composite
def exchanges(draw):
    """Who has each partition before and after, NO_MEMBER for none, when each member has its assignment, and how many
    times that happens again."""
    count = draw(st.integers(1, 12))
    owners = st.lists(st.integers(NO_MEMBER, len(MEMBERS) - 1), min_size=count, max_size=count)
    # In ms, and far enough from each other to be two times also after what they are added to.
    span = st.integers(1_000, 500_000).map(lambda us: us / 1_000)
    times = st.lists(span, min_size=len(MEMBERS), max_size=len(MEMBERS), unique=True)
    return draw(owners), draw(st.lists(st.tuples(owners, times), min_size=1, max_size=4))


@settings(max_examples=sized(8, 150))
@given(exchanges())
def test_an_exchange_is_what_members_do_one_by_one(situation):
    before, rounds = situation
    assignment = {
        name: {TOPIC: tuple(at for at, owner in enumerate(before) if owner == place)}
        for place, name in enumerate(MEMBERS)
    }
    one_by_one = OwnershipLedger({TOPIC: len(before)}, assignment, START_MS)
    ledger, each = (ArrayLedger(deepcopy(one_by_one)) for _ in range(2))
    assert [ledger.number_of(name) for name in MEMBERS] == [each.number_of(name) for name in MEMBERS]
    numbers = np.array([*(ledger.number_of(name) for name in MEMBERS), NO_MEMBER])
    consumer, now_ms = np.array(before), START_MS
    for owners, spans in rounds:
        # What has a consumer comes to another one in a later round only.
        after = np.where((consumer >= 0) & (consumer != owners), NO_MEMBER, owners)
        lost, gained = (consumer >= 0) & (after != consumer), (after >= 0) & (after != consumer)
        for place in np.argsort(spans).tolist():
            at_ms = now_ms + spans[place]
            left, got = np.flatnonzero(lost & (consumer == place)), np.flatnonzero(gained & (after == place))
            one_by_one.drop(MEMBERS[place], {TOPIC: left.tolist()}, at_ms)
            one_by_one.take(MEMBERS[place], {TOPIC: got.tolist()}, at_ms)
        at = np.zeros(len(ledger.names))
        at[numbers[:-1]] = now_ms + np.array(spans)
        saved = ledger.save()
        ledger.exchange(lost, gained, numbers[after], at)
        ledger.restore(saved)
        ledger.exchange(lost, gained, numbers[after], at)
        consumer, now_ms = after, now_ms + 1_000.0
        lists = np.flatnonzero(lost), np.flatnonzero(gained)
        each.end(lists[0], at[each.consumer[lists[0]]])
        each.begin(lists[1], numbers[after[lists[1]]], at[numbers[after[lists[1]]]])
        each.count()
    assert vars(ledger.written()) == vars(one_by_one)
    assert vars(each.written()) == vars(one_by_one)


@settings(max_examples=sized(8, 150))
@given(
    st.lists(st.integers(NO_MEMBER, len(MEMBERS) - 1), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, len(MEMBERS) - 1), st.sets(st.integers(0, 9)), st.floats(0, 500)), max_size=12),
)
def test_one_member_after_the_other_stops_or_begins(before, steps):
    """Who consumes something stops, and who does not takes what nobody consumes; also partitions that do not exist."""
    assignment = {
        name: {TOPIC: tuple(at for at, owner in enumerate(before) if owner == place)}
        for place, name in enumerate(MEMBERS)
    }
    plain = OwnershipLedger({TOPIC: len(before)}, assignment, START_MS)
    ledger = ArrayLedger(deepcopy(plain))
    now_ms = START_MS
    for place, numbers, span_ms in steps:
        now_ms += span_ms
        name, owned = MEMBERS[place], ledger.consumed_by(MEMBERS[place])
        if owned:
            named = {TOPIC: (*owned[TOPIC][: 1 + len(numbers)], *numbers), "other": (0,)}
            for each in (plain, ledger):
                each.drop(name, named, now_ms)
        else:
            free = {
                TOPIC: tuple(n for n in numbers if n >= len(before) or ledger.consumer[n] == NO_MEMBER),
                "other": (0,),
            }
            for each in (plain, ledger):
                each.take(name, free, now_ms)
    assert vars(ledger.written()) == vars(plain)


@settings(max_examples=sized(12, 150))
@given(
    st.lists(st.sets(st.integers(0, len(MEMBERS) - 1)), min_size=1, max_size=6),
    st.lists(
        st.tuples(st.integers(0, len(MEMBERS) - 1), st.sets(st.integers(0, 5)), st.booleans(), st.floats(0, 500)),
        max_size=12,
    ),
)
def test_a_partition_may_have_several_consumers(before, steps):
    """While a fenced member has not noticed yet. Members also stop and begin in arrays."""
    plain = OwnershipLedger({TOPIC: len(before)}, {}, START_MS, keeps_holdings=True)
    for place, name in enumerate(MEMBERS):
        plain.take(name, {TOPIC: tuple(at for at, consumers in enumerate(before) if place in consumers)}, START_MS)
    ledger, now_ms = ArrayLedger(deepcopy(plain)), START_MS
    for place, numbers, is_single, span_ms in steps:
        now_ms += span_ms
        name, owned = MEMBERS[place], ledger.consumed_by(MEMBERS[place])
        assert owned.get(TOPIC, ()) == consumed(plain, name)
        if is_single:
            for each in (plain, ledger):
                each.drop(name, owned, now_ms)
                each.take(name, {TOPIC: (*numbers,)}, now_ms)
            continue
        gained = np.array([n for n in numbers if n < len(before) and n not in owned.get(TOPIC, ())], dtype=np.int64)
        plain.take(name, {TOPIC: gained.tolist()}, now_ms)
        ledger.begin(gained, np.full(len(gained), ledger.number_of(name)), np.full(len(gained), now_ms))
        ledger.count()
        now_ms += 1.0
        lost = np.flatnonzero(ledger.consumer == ledger.number_of(name))
        plain.drop(name, {TOPIC: lost.tolist()}, now_ms)
        ledger.end(lost, np.full(len(lost), now_ms))
        ledger.count()
    holdings = [each.holdings.until(now_ms, {TOPIC: 9}) for each in (plain, ledger)]
    assert holdings[0] == holdings[1]
    plain.holdings = ledger.holdings = None
    written = ledger.written()
    written.holdings = None
    assert vars(written) == vars(plain)


def consumed(ledger, name):
    return tuple(at for at, state in enumerate(ledger.states[TOPIC]) if name in state.consumers)

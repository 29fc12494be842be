"""Holdings against the ledger's own numbers, which are counted another way."""

from itertools import pairwise

import pytest

from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop
from kgm.simulation.play.holdings import Holding, Holdings
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up


def test_holdings_have_a_start_and_an_end():
    book = Holdings({"a": {"t": (0, 1)}}, 1000.0)
    book.drop("a", {"t": (1,)}, 1100.0)
    book.take("b", {"t": (1,)}, 1250.0)
    book.take("a", {"t": (0,)}, 1300.0)
    assert book.until(2000.0, {"t": 2}) == (
        Holding(topic="t", partition=0, from_ms=0, to_ms=1000, owner="a"),
        Holding(topic="t", partition=1, from_ms=0, to_ms=100, owner="a"),
        Holding(topic="t", partition=1, from_ms=250, to_ms=1000, owner="b"),
    )


def test_holdings_without_length_are_left_out():
    book = Holdings({}, 0.0)
    book.drop("a", {"t": (0,)}, 1.0)
    book.take("a", {"t": (0, 7)}, 5.0)
    book.drop("a", {"t": (0,)}, 5.0)
    assert book.until(9.0, {"t": 1}) == ()
    book.take("b", {"t": (0,)}, 9.0)
    assert [(each.from_ms, each.to_ms, each.owner) for each in book.until(9.0, {"t": 1})] == [(9, 9, "b")]


def without_a_bar_ms(holdings, end_ms):
    """From the bars alone: per partition, the length of what no bar covers."""
    places = {}
    for each in holdings:
        places.setdefault((each.topic, each.partition), []).append((each.from_ms, each.to_ms))
    stopped = 0
    for spans in places.values():
        reached = min(start for start, _ in spans)
        for start, end in sorted(spans):
            stopped += max(start - reached, 0)
            reached = max(reached, end)
        stopped += end_ms - reached
    return stopped


def changes_of_hands(holdings):
    """From the bars alone: how often the next bar of a partition is another member's."""
    return sum(
        (one.topic, one.partition) == (then.topic, then.partition) and one.owner != then.owner
        for one, then in pairwise(holdings)
    )


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("membership", [STATIC, DYNAMIC])
@pytest.mark.parametrize("stop", [Stop.CLEAN, Stop.CRASH])
def test_the_bars_of_the_typical_draw_add_up(assignor, membership, stop):
    group = made_up(4, 10, membership, assignor)
    plan = Plan(bounce=ids(group), rolling=Rolling(max_unavailable=1, pause_ms=0), restart_time_ms=5_000, stop=stop)
    plain = simulate(group, plan, draws=20)
    drawn = simulate(group, plan, draws=20, keeps_holdings=True)
    assert plain.to_json() == drawn.to_json()
    outcome = drawn.typical
    stopped = without_a_bar_ms(outcome.holdings, outcome.took_ms)
    assert changes_of_hands(outcome.holdings) == outcome.handovers >= outcome.moved_partitions
    assert stopped == pytest.approx(outcome.stopped_partition_ms, abs=2 * len(outcome.holdings))
    last = {(each.topic, each.partition): each.owner for each in outcome.holdings if each.to_ms == outcome.took_ms}
    final = outcome.final_assignment
    assert last == {("t", number): owner for owner in final for number in final[owner].get("t", ())}
    assert not plain.typical.holdings

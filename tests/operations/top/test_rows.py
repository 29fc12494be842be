import random

import pytest

from kgm.model.errors import KgmError
from kgm.operations.top.rows import FleetOrder, FleetRow, matches
from kgm.text.names import natural


def by_name(rows):
    return sorted(rows, key=lambda row: natural(row.group_id))


def row(name, **values):
    return FleetRow(**{"group_id": name, "type": "classic", "state": "Stable", **values})


def order_of(order, *rows):
    shuffled = [*rows]
    random.Random(7).shuffle(shuffled)
    return [one.group_id for one in order.sorted(by_name(shuffled))]


def test_the_worst_lag_in_time_comes_first_and_what_is_unknown_before_what_is_read():
    rows = [
        row("hour", lag=3, lag_ms=3_600_000),
        row("second", lag=90_000, lag_ms=1_000),
        row("many", lag=5_000),
        row("few", lag=5),
        row("unknown-2"),
        row("unknown-10", error=KgmError("not described")),
        row("read", lag=0, lag_ms=0),
    ]
    assert order_of(FleetOrder.LAG_TIME, *rows) == [one.group_id for one in rows]


@pytest.mark.parametrize(
    ("order", "values", "expected"),
    [
        (FleetOrder.LAG, [{"lag": 1}, {"lag": 20}, {}, {"lag": 0}], "1 0 3 2"),
        (FleetOrder.REBALANCES, [{"rebalances": 0}, {}, {"rebalances": 12}], "2 0 1"),
        (FleetOrder.MISSING, [{"missing": 0}, {"missing": 2}, {}], "1 0 2"),
        (FleetOrder.COMMIT, [{"commit_age_ms": 5}, {"commit_age_least_ms": 9}, {}, {"commit_age_ms": 7}], "1 3 0 2"),
        (FleetOrder.MEMBERS, [{"members": 2}, {}, {"members": 10}], "2 0 1"),
        (FleetOrder.STATE, [{"state": "Empty"}, {}, {"state": "PreparingRebalance"}, {"state": None}], "2 3 1 0"),
        (FleetOrder.GROUP, [{}, {}, {}], "0 1 2"),
    ],
)
def test_orders(order, values, expected):
    rows = [row(f"g-{number}", **one) for number, one in enumerate(values)]
    assert " ".join(name.removeprefix("g-") for name in order_of(order, *rows)) == expected


def test_names_with_numbers():
    assert order_of(FleetOrder.LAG_TIME, row("svc-10"), row("svc-2"), row("svc-1")) == ["svc-1", "svc-2", "svc-10"]


def test_a_pattern_is_a_part_or_a_glob():
    assert matches("Orders-Eu", "ders-e")
    assert matches("Orders-Eu", "orders-*")
    assert not matches("Orders-Eu", "rders-*")
    assert not matches("Orders-Eu", "us")

"""The session timeout for restarts that were seen. Probabilities are held against drawing restarts by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from kgm.history import schema
from kgm.model.errors import MissingFileError, NotFoundError, RefusedError, UsageError
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.plan.session_advice import advise, read_restart_times, restart_times_of, shortest_session_ms
from kgm.simulation.plan.bounce_plan import Membership, Plan, Rolling
from tests.history.store.stores import write_store
from tests.simulation.groups import ids, made_up

pytestmark = pytest.mark.slow

GROUP = made_up(4, 8, session_timeout_ms=45_000)
ALL = Plan(bounce=ids(GROUP), rolling=Rolling(max_unavailable=2))
TIMES_MS = (20_000, 25_000, 90_000)


def advice(times_ms=TIMES_MS, group=GROUP, plan=ALL):
    return advise(BounceGroup(snapshot=group), replace(plan, restart_times_ms=times_ms))


@pytest.mark.parametrize("members", [1, 3, 12])
def test_it_is_the_shortest_with_which_99_of_100_plans_are_in_time(members):
    chance = random.Random(members)
    times_ms = [round(chance.expovariate(1 / 20_000)) for _ in range(3_000)]
    session_ms = shortest_session_ms(times_ms, members, lambda _: 0)
    plans = [max(chance.choices(times_ms, k=members)) for _ in range(20_000)]

    def in_time(limit_ms):
        return sum(longest < limit_ms for longest in plans) / len(plans)

    assert in_time(session_ms) >= 0.985
    assert in_time(session_ms * 0.9) < 0.99


def test_what_passes_beside_the_restart_is_added_and_seconds_are_full():
    assert shortest_session_ms([10_000], 1, lambda _: 0) == 11_000  # a session of 10 s would end at that moment
    assert shortest_session_ms([9_500], 1, lambda _: 0) == 10_000
    assert shortest_session_ms([10_000], 1, lambda _: 3_000) == 14_000
    assert shortest_session_ms([10_000], 1, lambda session_ms: session_ms // 3) == 16_000


def test_with_the_advised_timeout_nothing_moves_and_with_a_shorter_one_it_does():
    """Two of three restarts are in time with 45 s: four members are all in time in 20 % of the runs."""
    one = advice()
    assert one.quiet_percent >= 99
    assert 10 <= one.quiet_percent_now <= 30
    assert 93_000 <= one.session_timeout_ms <= 100_000
    assert (one.session_timeout_now_ms, one.members) == (45_000, 4)


@pytest.mark.long
def test_the_price_is_the_time_until_others_have_the_partitions_of_a_member_that_died():
    """Two partitions, from its last heartbeat until its session has ended."""
    one = advice()
    death = one.if_a_member_dies
    for session_ms, died_ms in (
        (one.session_timeout_now_ms, death.stopped_partition_now_ms),
        (one.session_timeout_ms, death.stopped_partition_ms),
    ):
        assert 2 * (session_ms - 4_000) <= died_ms <= 2 * session_ms + 8 * 6_000


@pytest.mark.long
def test_few_restarts_are_no_evidence_of_rare_ones():
    """To expect one of 400 restarts beyond those seen takes as many."""
    assert any("399 are needed" in text for text in advice().caveats)
    assert advice(times_ms=tuple(range(1_000, 41_000, 100))).caveats == ()


@pytest.mark.long
def test_a_timeout_that_the_broker_does_not_accept_is_said():
    one = advice(plan=replace(ALL, settings={"group.max.session.timeout.ms": "60000"}))
    assert any("accepts at most 60 s" in text for text in one.caveats)


def test_dynamic_members_have_no_use_for_it():
    group = made_up(3, 6, Membership.DYNAMIC)
    with pytest.raises(UsageError, match="dynamic members leave when they stop"):
        advice(group=group, plan=Plan(bounce=ids(group)))


def test_restart_times_are_a_list_or_lines():
    assert read_restart_times("20s,1m,500ms", "x") == (20_000, 60_000, 500)
    assert read_restart_times("20s\n# a comment\n\n1m  # slow\n", "x") == (20_000, 60_000)
    with pytest.raises(UsageError, match="x: there is no restart time"):
        read_restart_times(" # nothing\n", "x")
    with pytest.raises(UsageError, match="x: 'soon' is not a valid duration"):
        read_restart_times("20s,soon", "x")


def test_a_history_has_the_restarts_of_static_members(tmp_path):
    tables = {name: columns.empty_table() for name, columns in schema.TABLES.items() if name[:4] in ("silv", "gold")}
    seen = [
        ("orders", True, 20_000),
        ("orders", True, 90_000),
        ("orders", True, None),
        ("orders", False, 1_000),
        ("other", True, 2_000),
    ]
    rows = [
        {
            "partition": 0, "offset": number, "timestamp": number, "group_id": group_id, "group_type": "classic",
            "seat": "a", "static": static, "member_id": "m", "client_id": "c", "client_host": "h", "up_at": number,
            "max_ms": max_ms, "confidence": "certain", "complete": True,
        }
        for number, (group_id, static, max_ms) in enumerate(seen)
    ]  # fmt: skip
    tables["gold_restart"] = pa.Table.from_pylist(rows, schema=schema.TABLES["gold_restart"])
    folder = str(write_store(tmp_path / "store", tables, partitions=range(1), rows_in_group=7, cluster="here"))
    for cluster_id in ("here", None):
        assert sorted(restart_times_of(folder, "orders", cluster_id)) == [20_000, 90_000]
    with pytest.raises(RefusedError, match="is about cluster here, and this is elsewhere"):
        restart_times_of(folder, "orders", "elsewhere")
    with pytest.raises(NotFoundError, match="no restart of a static member of group none"):
        restart_times_of(folder, "none", "here")
    with pytest.raises(MissingFileError):
        restart_times_of(str(tmp_path / "nothing"), "orders", "here")

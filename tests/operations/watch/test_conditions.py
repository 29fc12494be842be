"""The conditions of `kgm wait`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.watch.conditions import parse_condition


def described(*statuses, state="Stable", offsets=()):
    members = tuple(MemberSnapshot(member_id=f"m{i}", status=status) for i, status in enumerate(statuses))
    return GroupSnapshot(group_id="g", type="consumer", state=state, members=members, offsets=offsets)


def streams(state="Stable", **known):
    return replace(described("stable", state=state), type="classic", assignor="stream", **known)


def row(lag, committed=1, end=9, lag_ms=None):
    return OffsetSnapshot(
        topic="t",
        partition=3,
        committed=committed,
        end=end,
        lag=lag,
        group_instance_id=None,
        member_id=None,
        lag_ms=lag_ms,
    )


@pytest.mark.parametrize(
    ("text", "group", "met", "seen"),
    [
        ("stable", described("stable"), True, "Stable"),
        ("Stable", described("stable", "away"), False, "Stable, but m1 is away"),
        ("stable", described("reconciling", "stable"), False, "Stable, but m0 is reconciling"),
        ("stable", described(state="Empty"), False, "Empty"),
        ("settled", streams(is_settled=True), True, "settled"),
        ("settled", streams(state="PreparingRebalance"), False, "PreparingRebalance"),
        ("settled", streams(is_settled=False, next_rebalance_at="2026-11-26T09:00:00.000Z"), False,
         "not settled: a member starts another rebalance, due at 2026-11-26T09:00:00.000Z"),
        ("empty", described(state="Empty"), True, "no members"),
        ("empty", described("stable"), False, "1 member"),
        ("members=2", described("stable", "stable"), True, "2 members"),
        ("members==2", described("stable"), False, "1 member"),
        ("members >= 2", described("stable", "stable", "stable"), True, "3 members"),
        ("members<=2", described("stable", "stable", "stable"), False, "3 members"),
        ("members=0", described(), True, "0 members"),
        ("lag<=10", described("stable", offsets=(row(4), row(6))), True, "lag 10"),
        ("lag<=10", described("stable", offsets=(row(4), row(7))), False, "lag 11"),
        ("lag=0", described("stable", offsets=(row(0),)), True, "lag 0"),
        ("lag<=10", described("stable", offsets=(row(None, None, 0), row(2))), True, "lag 2"),
        ("lag<=10", described("stable", offsets=(row(None, None, 5), row(2))), False, "lag 2, but no committed offset for t[3]"),
        ("lag<=10", described("stable", offsets=(row(None, 4, None), row(None, 4, None))), False, "no lag is known: unknown end offset for t[3] and 1 more"),
        ("lag=0", described("stable", offsets=(row(0), row(None, 9, 4))), False,
         "unknown lag, because 1 committed offset is past the end: topic recreated or records lost (t[3])"),
        ("lag-time<=60s", described("stable", offsets=(row(4, lag_ms=59_000), row(0), row(None, None, 0))), True, "lag 59s"),
        ("lag-time <= 1m", described("stable", offsets=(row(4, lag_ms=1), row(9, lag_ms=60_001))), False, "lag 1m"),
        ("lag-time<=1h", described("stable", offsets=(row(4, lag_ms=1), row(9))), False, "no lag in time is known for t[3]: its lag is 9"),
        ("lag-time<=0s", described("stable", offsets=(row(0),)), True, "lag 0ms"),
        ("lag-time<=1h", described("stable", offsets=(row(None, 9, 4),)), False,
         "unknown lag, because 1 committed offset is past the end: topic recreated or records lost (t[3])"),
        ("lag<=10", described("stable"), False, "no lag is known: no partition is owned, and no committed offset was read"),
    ],
)  # fmt: skip
def test_conditions(text, group, met, seen):
    state = parse_condition(text).check(group)
    assert (state.met, state.seen) == (met, seen)


def test_waiting_for_settled_ends_where_nobody_tells():
    """It is never green."""
    for group in (described("stable"), streams()):
        state = parse_condition("settled").check(group)
        assert (state.met, state.is_final) == (False, True)
        assert "does not report" in state.seen


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stabel",
        "members",
        "members=",
        "members=x",
        "lag>=3",
        "lag<=-1",
        "members<2",
        "lag-time>=3s",
        "lag-time<=3",
        "lag-time<=",
    ],
)
def test_an_invalid_condition_is_a_usage_error(text):
    with pytest.raises(UsageError, match="--for"):
        parse_condition(text)


def test_a_deleted_group_is_empty():
    assert [parse_condition(text).is_met_by_deletion for text in ("empty", "members=0", "members=1", "stable", "lag<=1")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def static(status="stable", **member_ids):
    members = tuple(
        MemberSnapshot(member_id=member_id, group_instance_id=instance_id, status=status)
        for instance_id, member_id in member_ids.items()
    )
    return replace(described(), members=members)


@pytest.mark.parametrize(
    ("now", "met", "seen"),
    [
        (static(Node1="old", b="new"), False, "not replaced: still old"),
        (static(Node1="new", b="old"), True, "replaced by new"),
        (static("away", Node1="new"), False, "new is away"),
        (static(node1="new", b="x"), False, "no member Node1"),  # instance ids are case-sensitive
        (described("stable"), False, "no member Node1"),
    ],
)
def test_a_static_member_is_replaced_once_it_has_a_new_member_id(now, met, seen):
    condition = parse_condition(" replaced = Node1", static(Node1="old", b="other"))
    state = condition.check(now)
    assert (state.met, state.seen, state.is_final) == (met, seen, False)
    assert condition.text == "replaced=Node1"
    assert not condition.is_met_by_deletion


def test_what_is_not_in_the_baseline_cannot_be_replaced():
    with pytest.raises(UsageError, match="--baseline"):
        parse_condition("replaced=a")
    with pytest.raises(NotFoundError, match="no static member m0") as dynamic:
        parse_condition("replaced=m0", described("stable"))
    assert list(dynamic.value.facts) == ["it has none"]
    with pytest.raises(NotFoundError) as other:
        parse_condition("replaced=c", static(b="1", a="2"))
    assert list(other.value.facts) == ["it has: a, b"]

"""What `kgm wait` waits for."""

from __future__ import annotations

import pytest

from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.watch.conditions import parse_condition


def group(*statuses, state="Stable", offsets=()):
    members = tuple(MemberSnapshot(member_id=f"m{i}", status=status) for i, status in enumerate(statuses))
    return GroupSnapshot(group_id="g", type="consumer", state=state, members=members, offsets=offsets)


def row(lag, committed=1, end=9):
    return OffsetSnapshot(
        topic="t", partition=3, committed=committed, end=end, lag=lag, group_instance_id=None, member_id=None
    )


@pytest.mark.parametrize(
    ("text", "seen", "met", "said"),
    [
        ("stable", group("stable"), True, "Stable"),
        ("Stable", group("stable", "away"), False, "Stable, but not yet: m1"),
        ("stable", group("reconciling", "stable"), False, "Stable, but not yet: m0"),
        ("stable", group(state="Empty"), False, "Empty"),
        ("empty", group(state="Empty"), True, "no members"),
        ("empty", group("stable"), False, "1 member"),
        ("members=2", group("stable", "stable"), True, "2 members"),
        ("members==2", group("stable"), False, "1 member"),
        ("members >= 2", group("stable", "stable", "stable"), True, "3 members"),
        ("members<=2", group("stable", "stable", "stable"), False, "3 members"),
        ("members=0", group(), True, "0 members"),
        ("lag<=10", group("stable", offsets=(row(4), row(6))), True, "lag 10"),
        ("lag<=10", group("stable", offsets=(row(4), row(7))), False, "lag 11"),
        ("lag=0", group("stable", offsets=(row(0),)), True, "lag 0"),
        ("lag<=10", group("stable", offsets=(row(None, None, 0), row(2))), True, "lag 2"),
        ("lag<=10", group("stable", offsets=(row(None, None, 5), row(2))), False, "lag 2, but nothing is committed for t[3]"),
        ("lag<=10", group("stable", offsets=(row(None, 4, None), row(None, 4, None))), False, "lag 0, but the end is not known of t[3] and 1 more"),
        ("lag<=10", group("stable"), False, "no lag: the group neither owns nor has committed anything"),
    ],
)  # fmt: skip
def test_conditions(text, seen, met, said):
    answer = parse_condition(text).ask(seen)
    assert (answer.met, answer.seen) == (met, said)


@pytest.mark.parametrize("text", ["", "stabel", "members", "members=", "members=x", "lag>=3", "lag<=-1", "members<2"])
def test_what_is_no_condition_is_a_usage_error(text):
    with pytest.raises(UsageError, match="--for"):
        parse_condition(text)


def test_a_group_that_is_gone_is_empty():
    assert [parse_condition(text).is_met_by_nothing for text in ("empty", "members=0", "members=1", "stable", "lag<=1")] == [
        True, True, False, False, False,
    ]  # fmt: skip

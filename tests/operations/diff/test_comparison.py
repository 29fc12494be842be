"""The groups of two sides: which are compared, and what is an error."""

from __future__ import annotations

import pytest

from kgm.client import connect
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.diff.comparison import LiveGroups, compare_snapshots, compare_with_cluster, live_group_ids
from kgm.server import serve_in_thread
from tests.client.joiners import form_group


def group(group_id, *instance_ids, start=1):
    members = tuple(MemberSnapshot(member_id=f"{name}-{start}", group_instance_id=name) for name in instance_ids)
    return GroupSnapshot(group_id=group_id, type="classic", state="Stable", members=members)


def test_groups_are_paired_by_id():
    compared = compare_snapshots([group("g", "a"), group("h")], [group("g", "a", start=2), group("i")])
    assert [(one.group_id, one.before is None, one.after is None) for one in compared.groups] == [
        ("g", False, False), ("h", False, True), ("i", True, False),
    ]  # fmt: skip
    assert [one.group_id for one in compared.different] == ["g", "h", "i"]
    same, *_ = compared.groups
    assert same.changes is not None
    assert [one.identity for one in same.changes.replaced] == ["a"]


def test_one_group_on_each_side_is_compared_whatever_it_is_called():
    (one,) = compare_snapshots([group("g", "a")], [group("copy", "a")]).groups
    assert (one.group_id, one.is_same) == ("copy", True)


def test_a_group_that_was_asked_for_and_is_on_neither_side_is_an_error():
    compared = compare_snapshots([group("g")], [group("g"), group("h")], ["g", "none"])
    assert [one.group_id for one in compared.groups] == ["g"]
    assert [error.message for error in compared.errors] == ["neither side has group none"]


def test_a_live_side_takes_the_groups_of_the_other_unless_it_names_one():
    written = [group("g"), group("h")]
    assert live_group_ids(written, LiveGroups(), []) == ([], ["g", "h"])
    assert live_group_ids(written, LiveGroups(), ["h"]) == ([], ["h"])
    assert live_group_ids(LiveGroups(group_id="x"), LiveGroups(group_id="y"), []) == (["x"], ["y"])
    for sides in ((LiveGroups(), LiveGroups()), ([], LiveGroups())):
        with pytest.raises(UsageError, match="no group is named"):
            live_group_ids(*sides, [])


@pytest.mark.slow
def test_a_live_side_is_described_and_a_missing_group_is_a_difference():
    with serve_in_thread(topics={"orders": 3}) as server:
        joiners = form_group(server, "g", ["a"], "orders")
        try:
            with connect(server.bootstrap, timeout_ms=60_000) as cluster:
                before = [cluster.describe_group("g"), group("gone", "a")]
                compared = compare_with_cluster(before, LiveGroups(), [], cluster)
                assert [(one.group_id, one.is_same) for one in compared.groups] == [("g", True), ("gone", False)]
                assert compared.errors == ()
                unknown = compare_with_cluster(before, LiveGroups(group_id="unknown"), [], cluster)
                assert [error.group_id for error in unknown.errors] == ["unknown"]
        finally:
            for joiner in joiners:
                joiner.close()

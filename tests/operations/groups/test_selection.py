"""Groups by name, by pattern, or all of them; and the list of groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.model.error_code import ErrorCode
from kgm.operations.groups.listing import list_groups
from kgm.operations.groups.selection import select_groups
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.client.faults import Edit, FaultProxy
from tests.client.joiners import form_group

pytestmark = pytest.mark.slow
GROUPS = {"orders-a": ["x"], "orders-b": [None], "other": ["x", "y"]}


@pytest.fixture(scope="module")
def cluster():
    """Groups `orders-a` and `orders-b` with one member, `other` with two."""
    with serve_in_thread(topics={"t": 2}) as server:
        joiners = [joiner for name, ids in GROUPS.items() for joiner in form_group(server, name, ids, "t")]
        with connect(server.bootstrap, timeout_ms=60_000) as connected:
            yield connected
        for joiner in joiners:
            joiner.close()


def test_names_need_no_listing(cluster):
    selection = select_groups(cluster, ["b", "a", "b"])
    assert (selection.group_ids, selection.errors, selection.listing) == (("b", "a"), (), None)


def test_a_pattern_adds_to_the_names(cluster):
    assert select_groups(cluster, ["other"], "orders-*").group_ids == ("other", "orders-a", "orders-b")
    everything = select_groups(cluster, [], all_groups=True)
    assert everything.group_ids == ("orders-a", "orders-b", "other")
    assert everything.listing is not None


def test_a_pattern_that_matches_nothing_is_an_error(cluster):
    selection = select_groups(cluster, [], "zzz*")
    assert selection.group_ids == ()
    (error,) = selection.errors
    assert (error.message, error.facts) == ("no group matches zzz*", ("3 visible groups",))
    table = list_groups(cluster, pattern="zzz*")
    assert (table.rows, [one.message for one in table.errors]) == ((), ["no group matches zzz*"])
    assert list_groups(cluster, pattern="orders-*", states=["Empty"]).errors == ()


@pytest.mark.parametrize(
    ("operations", "any_group", "is_complete"),
    [
        (0, False, False),
        (1 << 9 | 1 << 10, False, False),
        (1 << 8, False, True),
        (-(2**31), False, True),
        (0, True, True),
    ],
    ids=["nothing", "no DESCRIBE", "DESCRIBE", "a broker that reports no rights", "DESCRIBE on Group '*'"],
)
def test_a_listing_without_describe_may_lack_groups(cluster, operations, any_group, is_complete):
    """KIP-430: one bit for each AclOperation, of which DESCRIBE is 8, and -2^31 for what is not reported. The
    coordinator of a group is only told to who has DESCRIBE on it, whether the group exists or not."""

    def limit(answer):
        if answer.cluster_authorized_operations != -(2**31):  # it was asked for
            answer.cluster_authorized_operations = operations

    def hide(answer):
        for one in answer.coordinators:
            if one.key not in GROUPS and not any_group:
                one.error_code, one.node_id = ErrorCode.GROUP_AUTHORIZATION_FAILED, -1

    host, _, port = cluster.bootstrap.rpartition(":")
    with FaultProxy((host, int(port))) as proxy, connect(proxy.bootstrap, timeout_ms=60_000) as connected:
        proxy.always(ApiKey.METADATA, Edit(limit))
        proxy.always(ApiKey.FIND_COORDINATOR, Edit(hide))
        assert (select_groups(connected, [], all_groups=True).unseen is None) == is_complete
        assert (select_groups(connected, [], "orders-*").unseen is None) == is_complete
        assert (list_groups(connected).unseen is None) == is_complete
        assert select_groups(connected, ["other"]).unseen is None  # nothing is left out of names


def test_the_list_has_members_and_coordinators(cluster):
    seen = []
    table = list_groups(cluster, pattern="o*", see=lambda snapshot: seen.append(snapshot.group_id))
    assert [(row.group_id, row.type, row.state, row.members) for row in table.rows] == [
        ("orders-a", "classic", "Stable", 1), ("orders-b", "classic", "Stable", 1), ("other", "classic", "Stable", 2),
    ]  # fmt: skip
    assert all(row.coordinator is not None for row in table.rows)
    assert seen == ["orders-a", "orders-b", "other"]
    assert list_groups(cluster, states=["Empty"]).rows == ()


def test_state_and_members_are_of_one_moment(cluster, monkeypatch):
    """A broker that coordinated a group before may list it as it was then."""
    listing = cluster.list_groups()
    outdated = replace(listing, groups=tuple(replace(row, state="Empty") for row in listing.groups))
    monkeypatch.setattr(type(cluster), "list_groups", lambda *_, **__: outdated)
    rows = {row.group_id: (row.state, row.members) for row in list_groups(cluster).rows}
    assert rows == {"orders-a": ("Stable", 1), "orders-b": ("Stable", 1), "other": ("Stable", 2)}

"""Answers that no broker should give: each is an error that names the broker, the group and what is odd, and nothing hangs."""

from __future__ import annotations

import shlex
import struct

import pytest

from kgm.client import connect
from kgm.client.connection_test import run_connection_test
from kgm.client.failures import BadAnswerError, from_code
from kgm.client.transport.bootstrap import parse_bootstrap
from kgm.client.transport.connection import MAX_ANSWER_BYTES, Plaintext
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError, UnreachableError, UsageError
from kgm.model.snapshot_json import snapshot_from_json
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from tests.client.faults import Edit, Raw

pytestmark = pytest.mark.slow


def without_groups(message):
    message.groups = []


def test_committed_offsets_without_the_group_that_was_asked_for(proxy, group, form):
    form("a")
    proxy.always(ApiKey.OFFSET_FETCH, Edit(without_groups))
    with connect(proxy.bootstrap, timeout_ms=20_000) as cluster:
        (described,) = cluster.describe_groups([group])
        assert described.members[0].identity == "a"
        assert described.offsets == ()
        with pytest.raises(BadAnswerError, match=f"does not contain group '{group}'"):
            cluster.committed_offsets(group)


@pytest.mark.parametrize("what", ["member_id", "group_instance_id"])
def test_a_member_that_is_described_twice(proxy, group, form, what):
    form("a", "b")

    def twice(message):
        first, second = message.groups[0].members
        setattr(second, what, getattr(first, what))

    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(twice))
    with connect(proxy.bootstrap, timeout_ms=20_000) as cluster:
        for seen in (*cluster.describe_groups([group]), *cluster.describe_members([group])):
            assert isinstance(seen, BadAnswerError)
            assert "twice" in seen.message
            assert seen.group_id == group


@pytest.mark.parametrize("key", ["member_id", "group_instance_id"])
def test_a_snapshot_that_names_a_member_twice(key):
    member = {"member_id": "m", "group_instance_id": "i", "assignment": {}}
    other = {"member_id": "n", "group_instance_id": "j", "assignment": {}} | {key: member[key]}
    data = {"group_id": "g", "type": "classic", "state": "Stable", "topics": [], "members": [member, other]}
    with pytest.raises(UsageError, match=f"{key} '{member[key]}' occurs twice"):
        snapshot_from_json(data)


def test_the_connection_test_on_a_broker_that_does_not_mention_the_group(proxy, group, form):
    form("a")
    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(without_groups))
    report = run_connection_test(
        parse_bootstrap(proxy.bootstrap), Plaintext(), Deadline.after(20_000), group_id=group
    )  # fmt: skip
    assert any("does not contain group" in check.detail for check in report.checks if check.result == "failed")


@pytest.mark.long
def test_an_answer_that_takes_longer_to_read_than_there_is_time(proxy):
    rows = [ListedGroup(group_id="", protocol_type="")] * 1_500_000
    proxy.always(ApiKey.LIST_GROUPS, Edit(lambda _: ListGroupsResponse(groups=rows), forward=False))
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        cluster.renew(900_000)
        assert len(cluster.list_groups().groups) == 1  # all of one name, and nothing is wrong with that
        cluster.renew(400)
        with pytest.raises((UnreachableError, KgmError)) as caught:
            cluster.list_groups()
        assert caught.value.exit_code == 5


def test_a_listing_of_more_groups_than_any_cluster_has_is_not_read(proxy):
    """99 MiB of rows of five bytes take more than 3 GiB, once they are decoded."""
    proxy.always(ApiKey.LIST_GROUPS, Raw(struct.pack(">i", MAX_ANSWER_BYTES[ApiKey.LIST_GROUPS] + 1) + bytes(1_000)))
    with connect(proxy.bootstrap, timeout_ms=20_000) as cluster, pytest.raises(KgmError) as caught:
        cluster.list_groups()
    assert "announced a response of 16777217 bytes" in caught.value.message
    assert caught.value.facts[0] == "kgm accepts ListGroups responses of 1 to 16777216 bytes"


def test_commands_in_hints_can_be_pasted_whatever_a_group_is_called():
    error = from_code(30, "no", group_id="a'$(touch X)'")
    words = shlex.split(error.hint)
    assert words[-2:] == ["--group", "a'$(touch X)'"]
    error = from_code(30, "no", group_id="a\x1b[31m")
    assert error.hint.endswith("--group $'a\\x1b[31m'")

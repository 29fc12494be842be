"""A removal that no later description shows, or whose verdict is outdated: row, audit record and stderr say the same."""

from __future__ import annotations

import json

import pytest

from kgm.cli.main import run
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from tests.client.conftest import form, group, newcomer, proxy, server  # noqa: F401  (fixtures)
from tests.client.faults import Delay, Edit, Pass, ResetAfter

pytestmark = [pytest.mark.usefixtures("nobody_returns"), pytest.mark.slow]

LEAVE = ApiKey.LEAVE_GROUP
UNKNOWN_SERVER_ERROR = -1


@pytest.fixture
def remove(proxy, group, capsys, monkeypatch, tmp_path):  # noqa: F811
    """`kgm remove-members` of instance id a: (exit code, its row, its audit record, stderr)."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def remove(*arguments: str):
        where = ["-b", proxy.bootstrap, "--timeout", "60s"]
        how = ["-i", "a", "--yes", "--assume-stopped", "--guard-window", "0s", "-o", "json", *arguments]
        code = run(["remove-members", group, *where, *how])
        printed = capsys.readouterr()
        (row,) = json.loads(printed.out)["data"]["results"]
        run(["audit", "-o", "json"])
        (record,) = json.loads(capsys.readouterr().out)["data"]["removals"]
        return code, row, record, printed.err

    return remove


def cannot_be_described(proxy, group):  # noqa: F811
    """From now on the group cannot be described, as where its coordinator has failed."""

    def refuse(_):
        return DescribeGroupsResponse(groups=[DescribedGroup(error_code=UNKNOWN_SERVER_ERROR, group_id=group)])

    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(refuse, forward=False))


@pytest.mark.parametrize("ignore_missing", [(), ("--ignore-missing",)], ids=str)
def test_answered_and_not_seen_afterwards_is_unknown(remove, proxy, group, form, ignore_missing):  # noqa: F811
    """A coordinator that fails after it has answered leaves the member to its successor."""
    form("a", "b")
    proxy.ranges[ApiKey.CONSUMER_GROUP_DESCRIBE] = (1, 0)
    proxy.script(LEAVE, Edit(lambda _: cannot_be_described(proxy, group)))
    code, row, record, err = remove(*ignore_missing)
    assert (code, row["result"], record["result"]) == (7, "unknown", "unknown")
    assert "the broker answered that it was removed, but the group could not be described afterwards" in row["note"]
    assert record["note"] == row["note"]
    assert row["note"] in err
    assert row["partitions_freed"] == {}


def test_a_process_that_came_back_after_a_lost_answer_has_returned(remove, proxy, form, newcomer):  # noqa: F811
    """kgm has removed it, and the process takes the instance id again: a second request would be about another
    member."""
    form("a", "b")
    proxy.script(LEAVE, ResetAfter(then=lambda: newcomer("a", wait=False)))
    code, row, record, err = remove()
    assert (code, row["result"], record["result"], row["error"]) == (7, "returned", "returned", None)
    assert "rejoined as member a-" in row["note"]
    assert len(proxy.requests(LEAVE)) == 1
    assert record["note"] == row["note"]
    assert row["note"] in err


def test_without_a_look_at_the_group_no_second_request_is_sent(
    remove, proxy, group, form, newcomer,  # noqa: F811
):  # fmt: skip
    form("a", "b")
    proxy.ranges[ApiKey.CONSUMER_GROUP_DESCRIBE] = (1, 0)

    def come_back():
        newcomer("a", wait=False)
        cannot_be_described(proxy, group)

    proxy.script(LEAVE, ResetAfter(then=come_back))
    code, row, record, err = remove()
    assert (code, row["result"], record["result"]) == (7, "unknown", "unknown")
    assert "the answer was lost, and the group could not be described afterwards" in row["note"]
    assert len(proxy.requests(LEAVE)) == 1
    assert record["note"] == row["note"]
    assert row["note"] in err


def test_life_that_shows_directly_before_the_request_refuses_it(remove, proxy, form):  # noqa: F811
    """It commits between the verdict and the second look: the third OffsetFetch, after description and watch."""
    a, _ = form("a", "b")
    a.commit(0, 3)
    proxy.script(ApiKey.OFFSET_FETCH, Pass(), Pass(), Delay(0, before=lambda: a.commit(0, 4)))
    code, row, record, err = remove()
    assert (code, row["result"], record["result"]) == (6, "refused", "refused")
    evidence = "it committed offset 4 of orders-0 while kgm watched, after 3"
    assert row["liveness"] == {"verdict": "alive", "evidence": [evidence]}
    assert evidence in record["note"]
    assert evidence in err
    assert "hint: stop the process first; to remove it although it is alive: kgm remove-members" in err
    assert proxy.requests(LEAVE) == []

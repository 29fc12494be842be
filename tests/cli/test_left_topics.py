"""A topic that a group has left, where records wait: what describe and wait say of the lag is the same."""

from __future__ import annotations

from contextlib import closing

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.server import serve_in_thread
from tests.cli.runner import kgm, kgm_in_time
from tests.client.joiners import form_group
from tests.kafka.records import produce

SAID = "7 in topics that no member subscribes to: old"


@pytest.fixture(scope="module")
def where():
    """Group g: its members have read all of `new`, and 7 records wait in `old`, which a former member has read."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"old": 2, "new": 2}, settings=settings) as server:
        (former,) = form_group(server, "g", ["former"], "old")
        with closing(former):
            assert [former.commit(partition, 0) for partition in (0, 1)] == [0, 0]
            gone = MemberIdentity(member_id=former.member_id, group_instance_id="former")
            former.wire.ask(LeaveGroupRequest(group_id="g", members=[gone]), version=5)
        produce(server.bootstrap, "old", [b"x"] * 7, [0, 1])
        members = form_group(server, "g", ["a", "b"], "new")
        assert [member.commit(number, 0) for number, member in enumerate(members)] == [0, 0]
        yield ("-b", server.bootstrap)
        for member in members:
            member.close()


@pytest.mark.parametrize("view", ["--members", "--offsets", "--state"])
def test_describe_says_where_it_waits(where, view):
    assert f"lag {SAID}" in kgm("describe", "g", view, *where).out


def test_wait_says_so_too(where):
    run = kgm_in_time(lambda run: SAID in run.err, "wait", "g", "--for", "lag<=0", "--interval", "100ms", *where)
    assert (run.code, f"lag<=0: lag 7, {SAID}" in run.err) == (8, True), run.err
    assert kgm("wait", "g", "--for", "lag<=7", *where).code == 0

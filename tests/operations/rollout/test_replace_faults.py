"""The LeaveGroup of a step that stops a member, removes it and starts it again meets a broker or a network that misbehaves.
Whatever happens: nothing starts before the removal is known, no member that came back is removed, and a rollout that stops
goes on where it was."""

from __future__ import annotations

import pytest

from kgm.model.errors import ErrorCode
from kgm.operations.rollout.journal import read_journal
from kgm.protocol.apis import ApiKey
from tests.client.faults import BlackHole, Edit, FaultProxy, ResetAfter, ResetBefore
from tests.operations.rollout.test_replace_kills import plan_of
from tests.operations.rollout.units import JoinedUnits, kgm
from tests.selection import sized

pytestmark = pytest.mark.slow


def _error(code):
    def change(answer):
        answer.error_code = code
        return answer

    return change


#: What befalls each LeaveGroup in order, and what a rollout says that stops because of it.
FAULTS = {
    "not sent": ([ResetBefore()], None),
    "answer lost each time": ([ResetAfter()] * 10, None),
    "moved": ([Edit(_error(ErrorCode.NOT_COORDINATOR), forward=False)], None),
    "silence": ([BlackHole()], "a: unknown, it is still in the group, but the request may still take effect"),
    "no right": (
        [Edit(_error(ErrorCode.GROUP_AUTHORIZATION_FAILED), forward=False)],
        "members were stopped but not removed",
    ),
}


@pytest.fixture
def proxy(server):
    with FaultProxy((server.host, server.port)) as proxy:
        yield proxy


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, ["a"])
        yield joined


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sized([*FAULTS][:2], FAULTS))
def test_a_fault_in_the_removal(units, proxy, tmp_path, name):
    faults, told = FAULTS[name]
    proxy.script(ApiKey.LEAVE_GROUP, *faults)
    journal = tmp_path / "j.ndjson"
    before = units.member_ids()
    ended = kgm(tmp_path, proxy.bootstrap, *plan_of(units, journal), "--timeout", "4s")
    assert proxy.requests(ApiKey.LEAVE_GROUP)
    assert ended.code == (0 if told is None else 7), ended
    if told is not None:
        assert units.calls == [("stop", "a")]
        assert told in ended.err
        ended = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
        assert ended.code == 0, str(ended)
    assert units.calls == [("stop", "a"), ("start", "a")]
    assert units.member_ids().keys() == before.keys()
    assert units.member_ids() != before
    assert [str(line.kind) for line in read_journal(journal)][-1] == "done"

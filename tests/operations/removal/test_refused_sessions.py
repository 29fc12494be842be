"""A removal after which the broker refuses the members that stay: it does not allow their session timeouts any more
(JoinGroup is answered with INVALID_SESSION_TIMEOUT, GroupCoordinatorService.joinGroup)."""

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.operations.doctor.diagnosis import diagnose
from kgm.operations.removal import removal
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.client.faults import Edit, FaultProxy
from tests.client.joiners import SESSION_MS, form_group

GROUP, TOPIC = "g", "orders"
LIMITS = {
    "too-long": {"group_max_session_timeout_ms": SESSION_MS - 60_000},
    "too-short": {
        "group_min_session_timeout_ms": SESSION_MS + 1_000,
        "group_max_session_timeout_ms": SESSION_MS + 1_000,
    },
}


@pytest.fixture
def restarted(tmp_path, request):
    """A broker that was restarted with other limits than those with which static members a, b and c joined; in front of
    it a proxy."""

    def serving(limits):
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1, **limits)
        return serve_in_thread(topics={TOPIC: 3}, settings=settings, data_dir=tmp_path / "data")

    with serving({}) as server:
        for joiner in form_group(server, GROUP, "abc", TOPIC):
            joiner.close()
    with serving(request.param) as server, FaultProxy((server.host, server.port)) as proxy:
        yield proxy


def prepared(cluster):
    request = RemovalRequest(group_id=GROUP, instance_ids=("a",), assume_stopped=True, guard_window_ms=1)
    return removal.prepare(cluster, request)


@pytest.mark.parametrize("restarted", LIMITS.values(), ids=LIMITS, indirect=True)
def test_no_moves_are_promised_to_members_that_will_be_refused(restarted):
    with connect(restarted.bootstrap, timeout_ms=20_000) as cluster:
        ready = prepared(cluster)
        assert ready.moves.moves is None
        assert ready.moves.notes == ("which partitions will move is not known: members will be refused",)
        (text,) = [one for one in ready.warnings if "INVALID_SESSION_TIMEOUT" in one]
        assert "b, c have 30m" in text
        assert "2 of the 2 members that stay are refused" in text
        assert "the group becomes Empty, and orders[1-2] will have no consumer" in text
        found = diagnose(cluster, [GROUP], window_ms=0, checks=["rejoins-refused"])
    (one,) = found.findings
    assert one.about == ("a", "b", "c")


@pytest.mark.parametrize("restarted", [{}], ids=["as before"], indirect=True)
def test_members_within_the_limits_are_not_warned_of(restarted):
    with connect(restarted.bootstrap, timeout_ms=20_000) as cluster:
        unsuspecting(cluster)


def unsuspecting(cluster):
    """What doctor says, after it and `remove-members` have named nobody as refused."""
    ready = prepared(cluster)
    assert ready.moves.moves
    assert not [one for one in ready.warnings if "INVALID_SESSION_TIMEOUT" in one]
    found = diagnose(cluster, [GROUP], window_ms=0, checks=["rejoins-refused"])
    assert found.findings == ()
    return found


@pytest.mark.parametrize("restarted", [LIMITS["too-long"]], ids=["denied"], indirect=True)
def test_nothing_is_claimed_where_the_limits_cannot_be_read(restarted):
    def denied(answer):
        for row in answer.results:
            row.error_code, row.configs = 31, []  # CLUSTER_AUTHORIZATION_FAILED

    restarted.always(ApiKey.DESCRIBE_CONFIGS, Edit(denied))
    with connect(restarted.bootstrap, timeout_ms=20_000) as cluster:
        found = unsuspecting(cluster)
    assert found.skipped

"""Members that are stopped, removed and started again, on a real Kafka with real clients: as predicted of each step, and
quicker than waiting for their sessions."""

from __future__ import annotations

import pytest

from tests.kafka.members import wait_settled
from tests.kafka.versions import LONG_CONSUMER_SESSION
from tests.operations.rollout.units import fleet, kgm

# Longer than the commands, which end after 300 s.
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes, pytest.mark.timeout(400)]
NAMES = ["app-1", "app-2", "app-3"]
TOPIC, PARTITIONS = "replace-orders", 6
#: The members' session is longer than their restart may take before it: nothing ends by itself within a test.
SESSION_MS = 60_000


@pytest.fixture(scope="module")
def broker(kafka):
    kafka.create_topics({TOPIC: PARTITIONS})
    return kafka


def carried_out(broker, folder, group, *words, start_s=1.0, kind="librdkafka", faults=None, **options):
    """A restart of three static members that are removed first, and their units after it."""
    if options.get("protocol", "classic") == "classic":
        options.setdefault("session_timeout_ms", SESSION_MS)
    else:
        broker.configure_group(group, LONG_CONSUMER_SESSION)
    with fleet(
        broker.bootstrap, folder, NAMES, partitions=PARTITIONS, kind=kind, group=group, topics=[TOPIC], **options
    ) as units:
        units.start_s = start_s
        units.faults |= faults or {}
        ended = kgm(
            folder, broker.bootstrap, "rollout", "--yes", group, "--all", "--remove-first", "--assume-stopped", "--exec-stop",
            f"{units.command} stop {{instance_id}}", "--exec", f"{units.command} start {{instance_id}}", "--restart-time",
            "10s", "--settle", "2s", "--heartbeat-interval", "300ms", "-o", "ndjson", *words, timeout_s=300,
        )  # fmt: skip
        if ended.code == 0:
            wait_settled([*units.members.values()], PARTITIONS, 20)
        return ended, units.calls


def assert_as_predicted(ended):
    for predicted, observed in zip(ended.of_kind("foretold"), ended.of_kind("observed"), strict=True):
        seen, span = observed["observed"], predicted["foretold"]
        assert span["rebalances"]["min"] <= seen["rebalances"] <= span["rebalances"]["max"], ended
        assert span["handovers"]["min"] <= seen["handovers"] <= span["handovers"]["max"], ended
        assert seen["rebalances"] > 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param("librdkafka", {"assignor": "range"}, marks=pytest.mark.long),
        ("java", {"assignor": "cooperative-sticky"}),
        pytest.param("librdkafka", {"protocol": "consumer"}, marks=pytest.mark.long),
    ],
    ids=["librdkafka", "java-cooperative", "consumer"],
)
def test_each_step_of_a_rolling_restart_is_as_predicted(broker, tmp_path, kind, options):
    unseen = ["--accept-unseen"] if options.get("protocol") == "consumer" else []
    ended, calls = carried_out(
        broker,
        tmp_path,
        f"replace-rolling-{kind}-{len(options)}-{bool(unseen)}",
        "--rolling",
        *unseen,
        kind=kind,
        **options,
    )
    assert ended.code == 0, str(ended)
    assert calls == [(verb, name) for name in NAMES for verb in ("stop", "start")]
    assert_as_predicted(ended)
    removals = [event["text"] for event in ended.of_kind("note") if "one LeaveGroup" in event["text"]]
    assert removals == [f"one LeaveGroup: {name} removed" for name in NAMES]
    audit = kgm(tmp_path, broker.bootstrap, "audit", "-o", "ndjson").out
    assert audit.count('"action": "remove-members"') == 3
    assert audit.count('"action": "rollout"') == 6


@pytest.mark.long
def test_all_members_together_leave_the_group_empty_for_a_while(broker, tmp_path):
    ended, calls = carried_out(broker, tmp_path, "replace-together", "--together")
    assert ended.code == 0, str(ended)
    assert sorted(calls[:3]) == [("stop", name) for name in NAMES]
    assert sorted(calls[3:]) == [("start", name) for name in NAMES]
    assert_as_predicted(ended)


@pytest.mark.long
def test_a_member_that_is_alive_is_not_removed(broker, tmp_path):
    """Its command says that it has stopped, and it has not: it heartbeats, and comes back when it is removed."""
    ended, calls = carried_out(
        broker,
        tmp_path,
        "replace-alive",
        "--rolling",
        faults={"app-2": lambda _units, _name: 0},
        session_timeout_ms=10_000,
    )
    assert (ended.code, calls) == (7, [("stop", "app-1"), ("start", "app-1"), ("stop", "app-2")]), ended
    assert "1 of 3 steps done; step 2 (app-2) has begun" in ended.err

"""A rollout of real clients on a real Kafka: the prediction of each step holds, and each fault is noticed and named."""

from __future__ import annotations

import pytest

from kgm.client.poller import POLL_MS
from tests.kafka.broker import KafkaCluster
from tests.kafka.versions import LONG_CONSUMER_SESSION
from tests.operations.rollout.units import fleet, kgm

pytestmark = [pytest.mark.shows("rollout"), pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes]
NAMES = ["app-1", "app-2", "app-3"]
TOPIC, PARTITIONS = "rollout-orders", 6
#: For how long a unit is away, which is what kgm is told.
AWAY_S = 1.0
#: Longer than kgm waits for the answer to one look at the group.
BROKER_AWAY_S = 1.6 * POLL_MS / 1000
#: A session of classic members that outlasts what a restart takes on a busy machine.
SESSION_MS = 10_000


@pytest.fixture(scope="module")
def broker(kafka):
    kafka.create_topics({TOPIC: PARTITIONS})
    return kafka


def carried_out(broker, folder, group, *words, faults=None, placeholder="{instance_id}", **options):
    """A rolling restart of three members, and their units after it."""
    if options.get("protocol", "classic") == "classic":
        options.setdefault("session_timeout_ms", SESSION_MS)
    else:
        broker.configure_group(group, LONG_CONSUMER_SESSION)
    with fleet(broker.bootstrap, folder, NAMES, partitions=PARTITIONS, group=group, topics=[TOPIC], **options) as units:
        units.faults |= faults or {}
        units.restart_s = AWAY_S
        ended = kgm(
            folder, broker.bootstrap, "rollout", "--yes", group, "--all", "--rolling", "--restart-time", f"{AWAY_S:g}s", "--settle", "2s",
            "--heartbeat-interval", "300ms", "--step-timeout", "30s", "--exec", f"{units.command} restart {placeholder}",
            "-o", "ndjson", *words,
        )  # fmt: skip
        return ended, [name for _, name in units.calls]


@pytest.mark.parametrize(
    ("kind", "protocol"),
    [
        ("librdkafka", "classic"),
        ("java", "consumer"),
        pytest.param("java", "classic", marks=pytest.mark.long),
        pytest.param("librdkafka", "consumer", marks=pytest.mark.long),
    ],
)
def test_static_members_are_restarted_without_a_rebalance(broker, tmp_path, kind, protocol):
    ended, calls = carried_out(broker, tmp_path, f"rollout-static-{kind}-{protocol}", kind=kind, protocol=protocol)
    assert (ended.code, calls) == (0, NAMES), ended
    (done,) = ended.of_kind("done")
    assert (done["observed"]["rebalances"], done["observed"]["handovers"]) == (0, 0)
    assert done["observed"]["rebalances_doubt"] is None


@pytest.mark.parametrize("kind", ["librdkafka", pytest.param("java", marks=pytest.mark.long)])
def test_dynamic_members_cost_what_was_predicted_for_each_step(broker, tmp_path, kind):
    ended, calls = carried_out(
        broker, tmp_path, f"rollout-dynamic-{kind}", kind=kind, static=False, placeholder="{client_id}"
    )  # fmt: skip
    assert ended.code == 0, str(ended)
    assert sorted(calls) == NAMES
    for predicted, observed in zip(ended.of_kind("foretold"), ended.of_kind("observed"), strict=True):
        seen, span = observed["observed"], predicted["foretold"]
        assert span["rebalances"]["min"] <= seen["rebalances"] <= span["rebalances"]["max"]
        assert span["handovers"]["min"] <= seen["handovers"] <= span["handovers"]["max"]
        assert seen["rebalances"] > 0


def stay_away(units, name):
    units.stop(name)
    return 0


def come_back_late(units, name):
    units.stop(name)
    units.later(1.5 * SESSION_MS / 1000, lambda: units.strays.append(units.start(name)))
    return 0


def come_back_twice(units, name):
    units.stop(name)
    units.members[name] = units.start(name)
    units.members[name].wait_assigned()
    units.strays.append(units.start(name))
    return 0


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(stay_away, "the session of app-2 has timed out before it came back", marks=pytest.mark.long),
        pytest.param(come_back_late, "the session of app-2 has timed out before it came back", marks=pytest.mark.long),
        (come_back_twice, "app-2 has come back 2 times"),
    ],
)
def test_a_fault_is_named_and_the_next_step_is_not_begun(broker, tmp_path, fault, message):
    ended, calls = carried_out(broker, tmp_path, f"rollout-fault-{fault.__name__}", faults={"app-2": fault})
    assert (ended.code, calls) == (8, ["app-1", "app-2"]), ended
    assert message in ended.err
    assert "1 of 3 steps done; step 2 (app-2) has begun" in ended.err


@pytest.mark.long
def test_a_broker_that_is_killed_in_a_step_is_waited_for(tmp_path):
    """The coordinator is away and comes back; the members were not told, and the group is as it was. A step may take longer
    than a broker's start on a busy machine."""
    with KafkaCluster() as own:
        own.create_topics({TOPIC: PARTITIONS})

        def kill_broker(units, name):
            units.stop(name)
            own.kill(1)
            units.later(BROKER_AWAY_S, lambda: own.restart(1))
            units.members[name] = units.start(name)
            return 0

        ended, calls = carried_out(
            own,
            tmp_path,
            "rollout-killed-broker",
            "--step-timeout",
            "2m",
            faults={"app-2": kill_broker},
            session_timeout_ms=60_000,
        )
        assert (ended.code, calls) == (0, NAMES), ended
        notes = [event["text"] for event in ended.of_kind("note")]
        assert any(text.startswith("unreachable: ") for text in notes), ended
        assert "reachable: the group can be described again" in notes


@pytest.mark.long
def test_members_that_are_removed_are_stopped_first(broker, tmp_path):
    with fleet(
        broker.bootstrap, tmp_path, NAMES, partitions=PARTITIONS, group="rollout-removal", topics=[TOPIC],
        session_timeout_ms=SESSION_MS,
    ) as units:  # fmt: skip
        ended = kgm(
            tmp_path, broker.bootstrap, "rollout", "--yes", "rollout-removal", "--remove", "app-{2..3}", "--exec-stop",
            f"{units.command} stop {{instance_id}}", "--assume-stopped", "--settle", "2s", "-o", "ndjson",
        )  # fmt: skip
        assert ended.code == 0, str(ended)
        assert sorted(units.calls) == [("stop", "app-2"), ("stop", "app-3")]
        (done,) = ended.of_kind("done")
        assert done["observed"]["rebalances"] == 1
        audit = kgm(tmp_path, broker.bootstrap, "audit", "-o", "ndjson").out
        assert audit.count('"action": "remove-members"') == audit.count('"action": "rollout"') == 2


@pytest.mark.parametrize(("words", "code"), [((), 6), (("--retry-every", "2s"), 0)], ids=["ended", "started again"])
def test_members_that_the_broker_would_refuse_are_not_restarted(broker, tmp_path, words, code):
    """A consumer group takes no new process of a killed static member before the session of the old one has ended, and
    librdkafka gives up. Where something starts it again, the rollout can wait for it."""
    group = f"rollout-refused-{code}"
    ended, calls = carried_out(
        broker, tmp_path, group, "--stop", "crash", "--dry-run", "--draws", "20", *words, protocol="consumer"
    )
    assert (ended.code, calls) == (code, []), ended
    refused = "the broker would refuse app-1, app-2, app-3, and nothing starts them again"
    assert (refused in ended.err) == (code == 6), ended

"""Rollouts of fleets on other client libraries, on a real Kafka: what is predicted of each step holds, and a leave that is
late, or that a static member sends, ends none."""

import pytest

from kgm.client import connect
from kgm.model.errors import NotFoundError
from tests.kafka.libraries import LibraryMembers
from tests.kafka.versions import shared_broker
from tests.operations.rollout.units import Units, kgm
from tests.waiting import until

pytestmark = [pytest.mark.shows("rollout"), pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]
NAMES = ["app-1", "app-2", "app-3"]
PARTITIONS = 6
HEARTBEAT_MS, SESSION_MS, REBALANCE_MS = 1_000, 15_000, 20_000
AWAY_S = 1.0
SETTLE_S = 12
#: (library, assignor, static)
FLEETS = [
    ("platformatic", "roundrobin", True),
    ("franz-go", "cooperative-sticky", True),
    ("sarama", "sticky", True),
    ("kafka-python", "range", True),
    ("aiokafka", "roundrobin", True),
    ("kafka-go", "range", False),
    ("kafkajs", "RoundRobinAssigner", False),
]


class LibraryUnits(Units):
    """Units of processes on another library; the broker says what they own."""

    def open(self):
        self.owner = LibraryMembers(self.bootstrap)

    def close(self):
        self.owner.__exit__(None, None, None)

    def start(self, name):
        return self.owner.start(
            self.kind, group=self.options["group"], topics=[self.options["topic"]], client_id=name, assignor=self.options["assignor"],
            instance_id=name if self.options["static"] else None,
            session_ms=SESSION_MS, heartbeat_ms=HEARTBEAT_MS, rebalance_ms=REBALANCE_MS,
        )  # fmt: skip


def is_settled(bootstrap, group_id):
    with connect(bootstrap, timeout_ms=20_000) as cluster:
        try:
            seen = cluster.describe_group(group_id, offsets=False)
        except NotFoundError:
            return False
    owned = sum(len(numbers) for one in seen.members for numbers in one.assignment.values())
    return seen.state == "Stable" and (len(seen.members), owned) == (len(NAMES), PARTITIONS)


def story(bootstrap, group_id, units):
    """Why a group does not settle: what the broker says, and its members."""
    with connect(bootstrap, timeout_ms=20_000) as cluster:
        seen = cluster.describe_groups([group_id], offsets=False)
    tails = [f"{name}: running {one.running}: {one.log_tail()}" for name, one in units.members.items()]
    return "\n".join([f"{group_id} does not settle: {seen}", *tails])


@pytest.mark.parametrize(("library", "assignor", "static"), FLEETS, ids=[name for name, _, _ in FLEETS])
def test_a_rolling_restart_goes_through(tmp_path, library, assignor, static):
    broker = shared_broker()
    group = topic = f"rollout-{library}"
    broker.create_topics({topic: PARTITIONS})
    options = {"group": group, "topic": topic, "assignor": assignor, "static": static}
    with LibraryUnits(broker.bootstrap, tmp_path, options, library) as units:
        for name in NAMES:
            units.members[name] = units.start(name)
        until(lambda: is_settled(broker.bootstrap, group), lambda: story(broker.bootstrap, group, units), timeout_s=90)
        units.restart_s = AWAY_S
        placeholder = "{instance_id}" if static else "{client_id}"
        ended = kgm(
            tmp_path, broker.bootstrap, "rollout", "--yes", group, "--all", "--rolling", "--restart-time", f"{AWAY_S:g}s",
            "--settle", f"{SETTLE_S}s", "--heartbeat-interval", f"{HEARTBEAT_MS}ms", "--step-timeout", "90s", "--exec",
            f"{units.command} restart {placeholder}", "-o", "ndjson", timeout_s=400,
        )  # fmt: skip
        calls = [name for _, name in units.calls]
    assert ended.code == 0, str(ended)
    assert sorted(calls) == NAMES
    for predicted, observed in zip(ended.of_kind("foretold"), ended.of_kind("observed"), strict=True):
        seen, span = observed["observed"], predicted["foretold"]
        for name in ("rebalances", "handovers"):
            assert span[name]["min"] <= seen[name] <= span[name]["max"], str(ended)
    told = [event["text"] for event in ended.events if "leaves when it is closed" in event.get("text", "")]
    assert len(told) == (len(NAMES) if library == "platformatic" else 0), str(ended)

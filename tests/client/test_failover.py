"""Three brokers, and the coordinator goes away: cleanly, and by SIGKILL."""

import json
import uuid

import pytest

from kgm.client import connect
from tests.cli.runner import kgm
from tests.kafka.members import RdMembers, wait_settled

# Alone: on a machine without a free processor a coordinator that has taken over may describe groups as they were for
# longer than the second that kgm allows for.
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes]
PARTITIONS = 6


@pytest.fixture(scope="module")
def brokers():
    from tests.kafka.broker import KafkaCluster

    with KafkaCluster(3, heap_mb=256) as cluster:
        yield cluster


@pytest.fixture
def group(brokers):
    for broker_id in brokers.away:
        brokers.restart(broker_id)
    name, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    brokers.create_topics({topic: PARTITIONS}, replication_factor=3)
    with RdMembers(brokers.bootstrap) as members:
        fleet = [
            members.start(
                group=name,
                topics=[topic],
                instance_id=f"seat-{i}",
                session_timeout_ms=180_000,
                max_poll_interval_ms=180_000,
            )
            for i in range(3)
        ]
        wait_settled(fleet, PARTITIONS)
        yield name, fleet


def coordinator_of(brokers, group):
    with connect(brokers.bootstrap, timeout_ms=20_000) as cluster:
        return cluster.describe_group(group).coordinator.id


@pytest.mark.parametrize("end", [pytest.param("shut_down", marks=pytest.mark.long), "kill"])
def test_removal_survives_the_coordinator_and_its_broker_is_not_missed_once_the_metadata_lacks_it(brokers, group, end):
    name, fleet = group
    lost = coordinator_of(brokers, name)
    fleet[0].crash()
    with connect(brokers.bootstrap, timeout_ms=60_000) as from_before:
        assert lost in [one.id for one in from_before.brokers.brokers()]
        getattr(brokers, end)(lost)
        run = kgm(
            "remove-members", name, "-b", brokers.bootstrap, "-i", "seat-0", "--yes", "--assume-stopped", "-o", "json",
            "--timeout", "120s", timeout_s=150,
        )  # fmt: skip
        assert run.code == 0, f"{run.out}\n{run.err}"
        assert [row["result"] for row in json.loads(run.out)["data"]["results"]] == ["removed"]
        assert coordinator_of(brokers, name) != lost
        # One of the brokers known from before does not answer, two do.
        from_before.renew()
        listing = from_before.list_groups()
        assert name in [one.group_id for one in listing.groups]
        assert listing.errors == ()
        assert lost not in [one.id for one in from_before.brokers.brokers()]


@pytest.mark.long
def test_a_coordinator_lost_under_way_is_found_again(brokers, group):
    name, _ = group
    with connect(brokers.bootstrap, timeout_ms=60_000) as cluster:
        lost = cluster.describe_group(name).coordinator.id
        brokers.kill(lost)
        run = kgm("list", "-b", brokers.bootstrap, "-o", "json", "--timeout", "60s", timeout_s=90)
        assert run.code == 0
        assert name in [row["group_id"] for row in json.loads(run.out)["data"]["groups"]]
        cluster.renew()
        found = cluster.describe_group(name)
        assert [one.identity for one in found.members] == ["seat-0", "seat-1", "seat-2"]
        assert found.coordinator.id != lost
        assert name in [one.group_id for one in cluster.list_groups().groups]

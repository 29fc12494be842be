"""A real Kafka Streams application with the streams protocol (KIP-1071) on kgm serve: it works, its coordinator moves, one
process is closed, one crashes; and Kafka's own tool describes it as kgm does."""

import re

import pytest
from confluent_kafka import Producer

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server.embedded.in_thread import serve_in_thread
from tests.frameworks.streams_apps import StreamsApps
from tests.kafka.java_tools import run_tool
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PARTITIONS, PATIENCE_S = 4, 90
#: The application has two subtopologies, of which the second one has state.
TASKS = sorted(f"{subtopology}_{partition}" for subtopology in (0, 1) for partition in range(PARTITIONS))
COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture
def served():
    """A server whose streams groups are quick, with standby tasks."""
    settings = BrokerSettings(
        group_streams_min_session_timeout_ms=500,
        group_streams_session_timeout_ms=3_000,
        group_streams_min_heartbeat_interval_ms=100,
        group_streams_heartbeat_interval_ms=200,
        group_streams_initial_rebalance_delay_ms=500,
        group_streams_assignment_interval_ms=0,
        group_streams_num_standby_replicas=1,
    )
    with serve_in_thread(topics={"t": PARTITIONS}, brokers=2, settings=settings) as server:
        yield server


def apps_on(server):
    return StreamsApps(server.bootstrap, "app", "t")


def start(apps, name):
    apps.start(name, is_static=False, config={"group.protocol": "streams", "application.server": f"{name}:7000"})


def settled(client, threads, processes):
    """Wait until so many threads of these processes have all tasks, and a copy of each with state in another process."""

    def found():
        return client.describe_group("app")

    def is_settled():
        group = found()
        held = sorted(task for one in group.members for task in one.work.active_tasks)
        copies = sorted(task for one in group.members for task in one.work.standby_tasks)
        wanted = [task for task in TASKS if task.startswith("1_")] if processes > 1 else []
        names = {one.work.user_endpoint for one in group.members}
        return (group.state, len(group.members), len(names)) == ("Stable", threads, processes) and (
            (held, copies) == (TASKS, wanted)
        )

    until(is_settled, lambda: f"{found()}", PATIENCE_S, every_s=0.2)
    return found()


def works(server, client, words):
    """What is sent is counted, and committed."""
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for word in words:
        producer.produce("t", value=word)
    assert producer.flush(30) == 0

    def is_done():
        rows = client.describe_group("app").offsets
        return sum(row.end for row in rows if row.topic == "t") == works.sent and all(
            row.committed == row.end for row in rows if row.end
        )

    works.sent += len(words)
    until(is_done, lambda: f"{client.describe_group('app').offsets}", PATIENCE_S, every_s=0.2)


works.sent = 0


def told_by_kafka(server):
    """(member id, epoch, process id, active tasks, standby tasks) of each member, as Kafka's tool prints it."""
    words = "--describe", "--group", "app", "--members", "--verbose"
    table = run_tool(COMMAND, "--bootstrap-server", server.bootstrap, *words)
    assert table.returncode == 0, table.stderr
    rows = []
    for line in table.stdout.splitlines():
        if line.startswith("app "):
            _, _, _, member_id, _, epoch, process, _, assignments = line.split(maxsplit=8)
            kinds = dict(re.findall(r"([A-Z-]+): ((?:\d+:\[[\d,]*\]; )*)", assignments))
            tasks = {
                kind: tuple(
                    f"{name}_{number}"
                    for name, numbers in re.findall(r"(\d+):\[([\d,]*)\]", text)
                    for number in numbers.split(",")
                )
                for kind, text in kinds.items()
            }
            rows.append((member_id, int(epoch), process, tasks["ACTIVE"], tasks.get("STANDBY", ())))
    return sorted(rows)


def test_processes_come_and_go(served):
    with (
        apps_on(served) as apps,
        apps_on(served) as others,
        connect(served.bootstrap, timeout_ms=120_000) as client,
    ):
        start(apps, "p-1")
        start(others, "p-2")
        group = settled(client, 4, 2)
        assert told_by_kafka(served) == sorted(
            (one.member_id, one.member_epoch, one.work.process_id, one.work.active_tasks, one.work.standby_tasks)
            for one in group.members
        )
        assert served.group("app").to_json()["members"] == group.to_json()["members"]
        works(served, client, ["a", "b", "a", "c"] * 5)
        before = client.describe_group("app")
        served.move_coordinator("app", 3 - served.coordinator_of("app"))
        works(served, client, ["d"] * 5)
        after = settled(client, 4, 2)
        assert (after.group_epoch, [one.work for one in after.members]) == (
            before.group_epoch,
            [one.work for one in before.members],
        )
        others.crash()
        settled(client, 2, 1)
        start(apps, "p-3")
        settled(client, 4, 2)
        works(served, client, ["e"] * 5)
        apps.close("p-3")
        settled(client, 2, 1)

"""A real Kafka Streams application with the streams protocol (KIP-1071) on kgm serve: it works, its coordinator moves, one
process is closed, one crashes; and Kafka's own tool describes it as kgm does."""

import re
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from kgm.client import connect
from kgm.client.failures import MissingGroupError
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.broker_version import BrokerVersion
from kgm.server.embedded.in_thread import serve_in_thread
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Stop
from tests.frameworks.streams_apps import StreamsApps
from tests.kafka.java_tools import run_tool
from tests.selection import sized
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PARTITIONS, PATIENCE_S = 4, 90
#: The application has two subtopologies, of which the second one has state.
TASKS = sorted(f"{subtopology}_{partition}" for subtopology in (0, 1) for partition in range(PARTITIONS))
#: What is quick on the server.
SETTINGS = {
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture(params=sized(["4.3"], ["4.3", "4.2"]))
def served(request):
    """A server whose streams groups are quick, with standby tasks, by the rules of a version."""
    version = BrokerVersion.parse(request.param)
    settings = replace(BrokerSettings.from_overrides(SETTINGS), kafka_version=version)
    with serve_in_thread(topics={"t": PARTITIONS}, brokers=2, settings=settings) as server:
        yield server


def apps_on(server):
    return StreamsApps(server.bootstrap, "app", "t")


def start(apps, name):
    apps.start(name, is_static=False, config={"group.protocol": "streams", "application.server": f"{name}:7000"})


def settled(client, threads, processes):
    """Wait until so many threads of these processes have all tasks, and a copy of each with state in another process."""

    def found():
        (group,) = client.describe_groups(["app"])
        return group

    def is_settled():
        group = found()
        if isinstance(group, MissingGroupError):  # nobody has joined yet
            return False
        held = sorted(task for one in group.members for task in one.work.active_tasks)
        copies = sorted(task for one in group.members for task in one.work.standby_tasks)
        wanted = [task for task in TASKS if task.startswith("1_")] if processes > 1 else []
        names = {one.work.user_endpoint for one in group.members}
        return (group.state, len(group.members), len(names)) == ("Stable", threads, processes) and (
            (held, copies) == (TASKS, wanted)
        )

    until(is_settled, lambda: f"{found()}", PATIENCE_S, every_s=0.2)
    return found()


def works(server, client, words, *, total):
    """What is sent is counted, and committed. total: of all words that were sent so far."""
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for word in words:
        producer.produce("t", value=word)
    assert producer.flush(30) == 0

    def is_done():
        rows = client.describe_group("app").offsets
        return sum(row.end for row in rows if row.topic == "t") == total and all(
            row.committed == row.end for row in rows if row.end
        )

    until(is_done, lambda: f"{client.describe_group('app').offsets}", PATIENCE_S, every_s=0.2)


def is_as_predicted(before, after, **plan):
    """Whether the group did what is predicted: how often its epoch changed, and who runs a task that moved."""
    found = simulate(before, Plan(settings=SETTINGS, **plan), draws=30)
    tasks = {one.member_id: one.work.active_tasks for one in before.members}
    kept = sum(len({*tasks.get(one.member_id, ())} & {*one.work.active_tasks}) for one in after.members)
    epochs, moved = after.group_epoch - before.group_epoch, len(TASKS) - kept
    ranges = found.ranges
    assert ranges.generations.min <= epochs <= ranges.generations.max, (epochs, ranges)
    assert ranges.moved_partitions.min <= moved <= ranges.moved_partitions.max, (moved, ranges)
    return True


def members_of(group, process):
    return tuple(one.member_id for one in group.members if one.work.user_endpoint == f"{process}:7000")


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
        works(served, client, ["a", "b", "a", "c"] * 5, total=20)
        before = client.describe_group("app")
        served.move_coordinator("app", 3 - served.coordinator_of("app"))
        works(served, client, ["d"] * 5, total=25)
        after = settled(client, 4, 2)
        assert (after.group_epoch, [one.work for one in after.members]) == (
            before.group_epoch,
            [one.work for one in before.members],
        )
        others.crash()
        alone = settled(client, 2, 1)
        assert is_as_predicted(after, alone, scale_in=members_of(after, "p-2"), stop=Stop.CRASH)
        start(apps, "p-3")
        again = settled(client, 4, 2)
        assert is_as_predicted(alone, again, scale_out=2)
        works(served, client, ["e"] * 5, total=30)
        apps.close("p-3")
        closed = settled(client, 2, 1)
        assert is_as_predicted(again, closed, scale_in=members_of(again, "p-3"))

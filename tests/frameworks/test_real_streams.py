"""A real Kafka Streams application on a real broker, seen by kgm as Streams itself says that it is."""

import json
import uuid

import pytest

from kgm.client import connect
from tests.cli.runner import kgm
from tests.frameworks.streams_apps import StreamsApps
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
NAMES = ("wr-1", "wr-2", "wr-3")
PARTITIONS = 4


@pytest.fixture(scope="module")
def scene(kafka):
    """Three static processes of two threads, with a standby of each task that has state."""
    group, topic = f"app-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: PARTITIONS})
    with StreamsApps(kafka.bootstrap, group, topic) as apps:
        for name in NAMES:
            apps.start(name, standbys=1, config={"application.server": f"localhost:{7000 + int(name[-1])}"})
        yield kafka.bootstrap, group, apps


def described(scene):
    bootstrap, group, _ = scene
    with connect(bootstrap) as cluster:
        return cluster.describe_group(group)


def tasks_by_thread(apps):
    """(process id, active tasks, standby tasks) by instance id, as Streams itself says."""
    return {
        f"{name}-{thread.number}": (thread.process_id, thread.active, thread.standby)
        for name in NAMES
        for thread in apps.threads(name)
    }


def has_all_tasks(threads):
    active = sorted(task for _, some, _ in threads.values() for task in some)
    return active == [f"{sub}_{number}" for sub in (0, 1) for number in range(PARTITIONS)]


@pytest.fixture(scope="module")
def settled(scene):
    """What Streams says of all threads, and the snapshot, once the group is settled."""
    found = []

    def is_settled():
        threads, snapshot = tasks_by_thread(scene[2]), described(scene)
        found[:] = [threads, snapshot]
        return has_all_tasks(threads) and snapshot.is_settled and threads == tasks_by_thread(scene[2])

    until(is_settled, "the application is not settled", 120, every_s=0.5)
    return found


def test_processes_and_tasks_are_those_that_streams_names(settled):
    threads, snapshot = settled
    assert {
        member.group_instance_id: (member.work.process_id, member.work.active_tasks, member.work.standby_tasks)
        for member in snapshot.members
    } == threads
    assert {member.group_instance_id[:4]: member.work.user_endpoint for member in snapshot.members} == {
        name: f"localhost:{7000 + int(name[-1])}" for name in NAMES
    }
    assert (snapshot.is_settled, snapshot.next_rebalance_at) == (True, None)


def test_describe_folds_threads_and_shows_each_with_wide(scene, settled):
    bootstrap, group, _ = scene
    threads, _ = settled
    table = kgm("describe", group, "-b", bootstrap).out
    processes = {process_id for process_id, _, _ in threads.values()}
    lines = [line for line in table.splitlines() if any(one in line for one in processes)]
    assert len(lines) == len(processes) == 3
    assert all(f"{name}-1" in table and f"{name}-2" in table for name in NAMES)
    assert "settled: no rebalance is scheduled" in table
    wide = kgm("describe", group, "-o", "wide", "-b", bootstrap).out
    assert sum(any(one in line for one in processes) for line in wide.splitlines()) == len(threads) == 6
    (one,) = json.loads(kgm("describe", group, "-o", "json", "-b", bootstrap).out)["data"]["groups"]
    assert {m["group_instance_id"]: (m["process_id"], m["active_tasks"]) for m in one["members"]} == {
        name: (process_id, [*active]) for name, (process_id, active, _) in threads.items()
    }
    assert (one["next_rebalance_at"], one["is_settled"]) == (None, True)

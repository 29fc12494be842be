"""A real Kafka Streams application on a real broker, seen by kgm as Streams itself says that it is."""

import json
import uuid
from typing import NamedTuple

import pytest

from kgm.client import connect
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.cli.runner import kgm
from tests.frameworks.streams_apps import StreamsApps
from tests.frameworks.wishes import fulfilled
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes]
NAMES = ("wr-1", "wr-2", "wr-3")
PARTITIONS = 4
ZONES = {"wr-1": "a", "wr-2": "a", "wr-3": "b"}


class Scene(NamedTuple):
    bootstrap: str
    group: str
    apps: StreamsApps


def start(apps, name):
    tags = {"client.tag.zone": ZONES[name], "rack.aware.assignment.tags": "zone"}
    apps.start(name, standbys=1, config=tags)


@pytest.fixture(scope="module")
def scene(kafka):
    """Three static processes of two threads, with a standby of each task that has state."""
    group, topic = f"app-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: PARTITIONS})
    with StreamsApps(kafka.bootstrap, group, topic) as apps:
        for name in NAMES:
            start(apps, name)
        yield Scene(kafka.bootstrap, group, apps)


def described(scene):
    with connect(scene.bootstrap) as cluster:
        return with_logged_timeouts(cluster, cluster.describe_group(scene.group))


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


class Settled(NamedTuple):
    """threads: what Streams says of all threads; table, wide, json: what kgm describe prints."""

    threads: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]
    snapshot: GroupSnapshot
    table: str
    wide: str
    json: str


@pytest.fixture(scope="module")
def settled(scene):
    """The group once it is settled, before anything else happens to it."""
    found = []

    def is_settled():
        threads = tasks_by_thread(scene.apps)
        if not has_all_tasks(threads):
            return False  # the group may not be there yet
        snapshot = described(scene)
        found[:] = [threads, snapshot]
        return snapshot.is_settled is True and threads == tasks_by_thread(scene.apps)

    until(is_settled, "the application is not settled", 120, every_s=0.5)
    outputs = [
        kgm("describe", scene.group, "-o", each, "-b", scene.bootstrap).out for each in ("table", "wide", "json")
    ]
    return Settled(*found, *outputs)


def test_processes_and_tasks_are_those_that_streams_names(settled):
    snapshot = settled.snapshot
    assert {
        member.group_instance_id: (member.work.process_id, member.work.active_tasks, member.work.standby_tasks)
        for member in snapshot.members
    } == settled.threads
    assert (snapshot.is_settled, snapshot.next_rebalance_at) == (True, None)
    assert {member.work.metadata_version for member in snapshot.members} == {11}


def test_describe_folds_threads_and_shows_each_with_wide(settled):
    threads, table = settled.threads, settled.table
    processes = {process_id for process_id, _, _ in threads.values()}
    lines = [line for line in table.splitlines() if any(one in line for one in processes)]
    assert len(lines) == len(processes) == 3
    assert all(f"{name}-1" in table and f"{name}-2" in table for name in NAMES)
    assert "settled: no rebalance is scheduled" in table
    assert sum(any(one in line for one in processes) for line in settled.wide.splitlines()) == len(threads) == 6
    (one,) = json.loads(settled.json)["data"]["groups"]
    assert {m["group_instance_id"]: (m["process_id"], m["active_tasks"]) for m in one["members"]} == {
        name: (process_id, [*active]) for name, (process_id, active, _) in threads.items()
    }
    assert (one["next_rebalance_at"], one["is_settled"]) == (None, True)


def test_zones_are_those_of_the_client_tags_and_no_copy_is_in_the_zone_of_its_task(settled):
    members = settled.snapshot.members
    assert {one.identity: one.work.tags for one in members} == {
        f"{name}-{number}": {"zone": zone} for name, zone in ZONES.items() for number in (1, 2)
    }
    copies = {task: one.work.tags["zone"] for one in members for task in one.work.standby_tasks}
    active = {task: one.work.tags["zone"] for one in members for task in one.work.active_tasks}
    assert copies
    assert all(zone != active[task] for task, zone in copies.items())


def test_a_rollout_goes_process_by_process_without_a_rebalance(scene, settled, tmp_path):
    before = settled.snapshot
    of_one = tuple(one.identity for one in before.members if one.identity.startswith("wr-1-"))
    predicted = simulate(before, Plan(bounce=of_one, restart_time_ms=2_000), draws=3)
    assert (predicted.exact, predicted.typical.rebalances) == (True, 0)
    words = ["rollout", scene.group, "--all", "--exec", f"touch {tmp_path}/{{instance_id}}", "--yes", "--settle", "1s"]

    def fulfil(thread):
        name = thread.rpartition("-")[0]
        scene.apps.close(name)
        start(scene.apps, name)

    with fulfilled(tmp_path, fulfil):
        run = kgm(*words, "--restart-time", "2s", "-o", "ndjson", "-b", scene.bootstrap, timeout_s=180)
    assert run.code == 0, run
    commands = [line["command"][-1] for line in map(json.loads, run.out.splitlines()) if line["command"]]
    assert commands == [f"{tmp_path}/{name}-1" for name in NAMES]
    after = described(scene)
    assert (after.generation, after.is_settled) == (before.generation, True)
    work = {member.identity: member.work.active_tasks for member in before.members}
    assert {member.identity: member.work.active_tasks for member in after.members} == work

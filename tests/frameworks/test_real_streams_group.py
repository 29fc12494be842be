"""A Kafka Streams application with the streams protocol (KIP-1071), seen by kgm as Streams itself says that it is."""

import json
import uuid

import pytest

from kgm.client import connect
from tests.cli.runner import kgm
from tests.frameworks.streams_apps import StreamsApps
from tests.frameworks.wishes import fulfilled
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes]
PARTITIONS = 4
NAMES = ("p-1", "p-2")


def start(apps, name):
    endpoint = {"application.server": f"localhost:700{name[-1]}"}
    apps.start(name, is_static=False, config={"group.protocol": "streams", **endpoint})


@pytest.fixture
def scene(kafka):
    """(group, its processes, a client), once two processes of two threads each have all tasks."""
    group, topic = f"sg-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: PARTITIONS})
    with StreamsApps(kafka.bootstrap, group, topic) as apps, connect(kafka.bootstrap, timeout_ms=120_000) as cluster:
        for name in NAMES:
            start(apps, name)
        rest(group, apps, cluster)
        yield group, apps, cluster


def said(apps):
    """(process id, active tasks) by what Streams says."""
    return sorted((one.process_id, one.active) for name in NAMES for one in apps.threads(name))


def rest(group, apps, cluster):
    """Wait until all tasks are assigned; the group as it is then."""

    def is_everything_assigned():
        tasks = [task for _, some in said(apps) for task in some]
        return len(tasks) == 2 * PARTITIONS and cluster.describe_group(group).state == "Stable"

    until(is_everything_assigned, lambda: f"not all tasks are assigned: {said(apps)}", 90, every_s=0.3)
    return cluster.describe_group(group)


def test_processes_tasks_and_epochs(kafka, scene):
    group, apps, cluster = scene
    snapshot = rest(group, apps, cluster)
    assert sorted((one.work.process_id, one.work.active_tasks) for one in snapshot.members) == said(apps)
    assert {one.work.user_endpoint for one in snapshot.members} == {"localhost:7001", "localhost:7002"}
    for one in snapshot.members:
        assert (one.work.standby_tasks, one.work.warmup_tasks) == ((), ())
        assert one.work.target_active_tasks == one.work.active_tasks
        assert one.work.topology_epoch == snapshot.topology_epoch == 0
    assert (snapshot.type, snapshot.group_epoch) == ("streams", snapshot.assignment_epoch)
    table = kgm("describe", group, "-b", kafka.bootstrap).out
    for process_id in {process_id for process_id, _ in said(apps)}:
        assert sum(process_id in line for line in table.splitlines()) == 1
    (one,) = json.loads(kgm("describe", group, "-o", "json", "-b", kafka.bootstrap).out)["data"]["groups"]
    assert sorted((m["process_id"], tuple(m["active_tasks"])) for m in one["members"]) == said(apps)
    gone = {one.member_id for one in snapshot.members if one.work.user_endpoint == "localhost:7002"}
    apps.close("p-2")
    until(lambda: len(cluster.describe_group(group).members) == 2, "p-2 does not leave", 60, every_s=0.3)

    def told():
        answer = json.loads(kgm("history", "rebalances", group, "-o", "json", "-b", kafka.bootstrap).out)
        return answer["data"]["rebalances"]

    until(lambda: sum(row["moved"] for row in told()[-2:]) == PARTITIONS, lambda: f"{told()}", 60, every_s=0.5)
    rows = told()
    assert {row["group_type"] for row in rows} == {"streams"}
    joined = [who["member_id"] for row in rows if row["cause"] == "join" for who in row["who"]]
    assert sorted(joined) == sorted(one.member_id for one in snapshot.members)
    left = [row for row in rows if (row["cause"], row["confidence"]) == ("leave", "likely")]
    assert sorted(who["member_id"] for row in left for who in row["who"]) == sorted(gone)
    explained = kgm("history", "explain", group, "-b", kafka.bootstrap)
    assert (explained.code, all(name in explained.out for name in gone)) == (0, True), explained


@pytest.mark.long
def test_a_rollout_restarts_it_process_by_process(kafka, scene, tmp_path):
    """Its threads leave and are new members, with one epoch each: several may pass between two polls, so that kgm has to
    be told that it may go on with what it sees."""
    group, apps, cluster = scene
    before = cluster.describe_group(group)
    name_of = {apps.threads(name)[0].process_id: name for name in NAMES}
    names = {one.member_id: name_of[one.work.process_id] for one in before.members}
    words = ["rollout", group, "--all", "--exec", f"touch {tmp_path}/{{member_id}}", "--yes", "--settle", "2s"]
    words += ["--restart-time", "3s", "--draws", "20", "--accept-unseen", "-o", "ndjson", "-b", kafka.bootstrap]

    def fulfil(thread):
        apps.close(names[thread])
        start(apps, names[thread])

    with fulfilled(tmp_path, fulfil):
        run = kgm(*words, timeout_s=600)
    assert run.code == 0, run
    events = [json.loads(line) for line in run.out.splitlines()]
    commands = [event["command"][-1] for event in events if event["command"] and event["result"] is None]
    assert sorted(names[one.rpartition("/")[2]] for one in commands) == sorted(NAMES)
    observed, predicted = (
        [event[kind] for event in events if event["event"] == kind] for kind in ("observed", "foretold")
    )
    for seen, span in zip(observed, predicted, strict=True):
        assert span["rebalances"]["min"] <= seen["rebalances"] <= span["rebalances"]["max"], run
    after = rest(group, apps, cluster)
    assert {one.member_id for one in after.members}.isdisjoint(names)
    assert len(after.members) == len(before.members)

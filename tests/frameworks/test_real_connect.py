"""Real Connect workers on a real broker, seen by kgm as Connect's REST interface says that they are."""

import json
import tempfile
import uuid
from dataclasses import replace
from datetime import datetime

import pytest

from kgm.client import connect
from kgm.operations.bounce.prediction import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.cli.runner import kgm
from tests.frameworks.connect_workers import Workers
from tests.frameworks.wishes import fulfilled
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes]
DELAY_MS = 60_000
SET_DELAY = {"scheduled.rebalance.max.delay.ms": str(DELAY_MS)}
CONNECTORS = {"idle-a": 3, "idle-b": 2}


@pytest.fixture(scope="module")
def workers(kafka):
    with tempfile.TemporaryDirectory(prefix="kgm-connect-") as folder:
        found = Workers(kafka.bootstrap, folder, group=f"connect-{uuid.uuid4().hex[:8]}", delay_ms=DELAY_MS)
        try:
            for name in ("w-1", "w-2"):
                found.start(name)
            found.create(CONNECTORS)
            yield found
        finally:
            found.end()


def tasks_by_url(group):
    return {one.work.user_endpoint: {*one.work.active_tasks} for one in group.members}


def check_prediction(workers, before, plan):
    """What has happened since, when the group is settled, is within what was predicted."""
    predicted = simulate(before, replace(plan, settings=SET_DELAY), draws=40)
    after = workers.settled()
    assert not predicted.exact
    assert predicted.ranges.rebalances.min <= after.generation - before.generation <= predicted.ranges.rebalances.max
    now, then = tasks_by_url(after), tasks_by_url(before)
    moved = sum(len(tasks - now.get(url, set())) for url, tasks in then.items())
    assert predicted.ranges.moved_partitions.min <= moved <= predicted.ranges.moved_partitions.max
    return predicted


def leader_and_other(group):
    (leader,) = [one for one in group.members if one.member_id == group.leader]
    return leader, next(one for one in group.members if one.member_id != group.leader)


def test_the_leader_restarts(workers):
    """Nothing is held back."""
    before = workers.settled()
    leader, _ = leader_and_other(before)
    name = workers.name_of(leader)
    workers.stop(name)
    until(lambda: workers.snapshot().leader not in (None, leader.member_id), "no other leader", 60)
    workers.start(name)
    predicted = check_prediction(workers, before, Plan(bounce=(leader.identity,), restart_time_ms=8_000))
    assert predicted.typical.stopped_partition_ms < DELAY_MS


def test_what_a_worker_ran_that_has_left_stays_unassigned(workers):
    group = workers.settled()
    leader, other = leader_and_other(group)
    name = workers.name_of(other)
    workers.stop(name)

    def held_back():
        found = workers.snapshot()
        return found if len(found.members) == len(group.members) - 1 and found.rebalance_delay_ms else None

    left = until(held_back, "no delay", 60, every_s=0.3)
    work = {one.member_id: one.work for one in group.members if one is not other}
    assert ({one.member_id: one.work for one in left.members}, left.is_settled) == (work, False)
    assert 0 < left.rebalance_delay_ms <= DELAY_MS
    until_ms = datetime.fromisoformat(left.unassigned_until).timestamp() * 1000
    assert until_ms > left.rebalance_delay_ms  # a time, and not a duration
    table = kgm("describe", workers.group, "-b", workers.bootstrap).out
    assert leader.work.user_endpoint in table
    assert "stays unassigned for" in table
    assert f"until {left.unassigned_until}" in table
    found = kgm("doctor", workers.group, "--check", "unassigned-tasks", "-o", "json", "-b", workers.bootstrap).out
    (finding,) = json.loads(found)["data"]["findings"]
    lost = {*(other.work.connectors or ()), *other.work.active_tasks}
    assert ({*finding["about"]}, left.unassigned_until in finding["message"]) == (lost, True)
    workers.start(name)


def test_a_sink_connector_has_two_groups_and_each_tells_of_the_other(workers, kafka):
    """REST says which worker runs each task."""
    workers.settled()
    topic, name = f"t-{uuid.uuid4().hex[:8]}", f"sink-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: 2})
    workers.create({name: 2}, drains=topic)
    workers.settled()
    url_of = {task: url for url, (_, tasks) in workers.running().items() for task in tasks if task.startswith(name)}
    assert [*sorted(url_of)] == [f"{name}-0", f"{name}-1"]

    def described(group, *more):
        return kgm("describe", group, "-b", workers.bootstrap, *more).out

    def links(group):
        shown = described(group, "-o", "json")
        return json.loads(shown)["data"]["sink_tasks"] if shown else []  # before its first member has joined

    of_sink, of_workers = f"connect-{name}", workers.group
    until(lambda: len(links(of_sink)) == 2, lambda: described(of_sink), 60)
    rows = links(of_sink)
    assert {row["task"]: row["url"] for row in rows} == url_of
    assert {(row["workers"], row["sink_group"]) for row in rows} == {(of_workers, of_sink)}
    assert [row for row in links(of_workers) if row["sink_group"] == of_sink] == rows
    with connect(workers.bootstrap) as cluster:
        members = {one.member_id: one.client_id for one in cluster.describe_group(of_sink).members}
    assert {row["member_id"]: f"connector-consumer-{row['task']}" for row in rows} == members
    table = described(of_sink)
    assert f"which workers of group {of_workers} run" in table
    assert all(url in table for url in url_of.values())
    lines = described(of_workers).splitlines()
    assert all(line.endswith(of_sink) for line in lines if line.startswith((*url_of.values(),)))
    leader, _ = leader_and_other(workers.snapshot())
    assert f"leader: {leader.work.user_endpoint}" in lines


@pytest.mark.long
def test_a_new_worker_takes_its_share(workers):
    before = workers.settled()
    workers.start("w-3")
    check_prediction(workers, before, Plan(scale_out=1))


def rollout(workers, before, folder, *words, starts):
    """Returns the member ids of the workers whose command ran, in that order."""
    names = {one.member_id: workers.name_of(one) for one in before.members}
    words = ["rollout", workers.group, *words, f"touch {folder}/{{member_id}}", "--yes", "--settle", "1s"]
    words += ["--restart-time", "3s", "--set", f"scheduled.rebalance.max.delay.ms={DELAY_MS}"]

    def fulfil(member_id):
        workers.stop(names[member_id])
        if starts:
            workers.start(names[member_id])

    with fulfilled(folder, fulfil):
        run = kgm(*words, "-o", "ndjson", "-b", workers.bootstrap, timeout_s=400)
    assert run.code == 0, run
    events = [line for line in map(json.loads, run.out.splitlines()) if line["command"] and line["result"] is None]
    return [event["command"][-1].rpartition("/")[2] for event in events]


@pytest.mark.long
def test_a_rollout_waits_until_nothing_is_held_back(workers, tmp_path):
    before = workers.settled()
    names = {one.member_id: workers.name_of(one) for one in before.members}
    asked = rollout(workers, before, tmp_path, "--all", "--order", "leader-last", "--exec", starts=True)
    assert asked[-1] == before.leader
    after = workers.settled()
    assert {one.member_id for one in after.members}.isdisjoint(names)
    assert len(after.members) == len(before.members)


@pytest.mark.long
def test_a_worker_goes_for_good_by_its_url(workers, tmp_path):
    """Its tasks are elsewhere when the rollout is over."""
    before = workers.settled()
    _, other = leader_and_other(before)
    url, name = other.work.user_endpoint, workers.name_of(other)
    asked = rollout(workers, before, tmp_path, "--scale-in", url.removesuffix("/"), "--exec-stop", starts=False)
    assert asked == [other.member_id]
    after = workers.snapshot()
    assert url not in tasks_by_url(after)
    assert set().union(*tasks_by_url(after).values()) == set().union(*tasks_by_url(before).values())
    workers.start(name)

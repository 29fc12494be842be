"""Real Connect workers on a real broker, seen by kgm as Connect's REST interface says that they are."""

import contextlib
import json
import tempfile
import urllib.error
import urllib.request
import uuid
from datetime import datetime
from pathlib import Path

import pytest

from kgm.client import connect
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from tests.cli.runner import kgm
from tests.frameworks.kafkas_classes import SOURCES
from tests.kafka.broker import free_ports
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command
from tests.kafka.process import Child
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes]
DELAY_MS = 60_000
CONNECTORS = {"idle-a": 3, "idle-b": 2}


class Workers:
    """Two workers of one group, in one JVM."""

    def __init__(self, bootstrap, folder):
        self.bootstrap, self.group = bootstrap, f"connect-{uuid.uuid4().hex[:8]}"
        path = classpath("kafka")
        path = f"{compiled([SOURCES / 'ConnectWorkers.java'], path)}:{path}"
        command = java_command("ConnectWorkers", heap_mb=256, class_path=path)
        self.child = Child(command, log=Path(folder) / "log", pipe_stdout=True)
        self.ports = dict(zip(("w-1", "w-2"), free_ports(2), strict=True))

    def url(self, name):
        return f"http://127.0.0.1:{self.ports[name]}/"

    def start(self, name):
        topics = {f"{kind}.storage.topic": f"{self.group}-{kind}" for kind in ("config", "offset", "status")}
        copies = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
        config = {
            "bootstrap.servers": self.bootstrap, "group.id": self.group, "listeners": self.url(name).rstrip("/"),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.partitions": "1", "status.storage.partitions": "1", "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": str(DELAY_MS), "heartbeat.interval.ms": "300", **topics, **copies,
        }  # fmt: skip
        self.ask({"cmd": "start", "name": name, "config": config})

    def ask(self, command):
        self.child.stdin.write(json.dumps(command) + "\n")
        if not self.child.stdout.readline():
            raise RuntimeError(self.child.log_tail())

    def rest(self, path, config=None):
        """The answer of the first worker; None while it cannot give one."""
        data = None if config is None else json.dumps(config).encode()
        request = urllib.request.Request(
            self.url("w-1") + path, data=data, method="GET" if data is None else "PUT",
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
        return None

    def running(self):
        """(connectors, tasks) by the URL of the worker, as REST says; None unless all run."""
        found = {self.url(name): ([], []) for name in self.ports}
        for name, tasks in CONNECTORS.items():
            status = self.rest(f"connectors/{name}/status")
            every = [] if status is None else [status["connector"], *status["tasks"]]
            if len(every) != tasks + 1 or {one["state"] for one in every} != {"RUNNING"}:
                return None
            found[f"http://{status['connector']['worker_id']}/"][0].append(name)
            for task in status["tasks"]:
                found[f"http://{task['worker_id']}/"][1].append(f"{name}-{task['id']}")
        return {url: tuple(map(sorted, work)) for url, work in found.items()}

    def snapshot(self):
        with connect(self.bootstrap) as cluster:
            return with_logged_timeouts(cluster, cluster.describe_group(self.group))


@pytest.fixture(scope="module")
def workers(kafka):
    with tempfile.TemporaryDirectory(prefix="kgm-connect-") as folder:
        found = Workers(kafka.bootstrap, folder)
        try:
            for name in found.ports:
                found.start(name)
            for name, tasks in CONNECTORS.items():
                config = {"connector.class": "ConnectWorkers$Idle", "tasks.max": str(tasks)}
                until(lambda name=name, config=config: found.rest(f"connectors/{name}/config", config), name, 60)
            yield found
        finally:
            found.child.kill()
            found.child.stdout.close()


def test_workers_connectors_and_tasks_are_those_of_rest(workers):
    """One story: then the worker that does not lead stops, and what it ran stays unassigned for the delay."""
    seen = {}

    def is_as_rest_says():
        running, snapshot = workers.running(), workers.snapshot()
        seen["group"] = snapshot
        work = {one.work.user_endpoint: one.work for one in snapshot.members if one.work is not None}
        is_even = running is not None and all(tasks for _, tasks in running.values())
        return is_even and running == {
            url: (sorted(one.connectors or ()), sorted(one.active_tasks or ())) for url, one in work.items()
        }

    until(is_as_rest_says, lambda: f"kgm sees {seen['group'].members}, REST {workers.running()}", 120, every_s=0.5)
    group = seen["group"]
    (leader,) = [one for one in group.members if one.member_id == group.leader]
    (other,) = [one for one in group.members if one.member_id != group.leader]
    name = next(each for each in workers.ports if workers.url(each) == other.work.user_endpoint)
    workers.ask({"cmd": "stop", "name": name})

    def held_back():
        found = workers.snapshot()
        return found if len(found.members) == 1 and found.rebalance_delay_ms else None

    left = until(held_back, "no delay", 60, every_s=0.3)
    (member,) = left.members
    assert (member.member_id, member.work) == (leader.member_id, leader.work)
    assert 0 < left.rebalance_delay_ms <= DELAY_MS
    until_ms = datetime.fromisoformat(left.unassigned_until).timestamp() * 1000
    assert until_ms > left.rebalance_delay_ms  # a time, and not a duration
    table = kgm("describe", workers.group, "-b", workers.bootstrap).out
    assert leader.work.user_endpoint in table
    assert "stays unassigned for" in table
    assert f"until {left.unassigned_until}" in table

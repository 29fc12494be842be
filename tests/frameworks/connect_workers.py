"""Real Connect workers that a test can stop and start."""

import contextlib
import json
import urllib.error
import urllib.request
from pathlib import Path

from kgm.client import connect
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from tests.frameworks.kafkas_classes import SOURCES
from tests.kafka.broker import free_ports
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command
from tests.kafka.process import Child
from tests.waiting import until


class Workers:
    """Workers of one group in one JVM. ports: of those that run, by name. connectors: how many tasks each has; sinks: the
    names of those that are sinks. delay_ms: how long what a worker ran that has
    left is held back (scheduled.rebalance.max.delay.ms)."""

    def __init__(self, bootstrap, folder, *, group, names=("w-1", "w-2", "w-3"), delay_ms):
        self.bootstrap, self.group, self.delay_ms = bootstrap, group, delay_ms
        self.connectors, self.sinks = {}, set()
        path = classpath("kafka")
        path = f"{compiled([SOURCES / 'ConnectWorkers.java'], path)}:{path}"
        command = java_command("ConnectWorkers", heap_mb=256, class_path=path)
        self.child = Child(command, log=Path(folder) / "log", pipe_stdout=True)
        self.all_ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.ports = {}

    def url(self, name):
        return f"http://127.0.0.1:{self.all_ports[name]}/"

    def name_of(self, member):
        return next(each for each in self.ports if self.url(each) == member.work.user_endpoint)

    def stop(self, name):
        del self.ports[name]
        self.ask({"cmd": "stop", "name": name})

    def start(self, name):
        self.ports[name] = self.all_ports[name]
        topics = {f"{kind}.storage.topic": f"{self.group}-{kind}" for kind in ("config", "offset", "status")}
        copies = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
        config = {
            "bootstrap.servers": self.bootstrap, "group.id": self.group, "listeners": self.url(name).rstrip("/"),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.partitions": "1", "status.storage.partitions": "1", "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": str(self.delay_ms), "heartbeat.interval.ms": "300", **topics, **copies,
        }  # fmt: skip
        self.ask({"cmd": "start", "name": name, "config": config})

    def create(self, connectors, *, drains=None):
        """Connectors that do nothing, by name, with so many tasks each. drains: the topic that they are sinks of; None
        for sources."""
        kind = {"connector.class": "ConnectWorkers$Idle"}
        if drains is not None:
            kind = {"connector.class": "ConnectWorkers$Drain", "topics": drains}
            self.sinks |= {*connectors}
        for name, tasks in connectors.items():
            config = {**kind, "tasks.max": str(tasks)}
            until(lambda name=name, config=config: self.rest(f"connectors/{name}/config", config), name, 60)
        self.connectors |= connectors

    def end(self):
        self.child.kill()
        self.child.stdout.close()

    def ask(self, command):
        self.child.stdin.write(json.dumps(command) + "\n")
        if not self.child.stdout.readline():
            raise RuntimeError(self.child.log_tail())

    def rest(self, path, config=None):
        """The answer of one of them; None while it cannot give one."""
        data = None if config is None else json.dumps(config).encode()
        request = urllib.request.Request(
            self.url(min(self.ports)) + path, data=data, method="GET" if data is None else "PUT",
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
        return None

    def running(self):
        """(connectors, tasks) by the URL of the worker, as REST says; None unless all run."""
        found = {self.url(name): ([], []) for name in self.ports}
        for name, tasks in self.connectors.items():
            status = self.rest(f"connectors/{name}/status")
            every = [] if status is None else [status["connector"], *status["tasks"]]
            if len(every) != tasks + 1 or {one["state"] for one in every} != {"RUNNING"}:
                return None
            if {f"http://{one['worker_id']}/" for one in every} - found.keys():
                return None  # what a worker ran that has left is said to be running on
            found[f"http://{status['connector']['worker_id']}/"][0].append(name)
            for task in status["tasks"]:
                found[f"http://{task['worker_id']}/"][1].append(f"{name}-{task['id']}")
        return {url: tuple(map(sorted, work)) for url, work in found.items()}

    def snapshot(self):
        with connect(self.bootstrap) as cluster:
            return with_logged_timeouts(cluster, cluster.describe_group(self.group))

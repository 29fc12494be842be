"""Real Connect workers that a test can stop and start."""

import contextlib
import json
import urllib.error
import urllib.request
from pathlib import Path

from kgm.client import connect
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.sinks import with_live_sinks
from tests.frameworks.kafkas_classes import SOURCES
from tests.kafka.broker import free_ports
from tests.kafka.jars import classpath
from tests.kafka.java_tools import QUICK, compiled, java_command
from tests.kafka.process import Child
from tests.waiting import until


class Workers:
    """Workers of one group, in one JVM, or each in a JVM of its own that starts and ends with it. ports: of the running
    workers, by name. connectors: how many tasks each has; sinks: the names of the sink connectors. delay_ms: how long
    the tasks of a worker that left are held back (scheduled.rebalance.max.delay.ms)."""

    def __init__(
        self, bootstrap, folder, *, group, names=("w-1", "w-2", "w-3"), delay_ms, heartbeat_ms=300,
        in_one_jvm=True,
    ):  # fmt: skip
        self.bootstrap, self.group, self.delay_ms, self.heartbeat_ms = bootstrap, group, delay_ms, heartbeat_ms
        self.connectors, self.sinks = {}, set()
        self.folder, self.in_one_jvm, self.children = Path(folder), in_one_jvm, {}
        self.all_ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.ports = {}

    def url(self, name):
        return f"http://127.0.0.1:{self.all_ports[name]}/"

    def name_of(self, member):
        return next(each for each in self.ports if self.url(each) == member.work.user_endpoint)

    def stop(self, name):
        del self.ports[name]
        if self.in_one_jvm:
            self.ask({"cmd": "stop", "name": name})
        else:
            self.end_jvm(name).terminate()

    def kill(self, name):
        """Kill a worker that has a JVM of its own."""
        del self.ports[name]
        self.end_jvm(name).kill()

    def end_jvm(self, name):
        child = self.children.pop(name)
        child.stdout.close()
        return child

    def start(self, name):
        self.ports[name] = self.all_ports[name]
        topics = {f"{kind}.storage.topic": f"{self.group}-{kind}" for kind in ("config", "offset", "status")}
        copies = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
        config = {
            "bootstrap.servers": self.bootstrap, "group.id": self.group, "listeners": self.url(name).rstrip("/"),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.partitions": "1", "status.storage.partitions": "1", "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": str(self.delay_ms), "heartbeat.interval.ms": str(self.heartbeat_ms), **topics, **copies,
        }  # fmt: skip
        self.ask({"cmd": "start", "name": name, "config": config})

    def create(self, connectors, *, drains=None):
        """Create connectors that do nothing. connectors: the number of tasks by name. drains: the topic that they read
        as sinks; None for sources."""
        kind = {"connector.class": "ConnectWorkers$Idle"}
        if drains is not None:
            kind = {"connector.class": "ConnectWorkers$Drain", "topics": drains}
            self.sinks |= {*connectors}
        for name, tasks in connectors.items():
            config = {**kind, "tasks.max": str(tasks)}
            until(lambda name=name, config=config: self.rest(f"connectors/{name}/config", config), name, 60)
        self.connectors |= connectors

    def end(self):
        for name in [*self.children]:
            self.end_jvm(name).kill()

    def ask(self, command):
        key = None if self.in_one_jvm else command["name"]
        child = self.children.get(key) or self.children.setdefault(key, self.jvm())
        child.stdin.write(json.dumps(command) + "\n")
        if not child.stdout.readline():
            raise RuntimeError(child.log_tail())

    def jvm(self):
        path = classpath("kafka")
        path = f"{compiled([SOURCES / 'ConnectWorkers.java'], path)}:{path}"
        options = [*QUICK, f"-Dkgm.events={self.events}"]
        command = java_command("ConnectWorkers", heap_mb=256, options=options, class_path=path)
        return Child(command, log=self.folder / "log", pipe_stdout=True)

    @property
    def events(self):
        """The file in which sink tasks write when they begin and cease to own partitions."""
        return self.folder / "events"

    def rest(self, path, config=None):
        """The answer of one worker's REST interface; None while it cannot give one."""
        data = None if config is None else json.dumps(config).encode()
        request = urllib.request.Request(
            self.url(min(self.ports)) + path, data=data, method="GET" if data is None else "PUT",
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
        return None

    def running(self):
        """(connectors, tasks) by the URL of the worker, as reported by REST; None unless all are running."""
        found = {self.url(name): ([], []) for name in self.ports}
        for name, tasks in self.connectors.items():
            status = self.rest(f"connectors/{name}/status")
            every = [] if status is None else [status["connector"], *status["tasks"]]
            if len(every) != tasks + 1 or {one["state"] for one in every} != {"RUNNING"}:
                return None
            if {f"http://{one['worker_id']}/" for one in every} - found.keys():
                return None  # REST still reports the tasks of a worker that left as running
            found[f"http://{status['connector']['worker_id']}/"][0].append(name)
            for task in status["tasks"]:
                found[f"http://{task['worker_id']}/"][1].append(f"{name}-{task['id']}")
        return {url: tuple(map(sorted, work)) for url, work in found.items()}

    def settled(self):
        """The group, once it is settled and kgm sees the same as REST reports."""
        seen = {}

        def is_as_rest_says():
            running, snapshot = self.running(), self.snapshot()
            seen["group"] = snapshot
            work = {one.work.user_endpoint: one.work for one in snapshot.members if one.work is not None}
            is_even = running is not None and all(tasks for _, tasks in running.values())
            return (
                is_even
                and snapshot.is_settled
                and running
                == {url: (sorted(one.connectors or ()), sorted(one.active_tasks or ())) for url, one in work.items()}
            )

        until(is_as_rest_says, lambda: f"kgm sees {seen['group'].members}, REST {self.running()}", 120, every_s=0.5)
        return seen["group"]

    def linked(self):
        """The settled group with its sink groups, once the members of each are exactly the connector's tasks."""
        group, seen = BounceGroup(snapshot=self.settled()), []

        def are_assigned():
            with connect(self.bootstrap) as cluster:
                seen.append(with_live_sinks(cluster, group))
            sinks = [one for one in seen[-1].sinks if len(one.snapshot.members) == len(one.consumers)]
            stable = {one.connector: len(one.consumers) for one in sinks if one.snapshot.state == "Stable"}
            return stable == {name: self.connectors[name] for name in self.sinks}

        until(are_assigned, "tasks of sink connectors are not all members", 90, every_s=0.5)
        return seen[-1]

    def snapshot(self):
        with connect(self.bootstrap) as cluster:
            return with_logged_timeouts(cluster, cluster.describe_group(self.group))

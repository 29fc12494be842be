"""The processes of a runbook that are Kafka Streams applications or Connect workers: real ones, behind `systemctl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgm.client import connect
from kgm.model.errors import NotFoundError
from tests.frameworks.connect_workers import Workers
from tests.frameworks.streams_apps import StreamsApps
from tests.kafka.records import produce
from tests.waiting import until

_LOOKS = 6


class FrameworkFleet:
    """Processes by the name of their unit; carries out `systemctl start, stop, restart, kill, is-active`."""

    def __init__(self, bootstrap: str, folder: Path, spec: dict[str, Any]) -> None:
        self.bootstrap, self.folder, self.spec = bootstrap, folder, spec
        self.running: set[str] = set()
        self.failed: set[str] = set()

    def begin(self) -> None:
        """Start every process, and wait until the group is settled."""
        raise NotImplementedError

    def run(self, words: list[str]) -> tuple[int, str]:
        verb, name = words[1], words[-1].partition("@")[2].removesuffix(".service")
        if verb in ("stop", "restart", "kill") and name in self.running:
            self.running.remove(name)
            self.failed -= {name}
            self.failed |= {name} if verb == "kill" else set()
            self.end_process(name)
        if verb in ("start", "restart"):
            self.failed -= {name}
            self.running.add(name)
            self.start_process(name)
        if verb == "is-active":
            shown = "active" if name in self.running else "failed" if name in self.failed else "inactive"
            return (0 if name in self.running else 3), f"{shown}\n"
        return 0, ""

    def start_process(self, name: str) -> None:
        raise NotImplementedError

    def end_process(self, name: str) -> None:
        raise NotImplementedError

    def wait_settled(self) -> None:
        """Wait until every process is in a group that has nothing left to do, and stays so for several looks: Connect
        shares out new connectors one after the other."""
        seen: list[list[str] | None] = []

        def is_settled() -> bool:
            with connect(self.bootstrap, timeout_ms=20_000) as cluster:
                try:
                    group = cluster.describe_group(self.spec["group"])
                except NotFoundError:  # no member has joined yet
                    return False
            is_complete = group.is_settled and group.state == "Stable" and len(group.members) == self.member_count
            seen.append(sorted(f"{one.member_id} {one.work}" for one in group.members) if is_complete else None)
            return seen[-1] is not None and seen[-_LOOKS:] == [seen[-1]] * _LOOKS

        until(is_settled, f"{self.spec['group']} does not settle", 120, every_s=0.5)

    @property
    def member_count(self) -> int:
        return len(self.spec["members"])

    def stop(self) -> None:
        raise NotImplementedError


class StreamsFleet(FrameworkFleet):
    """Static threads: a process that is closed stays a member until its session ends, as one that has crashed does."""

    def begin(self) -> None:
        self.apps = StreamsApps(self.bootstrap, self.spec["group"], self.spec["topic"])
        partitions = range(self.spec["partitions"])
        produce(self.bootstrap, self.spec["topic"], [b"word"] * 5 * len(partitions), partitions)
        for name in self.spec["members"]:
            self.run(["systemctl", "start", f"x@{name}"])
        self.wait_settled()

    @property
    def member_count(self) -> int:
        threads: int = self.spec["threads"]
        return threads * len(self.spec["members"])

    def start_process(self, name: str) -> None:
        session_ms = str(self.spec["session_ms"])
        self.apps.start(
            name, threads=self.spec["threads"], standbys=self.spec["standbys"],
            config={"consumer.session.timeout.ms": session_ms},
        )  # fmt: skip

    def end_process(self, name: str) -> None:
        self.apps.close(name)

    def stop(self) -> None:
        self.apps.__exit__(None, None, None)


class ConnectFleet(FrameworkFleet):
    """Workers, and connectors that do nothing."""

    def begin(self) -> None:
        self.workers = Workers(
            self.bootstrap, self.folder.parent, group=self.spec["group"], names=self.spec["members"],
            delay_ms=self.spec["delay_ms"],
        )  # fmt: skip
        for name in self.spec["members"]:
            self.run(["systemctl", "start", f"x@{name}"])
        self.workers.create(self.spec["connectors"])
        self.workers.create(self.spec["sinks"], drains=self.spec["topic"])
        self.wait_settled()
        for name, tasks in self.spec["sinks"].items():
            until(lambda name=name, tasks=tasks: self.has_members(f"connect-{name}", tasks), name, 60)

    def has_members(self, group_id: str, number: int) -> bool:
        with connect(self.bootstrap, timeout_ms=20_000) as cluster:
            group = cluster.describe_group(group_id)
        return group.state == "Stable" and len(group.members) == number

    def start_process(self, name: str) -> None:
        self.workers.start(name)

    def end_process(self, name: str) -> None:
        self.workers.stop(name)

    def stop(self) -> None:
        self.workers.end()


FLEETS = {"streams": StreamsFleet, "connect": ConnectFleet}

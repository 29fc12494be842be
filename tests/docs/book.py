"""Runs a runbook as a reader would: every `$ command` of its console blocks, in order, in one shell, against a real
Kafka with real clients. The commands must print what the page shows.

A comment of the page, `<!-- fleet: {json} -->`, describes its consumers: group, topic, partitions, members (their instance
ids) and settings. Each member is a real consumer process behind a unit `GROUP@ID` that `systemctl` starts, stops and kills,
with the settings of `ID.properties` in the reader's folder; `journalctl` shows what it logged. `kubectl` does the same
with a StatefulSet, whose pods are named GROUP-0, GROUP-1 and so on. With `framework` the processes are Kafka Streams
applications or Connect workers (`framework_fleets`). Outputs are compared after ids, addresses and times have been
normalized. `KGM_WRITE_DOCS=1` writes what was printed into the page instead."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgm.client import connect
from tests import ROOT
from tests.cli.fork_kgm import HOST_VARIABLE
from tests.cli.forked import forked_command
from tests.docs.framework_fleets import FLEETS, FrameworkFleet
from tests.kafka.java_tools import java_command
from tests.kafka.members import JavaMembers, RdMembers, members_of, wait_settled
from tests.kafka.records import produce
from tests.needs import needs
from tests.waiting import until

DOCS = ROOT / "docs"
TIMEOUT_S = 400
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FLEET = re.compile(r"<!-- fleet: (\{.*?\}) -->", re.DOTALL)


@dataclass(slots=True)
class Step:
    """One command of the page and the output that the page shows."""

    command: str
    output: str


@dataclass(slots=True)
class Book:
    """A runbook: its page in parts, which are text or blocks of steps."""

    path: Path
    parts: list[str | list[Step]]
    fleet: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Book:
        text = path.read_text()
        parts: list[str | list[Step]] = []
        at = 0
        for block in _BLOCK.finditer(text):
            parts += [text[at : block.start(1)], _steps(block[1])]
            at = block.end(1)
        fleet = _FLEET.search(text)
        return cls(path, [*parts, text[at:]], json.loads(fleet[1]) if fleet else {})

    @property
    def steps(self) -> list[Step]:
        return [step for part in self.parts if isinstance(part, list) for step in part]

    def text(self) -> str:
        return "".join(part if isinstance(part, str) else _block(part) for part in self.parts)


def _steps(block: str) -> list[Step]:
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], ""))
        elif line.startswith("> ") and steps and not steps[-1].output:
            steps[-1].command += "\n" + line[2:]
        elif line.strip() or (steps and steps[-1].output):
            steps[-1].output += line + "\n"
    for step in steps:
        step.output = step.output.strip("\n")
    return steps


def _block(steps: list[Step]) -> str:
    """The text of a block: a blank line between the output of a command and the next command."""
    lines: list[str] = []
    for number, step in enumerate(steps):
        if number and steps[number - 1].output:
            lines.append("")
        lines.append("$ " + step.command.replace("\n", "\n> "))
        lines += step.output.splitlines()
    return "\n".join(lines) + "\n"


class Normalizer:
    """Replaces what differs between runs; numbers ids in the order in which they appear."""

    def __init__(self, addresses: list[str], folder: Path) -> None:
        self._words = [(address, "127.0.0.1:9092") for address in addresses]
        self._words.append((str(folder), "~"))
        self._ids: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        for word, stands_for in self._words:
            text = text.replace(word, stands_for)
        text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", self._uuid, text)
        text = re.sub(
            r"(?<![\w/+-])(?=\S*[a-z])(?=\S*[A-Z])(?!ConsumerGroupHeartbeat)[\w/+-]{22}(?![\w/+-])", self._base64, text
        )
        text = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-11-21T03:10:00.000Z", text)
        text = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-11-21T03:10:00Z", text)
        text = re.sub(
            r"(?<![\d:.-])\d\d:\d\d:\d\d(\.\d+)?(?![\d:])", lambda m: "03:10:00" + (".000" if m[1] else ""), text
        )
        return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")

    def _uuid(self, match: re.Match[str]) -> str:
        return self._ids.setdefault(match[0], f"{len(self._ids) + 1:08x}-1a2b-4c3d-8e4f-5a6b7c8d9e0f")

    def _base64(self, match: re.Match[str]) -> str:
        return self._ids.setdefault(match[0], f"Kq3vZr0aTn6wXy8LmB4p{len(self._ids) + 1:02d}")


@dataclass(slots=True)
class Fleet:
    """Real consumers behind units or pods; carries out `systemctl`, `journalctl` and `kubectl` commands that come over a
    socket."""

    bootstrap: str
    folder: Path
    spec: dict[str, Any]
    members: dict[str, Any] = field(default_factory=dict)
    owner: JavaMembers | RdMembers | None = None
    crashed: set[str] = field(default_factory=set)

    def write_settings(self) -> None:
        for name in self.spec["members"]:
            settings = {"group.id": self.spec["group"], "client.id": name}
            if self.spec.get("static", True):
                settings["group.instance.id"] = name
            settings |= self.spec.get("settings", {})
            self._write(name, settings)
        for name, settings in self.spec.get("others", {}).items():
            self._write(name, {"client.id": name, **settings})

    def _write(self, name: str, settings: dict[str, Any]) -> None:
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.folder / f"{name}.properties").write_text(text)

    def begin(self) -> None:
        """Start every consumer, and wait until each has its partitions and has committed records of them."""
        self.write_settings()
        for name in [*self.spec["members"], *self.spec.get("others", {})]:
            code, text = self.run(["systemctl", "start", f"x@{name}"])
            assert code == 0, text
        wait_settled([self.members[name] for name in self.spec["members"]], self.spec["partitions"], 60)
        self.produce_records()

    def run(self, words: list[str]) -> tuple[int, str]:
        if words[0] == "kubectl":
            return 0, self._kubectl(words[1:])
        if words[0] == "journalctl":
            return 0, self._log(_unit(words[words.index("-u") + 1]))
        verb, unit = words[1], words[-1]
        name = _unit(unit)
        _wait_for_terminals(self.folder)
        if verb in ("stop", "restart") and name in self.members:
            self.members.pop(name).close()
            self.crashed.discard(name)
        if verb == "kill" and name in self.members:
            self.members.pop(name).crash()
            self.crashed.add(name)
            self.produce_records()
        if verb in ("start", "restart"):
            return (0, "") if self._start(name) else (1, f"Job for {unit}.service failed.\n")
        if verb == "is-active":
            states = [self._state(_unit(word)) for word in words[2:] if not word.startswith("-")]
            shown = "" if "--quiet" in words else "".join(f"{state}\n" for state in states)
            return (0 if "active" in states else 3), shown
        return 0, ""

    def _kubectl(self, words: list[str]) -> str:
        """Implements scale, rollout restart, rollout status, get pods and wait, as far as runbooks use them."""
        _wait_for_terminals(self.folder)
        match words:
            case ["scale", what, replicas]:
                self._scale(int(replicas.removeprefix("--replicas=")))
                return f"{what.replace('statefulset/', 'statefulset.apps/')} scaled\n"
            case ["rollout", "restart", what]:
                # A StatefulSet restarts its pods one by one, the last one first.
                for name in sorted(self.members, key=_ordinal, reverse=True):
                    self.members.pop(name).close()
                    assert self._start(name), name
                return f"{what.replace('statefulset/', 'statefulset.apps/')} restarted\n"
            case ["rollout", "status", what, *_]:
                return f"statefulset rolling update complete {len(self.members)} pods at revision {what[-8:]}-2...\n"
            case ["get", "pods", *_]:
                lines = [f"{name:<12}1/1     Running" for name in sorted(self.members, key=_ordinal)]
                return "\n".join([f"{'NAME':<12}READY   STATUS", *lines, ""])
            case ["wait", "--for=delete", *pods, _]:
                names = [pod.removeprefix("pod/") for pod in pods]
                assert not set(names) & set(self.members), names
                return "".join(f"pod/{name} condition met\n" for name in names)
        raise ValueError(f"kubectl {' '.join(words)}")

    def _scale(self, replicas: int) -> None:
        """A StatefulSet stops the pods with the highest ordinals, the last one first, and starts them in order."""
        names = sorted(self.spec["members"], key=_ordinal)
        for name in reversed(names[replicas:]):
            if name in self.members:
                self.members.pop(name).close()
        for name in names[:replicas]:
            assert name in self.members or self._start(name), name

    def _state(self, name: str) -> str:
        """The state of a unit, in the words of `systemctl is-active`."""
        member = self.members.get(name)
        if member is None:
            return "failed" if name in self.crashed else "inactive"
        return "active" if member.fatal is None else "failed"

    def _start(self, name: str) -> bool:
        text = (self.folder / f"{name}.properties").read_text()
        settings = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
        options: dict[str, Any] = {
            "group": settings.pop("group.id"), "topics": [self.spec["topic"]],
            "instance_id": settings.pop("group.instance.id", None), "client_id": settings.pop("client.id"),
            "protocol": settings.pop("group.protocol", "classic"),
            "session_timeout_ms": 45_000, "heartbeat_interval_ms": 3000, "max_poll_interval_ms": 300_000,
        }  # fmt: skip
        if options["protocol"] == "classic":
            options["session_timeout_ms"] = int(settings.pop("session.timeout.ms", "45000"))
        settings |= {"enable.auto.commit": "true", "auto.commit.interval.ms": "200"}
        if self.owner is None:
            self.owner = members_of(self.spec.get("client", "librdkafka"), self.bootstrap)
        member = self.members[name] = self.owner.start(**options, config=settings)

        def is_up_or_down() -> bool:
            child = getattr(member, "_child", None)
            return bool(member.of_kind("assigned", "fatal")) or (child is not None and not child.running)

        until(is_up_or_down, f"{name} does not start")
        return bool(member.of_kind("assigned")) and member.fatal is None

    def produce_records(self) -> None:
        """Produce 20 records to each partition, and wait until the live members of every group have committed them."""
        partitions = range(self.spec["partitions"])
        produce(self.bootstrap, self.spec["topic"], [b"record"] * 20 * len(partitions), partitions)
        alive = {member.member_id for member in self.members.values()}
        groups = {member.options.group for member in self.members.values()}

        def lags() -> dict[str, int | None]:
            with connect(self.bootstrap, timeout_ms=20_000) as cluster:
                members = [member for group in groups for member in cluster.describe_group(group).members]
            return {member.member_id: member.lag for member in members if member.member_id in alive}

        until(
            lags, "the live members do not commit what they read", 30,
            accept=lambda lag: set(lag) == alive and set(lag.values()) <= {0}, every_s=0.1,
        )  # fmt: skip

    def _log(self, name: str) -> str:
        member = self.members[name]
        fatal = member.of_kind("fatal")
        return f"{fatal[-1].data['error']}: {fatal[-1].data['message']}\n" if fatal else member.log_tail()[-500:] + "\n"

    def stop(self) -> None:
        if self.owner is not None:
            self.owner.stop()


def _unit(word: str) -> str:
    return word.partition("@")[2].removesuffix(".service")


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def _wait_for_terminals(folder: Path) -> None:
    """Wait until what runs in other terminals prints something, as a reader would before going on."""
    until(lambda: all(path.stat().st_size for path in folder.glob("*.log")), "a watch shows nothing", 30)


_CLIENT = """#!{python} -SE
import json, socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect({address!r})
    s.sendall(json.dumps([{name!r}, *sys.argv[1:]]).encode() + b"\\n")
    code, text = json.loads(s.makefile().read())
sys.stdout.write(text)
sys.exit(code)
"""


#: The host name that kgm sees: a name of another length would change the width of tables.
HOST = "ops-1"


@contextlib.contextmanager
def commands(fleet: Fleet | FrameworkFleet, folder: Path) -> Iterator[Path]:
    """A folder for the reader's PATH: kgm, and commands that talk to the fleet."""
    address = str(folder / "fleet.socket")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in ("systemctl", "journalctl", "kubectl"):
        (bin_folder / name).write_text(_CLIENT.format(python=sys.executable, address=address, name=name))
        (bin_folder / name).chmod(0o755)
    command = shlex.join(forked_command())
    (bin_folder / "kgm").write_text(f'#!/bin/sh\n{HOST_VARIABLE}={HOST} exec {command} "$@"\n')
    (bin_folder / "kgm").chmod(0o755)
    tool = shlex.join(java_command("kafka.admin.ConfigCommand"))
    (bin_folder / "kafka-configs.sh").write_text(f'#!/bin/sh\nexec {tool} "$@"\n')
    (bin_folder / "kafka-configs.sh").chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        thread = threading.Thread(target=_serve, args=(listener, fleet), daemon=True)
        thread.start()
        try:
            yield bin_folder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def _serve(listener: socket.socket, fleet: Fleet | FrameworkFleet) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rw") as stream:
            try:
                answer = fleet.run(json.loads(stream.readline()))
            except Exception as error:  # noqa: BLE001  (the command prints it)
                answer = (70, f"{type(error).__name__}: {error}\n")
            stream.write(json.dumps(answer))
            stream.flush()


def play(book: Book, bootstrap: str, folder: Path) -> list[str]:
    """Run every step; returns the normalized outputs in order."""
    home = folder / "home"
    home.mkdir()
    kind = book.fleet.get("framework")
    fleet = Fleet(bootstrap, home, book.fleet) if kind is None else FLEETS[kind](bootstrap, home, book.fleet)
    normalize = Normalizer(bootstrap.split(","), home)
    try:
        fleet.begin()
        with commands(fleet, folder) as bin_folder:
            env = {
                "PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(home), "USER": "nadia", "TERM": "dumb", "LC_ALL": "C.UTF-8",
                "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"),
                "XDG_CACHE_HOME": str(folder / "cache"), "KGM_BOOTSTRAP_SERVER": bootstrap,
            }  # fmt: skip
            script = folder / "script"
            script.write_text("".join(_wrapped(n, step.command) for n, step in enumerate(book.steps)))
            done = subprocess.run(
                [needs("bash"), "--norc", str(script)], cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
    finally:
        fleet.stop()
    outputs = re.findall(r"^@@BEGIN \d+\n(.*?)\n?^@@END (\d+)$", done.stdout, re.MULTILINE | re.DOTALL)
    assert len(outputs) == len(book.steps), done.stdout[-3000:]
    return [normalize(text) for text, _ in outputs]


def _wrapped(number: int, command: str) -> str:
    """The step between markers; as in a shell, $? in the next command is the exit code of this one."""
    return f"echo '@@BEGIN {number}'\n(exit ${{code:-0}})\n{command}\ncode=$?\necho; echo \"@@END {number}\"\n"

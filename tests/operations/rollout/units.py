"""A stand-in for systemd: real consumers behind units, and a command `unit` that restarts, stops and starts them.

`unit restart NAME` stops the consumer cleanly and starts it again, as `systemctl restart` does with a process. A test makes
a unit misbehave with `faults`: NAME -> what `restart` does instead."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.cli.forked import run_forked
from tests.client.joiners import Joiner, form_group
from tests.kafka.members import members_of, wait_settled

_CLIENT = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect({address!r})
    request = {{"words": sys.argv[1:], "stdin": sys.stdin.readline(), "instance_id": os.environ.get("KGM_INSTANCE_ID")}}
    s.sendall(json.dumps(request).encode() + b"\\n")
    code, text = json.loads(s.makefile().read())
sys.stdout.write(text)
sys.exit(code)
"""


@dataclass
class Units:
    """Consumers by the name of their unit. calls: the requests that the command received, in order."""

    bootstrap: str
    folder: Path
    options: dict[str, Any]
    kind: str = "librdkafka"
    members: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, Callable[[Units, str], int]] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    strays: list[Any] = field(default_factory=list)
    restart_s: float = 0.3
    start_s: float = 0.0
    _timers: list[threading.Timer] = field(default_factory=list)

    @property
    def command(self) -> str:
        return str(self.folder / "unit")

    def start(self, name: str) -> Any:
        instance_id = name if self.options.get("static", True) else None
        options = {key: value for key, value in self.options.items() if key != "static"}
        return self.owner.start(**options, instance_id=instance_id, client_id=name)

    def run(self, request: dict[str, Any]) -> tuple[int, str]:
        verb, name = request["words"]
        self.calls.append((verb, name))
        self.inputs.append(json.loads(request["stdin"] or "null"))
        fault = self.faults.pop(name, None)
        if fault is not None:
            code = fault(self, name)
            return code, "" if code == 0 else f"Job for unit {name} failed\n"
        if verb in ("stop", "restart"):
            self.stop(name)
        if verb == "restart":
            time.sleep(self.restart_s)  # simulates a process that is away for this long
        if verb == "start":
            time.sleep(self.start_s)
        if verb in ("start", "restart") and name not in self.members:
            self.members[name] = self.start(name)
        return 0, ""

    def stop(self, name: str) -> None:
        member = self.members.pop(name, None)
        if member is not None:
            member.close()

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something after `seconds`, unless the test is over by then."""
        timer = threading.Timer(seconds, action)
        self._timers.append(timer)
        timer.start()

    def open(self) -> None:
        self.owner = members_of(self.kind, self.bootstrap)

    def close(self) -> None:
        self.owner.stop()

    def __enter__(self) -> Self:
        self.open()
        self._listener = socket.socket(socket.AF_UNIX)
        address = str(self.folder / "s")
        self._listener.bind(address)
        self._listener.listen()
        script = Path(self.command)
        script.write_text(_CLIENT.format(python=sys.executable, address=address))
        script.chmod(0o755)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)
        for timer in self._timers:
            timer.cancel()
            timer.join()
        self.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as stream:
            answer = self.run(json.loads(stream.readline()))
            with contextlib.suppress(OSError):  # the command was killed
                stream.write(json.dumps(answer))
                stream.flush()


class JoinedUnits(Units):
    """Static members that are single requests, on an embedded server: a restart takes milliseconds."""

    def form(self, server: Any, names: list[str], *, partitions: int = 6) -> None:
        self._server, self.group = server, self.options["group"]
        joiners = form_group(server, self.group, names, self.options["topic"], partitions=partitions)
        self.members = dict(zip(names, joiners, strict=True))
        self.restart_s = 0

    def open(self) -> None:
        pass

    def close(self) -> None:
        for member in [*self.members.values(), *self.strays]:
            member.close()

    def start(self, name: str) -> Joiner:
        joiner = Joiner(self._server.port, self.group, name, self.options["topic"])
        joiner.join()
        # The only member computes the assignment: all six partitions are its own.
        alone = {joiner.member_id: encode_assignment(MemberAssignment(partitions={joiner.topic: list(range(6))}))}
        assert joiner.sync(alone if joiner.members == [joiner.member_id] else None).error_code == 0
        return joiner

    def member_ids(self) -> dict[str, str]:
        """The member ids of the group, by instance id."""
        found = self._server.inspect(lambda view: view.group(self.group))
        return {one.group_instance_id: one.member_id for one in found.members}

    def generation(self) -> int:
        return self._server.inspect(lambda view: view.group(self.group).generation)


@contextlib.contextmanager
def fleet(
    bootstrap: str, folder: Path, names: list[str], *, partitions: int, kind: str = "librdkafka", **options: Any
) -> Iterator[Units]:
    """Units whose consumers have settled."""
    with Units(bootstrap, folder, options, kind) as units:
        for name in names:
            units.members[name] = units.start(name)
        wait_settled([*units.members.values()], partitions, 60)
        yield units


@dataclass(frozen=True)
class Ended:
    """How a run of kgm ended. An assertion shows its `str`: pytest shortens anything that is not a string."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


def environment(folder: Path, bootstrap: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder), "USER": "nadia", "LC_ALL": "C.UTF-8",
        "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache"),
        "KGM_BOOTSTRAP_SERVER": bootstrap,
    }  # fmt: skip


def kgm(folder: Path, bootstrap: str, *words: str, timeout_s: float = 120) -> Ended:
    """Run kgm as a process."""
    done = run_forked(words, stdin="", environment=environment(folder, bootstrap), timeout_s=timeout_s)
    return Ended(done.returncode, done.stdout, done.stderr)

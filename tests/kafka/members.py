"""Real group members that a test can stop cleanly or crash.

`RdMembers` starts librdkafka consumers (confluent_kafka), each in a process of its own, forked from one that is ready.
`JavaMembers` starts Java consumers, all in one JVM, which takes two seconds for the first unless earlier tests left
one. Both have the same interface, and `start` returns immediately, without waiting for the assignment:

    with RdMembers(kafka.bootstrap) as members:
        a = members.start(group="g", topics=["t"], instance_id="a", assignor="range")
        b = members.start(group="g", topics=["t"], instance_id="b", assignor="range")
        wait_settled([a, b], partitions=6)
        a.crash()
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from tests.kafka.forked_process import ForkedProcess
from tests.kafka.java_tools import QUICK, java_command
from tests.kafka.process import Child
from tests.waiting import until

TIMEOUT_S: Final = 30.0
#: How long the members of a JVM may take to close, so that others can reuse the JVM.
_LAST_WORDS_S: Final = 3.0
Partition = tuple[str, int]
_JAVA_ASSIGNORS: Final = {
    "range": "Range",
    "roundrobin": "RoundRobin",
    "sticky": "Sticky",
    "cooperative-sticky": "CooperativeSticky",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a member joins. `assignor` is a client-side one for "classic", a broker-side one for "consumer". A single
    topic that begins with ^ is a regular expression, which Java matches itself in the classic protocol."""

    group: str
    topics: Sequence[str]
    instance_id: str | None = None
    client_id: str | None = None
    protocol: Literal["classic", "consumer"] = "classic"
    assignor: str | None = None
    session_timeout_ms: int = 6000
    heartbeat_interval_ms: int = 300
    max_poll_interval_ms: int = 60_000  # the rebalance timeout
    config: Mapping[str, str] = field(default_factory=dict)  # any other setting, by the client's own name
    transaction_every_s: float | None = None  # librdkafka: the interval of commits in transactions

    def common(self, bootstrap: str) -> dict[str, str]:
        """Settings that librdkafka and Java share."""
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": str(self.max_poll_interval_ms),
            "retry.backoff.ms": "50",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "500",
        }
        if self.instance_id is not None:
            settings["group.instance.id"] = self.instance_id
        if self.client_id is not None:
            settings["client.id"] = self.client_id
        if self.protocol == "classic":
            # Under KIP-848 both are settings of the broker, and the clients refuse them.
            settings["session.timeout.ms"] = str(self.session_timeout_ms)
            settings["heartbeat.interval.ms"] = str(self.heartbeat_interval_ms)
        elif self.assignor is not None:
            settings["group.remote.assignor"] = self.assignor
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a member.

    kind: started, assigned, revoked, lost, generation (Java only), polled, committed, error, fatal, closed.
    at_s: the monotonic clock, the same for all members on this machine.
    """

    kind: str
    at_s: float
    member_id: str
    assignment: frozenset[Partition]
    data: Mapping[str, Any]


class Member:
    """What both kinds of member offer; `events` is everything so far, in order."""

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self.events: list[Event] = []
        self._changed = threading.Condition()

    @property
    def assignment(self) -> frozenset[Partition]:
        events = self.events
        return events[-1].assignment if events else frozenset()

    @property
    def member_id(self) -> str:
        events = self.events
        return events[-1].member_id if events else ""

    @property
    def fatal(self) -> str | None:
        """The name of the fatal error (FENCED_INSTANCE_ID, ...) that ended this member."""
        return next((str(event.data["error"]) for event in self.events if event.kind == "fatal"), None)

    def of_kind(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the condition holds; it is checked at each event. TimeoutError shows what happened instead."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                raise TimeoutError(f"{self.name}: no {what} within {timeout_s} s; events:\n{self.story()}")

    def wait_event(self, *kinds: str, after: int = 0, timeout_s: float = TIMEOUT_S) -> Event:
        """The first event of one of these kinds at index `after` or later; waits for it."""

        def first() -> Event | None:
            return next((event for event in self.events[after:] if event.kind in kinds), None)

        self.wait_for(lambda: first() is not None, " or ".join(kinds), timeout_s)
        event = first()
        assert event is not None
        return event

    def wait_assigned(self, partitions: int | None = None, timeout_s: float = TIMEOUT_S) -> frozenset[Partition]:
        """Wait for an assignment of exactly `partitions` partitions, or else for the first one."""
        if partitions is None:
            self.wait_event("assigned", timeout_s=timeout_s)
        else:
            self.wait_for(lambda: len(self.assignment) == partitions, f"{partitions} partitions", timeout_s)
        return self.assignment

    def commit(self) -> Event:
        """Commit the current positions; the event is "committed" or "error"."""
        after = len(self.events)
        self.send("commit")
        return self.wait_event("committed", "error", "fatal", after=after)

    def pause(self) -> None:
        """Stop reading every partition that it owns, but keep polling."""
        after = len(self.events)
        self.send("pause")
        self.wait_event("paused", "fatal", after=after)

    def stall(self, ms: int) -> None:
        """Stop polling for a while (heartbeats continue)."""
        self.send("stall", ms=ms)

    def close(self) -> None:
        """A clean stop, as the client does by default."""
        self.send("close")
        self.wait_event("closed", "fatal")

    def crash(self) -> None:
        """End without telling the broker."""
        raise NotImplementedError

    def send(self, command: str, **data: Any) -> None:
        raise NotImplementedError

    def story(self, events: int = 20) -> str:
        """Its last events, except for reads, and the end of its log."""
        recent = [event for event in self.events if event.kind != "polled"][-events:]
        lines = [f"{event.at_s:.3f} {event.kind} {dict(event.data)}" for event in recent]
        return "\n".join([*lines, self.log_tail()])

    def log_tail(self) -> str:
        return ""

    def _add(self, line: dict[str, Any]) -> None:
        event = Event(
            kind=line.pop("event"),
            at_s=line.pop("at"),
            member_id=line.pop("member_id"),
            assignment=frozenset((topic, partition) for topic, partition in line.pop("assignment")),
            data=line,
        )
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()


class RdMember(Member):
    """A librdkafka consumer in its own process."""

    def __init__(self, name: str, options: Options, bootstrap: str) -> None:
        super().__init__(name, options)
        config = options.common(bootstrap) | {"fetch.wait.max.ms": "500", "log_level": "3"}
        config |= {"topic.metadata.refresh.interval.ms": "5000"}
        if options.protocol == "classic" and options.assignor is not None:
            config["partition.assignment.strategy"] = options.assignor
        spec = json.dumps(
            {
                "config": config | dict(options.config),
                "topics": list(options.topics),
                "transaction_every_s": options.transaction_every_s,
            }
        )
        self._child = ForkedProcess()
        self._child.stdin.write(spec + "\n")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, command: str, **data: Any) -> None:
        self._child.stdin.write(json.dumps({"cmd": command, **data}) + "\n")

    def close(self) -> None:
        super().close()
        self._child.wait(TIMEOUT_S)
        self._reader.join()

    def crash(self) -> None:
        self._child.kill()
        self._reader.join()

    def suspend(self) -> None:
        """SIGSTOP: the process is suspended without noticing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        return self._child.log_tail()

    def _read(self) -> None:
        # A process that is killed before it has read all commands resets the connection.
        with contextlib.suppress(ConnectionResetError), self._child.stdout as lines:
            for line in lines:
                self._add(json.loads(line))


class JavaMember(Member):
    """One Java consumer among those of a `JavaMembers`."""

    def __init__(self, name: str, options: Options, owner: JavaMembers) -> None:
        super().__init__(name, options)
        self._owner = owner

    @property
    def alive(self) -> bool:
        return not any(event.kind in ("closed", "fatal") for event in self.events)

    def send(self, command: str, **data: Any) -> None:
        self._owner.send({"cmd": command, "member": self.name, **data})

    def close_leave(self) -> None:
        """Close and leave the group, also as a static member (KIP-1092)."""
        self.send("close-leave")
        self.wait_event("closed", "fatal")

    def crash(self) -> None:
        """End as a crash does: the broker sees closed connections and no further request.

        The only live member of its JVM takes the JVM with it; a classic member among others is closed with
        REMAIN_IN_GROUP, which sends nothing. A KIP-848 member must be alone in its JVM: otherwise a static one says
        that it will be back (epoch -2), and a dynamic one leaves anyway (seen on Java 4.3).
        """
        if all(member is self or not member.alive for member in self._owner.members):
            self._owner.crash()
        elif self.options.protocol == "consumer":
            message = "a KIP-848 member can only crash with its JVM: start it in its own JavaMembers"
            raise ValueError(message)
        else:
            self.send("close-remain")
            self.wait_event("closed", "fatal")

    def log_tail(self) -> str:
        return self._owner.log_tail()


class _Members:
    """Starts members, and crashes those that are left when the `with` block ends."""

    members: list[Any]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members = []
        self._serial = itertools.count(1)

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class RdMembers(_Members):
    """librdkafka members of one cluster."""

    members: list[RdMember]

    def start(self, **options: Any) -> RdMember:
        """Start a member; the keywords are those of `Options`. Returns immediately."""
        member = RdMember(f"rd-{next(self._serial)}", Options(**options), self.bootstrap)
        self.members.append(member)
        return member

    def stop(self) -> None:
        for member in self.members:
            member.crash()


class _Jvm:
    """A JVM with consumers in it, each in a thread of its own."""

    def __init__(self, options: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kgm-jvm-")
        command = java_command("JavaMember", heap_mb=400, options=options)
        self.child = Child(command, log=Path(self._folder.name) / "log", pipe_stdout=True)
        self.members: dict[str, JavaMember] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self.child.stdout as lines:
            for text in lines:
                line = json.loads(text)
                self.members[line.pop("member")]._add(line)

    def end(self) -> None:
        """Kill it: every member crashes."""
        self.child.kill()
        self._reader.join()
        self._folder.cleanup()


#: A JVM whose members have ended: the next ones start in it immediately, with warm code.
_idle: list[_Jvm] = []


def _warm_jvm() -> _Jvm:
    try:
        return _idle.pop()
    except IndexError:
        return _Jvm(QUICK)


@atexit.register
def _end_idle() -> None:
    while _idle:
        _idle.pop().end()


class JavaMembers(_Members):
    """Java members of one cluster, in a JVM of their own, which starts with the first member or was left by earlier
    members."""

    members: list[JavaMember]

    def __init__(self, bootstrap: str, *, options: Sequence[str] = QUICK) -> None:
        super().__init__(bootstrap)
        self._options = options
        self._jvm: _Jvm | None = None
        self._lock = threading.RLock()  # several threads of a test may command their members in one JVM

    @property
    def pid(self) -> int:
        """The process id of the JVM, which must have been started."""
        assert self._jvm is not None
        return self._jvm.child.pid

    def start(self, **options: Any) -> JavaMember:
        """Start a member; the keywords are those of `Options`. Returns immediately."""
        with self._lock:
            if self._jvm is None:
                self._jvm = _warm_jvm() if self._options is QUICK else _Jvm(self._options)
            member = JavaMember(f"java-{len(self._jvm.members) + 1}", Options(**options), self)
            self._jvm.members[member.name] = member
        self.members.append(member)
        topics = list(member.options.topics)
        self.send({"cmd": "start", "member": member.name, "config": self._config(member.options), "topics": topics})
        return member

    def send(self, command: dict[str, Any]) -> None:
        with self._lock:
            assert self._jvm is not None
            self._jvm.child.stdin.write(json.dumps(command) + "\n")

    def crash(self) -> None:
        """Kill the JVM: every member crashes. The next `start` starts a new one."""
        if self._jvm is not None:
            self._jvm.end()
            self._jvm = None
            self.members.clear()

    def stop(self) -> None:
        """End all members: those that are left stay in their groups, as far as their protocol allows."""
        if self._jvm is None:
            return
        if self._options is QUICK and not _idle and self._have_ended():
            _idle.append(self._jvm)
            self._jvm = None
        else:
            self.crash()

    def _have_ended(self) -> bool:
        """Whether all members have closed in time. A member that is stalled, or whose broker is gone, is not waited
        for."""
        assert self._jvm is not None
        if not self._jvm.child.running:
            return False
        left = [member for member in self.members if member.alive]
        for member in left:
            member.send("close-remain")
        deadline = time.monotonic() + _LAST_WORDS_S
        try:
            for member in left:
                member.wait_event("closed", "fatal", timeout_s=max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return False
        return True

    def log_tail(self) -> str:
        return self._jvm.child.log_tail() if self._jvm is not None else ""

    def _config(self, options: Options) -> dict[str, str]:
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        config = options.common(self.bootstrap) | {"fetch.max.wait.ms": "500"}
        config["metric.reporters"] = ""  # otherwise several hundred beans are registered with JMX
        config |= {"key.deserializer": deserializer, "value.deserializer": deserializer}
        if options.protocol == "classic" and options.assignor is not None:
            names = [_JAVA_ASSIGNORS.get(name, name) for name in options.assignor.split(",")]
            config["partition.assignment.strategy"] = ",".join(
                f"org.apache.kafka.clients.consumer.{name}Assignor" if "." not in name else name for name in names
            )
        return config | dict(options.config)


def members_of(kind: str, bootstrap: str) -> RdMembers | JavaMembers:
    """kind: "librdkafka" or "java"."""
    return {"librdkafka": RdMembers, "java": JavaMembers}[kind](bootstrap)


def wait_settled(members: Sequence[Member], partitions: int, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until the members together own `partitions` partitions, none of them twice, and no member has nothing.

    The last condition matters: a late joiner may hold an empty assignment for a while (KIP-848 computes the next one
    up to a second later). With fewer partitions than members it is enough that each has been assigned something, even
    nothing.
    """

    def are_settled() -> bool:
        owned = [partition for member in members for partition in member.assignment]
        enough = partitions >= len(members)
        everyone = all(member.assignment if enough else member.of_kind("assigned") for member in members)
        return everyone and len(owned) == partitions == len(set(owned))

    def story() -> str:
        each = (f"{m.name}, {m.options}: {sorted(m.assignment)} fatal={m.fatal}\n{m.story()}" for m in members)
        return "\n".join([f"the members do not own {partitions} partitions:", *each])

    until(are_settled, story, timeout_s)

"""The stage on which situations play: what scenes have in common, and how a command runs on one."""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kgm.client import connect
from kgm.operations.doctor.diagnosis import diagnose
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.cli.fork_kgm import HOST_VARIABLE
from tests.cli.runner import kgm
from tests.client.faults import FaultProxy
from tests.client.joiners import Joiner, commit_without_member, form_group
from tests.docs.book import HOST, Normalizer
from tests.kafka.heartbeat_group import PROMPT, HeartbeatGroup
from tests.kafka.members import JavaMembers, Member, RdMembers, wait_settled
from tests.kafka.records import produce
from tests.server.wire_client import WireClient
from tests.waiting import until

#: Settings for real clients that commit what they have read twice a second.
COMMITS = {"enable.auto.commit": "true", "auto.commit.interval.ms": "500"}
_SILENT = " 2>/dev/null"
_TIMES = re.compile(r"(--timeout|--window|--trend) ([1-9]\d*)s")
#: Longer than a scene takes, however busy the machine is.
REBALANCE_MS = 300_000
#: The operator's settings: they accept a finding that nearly all of these groups have.
ACCEPTED = '[[ignore]]\ncheck = "classic-protocol"\nreason = "they move to KIP-848 next year"\n'


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command printed, stdout before stderr, normalized; `raw` is the same before normalization."""

    command: str
    text: str
    raw: str
    code: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class Stage:
    """One situation's place on the cluster: a group of its name, and topics whose names begin with it.

    kafka: the broker of the run, or an embedded server. stack: closes what ends with the scene. bootstrap: the address
    that the command uses; a scene can put a proxy in between. files, words: replacements for words of commands.
    addresses: addresses of another listener or broker."""

    name: str
    kafka: Any
    java: JavaMembers
    rd: RdMembers
    admin: AdminClient
    folder: Path
    stack: contextlib.ExitStack
    bootstrap: str = ""
    files: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bootstrap = self.bootstrap or self.kafka.bootstrap

    @property
    def topic(self) -> str:
        return f"{self.name}-in"

    @property
    def port(self) -> int:
        return int(self.kafka.bootstrap.rpartition(":")[2])

    def ask(self, commands: Sequence[str], says: Sequence[str] = ()) -> list[Answer]:
        """The answers, in order. says: a command with a time limit or a window gets more time until its answer contains
        these texts (with several commands: some of them), because on a busy machine a second is too short to see
        anything."""
        normalize = Normalizer([*self.bootstrap.split(","), self.kafka.bootstrap], self.folder)
        config = self.folder / "config" / "kgm" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(ACCEPTED)
        is_enough = all if len(commands) == 1 else any
        answers = []
        for command in commands:
            for longer in (1, 4, 12) if _TIMES.search(command) else (1,):
                code, raw, seconds = self._run(command, longer)
                if is_enough(text in raw for text in says):
                    break
            shown = raw
            for address in self.addresses:
                shown = shown.replace(address, "127.0.0.1:19092")
            answers.append(Answer(command, normalize(shown), raw, code, seconds))
        return answers

    def _run(self, command: str, longer: int) -> tuple[int, str, float]:
        """Exit code, output and time of a command: kgm or curl, with variables before it and grep after it."""
        given = _TIMES.sub(lambda found: f"{found[1]} {int(found[2]) * longer}s", command)
        first, _, pattern = given.removesuffix(_SILENT).partition(" | grep ")
        words = [self.files.get(word, self.words.get(word, word)) for word in shlex.split(first)]
        environment = {
            "KGM_BOOTSTRAP_SERVER": self.bootstrap, "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_STATE_HOME": str(self.folder / "state"), "LC_ALL": "C.UTF-8", "USER": "nadia", "KGM_TIMEOUT": "3m",
            HOST_VARIABLE: HOST,
        }  # fmt: skip
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if words[0] == "kgm":
            done = kgm(*words[1:], env=environment, timeout_s=240)
            code, seconds = done.code, done.seconds
            raw = done.out + ("" if command.endswith(_SILENT) else done.err)
        else:
            assert words[:2] == ["curl", "-s"], command
            with urllib.request.urlopen(words[2], timeout=60) as answer:
                code, raw, seconds = 0, answer.read().decode(), 0.0
        if pattern:
            raw = "".join(line for line in raw.splitlines(keepends=True) if pattern in line)
        return code, raw, seconds

    def joiner(self, instance_id: str | None, *, topic: str | None = None) -> Joiner:
        """A member made of single requests."""
        one = Joiner(self.port, self.name, instance_id, topic or self.topic)
        one.rebalance_ms = REBALANCE_MS
        self.stack.callback(one.close)
        return one

    def alone(self, instance_id: str | None = "a", *, topic: str | None = None, partitions: int = 2) -> Joiner:
        """A stable group of one member, which owns all of the topic."""
        one = self.joiner(instance_id, topic=topic)
        assert one.join().error_code == 0
        assert one.sync({one.member_id: owned(one.topic, range(partitions))}).error_code == 0
        return one

    def stable(self, *instance_ids: str | None) -> list[Joiner]:
        """A stable group; member i owns partition i."""
        members = form_group(self, self.name, instance_ids, self.topic, members=self._members)
        for one in members:
            self.stack.callback(one.close)
        return members

    def _members(self) -> int:
        with connect(self.kafka.bootstrap, timeout_ms=60_000) as cluster:
            return len(cluster.describe_group(self.name, offsets=False).members)

    def until_read(self, *partitions: int) -> None:
        """Wait until members have committed everything in these partitions."""

        def are_read() -> bool:
            with connect(self.kafka.bootstrap, timeout_ms=60_000) as cluster:
                rows = cluster.describe_group(self.name).offsets
            return {row.partition for row in rows if row.committed and not row.lag} >= {*partitions}

        until(are_read, "the members do not commit what they read")

    def state(self) -> str:
        with connect(self.kafka.bootstrap, timeout_ms=60_000) as cluster:
            return cluster.describe_group(self.name, offsets=False).state

    def heartbeats(self, assignor: str = "uniform") -> HeartbeatGroup:
        """A consumer group (KIP-848) whose members are single heartbeats."""
        wire = self.stack.enter_context(WireClient(self.port))
        self.kafka.configure_group(self.name, PROMPT)
        group = HeartbeatGroup(wire, self.name, [self.topic], assignor)
        group.rebalance_timeout_ms = REBALANCE_MS
        return group

    def commit_as(self, group: HeartbeatGroup, member_id: str, offset: int) -> None:
        """Commit this offset for each partition that the member of a consumer group owns."""
        rows = [
            OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
            for numbers in group.owned[member_id].values()
            for number in numbers
        ]
        request = OffsetCommitRequest(
            group_id=self.name, generation_id_or_member_epoch=group.epochs[member_id], member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=rows)],
        )  # fmt: skip
        answer = group.wire.ask(request, version=9)
        assert {row.error_code for row in answer.topics[0].partitions} == {0}

    def has_finding(self, check: str) -> bool:
        """Whether the doctor reports a finding of this check."""
        with connect(self.kafka.bootstrap, timeout_ms=60_000) as cluster:
            return any(one.check == check for one in diagnose(cluster, [self.name], window_ms=0).findings)

    def start(self, owner: JavaMembers | RdMembers, *, settled: int = 2, **options: Any) -> Member:
        """A real client, once it owns `settled` partitions (0: immediately)."""
        defaults: dict[str, Any] = {"group": self.name, "topics": [self.topic], "config": COMMITS}
        member = owner.start(**defaults | options)
        if settled:
            wait_settled([member], settled, 60)
        return member

    def produce(self, count: int, *partitions: int, topic: str | None = None) -> None:
        """Produce `count` records to each of the partitions."""
        produce(self.kafka.bootstrap, topic or self.topic, [b"x"] * count * len(partitions), partitions)

    def commit(self, partition: int, offset: int, *, topic: str | None = None, group: str | None = None) -> None:
        """Commit an offset as a tool does, or a consumer that assigns its partitions itself."""
        with WireClient(self.port) as wire:
            request = commit_without_member(group or self.name, topic or self.topic, partition, offset)
            assert wire.ask(request, version=9).topics[0].partitions[0].error_code == 0

    def leave(self, one: Joiner) -> None:
        gone = MemberIdentity(member_id=one.member_id, group_instance_id=one.instance_id)
        assert one.wire.ask(LeaveGroupRequest(group_id=self.name, members=[gone]), version=5).error_code == 0

    def delete_records(self, partition: int, before: int) -> None:
        for done in self.admin.delete_records([TopicPartition(self.topic, partition, before)]).values():
            done.result(30)

    def delete_topic(self, topic: str) -> None:
        for done in self.admin.delete_topics([topic]).values():
            done.result(30)

    def meanwhile(self, act: Callable[[], object], every_s: float = 0.1) -> None:
        """Repeat an action until the scene ends; returns when it has been done twice."""
        ended, times = threading.Event(), [0]

        def run() -> None:
            while not ended.wait(every_s):
                act()
                times[0] += 1

        thread = threading.Thread(target=run)
        thread.start()
        self.stack.callback(thread.join, 60)
        self.stack.callback(ended.set)
        until(lambda: times[0] >= 2, "nothing is done meanwhile")

    def behind_proxy(self, backend: str | None = None) -> FaultProxy:
        """A proxy through which commands connect."""
        host, _, port = (backend or self.kafka.bootstrap).rpartition(":")
        proxy = self.stack.enter_context(FaultProxy((host, int(port))))
        self.bootstrap = proxy.bootstrap
        return proxy

    def file(self, name: str, settings: Mapping[str, str]) -> None:
        """Write a client.properties that commands refer to by this name."""
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        path.chmod(0o600)
        self.files[name] = str(path)


def owned(topic: str, partitions: Sequence[int]) -> bytes:
    return encode_assignment(MemberAssignment(partitions={topic: list(partitions)}))

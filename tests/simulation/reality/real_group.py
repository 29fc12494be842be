"""A group of real clients on a real Kafka: members by position, what is done to them, and what they report."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, TopicPartition

from kgm.client import connect
from kgm.client.admin_client import AdminClient
from kgm.client.leave_group import MemberToRemove
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import DecodeError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.struct import Message
from kgm.records.record import Record, decode_record
from tests.kafka.members import JavaMembers, Member, RdMembers
from tests.simulation.reality.case import Case, Stop

#: Errors with which a client ends when the broker refuses it.
_REFUSALS = ("UNRELEASED_INSTANCE_ID", "GROUP_ID_NOT_FOUND")
_NOT_UPGRADED = "group id does not exist"
#: How the keys of committed offsets begin.
_COMMITS = (b"\0\0", b"\0\1")
_java_lock = threading.Lock()
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the groups of one protocol have in common. topics: the names of two topics, without their number of
    partitions. kafka_version: the version that is passed to predictions."""

    prefix: str
    protocol: str
    topics: tuple[str, str]
    session_ms: int
    heartbeat_ms: int
    rebalance_ms: int
    quiet_s: float
    kafka_version: BrokerVersion | None = None


class NotFormedError(Exception):
    """The group did not reach the state with which the case begins, or did not settle at its end."""


def in_formed_group(play: Callable[[str], T], group_id: str, *, attempts: int) -> T:
    """Call `play` with a group id of its own, and with another one as long as real clients do not form the group.

    Raises NotFormedError after so many attempts."""
    for attempt in range(attempts - 1):
        try:
            return play(f"{group_id}-{attempt}")
        except NotFormedError as error:
            print(f"played again: {error}")
    return play(f"{group_id}-{attempts - 1}")


@dataclass(slots=True)
class RealGroup:
    """The members of one case. alive: the running ones, by position. own: a JVM for a Java consumer of the consumer
    protocol that will be killed, the first time."""

    case: Case
    kafka: Any
    pools: dict[str, RdMembers | JavaMembers]
    terms: Terms
    group_id: str
    is_classic: bool
    alive: dict[int, Member] = field(default_factory=dict)
    everyone: list[Member] = field(default_factory=list)
    own: dict[int, JavaMembers] = field(default_factory=dict)
    refused: int = 0
    retried_at_s: dict[int, float] = field(default_factory=dict)
    #: The time since which a position has had no process, because it was stopped or refused.
    down_since_s: dict[int, float] = field(default_factory=dict)
    refused_since_s: dict[int, float] = field(default_factory=dict)
    #: When members were killed, by name: they report nothing themselves.
    crashed_at_s: dict[str, float] = field(default_factory=dict)
    #: How long positions really were without a process that was ready to join.
    restarts_ms: list[int] = field(default_factory=list)
    retries_ms: list[int] = field(default_factory=list)
    _starting: list[tuple[Member, float, list[int]]] = field(default_factory=list)

    @property
    def topics(self) -> list[str]:
        return [f"{name}-{self.case.partitions}" for name in self.terms.topics[: self.case.topics]]

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [(topic, number) for topic in sorted(self.topics) for number in range(self.case.partitions)]

    def instance_id(self, position: int) -> str | None:
        dynamic = not self.case.static or (self.case.half_dynamic and position % 2 == 1)
        return None if dynamic else f"app-{position + 1}"

    def pool_of(self, position: int) -> RdMembers | JavaMembers:
        kind = self.case.kind
        if kind == "both":
            kind = "java" if position % 2 else "rd"
        return self.own.get(position) or self.pools[kind]

    # -- doing

    def form(self) -> None:
        """Start all members, and wait until every partition is owned. Raises NotFormedError if a member was refused, or
        the group does not settle."""
        began = time.monotonic()
        for position in range(self.case.members):
            self.start(position)
        try:
            self.wait_stable(with_lingering=True)
        except TimeoutError as error:
            raise NotFormedError(str(error)) from error
        if self.refused:
            raise NotFormedError(f"{self.case}: a member was refused at first:\n" + "\n".join(self.story(began)))

    def start(self, position: int) -> None:
        """Start a process, and note how long the one before has been away."""
        case = self.case
        with _java_lock:
            member = self.pool_of(position).start(
                group=self.group_id, topics=self.topics, instance_id=self.instance_id(position),
                assignor=case.assignor if self.is_classic or not case.migrate else None,
                protocol="classic" if self.is_classic else "consumer",
                client_id="app" if case.shared_client_id else f"app-{position + 1}",
                session_timeout_ms=self.terms.session_ms, heartbeat_interval_ms=self.terms.heartbeat_ms,
                max_poll_interval_ms=self.terms.rebalance_ms,
            )  # fmt: skip
        self.alive[position] = member
        self.everyone.append(member)
        for since_s, spans in ((self.down_since_s, self.restarts_ms), (self.refused_since_s, self.retries_ms)):
            if position in since_s:
                self._starting.append((member, since_s.pop(position), spans))

    def stop(self, positions: Sequence[int], how: Stop) -> None:
        """Stop these members at the same time, and wait until they have stopped."""
        going = {position: self.alive.pop(position) for position in positions}
        threads = [
            threading.Thread(target=self._stop, args=(position, member, how)) for position, member in going.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for position in positions:
            self.own.pop(position, None)

    def _stop(self, position: int, member: Member, how: Stop) -> None:
        asked_s = time.monotonic()
        if how is Stop.CRASH:
            member.crash()
            self.crashed_at_s[member.name] = asked_s
        else:
            member.close()
        closed = member.of_kind("closed")
        self.down_since_s[position] = closed[-1].at_s if closed else asked_s

    def leavers(self, positions: Sequence[int]) -> list[MemberToRemove]:
        """The members as `kgm remove-members` names them: static ones by instance id alone, dynamic ones (which must
        still be alive) by member id."""
        return [
            MemberToRemove(member_id=self.alive[position].member_id)
            if (name := self.instance_id(position)) is None
            else MemberToRemove(group_instance_id=name)
            for position in positions
        ]

    def remove(self, leavers: Sequence[MemberToRemove]) -> None:
        """One LeaveGroup, as `kgm remove-members` sends it."""
        with connect(self.kafka.bootstrap, timeout_ms=20_000) as cluster:
            cluster.leave_group(self.group_id, list(leavers), reason="test", deadline=cluster.deadline)

    def carry_out(self) -> GroupSnapshot:
        """Carry out the case's actions, and wait until the group is stable."""
        case = self.case
        new = range(case.members, case.members + case.scale_out)
        if case.scale_in or case.remove:
            leavers = self.leavers(case.remove)
            self.stop((*case.scale_in, *case.remove), case.stop)
            if leavers:
                self.remove(leavers)
        for position in new:
            self.start(position)
        for batch in case.batches:
            self.stop(batch, case.stop)
            time.sleep(case.restart_ms / 1000)
            if case.freed:
                self.remove(self.leavers(batch))
            for position in batch:
                self.start(position)
            if case.rolling is not None:
                self.wait_stable(with_lingering=False, quiet_s=0.5)
                time.sleep(case.rolling.pause_ms / 1000)
        return self.wait_stable(with_lingering=True)

    # -- looking

    def describe(self, cluster: AdminClient) -> GroupSnapshot:
        cluster.renew()
        try:
            return cluster.describe_group(self.group_id, offsets=False)
        except NotFoundError:  # no member has joined yet
            return GroupSnapshot(group_id=self.group_id, type=self.terms.protocol, state="Dead")

    def identities(self, snapshot: GroupSnapshot) -> dict[int, str]:
        """The identity at each position, of the members that are alive."""
        by_member_id = {member.member_id: member.identity for member in snapshot.members}
        return {position: by_member_id[member.member_id] for position, member in self.alive.items()}

    def wait_stable(
        self, *, with_lingering: bool, timeout_s: float = 100.0, quiet_s: float | None = None
    ) -> GroupSnapshot:
        """Wait until the group is Stable, all running processes are members, every partition is owned once, and this
        persists.

        with_lingering: also wait until stopped processes are no longer members."""
        quiet_s = self.terms.quiet_s if quiet_s is None else quiet_s
        with connect(self.kafka.bootstrap, timeout_ms=20_000) as cluster:
            return self._stable(cluster, with_lingering, timeout_s, quiet_s)

    def _stable(self, cluster: AdminClient, with_lingering: bool, timeout_s: float, quiet_s: float) -> GroupSnapshot:
        began = time.monotonic()
        since: float | None = None
        last: tuple[Any, ...] | None = None
        while True:
            self._see_to_refused()
            owned = sorted(partition for member in self.alive.values() for partition in member.assignment)
            # Asking members costs nothing: the broker is asked once they own what they should.
            snapshot = self.describe(cluster) if owned == (self.partitions if self.alive else []) else None
            ids = set() if snapshot is None else {member.member_id for member in snapshot.members}
            now = (snapshot and snapshot.state, snapshot and snapshot.group_epoch, sorted(ids), owned)
            if snapshot is not None and self._is_stable(snapshot, ids, with_lingering=with_lingering):
                if now != last:
                    since, last = time.monotonic(), now
                elif since is not None and time.monotonic() - since >= quiet_s:
                    self._note_starts()
                    return snapshot
            else:
                since = last = None
            if time.monotonic() > began + timeout_s:
                raise TimeoutError(f"{self.case}: not stable: {now}\n" + "\n".join(self.story(began)))
            time.sleep(0.15)

    def _is_stable(self, snapshot: GroupSnapshot, ids: set[str], *, with_lingering: bool) -> bool:
        """Whether the running processes, which own all partitions, are the members, and the group is at rest."""
        live = {member.member_id for member in self.alive.values()}
        are_members = live == ids if with_lingering else live <= ids
        if not self.alive:
            return snapshot.state in ("Empty", "Dead") and not ids and not self.retried_at_s
        states = ("Stable",) if with_lingering else ("Stable", "Reconciling")
        return snapshot.state in states and are_members and "" not in live and not self.retried_at_s

    def _see_to_refused(self) -> None:
        """Note refused clients, which have ended, and start them again after a while if the case says so."""
        for position, member in list(self.alive.items()):
            if member.fatal is not None:
                fatal = member.of_kind("fatal")[0]
                assert member.fatal in _REFUSALS or _NOT_UPGRADED in fatal.data["message"], fatal.data
                self.refused += 1
                del self.alive[position]
                if self.case.retry_ms is not None:
                    self.refused_since_s[position] = fatal.at_s
                    self.retried_at_s[position] = fatal.at_s + self.case.retry_ms / 1000
        for position, at_s in list(self.retried_at_s.items()):
            if time.monotonic() >= at_s:
                del self.retried_at_s[position]
                self.start(position)

    def _note_starts(self) -> None:
        for member, since_s, spans in self._starting:
            spans.append(round((member.of_kind("started")[0].at_s - since_s) * 1000))
        self._starting.clear()

    def stopped_ms(self, started: float, ended: float) -> int:
        """How long partitions had no consumer, added up in ms, as the members themselves report."""
        total = 0.0
        for partition in self.partitions:
            spans = []
            for member in self.everyone:
                since = None
                for event in member.events:
                    has = partition in event.assignment and event.kind not in ("closed", "fatal")
                    if has and since is None:
                        since = event.at_s
                    elif not has and since is not None:
                        spans.append((since, event.at_s))
                        since = None
                if since is not None:
                    last_s = self.crashed_at_s.get(member.name, member.events[-1].at_s)
                    gone = last_s if member not in self.alive.values() else ended
                    spans.append((since, gone))
            covered = started
            for since, until in sorted(spans):
                if until <= covered:
                    continue
                total += max(since - covered, 0.0)
                covered = until
            total += max(ended - covered, 0.0) if covered < ended and self.alive else 0.0
        return round(total * 1000)

    def handovers(self, started: float) -> int:
        """How often since `started` a member got a partition that another one had before, as the members themselves
        report. A process with the instance id of an earlier one counts as the same consumer."""
        taken = []
        for number, member in enumerate(self.everyone):
            before: frozenset[Any] = frozenset()
            for event in member.events:
                identity = member.options.instance_id or f"process {number}"
                taken += [(event.at_s, partition, identity) for partition in event.assignment - before]
                before = event.assignment
        owner_of: dict[Any, str] = {}
        count = 0
        for at_s, partition, identity in sorted(taken):
            count += at_s >= started and owner_of.get(partition, identity) != identity
            owner_of[partition] = identity
        return count

    def story(self, started: float) -> tuple[str, ...]:
        """The events that the members report, with times in ms since `started`."""
        rows = []
        for member in self.everyone:
            for event in member.events:
                if event.at_s >= started - 0.5 and event.kind != "polled":
                    at = round((event.at_s - started) * 1000)
                    owned = sorted(p for _, p in event.assignment)
                    rows.append((at, f"{at} {member.name} {event.kind} {owned} {event.data.get('error', '')}"))
        return tuple(text for _, text in sorted(rows))


def group_values(group: RealGroup) -> list[Message | None]:
    """The values of all records of a group in `__consumer_offsets` except commits, in order."""
    return values_by_group(group.kafka.bootstrap, group.group_id)[group.group_id]


def values_by_group(bootstrap: str, part: str) -> Mapping[str, list[Message | None]]:
    """The values of all records in `__consumer_offsets` except commits, by group, in order. part: a text that the ids
    of these groups contain; other groups share the broker."""
    values: defaultdict[str, list[Message | None]] = defaultdict(list)
    for record in _records(bootstrap, part.encode()):
        group_id = getattr(record.key, "group", None) or getattr(record.key, "group_id", None)
        if group_id is not None:
            values[group_id].append(record.value)
    return values


def _records(bootstrap: str, part: bytes) -> Iterator[Record]:
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 2}
    )
    try:
        topic = "__consumer_offsets"
        ends = {}
        for partition in reader.list_topics(topic, timeout=10).topics[topic].partitions:
            _, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            if high:
                ends[partition] = high
        reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while ends:
            message = reader.poll(10)
            assert message is not None, "the log ends early"
            assert message.error() is None, message.error()
            if message.offset() + 1 >= ends.get(message.partition(), 1 << 60):
                ends.pop(message.partition(), None)
            if part in message.key() and message.key()[:2] not in _COMMITS:
                with contextlib.suppress(DecodeError):
                    yield decode_record(message.key(), message.value())
    finally:
        reader.close()

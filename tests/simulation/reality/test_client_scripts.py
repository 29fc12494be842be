"""Scripted members held against real clients: what they send to the coordinator when they are closed, when they start
again, and when they go on after a pause.

Two members of each group share one partition, so that one of them has none. A proxy in front of each of them records
its requests."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.struct import Message
from kgm.server import EmbeddedServer, serve_in_thread
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Stop, WhatIf
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.client_profiles import PROFILES
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from tests.client.faults import FaultProxy
from tests.kafka.members import JavaMembers, Member, RdMember, RdMembers, members_of
from tests.selection import sized
from tests.simulation.groups import DYNAMIC, STATIC, made_up
from tests.simulation.play.manual_world import ManualWorld
from tests.waiting import until

pytestmark = [pytest.mark.scenes, pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(600)]

ALL_KINDS = [
    (assignor, membership)
    for assignor in ("range", "roundrobin", "cooperative-sticky", "uniform")
    for membership in (STATIC, DYNAMIC)
]
#: Without `--long`, both memberships of an eager, a cooperative and the new protocol.
KINDS = sized([kind for kind in ALL_KINDS if kind[0] != "roundrobin"], ALL_KINDS)
#: Of those that are paused: each assignor once.
PAUSED_KINDS = sized([("range", DYNAMIC), ("cooperative-sticky", STATIC), ("uniform", DYNAMIC)], ALL_KINDS)
_OWNER, _IDLE = "a", "b"
_CALM = 3
"""A member that has sent so many heartbeats since it joined knows its assignment."""


def described(message: Message, version: int) -> tuple[object, ...] | None:
    """What matters of a request to join or to leave a group; None for other requests."""
    match message:
        case JoinGroupRequest():
            return "JoinGroup", version, bool(message.member_id)
        case LeaveGroupRequest():
            return "LeaveGroup", version, [each.reason for each in message.members]
        case ConsumerGroupHeartbeatRequest() if message.member_epoch <= 0:
            return "ConsumerGroupHeartbeat", message.member_epoch
        case _:
            return None


# -- what real clients send


@dataclass(slots=True, kw_only=True)
class RealMember:
    """A client behind a proxy of its own."""

    proxy: FaultProxy
    member: Member

    def requests(self, since: int) -> list[tuple[object, ...]]:
        rows = [described(one.message, one.version) for one in self.proxy.seen[since:]]
        return [row for row in rows if row is not None]

    @property
    def heartbeats(self) -> int:
        return sum(one.api.name in ("HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT") for one in self.proxy.seen)


class RealGroup:
    """An owner and a member without partitions."""

    def __init__(
        self, server: EmbeddedServer, pool: RdMembers | JavaMembers, group_id: str, assignor: str,
        membership: Membership, stack: ExitStack,
    ) -> None:  # fmt: skip
        self.server, self.pool, self.group_id = server, pool, group_id
        self.assignor, self.membership, self.stack = assignor, membership, stack
        self.session_timeout_ms = 30_000
        self.members: dict[str, RealMember] = {}

    def start(self, name: str) -> RealMember:
        """Start a client of that name."""
        proxy = self.stack.enter_context(FaultProxy((self.server.host, self.server.port)))
        member = self.pool.start(
            group=self.group_id, topics=["one"], client_id=name, assignor=self.assignor,
            instance_id=name if self.membership is STATIC else None,
            protocol="consumer" if self.assignor == "uniform" else "classic",
            session_timeout_ms=self.session_timeout_ms, heartbeat_interval_ms=300, config={"bootstrap.servers": proxy.bootstrap},
        )  # fmt: skip
        self.members[name] = RealMember(proxy=proxy, member=member)
        return self.members[name]

    def wait_calm(self, *names: str) -> None:
        """Wait until the members heartbeat in a Stable group, and the owner has its partition."""

        def is_stable() -> bool:
            view = self.server.inspect(lambda groups: groups.group(self.group_id))
            if view is None or len(self.members[_OWNER].member.assignment) != 1:
                return False
            # A consumer group is reconciling as long as the seat of a static member that was closed is kept for it.
            is_kept = any(one.consumer and one.consumer.member_epoch == -2 for one in view.members)
            return view.state == "Stable" or is_kept

        for name in names:
            until(is_stable, f"{self.group_id} is not stable", 60)
            one = self.members[name]
            before = one.heartbeats
            until(lambda one=one, before=before: one.heartbeats >= before + _CALM, "no heartbeats", 60)
        until(is_stable, f"{self.group_id} is not stable", 60)

    def sent_when_closed(self, name: str) -> list[tuple[object, ...]]:
        one = self.members[name]
        since = len(one.proxy.seen)
        one.member.close()
        return one.requests(since)

    @property
    def requests_of_a_join(self) -> int:
        """How many requests it takes until a member waits for others."""
        return 2 if self.assignor != "uniform" and self.membership is DYNAMIC else 1

    def sent_since(self, count: int) -> list[tuple[object, ...]]:
        """What the owner has sent since it had sent so many requests, until it waits for others."""
        one = self.members[_OWNER]
        until(lambda: len(one.requests(count)) >= self.requests_of_a_join, "it does not join", 60)
        return one.requests(count)[: self.requests_of_a_join]

    def has_no_members(self) -> bool:
        view = self.server.inspect(lambda groups: groups.group(self.group_id))
        return view is None or not view.members

    def sent_when_started(self, name: str) -> list[tuple[object, ...]]:
        """What it sends until it waits for others."""
        one = self.start(name)
        count = self.requests_of_a_join
        until(lambda: len(one.requests(0)) >= count, "it does not join", 60)
        return one.requests(0)[:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the members of one group sent, by name, or when the owner started again."""

    closed: dict[str, list[tuple[object, ...]]]
    started: list[tuple[object, ...]]


Kind = tuple[Library, str, Membership]
#: Whose consumers run here as they are.
PLAYED = (Library.JAVA, Library.LIBRDKAFKA)


@pytest.fixture(scope="module")
def sent() -> Iterator[dict[Kind, Sent]]:
    """What real clients sent, of all kinds."""
    settings = BrokerSettings(
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=500,
        group_consumer_heartbeat_interval_ms=300,
        group_consumer_min_heartbeat_interval_ms=100,
    )
    results: dict[Kind, Sent] = {}
    with ExitStack() as stack:
        server = serve_in_thread(topics={"one": 1}, settings=settings)
        stack.callback(server.close)
        for library in PLAYED:
            with members_of(library.value, server.bootstrap) as pool, ThreadPoolExecutor(4) as threads:
                groups = {
                    (library, *kind): RealGroup(server, pool, "-".join(map(str, (library, *kind))), *kind, stack)
                    for kind in KINDS
                }
                results |= dict(zip(groups, threads.map(played, groups.values()), strict=True))
        yield results


def played(group: RealGroup) -> Sent:
    """Close the member without partitions, then the owner, and start the owner again."""
    group.start(_OWNER).member.wait_assigned(1)
    group.start(_IDLE)
    group.wait_calm(_OWNER, _IDLE)
    closed = {_IDLE: group.sent_when_closed(_IDLE)}
    group.wait_calm(_OWNER)
    closed[_OWNER] = group.sent_when_closed(_OWNER)
    return Sent(closed=closed, started=group.sent_when_started(_OWNER))


# -- what scripted members send


def scripted(kind: Kind, *, owns: bool) -> tuple[ScriptedClassicMember | ScriptedConsumerMember, ManualWorld]:
    library, assignor, membership = kind
    is_consumer = assignor == "uniform"
    what_if = WhatIf(protocol=GroupProtocol.CONSUMER) if is_consumer else WhatIf()
    snapshot = made_up(2, 1, membership, "range" if is_consumer else assignor, library=library.value)
    group = starting_group_of(snapshot, what_if)
    (spec,) = (member for member in group.members if any(member.owned.values()) is owns)
    world = ManualWorld(group)
    one = (ScriptedConsumerMember if is_consumer else ScriptedClassicMember)(world, spec, PROFILES[library])
    one.be_member()
    return one, world


def requests(world: ManualWorld) -> list[tuple[object, ...]]:
    rows = [described(message, version) for message, version, _ in world.sent]
    return [row for row in rows if row is not None]


@pytest.mark.few(6)
@pytest.mark.parametrize("library", PLAYED, ids=lambda library: library.value)
@pytest.mark.parametrize(("assignor", "membership"), KINDS)
def test_scripted_members_send_what_real_clients_send(sent, library, assignor, membership):
    kind = (library, assignor, membership)
    for name, owns in ((_OWNER, True), (_IDLE, False)):
        one, world = scripted(kind, owns=owns)
        one.stop(Stop.CLEAN)
        assert requests(world) == sent[kind].closed[name], "partitions" if owns else "no partitions"
    one, world = scripted(kind, owns=True)
    one.stop(Stop.CLEAN)
    world.sent.clear()
    one.start()
    while not requests(world):
        world.run_next()
    if sent[kind].started[0][0] == "JoinGroup" and membership is DYNAMIC:
        world.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
        while len(requests(world)) == 1:
            world.run_next()
    assert requests(world) == sent[kind].started


def test_a_member_that_owns_nothing_is_one_of_the_real_ones(sent):
    """The rule that differs between the libraries was seen."""
    kinds = {library: (library, "cooperative-sticky", DYNAMIC) for library in PLAYED}
    assert [bool(sent[kinds[library]].closed[_IDLE]) for library in (Library.JAVA, Library.LIBRDKAFKA)] == [True, False]


# -- a process that is paused until its session has ended, and goes on


_SESSION_MS = 3_000


def pause(groups: Collection[RealGroup], pool: RdMembers | JavaMembers) -> None:
    """Stop the processes of the owners (SIGSTOP) until the groups have removed them, and let them go on."""
    owners = [cast("RdMember", group.members[_OWNER].member) for group in groups]
    # All Java members run in one process.
    pids = [pool.pid] if isinstance(pool, JavaMembers) else [owner.pid for owner in owners]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for group in groups:
            until(group.has_no_members, f"{group.group_id} has members", 60)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def sent_after_pause() -> Iterator[dict[Kind, list[tuple[object, ...]]]]:
    """What the owner sent when it went on, until it waited for others, of all kinds."""
    settings = BrokerSettings(
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=500,
        group_consumer_heartbeat_interval_ms=300,
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_session_timeout_ms=_SESSION_MS,
        group_consumer_min_session_timeout_ms=500,
    )
    results: dict[Kind, list[tuple[object, ...]]] = {}
    with ExitStack() as stack:
        server = serve_in_thread(topics={"one": 1}, settings=settings)
        stack.callback(server.close)
        for library in PLAYED:
            with members_of(library.value, server.bootstrap) as pool:
                groups = {
                    (library, *kind): RealGroup(
                        server, pool, "-".join(map(str, ("pause", library, *kind))), *kind, stack
                    )
                    for kind in PAUSED_KINDS
                }
                for group in groups.values():
                    group.session_timeout_ms = _SESSION_MS
                    group.start(_OWNER)
                for group in groups.values():
                    group.wait_calm(_OWNER)
                seen = {kind: len(group.members[_OWNER].proxy.seen) for kind, group in groups.items()}
                pause(groups.values(), pool)
                for kind, group in groups.items():
                    results[kind] = group.sent_since(seen[kind])
        yield results


@pytest.mark.few(3)
@pytest.mark.parametrize("library", PLAYED, ids=lambda library: library.value)
@pytest.mark.parametrize(("assignor", "membership"), PAUSED_KINDS)
def test_scripted_members_come_back_from_a_pause_as_real_clients_do(sent_after_pause, library, assignor, membership):
    kind = (library, assignor, membership)
    one, world = scripted(kind, owns=True)
    is_consumer = assignor == "uniform"
    before = len(requests(world))
    # The heartbeat with which it goes on.
    if isinstance(one, ScriptedConsumerMember):
        one._on_beat(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        one._on_beat(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    while len(requests(world)) == before:
        world.run_next()
    if not is_consumer and membership is DYNAMIC:
        world.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
        while len(requests(world)) == before + 1:
            world.run_next()
    assert requests(world)[before:] == sent_after_pause[kind]

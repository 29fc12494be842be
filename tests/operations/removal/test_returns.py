"""Members that join again after their removal: how long kgm waits for them, and how it knows dynamic ones, to which the
group gives a new member id, so that only the client id and the host say who they are."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kgm.model.client_library import ClientLibrary, stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.report import ChangeReport
from kgm.operations.change.result import Result
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.request import RemovalRequest
from kgm.operations.removal.returns import longest_return_ms
from kgm.protocol.apis import ApiKey
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import TOPIC, ClassicMember, DirectWire, World, form_classic
from tests.operations.removal.test_guard_simulator import Process

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"


def running(world: World, member: ClassicMember) -> Process:
    """A process that only sends heartbeats, and joins again when it has to."""
    return Process(world, member, 0, "paused", 5.0, random.Random(0))


def remove(world: World, *member_ids: str, meanwhile: Callable[[], None] = lambda: None) -> ChangeReport[MemberResult]:
    request = RemovalRequest(group_id=GROUP, member_ids=member_ids, assume_stopped=True, guard_window_ms=1_000)
    with world.client() as client:
        prepared = removal.prepare(client, request, clock=world.clock)
        meanwhile()
        return removal.execute(
            client, prepared, operator=ALICE, audit=None, sleep=world.pass_by, clock=world.clock
        )  # fmt: skip


def joins_after_removal(world: World, member: ClassicMember, *, after_s: float = 0.0) -> None:
    """The member joins so long after a LeaveGroup has been answered."""
    removed_s: list[float] = []

    def act() -> None:
        if ApiKey.LEAVE_GROUP in world.sent:
            removed_s.append(world.now_s)
        if removed_s and world.now_s - removed_s[0] >= after_s:
            world.actors.remove(act)
            member.send_join()

    world.actors.append(act)


def test_a_running_process_joins_again_and_has_returned():
    world = World()
    a, b = form_classic(world.cluster, GROUP, [None, "b"])
    world.actors = [running(world, a).act, running(world, b).act]
    removed_id = a.member_id
    report = remove(world, removed_id)
    (one,) = report.results
    assert (one.result, report.exit_code) == (Result.RETURNED, 7)
    assert a.member_id != removed_id
    ((shown, _),) = [member for member in world.cluster.members(GROUP) if member[1] is None]
    assert shown in one.note


def test_so_has_a_running_consumer_of_kip_848_which_keeps_its_member_id():
    world = World()
    group = HeartbeatGroup(DirectWire(world.cluster), GROUP, [TOPIC], "uniform")  # type: ignore[arg-type]
    group.join("a-id", None)
    group.heartbeat_until_stable()

    def act() -> None:
        if not world.cluster.members(GROUP):
            group.join("a-id", None)

    world.actors.append(act)
    report = remove(world, "a-id")
    assert ([one.result for one in report.results], report.exit_code) == ([Result.RETURNED], 7)


@pytest.mark.parametrize(
    ("instance_id", "client_id", "wanted", "code"),
    [
        (None, "c", Result.RETURNED, 7),
        (None, "another", Result.REMOVED, 0),
        ("new", "c", Result.REMOVED, 0),
    ],
)
def test_who_joins_after_the_removal_of_a_member_whose_process_does_not_run(instance_id, client_id, wanted, code):
    world = World()
    a, b = form_classic(world.cluster, GROUP, [None, "b"])
    world.actors = [running(world, b).act]
    joins_after_removal(world, ClassicMember(world.cluster, GROUP, instance_id, client_id=client_id))
    report = remove(world, a.member_id)
    assert ([one.result for one in report.results], report.exit_code) == ([wanted], code)
    assert len(world.cluster.members(GROUP)) == 2


def test_a_process_that_joined_before_the_request_is_no_return():
    """A new process of the same client, which joins while the operator is asked."""
    world = World()
    a, b = form_classic(world.cluster, GROUP, [None, "b"])
    world.actors = [running(world, b).act]
    report = remove(world, a.member_id, meanwhile=ClassicMember(world.cluster, GROUP, None).send_join)
    assert len(world.cluster.members(GROUP)) == 2
    assert ([one.result for one in report.results], report.exit_code) == ([Result.REMOVED], 0)


def test_one_newcomer_is_the_return_of_one_member():
    world = World()
    a, b, c = form_classic(world.cluster, GROUP, [None, None, "c"])
    world.actors = [running(world, c).act]
    joins_after_removal(world, ClassicMember(world.cluster, GROUP, None))
    report = remove(world, a.member_id, b.member_id)
    assert sorted(one.result for one in report.results) == [Result.REMOVED, Result.RETURNED]
    assert report.exit_code == 7


#: What a member of kafka-go and one of librdkafka sent (tests/data/client_bytes.json), with the topic of these tests.
KAFKA_GO = bytes.fromhex("0001000000010006") + TOPIC.encode() + bytes.fromhex("ffffffff")
LIBRDKAFKA = bytes.fromhex("0003000000010006") + TOPIC.encode() + bytes.fromhex("0000000000000000ffffffff0000")


@pytest.mark.parametrize(
    ("metadata", "after_s", "wanted", "code"),
    [
        # Seen with kafka-go 0.4.51: an idle reader was back 8 s after its removal. Its fetches of up to 10 s have to
        # end, and a member that was removed waits for 5 s more (JoinGroupBackoff).
        (KAFKA_GO, 8.0, Result.RETURNED, 7),
        (KAFKA_GO, 17.8, Result.RETURNED, 7),
        (KAFKA_GO, 25.0, Result.REMOVED, 0),
        (LIBRDKAFKA, 3.0, Result.RETURNED, 7),
        (LIBRDKAFKA, 8.0, Result.REMOVED, 0),
        # Nothing that kgm knows sends this: it may be as late as the latest that it knows.
        (b"\0\5", 17.8, Result.RETURNED, 7),
    ],
)
def test_a_member_is_awaited_for_as_long_as_its_library_may_take(metadata, after_s, wanted, code):
    world = World()
    a, b = form_classic(world.cluster, GROUP, [None, None], metadata=metadata)
    world.actors = [running(world, b).act]
    back = ClassicMember(world.cluster, GROUP, None)
    back.metadata = metadata
    joins_after_removal(world, back, after_s=after_s)
    report = remove(world, a.member_id)
    assert ([one.result for one in report.results], report.exit_code) == ([wanted], code)


@pytest.mark.parametrize(
    ("group", "member", "wait_ms"),
    [
        ({}, {"client_library": stated_library("java")}, 4_000),
        ({}, {"client_library": stated_library("kafkajs")}, 9_000),
        ({}, {"client_library": ClientLibrary(candidates=("kafka-go", "platformatic"))}, 19_000),
        ({}, {"client_library": ClientLibrary()}, 19_000),
        # kafka-go and kafkajs have no static members, and nothing but consumers of classic groups.
        ({}, {"client_library": ClientLibrary(), "group_instance_id": "a"}, 4_000),
        ({"protocol_type": "connect"}, {}, 4_000),
        ({"type": "consumer"}, {"client_library": ClientLibrary()}, 6_000),
        ({"type": "consumer"}, {"client_library": stated_library("kafka-go"), "protocol": "classic"}, 19_000),
    ],
)
def test_how_long_each_member_is_awaited(group, member, wait_ms):
    """A heartbeat (by default every 3 s, KIP-848: 5 s) and 1 s more; kafkajs ends a fetch of 5 s first (runner.js),
    kafka-go one of 10 s, and then waits for 5 s (reader.go, consumergroup.go)."""
    snapshot = GroupSnapshot(
        **{"group_id": GROUP, "type": "classic", "protocol_type": "consumer", "state": "Stable"} | group
    )
    assert longest_return_ms(snapshot, MemberSnapshot(**{"member_id": "a-1", "client_id": "a"} | member)) == wait_ms

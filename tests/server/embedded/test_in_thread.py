"""A server in a thread: what a test sees of its groups, what it waits for, and what it can do to the brokers."""

import contextlib
import threading

import pytest

from kgm.client import connect
from kgm.model.assignment import Move
from kgm.model.errors import ConditionNotMet, KgmError, UsageError
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.server import Limits, serve_in_thread
from kgm.server.cluster.topics import topic_id
from kgm.testing import QUICK_SETTINGS
from tests.client.joiners import Joiner, form_group
from tests.server.wire_client import WireClient

#: What a request tells, and the server's own view does not: the place in the answer.
ONLY_DESCRIBED = {"listed_at": None, "listed_target": None}


@pytest.fixture
def server():
    warnings = []
    with serve_in_thread(topics={"t": 6}, settings=QUICK_SETTINGS, brokers=2, warn=warnings.append) as running:
        yield running
    assert warnings == []


@pytest.fixture
def form(server):
    """Form a group on its coordinator: `form("a", "b")`; member i owns partition i. Its joiners are closed at the end."""
    with contextlib.ExitStack() as stack:

        def form(*instance_ids):
            server.move_coordinator("g", 1)  # where joiners connect
            joiners = form_group(server, "g", instance_ids, "t")
            for joiner in joiners:
                stack.callback(joiner.close)
            return joiners

        yield form


def rejoin(server, instance_id):
    """A static member starts again; it is answered at once, as nothing changes."""
    joiner = Joiner(server.port, "g", instance_id, "t")
    assert joiner.join().error_code == 0
    return joiner


def leave(joiner):
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joiner.member_id)])
    assert joiner.wire.ask(request).error_code == 0


def leader_of(joiners):
    return next(joiner for joiner in joiners if joiner.member_id == joiner.leader)


def rebalance(server, joiners, owned):
    """All join again; then the members own these partitions, by position."""
    leader = leader_of(joiners)
    leader.send_join()  # only the leader's JoinGroup causes a rebalance if nothing else changes
    server.wait_for_group("g", lambda group: group.state == "PreparingRebalance" or len(joiners) == 1)
    for joiner in joiners:
        if joiner is not leader:
            joiner.send_join()
    for joiner in joiners:
        assert joiner.receive_join().error_code == 0
    blobs = {
        joiner.member_id: encode_assignment(MemberAssignment(partitions={"t": partitions}))
        for joiner, partitions in zip(joiners, owned, strict=True)
    }
    for joiner in sorted(joiners, key=lambda one: one.member_id != one.leader):  # the leader first
        assert joiner.sync(blobs if joiner.member_id == joiner.leader else None).error_code == 0


def as_described(server, group_id):
    """The group as `kgm describe` shows it."""
    with connect(server.bootstrap, timeout_ms=10_000) as cluster:
        return cluster.describe_group(group_id).to_json()


def comparable(group):
    """What both sources know."""
    timeouts = {"session_timeout_ms": None, "rebalance_timeout_ms": None} if group["type"] == "classic" else {}
    rows = [{**member, **ONLY_DESCRIBED, **timeouts} for member in group["members"]]
    return {**group, "generation": None, **timeouts, "members": rows}


# -- snapshots


def test_a_group_that_does_not_exist_is_none(server):
    assert server.group("g") is None


def test_a_classic_group_is_as_kgm_describes_it_and_has_its_generation(server, form):
    a, b = form("a", "b")
    assert a.commit(0, 5) == 0
    group = server.group("g")
    assert (group.type, group.state, group.generation, group.assignor) == ("classic", "Stable", 2, "range")
    assert {member.identity: member.assignment for member in group.members} == {"a": {"t": (0,)}, "b": {"t": (1,)}}
    assert comparable(group.to_json()) == comparable(as_described(server, "g"))
    leader_of([a, b]).send_join()
    rebalancing = server.wait_for_group("g", lambda group: group.state == "PreparingRebalance")
    assert [(member.status, member.topics) for member in rebalancing.members] == [("reconciling", None)] * 2
    assert comparable(rebalancing.to_json()) == comparable(as_described(server, "g"))


def test_a_consumer_group_is_as_kgm_describes_it(server):
    server.move_coordinator("c", 1)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="c", member_id="m", member_epoch=0, instance_id="i", rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"], topic_partitions=[],
    )  # fmt: skip
    with WireClient(server.port) as wire:
        told = wire.ask(beat)
        assert told.error_code == 0
        group = server.wait_until_stable("c", members=1)
        assert (group.type, group.generation, group.group_epoch) == ("consumer", None, told.member_epoch)
        assert group.members[0].assignment == {"t": (0, 1, 2, 3, 4, 5)}
        assert comparable(group.to_json()) == comparable(as_described(server, "c"))
        owned = [TopicPartitions(topic_id=topic_id("t"), partitions=list(range(6)))]
        away = ConsumerGroupHeartbeatRequest(
            group_id="c", member_id="m", member_epoch=-2, instance_id="i", topic_partitions=owned
        )
        assert wire.ask(away).error_code == 0
        group = server.wait_for_group("c", lambda group: group.members[0].status == "away")
        assert comparable(group.to_json()) == comparable(as_described(server, "c"))


# -- waiting


def test_a_condition_is_checked_after_each_event(server, form):
    """No state between two events is missed."""
    (a,) = form("a")
    states = []

    def condition(group):
        states.append(group.state)
        return group.state == "Stable" and group.generation == 2

    waiting = threading.Thread(target=server.wait_for_group, args=("g", condition))
    waiting.start()
    while not states:
        pass
    rebalance(server, [a], [[0]])
    waiting.join()
    assert [state for n, state in enumerate(states) if [*states[:n][-1:]] != [state]] == [
        "Stable",
        "CompletingRebalance",
        "Stable",
    ]


def test_a_wait_that_fails_says_what_there_was_instead(server, form):
    with pytest.raises(ConditionNotMet) as caught:
        server.wait_until_stable("g", timeout_s=0.01)
    assert str(caught.value) == "group g was not stable within 0.01 s: it does not exist"
    form("a")
    with pytest.raises(ConditionNotMet) as caught:
        server.wait_until_stable("g", members=2, timeout_s=0.01)
    assert str(caught.value) == "group g was not stable with 2 members within 0.01 s: it is Stable, with 1 members"
    assert server._server.driver.observers == []


def test_what_a_condition_raises_reaches_the_test(server, form):
    form("a")
    for error in (ZeroDivisionError, TimeoutError):

        def wrong(_group, error=error):
            raise error

        with pytest.raises(error):
            server.wait_for_group("g", wrong)
    assert server.wait_until_stable("g").members[0].identity == "a"


def test_meanwhile_is_called_in_the_thread_of_the_test(server, form):
    (a,) = form("a")
    threads = []

    def meanwhile():
        threads.append(threading.current_thread())
        if len(threads) == 2:
            leave(a)

    server.wait_for_group("g", lambda group: group.state == "Empty", meanwhile=meanwhile)
    assert threads == [threading.current_thread()] * len(threads)
    assert len(threads) >= 2
    with pytest.raises(ConditionNotMet):
        server.wait_until_stable("g", timeout_s=0.01, meanwhile=lambda: threads.append(None))
    assert threads[-1] is None


# -- watching


def test_a_restart_of_a_static_member_is_no_rebalance_and_moves_nothing(server, form):
    form("a", "b")
    with server.watch_group("g") as watch:
        assert watch.replaced == frozenset()
        with contextlib.closing(rejoin(server, "b")):
            assert watch.wait_until_bounced("b").generation == 2
    assert watch.replaced == {"b"}
    assert (watch.rebalances, watch.moves) == (0, ())
    assert [member.identity for member in watch.before.members] == ["a", "b"]


def test_all_static_members_of_the_start_have_to_come_back(server, form):
    form("a", "b")
    with server.watch_group("g") as watch, contextlib.closing(rejoin(server, "b")):
        with pytest.raises(ConditionNotMet, match="not stable after a restart of a, b within"):
            watch.wait_until_bounced(timeout_s=0.01)
        with contextlib.closing(rejoin(server, "a")):
            watch.wait_until_bounced()


@pytest.mark.parametrize("identities", [("c",), ("a", "c"), ()])
def test_only_static_members_of_the_start_can_come_back(server, form, identities):
    form(*(["a"] if identities else []))
    with server.watch_group("g") as watch, pytest.raises(UsageError, match="had no static members"):
        watch.wait_until_bounced(*identities)


def test_rebalances_are_counted_and_moves_recorded_even_if_they_are_undone(server, form):
    a, b = form("a", "b")
    with server.watch_group("g") as watch:
        rebalance(server, [a, b], [[1], [0]])
        assert watch.rebalances == 1
        assert watch.moves == (
            Move(topic="t", partition=0, owner_before="a", owner_after="b"),
            Move(topic="t", partition=1, owner_before="b", owner_after="a"),
        )
        rebalance(server, [a, b], [[0, 2], [1, 3]])
        rebalance(server, [a, b], [[0], [1]])
    assert watch.rebalances == 3
    assert [(move.partition, move.owner_after) for move in watch.moves] == [(0, "b"), (1, "a")]
    rebalance(server, [a, b], [[1], [0]])
    assert watch.rebalances == 3  # it is closed


def test_a_watch_may_begin_before_the_group(server, form):
    with server.watch_group("g") as watch:
        a, b = form("a", "b")
        assert (watch.before, watch.rebalances, watch.moves) == (None, 2, ())
        rebalance(server, [a, b], [[1], [0]])
    assert watch.rebalances == 3
    assert len(watch.moves) == 2


def test_a_failover_is_not_a_rebalance(server, form):
    form("a", "b")
    with server.watch_group("g") as watch:
        for to in (2, 1):
            server.move_coordinator("g", to)
            group = server.wait_until_stable("g", members=2)
            assert (server.coordinator_of("g"), group.coordinator.id) == (to, to)
    assert (watch.rebalances, watch.moves, watch.replaced) == (0, (), frozenset())


# -- starting, topics, brokers


def test_a_closed_server_says_so():
    with serve_in_thread() as server:
        watch = server.watch_group("g")
    watch.close()
    for ask in (lambda: server.group("g"), lambda: server.watch_group("g"), lambda: server.create_topic("t")):
        with pytest.raises(KgmError, match="the embedded server is closed"):
            ask()


def test_settings_are_given_by_kafkas_names():
    with serve_in_thread(settings={"group.max.size": 7, "socket.request.max.bytes": "1000"}) as server:
        cluster = server._server.cluster
        assert (cluster.settings.group_max_size, cluster.limits.socket_request_max_bytes) == (7, 1000)
        assert cluster.limits.max_connections == Limits().max_connections
    with pytest.raises(UsageError, match=r"no broker setting group\.size"):
        serve_in_thread(settings={"group.size": 7})


def test_settings_by_name_leave_other_limits_alone():
    limits = Limits(max_groups=3, max_connections=5)
    with serve_in_thread(settings={"max.connections": 9}, limits=limits) as server:
        assert (server._server.cluster.limits.max_groups, server._server.cluster.limits.max_connections) == (3, 9)


def test_topics_are_created_while_the_server_runs(server):
    server.create_topic("new", 4)
    with connect(server.bootstrap, timeout_ms=10_000) as cluster:
        assert cluster.describe_group is not None
    for name, partitions, error in [("new", 1, "already exists"), ("a/b", 1, "legal"), ("x", 0, "can have 1 to")]:
        with pytest.raises(UsageError, match=error):
            server.create_topic(name, partitions)
    assert server._server.cluster.topics.of_users() == {"t": 6, "new": 4}


def test_the_bootstrap_address_names_all_brokers(server):
    assert server.bootstrap == f"{server.address(1)},{server.address(2)}"
    server.stop_broker(1)
    with connect(server.bootstrap, timeout_ms=10_000) as cluster:
        assert cluster is not None
    server.start_broker(1)
    with connect(server.address(1), timeout_ms=10_000) as cluster:
        assert cluster is not None

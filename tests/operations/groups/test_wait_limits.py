"""For how long a rebalance waits at most, on an embedded cluster and a clock set by hand. The seconds it took are those of
real brokers: with members of 20, 30 and 40 s of which the first did not rejoin, Kafka 4.3 waited 60.3 s for a newcomer
of 60 s and 40.9 s for one of 30 s; with dynamic members of 10 and 20 s, a stopped one was removed by Kafka 3.9 35.9 s
after a newcomer of 35 s had joined, long before its session was over."""

from __future__ import annotations

import pytest

from kgm.operations.groups.rebalance_wait import read_rebalance_wait
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.operations.removal.in_process import ClassicMember, Cluster, World, form_classic

SESSION_MS = 100_000
_LONGEST_S = 90


@pytest.fixture
def world():
    return World()


def told_of(world):
    with world.client() as client:
        return read_rebalance_wait(client, client.describe_group("g"))


def form(world, names, *seconds):
    return form_classic(world.cluster, "g", names, session_ms=SESSION_MS, rebalances_ms=[1000 * one for one in seconds])


def join(world, name, seconds):
    newcomer = ClassicMember(world.cluster, "g", name)
    newcomer.session_ms, newcomer.rebalance_ms = SESSION_MS, 1000 * seconds
    newcomer.send_join()
    world.cluster.advance(0)
    return newcomer


def leave(world, member):
    rows = [MemberIdentity(member_id=member.member_id)]
    answer = world.cluster.request(LeaveGroupRequest(group_id="g", members=rows))
    assert answer.members[0].error_code == 0


def seconds_until(world, is_over):
    began_s = world.now_s
    while not is_over() and world.now_s < began_s + _LONGEST_S:
        world.pass_by(0.5)
    return round(world.now_s - began_s)


@pytest.mark.parametrize(("newcomer_s", "took_s"), [(60, 60), (30, 40)])
def test_a_newcomer_may_have_the_longest_timeout(world, newcomer_s, took_s):
    _, *others = form(world, ["a-1", "a-2", "a-3"], 20, 30, 40)
    newcomer = join(world, "a-4", newcomer_s)
    for one in others:
        one.send_join()
    wait = told_of(world)
    assert (wait.limit_ms, [one.limit_ms for one in wait.awaited]) == (None, [None] * 3)
    assert wait.headline.endswith(", at most 40s from its start, or max.poll.interval.ms of a-4 if that is longer")
    assert wait.lines()[1].endswith(
        "; if it has stopped, it is removed 1m40s after its last heartbeat; when that time is over the others "
        "continue without it, and it keeps its place"
    )
    assert seconds_until(world, newcomer.joined) == took_s
    assert len(world.cluster.members("g")) == 4


def test_a_stopped_dynamic_member_is_removed_when_the_time_is_over(world):
    _, other = form(world, [None, None], 10, 20)
    newcomer = join(world, None, 35)
    other.send_join()
    wait = told_of(world)
    assert wait.limit_ms is None
    assert wait.lines()[1].endswith(
        "; if it does not rejoin, it is removed when that time is over; if it has stopped, it is removed 1m40s after its "
        "last heartbeat if that is earlier"
    )
    assert seconds_until(world, newcomer.joined) == 35
    assert len(world.cluster.members("g")) == 2


def test_without_a_newcomer_all_have_the_longest_timeout(world):
    first, *_ = form(world, [None, None, None], 20, 30, 40)
    first.send_join()
    wait = told_of(world)
    assert (wait.limit_ms, [one.limit_ms for one in wait.awaited]) == (40_000, [40_000] * 3)
    assert wait.headline.endswith(", at most 40s from its start")
    assert all("it is removed after at most 40s;" in line for line in wait.lines())
    assert seconds_until(world, first.joined) == 40


def test_static_members_are_waited_for_again_while_none_rejoins(world):
    """Removed by an operator, a member starts a rebalance in which none of the others may be alive."""
    members = form(world, ["a-1", "a-2", None], 20, 30, 40)
    leave(world, members[2])
    wait = told_of(world)
    assert wait.headline.endswith(": a-1, a-2, at most 40s from its start if any of them rejoins by then")
    world.pass_by(50)
    assert told_of(world).phase == "join"
    members[0].send_join()
    assert seconds_until(world, members[0].joined) == 10  # 30 s once more


def test_a_group_that_was_empty_waits_for_more_members(world):
    world.clusters[0] = Cluster("this-cluster", group_initial_rebalance_delay_ms=3_000)
    first = join(world, None, 20)
    assert seconds_until(world, first.joined) == 3
    leave(world, first)
    newcomer = join(world, None, 20)
    assert told_of(world).headline == "waits for more members to join (group.initial.rebalance.delay.ms)"
    assert seconds_until(world, newcomer.joined) == 3


@pytest.mark.parametrize("newcomer_s", [None, 60])
def test_assignments_are_waited_for_as_long(world, newcomer_s):
    members = form(world, ["a-1", "a-2", "a-3"], 20, 30, 40)
    if newcomer_s is None:
        members[0].send_join()
    else:
        members.append(join(world, "a-4", newcomer_s))
    for one in members[:3]:
        one.send_join()
    world.cluster.advance(0)
    wait = told_of(world)
    assert (wait.phase, wait.limit_ms) == ("sync", 40_000 if newcomer_s is None else None)
    over = "after at most 40s" if newcomer_s is None else "when that time is over"
    assert len(wait.awaited) == len(members)
    assert sum(f"if it does not sync, it is removed {over}; if it has stopped" in one for one in wait.lines()) == len(
        members
    )
    assert seconds_until(world, lambda: not world.cluster.members("g")) == (newcomer_s or 40)

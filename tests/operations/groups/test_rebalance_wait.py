"""Whom a rebalance waits for, by what the group's last record and the broker's description show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.groups.rebalance_wait import GenerationMember, WaitPhase, logged_members, rebalance_wait


def classic(*ids, state="PreparingRebalance"):
    members = [
        MemberSnapshot(member_id=f"{name}-id", group_instance_id=name if name[0] == "s" else None) for name in ids
    ]
    return GroupSnapshot(group_id="g", type="classic", state=state, members=tuple(members))


def was(name, **more):
    static = name if name[0] == "s" else None
    return GenerationMember(member_id=f"{name}-id", group_instance_id=static, session_timeout_ms=45_000,
                            rebalance_timeout_ms=300_000, **more)  # fmt: skip


def test_members_of_the_last_generation_are_waited_for_and_newcomers_are_not():
    """How long it waits at most is shown on a clock in test_wait_limits.py."""
    wait = rebalance_wait(
        classic("s-10", "s-2", "d-new"), [was("s-2"), was("s-10", idle_ms=70_500), was("d-old")], generation=7
    )
    assert (wait.phase, wait.limit_ms, wait.known_limit_ms) == (WaitPhase.JOIN, None, 300_000)
    assert [one.identity for one in wait.awaited] == ["s-2", "s-10"]
    assert (wait.arrived, wait.gone) == (("d-new-id",), ("d-old-id",))
    assert wait.headline == (
        "waits for members to rejoin (Kafka does not report which have): s-2, s-10, at most 5m from its start, or "
        "max.poll.interval.ms of d-new-id if that is longer"
    )
    assert wait.lines() == [
        "joined since generation 7: d-new-id",
        "gone since generation 7: d-old-id",
        (
            "s-2: if it has stopped, it is removed 45s after its last heartbeat; when that time is over the others "
            "continue without it, and it keeps its place"
        ),
        (
            "s-10: no commit for 1m10s; if it has stopped, it is removed 45s after its last heartbeat; when that "
            "time is over the others continue without it, and it keeps its place"
        ),
    ]


def test_a_dynamic_member_is_removed_when_it_does_not_rejoin():
    (line,) = rebalance_wait(classic("d-1"), [was("d-1")]).lines()
    assert line == (
        "d-1-id: if it does not rejoin, it is removed after at most 5m; if it has stopped, it is removed 45s after its last "
        "heartbeat if that is earlier"
    )


def test_a_restarted_static_member_has_joined():
    """It has another member id than the last generation, under the same instance id."""
    group = GroupSnapshot(group_id="g", type="classic", state="PreparingRebalance", members=(
        MemberSnapshot(member_id="s-1-new", group_instance_id="s-1"), MemberSnapshot(member_id="s-2-id", group_instance_id="s-2"),
    ))  # fmt: skip
    wait = rebalance_wait(group, [was("s-1"), was("s-2")])
    assert ([one.identity for one in wait.awaited], wait.arrived, wait.gone) == (["s-2"], ("s-1",), ())


def test_without_the_log_all_may_be_waited_for():
    wait = rebalance_wait(classic("d-1", "d-2"), unknown_because="no READ on Topic '__consumer_offsets'")
    assert ([one.member_id for one in wait.awaited], wait.limit_ms) == (["d-1-id", "d-2-id"], None)
    assert wait.lines()[0] == "the last generation is not known: no READ on Topic '__consumer_offsets'"
    assert "max.poll.interval.ms" in wait.lines()[1]


def test_in_the_sync_phase_all_have_joined():
    wait = rebalance_wait(
        classic("d-1", "d-2", state="CompletingRebalance"), [was("d-1"), was("d-2")], seen_for_ms=12_345
    )
    assert wait.phase is WaitPhase.SYNC
    assert [one.member_id for one in wait.awaited] == ["d-1-id", "d-2-id"]
    assert wait.headline.startswith("all have joined; waits for the leader's assignment")
    assert wait.headline.endswith("at most 5m from its start; seen for 12s")


def test_before_kafka_2_8_nothing_limits_the_wait_for_assignments():
    """Kafka 2.4.1 still waited after 40 s, with members of 8 and 14 s; 4.3.0 removed both after 14 s."""
    group, last = classic("d-1", "s-1", state="CompletingRebalance"), [was("d-1"), was("s-1")]
    old = rebalance_wait(replace(group, kafka_versions=(BrokerVersion.parse("2.4"),)), last)
    assert (old.limit_ms, [one.limit_ms for one in old.awaited]) == (None, [None, None])
    assert old.headline.endswith(": d-1-id, s-1")
    assert old.lines()[1] == (
        "s-1: if it has stopped, it is removed 45s after its last heartbeat; if it is alive and does not sync, nothing ends "
        "the wait"
    )
    for versions in (None, (), (BrokerVersion.parse("2.7"), BrokerVersion.parse("2.8"))):
        assert rebalance_wait(replace(group, kafka_versions=versions), last).limit_ms == 300_000
    joins = replace(group, state="PreparingRebalance", kafka_versions=(BrokerVersion.parse("2.4"),))
    assert rebalance_wait(joins, last).limit_ms == 300_000


@pytest.mark.parametrize("state", ["Stable", "Empty", "Dead"])
def test_a_group_that_does_not_rebalance_waits_for_nobody(state):
    assert rebalance_wait(classic("d-1", state=state)) is None


def test_a_consumer_group_waits_for_who_holds_partitions():
    """s-1 is to give orders-1 to s-2, which is at the new epoch's door; s-3 is done."""

    def member(name, epoch, owned, target):
        return MemberSnapshot(
            member_id=f"{name}-id", group_instance_id=name, member_epoch=epoch,
            status="reconciling" if owned != target else "stable",
            assignment={"orders": owned} if owned else {}, target_assignment={"orders": target},
        )  # fmt: skip

    group = GroupSnapshot(
        group_id="g", type="consumer", state="Reconciling", group_epoch=5, assignment_epoch=5, session_timeout_ms=45_000,
        members=(member("s-1", 4, (0, 1), (0,)), member("s-2", 5, (), (1,)), member("s-3", 5, (2,), (2,))),
    )  # fmt: skip
    wait = rebalance_wait(group)
    (one,) = wait.awaited
    assert (one.identity, one.epoch, dict(one.holds)) == ("s-1", 4, {"orders": (1,)})
    assert wait.headline == "waits for s-1"
    assert wait.lines() == [
        (
            "s-1: at epoch 4; still holds orders[1]; if it has stopped, it is removed 45s after its last heartbeat; if it "
            "is alive and does not give them up, it is fenced max.poll.interval.ms after it is asked to"
        )
    ]
    # 2023-11-14T22:13:20Z, as its log has it, and 300 s.
    asked = rebalance_wait(group, [was("s-1", asked_at_ms=1_700_000_000_000)])
    assert asked.awaited[0].fenced_at_ms == 1_700_000_300_000
    assert asked.headline == "waits for s-1, at most until 2023-11-14T22:18:20.000Z"
    assert asked.lines()[0].endswith("does not give them up, it is fenced at 2023-11-14T22:18:20.000Z")
    unasked = rebalance_wait(group, [was("s-1")])
    assert (unasked.awaited[0].fenced_at_ms, unasked.limit_ms) == (None, 300_000)
    assert unasked.lines()[0].endswith("it is fenced 5m after it is asked to")


def test_a_consumer_group_waits_for_a_member_that_is_away():
    away = MemberSnapshot(
        member_id="s-1-id", group_instance_id="s-1", member_epoch=-2, status="away", assignment={"orders": (0,)}
    )
    group = GroupSnapshot(
        group_id="g", type="consumer", state="Reconciling", group_epoch=5, assignment_epoch=5, members=(away,)
    )
    assert rebalance_wait(group).headline == "waits until s-1 is back or its session ends"


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", None])
def test_members_of_the_classic_protocol_alone_get_a_consumer_group_no_assignment(version):
    """Since 4.3, as on real brokers in tests/operations/removal/test_classic_only.py. Before that, they rejoin."""
    members = [
        MemberSnapshot(
            member_id=f"{name}-id", group_instance_id=name, member_epoch=4, status="stable", protocol="classic",
            assignment={"orders": (number,)}, target_assignment={"orders": (number,)},
        )
        for number, name in enumerate(("s-1", "s-2"))
    ]  # fmt: skip
    group = GroupSnapshot(
        group_id="g", type="consumer", state="Assigning", group_epoch=5, assignment_epoch=4, members=tuple(members),
        kafka_versions=None if version is None else (BrokerVersion.parse(version),),
    )  # fmt: skip
    wait = rebalance_wait(group, seen_for_ms=6_000)
    if version == "4.2.0":
        assert wait.headline == "waits for s-1, s-2; seen for 6s"
        return
    assert wait.headline == (
        "waits until a member joins or rejoins: heartbeats of the classic protocol get a consumer group no new "
        "assignment (Kafka 4.3 and later); seen for 6s"
    )
    assert (wait.awaited, wait.lines()) == (
        (),
        ["to have all partitions assigned: restart a member, or start another one"],
    )
    away = MemberSnapshot(
        member_id="s-3-id", group_instance_id="s-3", member_epoch=-2, status="away", protocol="consumer"
    )
    with_away = rebalance_wait(replace(group, members=(*members, away)))
    assert with_away.headline.startswith("waits until a member joins or rejoins, or the session of s-3 ends: ")
    back = replace(away, member_epoch=4, status="stable")
    assert rebalance_wait(replace(group, members=(*members, back))).headline == "waits for s-1, s-2, s-3"


def test_a_record_names_the_members_of_its_generation():
    record = GroupSnapshot(
        group_id="g", type="classic", state="Stable", session_timeout_ms=45_000, rebalance_timeout_ms=300_000,
        members=(MemberSnapshot(member_id="s-1-id", group_instance_id="s-1"),),
    )  # fmt: skip
    assert logged_members(record) == [was("s-1")]
    # Members with timeouts of their own have none in common.
    two = replace(record, members=(*record.members, MemberSnapshot(member_id="d-1-id")))
    timeouts = {"s-1-id": (6_000, 10_000), "d-1-id": (45_000, 20_000)}
    own = logged_members(two.with_member_timeouts(timeouts))
    assert {one.member_id: (one.session_timeout_ms, one.rebalance_timeout_ms) for one in own} == timeouts
    assert logged_members(None) is None

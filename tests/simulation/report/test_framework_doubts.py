"""Kafka Streams rebalances by itself, and user data keeps a group from migrating: what is predicted then."""

from dataclasses import replace

import pytest

from kgm.model.errors import RefusedError
from kgm.model.work import MemberWork, UserData
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop
from tests.simulation.groups import ids, made_up


def streams(*, endpoint=None, versions=(11,), **changes):
    """versions: of the metadata of the members, in turn."""
    group = replace(made_up(4, 12), assignor="stream", **changes)
    process = "00000001-1a2b-4c3d-8e4f-5a6b7c8d9e0f"
    work = MemberWork(process_id=process, user_endpoint=endpoint, active_tasks=("0_0",), standby_tasks=())
    works = [replace(work, metadata_version=versions[place % len(versions)]) for place in range(4)]
    members = [replace(member, work=each) for member, each in zip(group.members, works, strict=True)]
    return replace(group, members=tuple(members))


def restarted(group, **plan):
    plan = {"bounce": ids(group), "rolling": Rolling(), "restart_time_ms": 2_000, **plan}
    return simulate(group, Plan(**plan), draws=5)


def test_a_settled_application_restarts_without_a_rebalance():
    back = restarted(streams(is_settled=True))
    assert (back.exact, back.typical.rebalances, back.typical.moved_partitions) == (True, 0, 0)
    said = " ".join(back.caveats)
    for text in ("as long as the topology", "return with the same release of Kafka Streams", "--stop leave"):
        assert text in said


def test_transactions_of_killed_processes_may_stop_the_tasks_of_others():
    """Seen on Kafka 4.3.0 with exactly_once_v2: a process was back after 8.8 s, and three partitions stood still for 47.7 s,
    one of them of a process that was never touched."""
    said = " ".join(restarted(streams(is_settled=True), stop=Stop.CRASH).caveats)
    assert "until the transaction timeout of its producers has passed" in said
    assert "--stop leave" not in said


@pytest.mark.parametrize("versions", [(10,), (10, 11)], ids=["all-older", "some-older"])
def test_an_older_version_of_the_metadata_may_be_upgraded(versions):
    """Three processes of Kafka Streams 3.1.2, which writes version 10, came back with 4.3.0: 5 rebalances and 16
    handovers once, 7 and 24 another time."""
    group = streams(is_settled=True, versions=versions)
    back = restarted(group, units=tuple((name,) for name in ids(group)))
    assert (back.exact, back.typical.rebalances) == (False, 0)
    assert back.ranges.rebalances.max >= 7
    assert back.ranges.handovers.max >= 24
    assert "members write version 10 of the metadata" in back.caveats[0]


def test_old_snapshots_say_nothing_about_versions():
    assert restarted(streams(is_settled=True, versions=(None,))).exact


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"is_settled": False, "next_rebalance_at": "2026-11-26T09:00:00.000Z"},
            "not settled: a member starts another rebalance, which is due at 2026-11-26T09:00:00.000Z",
        ),
        ({"is_settled": False}, "not settled: a member starts another rebalance and"),
        ({}, "it is not known whether the Kafka Streams application is settled"),
    ],
)
def test_nothing_is_exact_unless_it_is_settled(changes, says):
    """Seen on Kafka 4.3.0: a restart that was called free of rebalances brought the group from generation 8 to 18."""
    back = restarted(streams(**changes))
    assert not back.exact
    assert says in back.caveats[0]
    assert back.ranges.rebalances.max >= 1


def test_an_application_that_does_not_report_it_may_rebalance_and_move_everything():
    ranges = restarted(streams()).ranges
    assert (ranges.rebalances.max, ranges.moved_partitions.max, ranges.handovers.max >= 12) == (2, 12, True)


def test_an_endpoint_may_be_another_one_after_the_restart():
    """Seen on Kafka 4.3.0: one rebalance."""
    back = restarted(streams(is_settled=True, endpoint="10.0.0.1:7000"))
    assert (back.exact, back.typical.rebalances, back.ranges.rebalances.max) == (False, 0, 1)
    assert "Now: 10.0.0.1:7000" in back.caveats[0]


def test_tasks_without_another_copy_are_named():
    """All members of this group have the task 0_0 in one process, which goes as a whole."""
    assert any("nobody else has a copy of some of its tasks" in text and text.endswith(": 0_0")
               for text in restarted(streams(is_settled=True), rolling=None).caveats)  # fmt: skip


def test_tasks_of_a_sink_connector_are_no_processes():
    """Seen on real workers: one was back after 30 s, its consumer after 64 s. The names are those that Connect gives."""
    members = [replace(one, client_id=f"connector-consumer-jdbc-{n}") for n, one in enumerate(made_up(4, 12).members)]
    sink = restarted(replace(made_up(4, 12), group_id="connect-jdbc", members=tuple(members)))
    assert (sink.exact, "tasks of the sink connector jdbc" in sink.caveats[0]) == (False, True)
    assert restarted(replace(made_up(4, 12), group_id="connect-jdbc")).exact
    assert restarted(replace(made_up(4, 12), members=tuple(members))).exact


def test_streams_cannot_migrate_to_the_consumer_protocol():
    """Kafka Streams: StreamsConfig has the group protocols classic and streams."""
    with pytest.raises(
        RefusedError, match="cannot migrate to the consumer protocol: it is a Kafka Streams application"
    ):
        restarted(streams(is_settled=True), migrate=True)


@pytest.mark.parametrize("assignor", ["range", "com.acme.MyAssignor"])
def test_a_group_with_user_data_is_refused(assignor):
    """Kafka: ConsumerGroup.fromClassicGroup; on Kafka 4.3.0 the restarted member got GROUP_ID_NOT_FOUND."""
    group = replace(made_up(2, 6), assignor=assignor)
    plain = restarted(made_up(2, 6), migrate=True)
    assert plain.typical.refused_joins == 0
    custom = replace(
        group, members=tuple(replace(one, user_data=UserData(length=3, sha256="")) for one in group.members)
    )
    back = restarted(custom, migrate=True)
    assert back.typical.refused_joins > 0
    assert any(
        "GROUP_ID_NOT_FOUND" in caveat and f"the assignor {assignor} writes" in caveat for caveat in back.caveats
    )


def test_a_custom_assignor_without_user_data_is_not_exact():
    back = restarted(replace(made_up(2, 6), assignor="com.acme.MyAssignor"), migrate=True)
    assert not back.exact
    assert "if the assignor com.acme.MyAssignor writes user data" in back.caveats[0]

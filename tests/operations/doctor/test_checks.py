"""What the doctor finds in made-up groups: each check finds its problem, and nothing in a healthy group."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.client.offsets_topic.member_activity import CommitRecord
from kgm.client.offsets_topic.writability import Writability
from kgm.client.topic_log.partition_log import Replicas
from kgm.history.rows import AlarmRow, TimeoutAdviceRow
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.model.work import MemberWork, UserData
from kgm.operations.deletion.idleness import Idleness, IdleVerdict
from kgm.operations.doctor.diagnosis import run_checks
from kgm.operations.doctor.findings import Severity
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.operations.doctor.identity import generated_form
from kgm.operations.doctor.known_removals import KnownRemoval
from kgm.operations.doctor.recent_records import rebalances_ms
from kgm.text.braces import expand_list
from kgm.text.wording import some

NOW = 1_800_000_000_000
HOUR = 3_600_000


def member(name, partitions=(), *, is_static=True, start=1, topics=("t",), **more):
    return MemberSnapshot(
        **{
            "member_id": f"{name}-{start}" if is_static else name, "group_instance_id": name if is_static else None,
            "client_id": "app", "client_host": "10.0.0.1", "status": "stable", "topics": topics, "protocol": "classic",
            "assignment": {"t": tuple(partitions)} if partitions else {},
        } | more
    )  # fmt: skip


def offset(partition, lag=0, *, owner="seat-1", topic="t", committed=10, end=None):
    return OffsetSnapshot(
        topic=topic, partition=partition, committed=committed, lag=lag if committed is not None else None,
        end=(10 if committed is None else committed + lag) if end is None else end,
        group_instance_id=owner, member_id=None if owner is None else f"{owner}-1",
    )  # fmt: skip


HEALTHY = GroupSnapshot(
    group_id="g", type="classic", state="Stable", protocol_type="consumer", assignor="cooperative-sticky",
    topics=(TopicSnapshot(name="t", partitions=4),),
    members=(member("seat-1", [0, 1]), member("seat-2", [2, 3])),
    offsets=(offset(0), offset(1), offset(2, owner="seat-2"), offset(3, owner="seat-2")),
)  # fmt: skip


def found(group=HEALTHY, **more):
    return run_checks(GroupFacts(group=group, now_ms=NOW, **more))


def names(group=HEALTHY, **more):
    return [(one.check, one.severity) for one in found(group, **more)]


def with_members(*members, **more):
    return replace(HEALTHY, members=members, **more)


def test_a_healthy_group_has_nothing():
    assert found() == []
    assert found(earlier=HEALTHY, window_ms=6000, recorded=[RecordedGroup(at_ms=NOW, group=HEALTHY)]) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("0b9fd1a2-3c4d-4e5f-8a9b-0c1d2e3f4a5b", "a UUID"), ("app-7d9f8b6c5d-x2x9z", "the name of a Deployment's pod"),
        ("worker-3f2a9c8e7b1d", "a hash or a container id"), ("app-1700000000", "a timestamp"), ("app-1700000000123", "a timestamp"),
        ("seat-1", None), ("app-0", None), ("orders-StreamThread-12", None), ("ip-10-0-0-1", None), ("eu-west-1a-prod", None),
        ("consumer-000000000012", None), ("facade-cafe", None), ("db-20261121", None), ("payments-service-green", None),
    ],
)  # fmt: skip
def test_generated_names_are_recognised(name, kind):
    assert generated_form(name) == kind


def test_random_instance_ids_are_found_with_what_they_look_like():
    (one,) = found(with_members(member("app-7d9f8b6c5d-x2x9z", [0, 1]), member("seat-2", [2, 3])))
    assert (one.check, one.severity, one.about) == ("random-instance-id", "warning", ("app-7d9f8b6c5d-x2x9z",))
    assert one.evidence == ("app-7d9f8b6c5d-x2x9z looks like the name of a Deployment's pod",)
    assert one.next_command == "kgm describe g -o wide"


def test_static_and_dynamic_members_in_one_group():
    (one,) = found(with_members(member("seat-1", [0, 1]), member("x", [2, 3], is_static=False)))
    assert (one.check, one.about) == ("mixed-membership", ("x",))
    assert one.message.endswith("every restart of a dynamic member rebalances the whole group")
    members = member("seat-1", [0, 1]), member("x", [2, 3], is_static=False)
    mixed = [each for each in found(with_members(*members, type="consumer")) if each.check == "mixed-membership"]
    assert [each.message.partition("every restart ")[2] for each in mixed] == [  # reconciled member by member (KIP-848)
        "of a dynamic member makes members give up and take over partitions, one after another"
    ]


def test_confusable_ids_and_hidden_characters():
    assert names(with_members(member("seat-1", [0, 1]), member("Seat-1 ", [2, 3]))) == [
        ("confusable-instance-ids", "warning")
    ]
    found_names = names(with_members(member("seat-1", [0, 1]), member("seat\u200b-2", [2, 3])))
    assert found_names == [("hidden-characters", "warning")]


def test_partitions_without_an_owner():
    group = with_members(member("seat-1", [0, 1]), member("seat-2", [3]))
    (one,) = found(group)
    assert (one.check, one.severity, one.evidence, one.about) == (
        "unowned-partitions", "error", ("without an owner: t[2]",), ("t-2",),
    )  # fmt: skip
    assert found(group, earlier=HEALTHY, window_ms=1000) == []  # it had one a moment ago: it is on its way
    assert [check for check, _ in names(replace(group, state="PreparingRebalance"))] == []


def test_members_without_partitions():
    one_too_many = with_members(*(member(f"seat-{i}", [i] if i < 4 else []) for i in range(5)))
    assert names(one_too_many) == [("more-members-than-partitions", "info")]
    idle = with_members(member("seat-1", [0, 1]), member("seat-2", [2, 3]), member("seat-3"))
    assert ("idle-members", "warning") in names(idle)
    assert names(replace(one_too_many, state="CompletingRebalance")) == []


def test_a_member_that_is_away():
    (one,) = found(with_members(member("seat-1", [0, 1], status="away"), member("seat-2", [2, 3]), type="consumer"))[:1]
    assert (one.check, one.about) == ("away-members", ("seat-1",))
    assert one.next_command == "kgm remove-members g --instance-ids seat-1 --dry-run"


def test_uneven_shares_of_the_range_assignor():
    topics = tuple(TopicSnapshot(name=name, partitions=1) for name in "tuv")
    first = member("seat-1", topics=("t", "u", "v"), assignment=dict.fromkeys("tuv", (0,)))
    group = with_members(first, member("seat-2", topics=("t", "u", "v")), assignor="range", topics=topics)
    assert ("uneven-assignment", "warning") in names(group)
    uneven = with_members(member("seat-1", [0, 1, 2]), member("seat-2", [3]))
    assert names(uneven) == [("uneven-assignment", "info")]
    assert names(replace(uneven, state="Empty", members=())) == []


def test_different_subscriptions_and_missing_topics():
    group = with_members(member("seat-1", [0, 1]), member("seat-2", [2, 3], topics=("t", "u")))
    assert names(group) == [("missing-topics", "warning"), ("mixed-subscriptions", "info")]
    assert names(group, undescribed_topics=frozenset({"u"})) == [("mixed-subscriptions", "info")]


def test_a_member_that_owns_what_it_does_not_subscribe_to():
    """As librdkafka does after a static member has restarted with other topics: `test_restarted_with_other_topics.py`."""
    topics = *HEALTHY.topics, TopicSnapshot(name="u", partitions=1)
    restarted = member("seat-2", [2, 3], topics=("u",), start=2)
    group = with_members(
        member("seat-1", assignment={"t": (0, 1), "u": (0,)}, topics=("t", "u")), restarted, topics=topics
    )
    both = {one.check: one for one in found(group)}
    assert both.keys() == {"unsubscribed-owner", "mixed-subscriptions"}
    one = both["unsubscribed-owner"]
    assert (one.severity, one.about) == ("warning", ("seat-2",))
    assert one.evidence[0] == "seat-2: owns t[2-3], subscribes to u"
    assert "unsubscribed-owner" in dict(names(group, earlier=group, window_ms=1000))
    # A consumer that notices, as Java's do, rejoins soon.
    assert "unsubscribed-owner" not in dict(names(group, earlier=HEALTHY, window_ms=1000))
    nobody = with_members(member("seat-1", assignment={"u": (0,)}, topics=("u",)), restarted, topics=topics)
    (alone,) = (one for one in found(nobody) if one.check == "unsubscribed-owner")
    assert "no member subscribes to t: then nobody consumes it" in alone.evidence
    for other in (
        {"state": "PreparingRebalance"}, {"type": "consumer"}, {"assignor": "stream"}, {"assignor": "com.acme.MyAssignor"},
        {"protocol_type": "connect"}, {"deleted_topics": ("t",)},
    ):  # fmt: skip
        assert "unsubscribed-owner" not in dict(names(replace(group, **other))), other
    unknown = with_members(member("seat-1", [0, 1]), member("seat-2", [2, 3], topics=None))
    assert "unsubscribed-owner" not in dict(names(unknown))


def test_protocols():
    assert names(supports_consumer_protocol=True) == [("classic-protocol", "info")]
    for assignor in ("stream", "com.acme.MyAssignor"):
        assert names(replace(HEALTHY, assignor=assignor), supports_consumer_protocol=True) == []
    custom = with_members(member("seat-1", [0, 1], user_data=UserData(length=1, sha256="")), member("seat-2", [2, 3]))
    assert names(custom, supports_consumer_protocol=True) == []
    half = with_members(member("seat-1", [0, 1]), member("seat-2", [2, 3], protocol="consumer"), type="consumer")
    assert names(half) == [("unfinished-migration", "warning")]


def worker(name, *tasks):
    work = MemberWork(connectors=("jdbc",) if "jdbc-0" in tasks else (), active_tasks=tasks)
    return MemberSnapshot(member_id=name, client_id=name, status="stable", work=work)


@pytest.mark.parametrize(
    ("records", "evidence"),
    [
        ([(5_000, True)], ["runs nowhere: jdbc, jdbc-0, jdbc-3"]),
        ([], ["runs nowhere: jdbc, jdbc-0", "there may be more: this is what is missing between others"]),
    ],
)
def test_what_a_connect_worker_ran_that_has_left(records, evidence):
    """The record from before the loss has all of it; without one the last task cannot be missed."""
    before = replace(
        HEALTHY, protocol_type="connect", assignor="sessioned", topics=(), offsets=(), is_settled=True,
        members=(worker("w-1", "jdbc-1", "jdbc-2"), worker("w-2", "jdbc-0", "jdbc-3")),
    )  # fmt: skip
    ends = "2027-01-15T08:00:59.000Z"
    now = replace(
        before, members=before.members[:1], is_settled=False, rebalance_delay_ms=60_000, unassigned_until=ends
    )
    recorded = [RecordedGroup(at_ms=NOW - ago_ms, group=before) for ago_ms, _ in records]
    recorded += [RecordedGroup(at_ms=NOW - 1_000, group=now)] if records else []
    (one,) = found(now, recorded=recorded)
    assert (one.check, one.severity) == ("unassigned-tasks", "warning")
    assert [*one.evidence[: len(evidence)]] == evidence
    assert (f"until {ends}" in one.message) == bool(records)
    assert "unassigned-tasks" not in dict(names(before))


def test_states():
    (one,) = found(replace(HEALTHY, state="Dead", members=(), offsets=()))
    assert (one.check, one.severity) == ("odd-state", "error")
    busy = replace(HEALTHY, state="PreparingRebalance")
    assert names(busy) == []
    assert names(busy, earlier=busy, window_ms=6000) == [("rebalancing", "warning")]


EMPTY = replace(HEALTHY, state="Empty", members=(), offsets=(offset(0, 7, owner=None), offset(1, owner=None)))


def emptied(ago_ms):
    return [RecordedGroup(at_ms=NOW - ago_ms, group=replace(EMPTY, offsets=()))]


def test_an_empty_group_with_lag():
    (one,) = found(EMPTY, recorded=emptied(5 * HOUR))
    assert (one.check, one.severity) == ("empty-with-lag", "warning")
    assert one.evidence == ("lag in t[0]", "empty for 5 hours")
    assert found(replace(EMPTY, offsets=(offset(0, owner=None),))) == []


@pytest.mark.parametrize(
    ("empty_for", "severity", "words"),
    [(100 * HOUR, None, ""), (140 * HOUR, "warning", "in 28 hours"), (167 * HOUR, "error", "in 1h"), (200 * HOUR, "error", "at any moment")],
)  # fmt: skip
def test_offsets_that_expire_soon(empty_for, severity, words):
    group = replace(EMPTY, offsets=(offset(0, owner=None),))
    there = found(group, recorded=emptied(empty_for), retention_ms=168 * HOUR)
    assert [one.severity for one in there] == ([] if severity is None else [severity])
    assert all(words in one.message for one in there)
    assert found(group, retention_ms=168 * HOUR) == []  # since when it is empty is unknown


def test_owners_that_do_not_commit_while_records_wait():
    before = replace(
        HEALTHY, offsets=(offset(0, 5), offset(1), offset(2, 9, owner="seat-2"), offset(3, owner="seat-2"))
    )
    assert names(before) == []
    (one,) = found(before, earlier=before, window_ms=6000)
    assert (one.check, one.severity) == ("stalled-owner", "warning")
    assert one.message == "2 of 2 members committed no offset for 6s; 14 records are waiting"
    assert one.evidence == ("seat-1 (app, 10.0.0.1): lag 5 in t[0-1]", "seat-2 (app, 10.0.0.1): lag 9 in t[2-3]")
    grown = replace(before, offsets=(offset(0, 8), *before.offsets[1:]))
    (one,) = found(grown, earlier=before, window_ms=6000)
    assert (one.severity, one.message) == ("error", "2 of 2 members committed no offset for 6s; 3 more records arrived")
    at_work = replace(
        before,
        offsets=(
            offset(0, 5, committed=11),
            offset(1),
            offset(2, 8, owner="seat-2", committed=11),
            offset(3, owner="seat-2"),
        ),
    )
    assert found(at_work, earlier=before, window_ms=6000) == []
    other_owner = replace(before, offsets=tuple(row._replace(member_id="another") for row in before.offsets))
    assert found(other_owner, earlier=before, window_ms=6000) == []


def test_where_commits_are_refused_no_member_is_blamed():
    """A coordinator whose partition has too few in-sync replicas answers OffsetCommit with COORDINATOR_NOT_AVAILABLE."""
    before = replace(
        HEALTHY, offsets=(offset(0, 5), offset(1), offset(2, 9, owner="seat-2"), offset(3, owner="seat-2"))
    )
    log = Writability(partition=7, replicas=Replicas(count=3, in_sync=1), least=2)
    (one,) = found(before, earlier=before, window_ms=6000, unwritable=log)
    assert (one.check, one.severity, one.about) == ("commits-refused", "error", ("__consumer_offsets-7",))
    assert one.message == (
        "commits cannot be written: partition 7 of __consumer_offsets has 1 in-sync replica and min.insync.replicas 2"
    )


def test_offsets_that_cannot_be_right():
    assert names(replace(HEALTHY, offsets=(offset(0, committed=10, end=3),))) == [("committed-beyond-end", "error")]
    other = replace(HEALTHY, offsets=(offset(0, owner=None, topic="old"),))
    assert names(other) == [("offsets-of-other-topics", "info")]
    assert found(other)[0].next_command == "kgm delete-groups g --stale-topics --dry-run"
    assert names(replace(HEALTHY, offsets=(offset(0, committed=None),))) == [("nothing-committed", "info")]
    assert names(replace(HEALTHY, offsets=(offset(0, committed=None, end=0),))) == []


def test_an_idle_group_names_the_command_that_deletes_it():
    group = replace(HEALTHY, state="Empty", members=(), offsets=(offset(0, owner=None),))
    for verdict, expected in ((IdleVerdict.IDLE, ["idle-group"]), (IdleVerdict.ACTIVE, []), (IdleVerdict.UNKNOWN, [])):
        idleness = Idleness(verdict=verdict, evidence=("its last commit was 3 days ago",))
        assert [one.check for one in found(group, idleness=idleness)] == expected
    (finding,) = found(group, idleness=Idleness(verdict=IdleVerdict.IDLE, evidence=("its last commit was 3 days ago",)))
    assert (finding.severity, finding.evidence) == ("info", ("its last commit was 3 days ago",))
    assert finding.next_command == "kgm delete-groups g --dry-run"


def test_where_consumers_begin_is_chosen_with_kafkas_tool():
    place = CoordinatorNode(id=1, host="10.0.0.9", port=9092)
    (finding,) = found(replace(HEALTHY, coordinator=place, offsets=(offset(0, committed=10, end=3),)))
    assert finding.evidence[-1].endswith(
        "kafka-consumer-groups.sh --bootstrap-server 10.0.0.9:9092 --group g --topic t:0 --reset-offsets --to-latest --dry-run"
    )


# -- recent records


def record(ago_ms, generation, *members, session_ms=10_000):
    state = "Stable" if members else "Empty"
    group = replace(
        HEALTHY, members=members, generation=generation, session_timeout_ms=session_ms, state=state, offsets=()
    )
    return RecordedGroup(at_ms=NOW - ago_ms, group=group)


def test_one_instance_id_and_several_processes():
    past = [record(40_000 - i * 10_000, 3, member("seat-1", start=i, client_host=f"10.0.0.{i % 2}")) for i in range(4)]
    (one,) = found(recorded=past)
    assert (one.check, one.severity, one.about) == ("duplicate-instance-id", "error", ("seat-1",))
    assert one.evidence == ("3 takeovers within 20s", "from 10.0.0.0, 10.0.0.1")
    quick = [record(40_000 - i * 10, 3, member("seat-1", start=i)) for i in range(4)]
    assert found(recorded=quick)[0].evidence[0] == "3 takeovers within 1s"
    assert found(recorded=past[:3]) == []  # two restarts are two restarts
    one_host = [record(40_000 - i * 20_000, 3, member("seat-1", start=i)) for i in range(4)]
    assert found(recorded=one_host) == []  # and so are three
    moving = [record(40_000 - i * 10_000, 3, member("seat-1", start=i, client_host=f"10.0.0.{i}")) for i in range(4)]
    assert found(recorded=moving) == []  # each in a new pod
    for count, every_ms, span in (
        (4, 1_000, "2s"),
        (6, 20_000, "1m20s"),
    ):  # of one host, which a new process keeps until a rebalance
        many = [record(120_000 - i * every_ms, 3, member("seat-1", start=i)) for i in range(count)]
        (one,) = found(recorded=many)
        assert (one.check, one.severity, one.about) == ("duplicate-instance-id", "warning", ("seat-1",))
        assert "by several processes that use it, or by one that keeps restarting" in one.message
        assert one.evidence[0] == f"{count - 1} takeovers within {span}"
    assert found(recorded=[replace(each, at_ms=each.at_ms - 2 * HOUR) for each in past]) == []


@pytest.mark.parametrize("seat", ["seat-1", " seat,1"])
def test_restarts_longer_than_the_session(seat):
    a, b = member(seat, [0, 1]), member("seat-2", [2, 3])
    past = [record(60_000, 1, a, b), record(40_000, 2, b), record(32_500, 3, member(seat, [0, 1], start=2), b)]
    (one,) = found(recorded=past)
    assert (one.check, one.about) == ("session-too-short", (seat,))
    assert "above 17500" in one.message
    assert one.evidence == (f"{seat} was away for about 17s; its session timeout is 10s",)
    words = shlex.split(one.next_command)
    assert expand_list(words[words.index("--instance-ids") + 1], "-i") == [seat]
    assert "--restart-time 17s --session-timeout 27s" in one.next_command
    assert found(recorded=past[:2]) == []


@pytest.mark.parametrize(("sessions_ms", "absent"), [((10_000, 30_000), ["seat-1"]), ((30_000, 10_000), ["seat-2"])])
def test_each_member_was_absent_by_its_own_session(sessions_ms, absent):
    """Both leave 20 s after they joined: that can be the end of a session of 10 s, and not of one of 30 s."""
    a, b = member("seat-1", [0, 1]), member("seat-2", [2, 3])
    back = [member(one.group_instance_id, start=2) for one in (a, b)]
    before = record(60_000, 1, a, b, session_ms=None)
    timeouts_ms = {one.member_id: (ms, 60_000) for one, ms in zip((a, b), sessions_ms, strict=True)}
    known = replace(before, group=before.group.with_member_timeouts(timeouts_ms))
    past = [record(61_000, 0), known, record(40_000, 2), record(32_500, 3, *back)]
    (one,) = found(recorded=past)
    assert (one.check, list(one.about)) == ("session-too-short", absent)
    assert one.evidence == (f"{absent[0]} was away for about 17s; its session timeout is 10s",)


def test_members_that_left_or_were_removed_were_not_absent():
    """A session of 25 minutes that did not expire: the member joined, or committed, less than that ago."""
    a, b = member("seat-1", [0, 1]), member("seat-2", [2, 3])
    long = {"session_ms": 1_500_000}
    back = [record(60_000, 3, b, **long), record(57_000, 4, member("seat-1", [0, 1], start=2), b, **long)]
    past = [record(HOUR, 2, a, b, **long), *back]
    (one,) = found(recorded=past)
    assert "above 1503000 " in one.message
    joined = [record(HOUR, 1, b, **long), record(600_000, 2, a, b, **long), *back]
    assert found(recorded=joined) == []
    commit = CommitRecord(at_ms=NOW - 90_000, topic="t", partition=1, offset=1)
    assert found(recorded=past, commits=[commit]) == []
    for other in (
        replace(commit, partition=2), replace(commit, at_ms=NOW - 1_600_000), replace(commit, at_ms=NOW - 58_000)
    ):  # another member's, too old, and of the process that came back  # fmt: skip
        assert [finding.check for finding in found(recorded=past, commits=[other])] == ["session-too-short"]
    removal = KnownRemoval(cluster_id=None, group_id="g", group_instance_id="seat-1", at_ms=NOW - 60_500)
    assert found(recorded=past, removals=[removal]) == []
    assert found(recorded=past, removals=[replace(removal, group_instance_id="seat-2")]) != []
    assert found(recorded=past, removals=[replace(removal, at_ms=NOW - 2 * HOUR)]) != []


@pytest.mark.parametrize(
    ("since_ms", "is_told"), [(0, True), (NOW - 50_000, True), (NOW - 49_999, False), (NOW, False), (None, False)]
)
def test_commits_that_are_not_known_are_not_absent(since_ms, is_told):
    """A session of 10 s that had ended 40 s ago: what matters is whether there was a commit in it."""
    a, b = member("seat-1", [0, 1]), member("seat-2", [2, 3])
    past = [record(60_000, 1, a, b), record(40_000, 2, b), record(32_500, 3, member("seat-1", [0, 1], start=2), b)]
    assert bool(found(recorded=past, commits_since_ms=since_ms)) is is_told


def test_no_session_timeout_is_advised_that_the_broker_refuses():
    a, b = member("seat-1", [0, 1]), member("seat-2", [2, 3])
    past = [record(60_000, 1, a, b), record(40_000, 2, b), record(32_500, 3, member("seat-1", [0, 1], start=2), b)]
    (one,) = found(recorded=past, max_session_timeout_ms=20_000)
    assert "session.timeout.ms above 17500 would" in one.message
    assert "--session-timeout 20s" in one.next_command
    (one,) = found(recorded=past, max_session_timeout_ms=15_000)
    assert "above 17500" not in one.message
    assert "more than group.max.session.timeout.ms (15000)" in one.message
    assert "--session-timeout 15s" in one.next_command


@pytest.mark.parametrize(
    ("lag", "arrived", "done", "is_behind"),
    [
        (17_816, 600, 480, True), (17_816, 600, 500, False), (5_999, 600, 100, False), (17_816, 600, 0, False),
        (17_816, 600, 900, False), (17_816, 0, 0, False),
    ],
)  # fmt: skip
def test_a_group_that_commits_and_falls_behind(lag, arrived, done, is_behind):
    def group(committed, waiting):
        rows = (
            offset(0, waiting, committed=committed),
            offset(1),
            offset(2, owner="seat-2"),
            offset(3, owner="seat-2"),
        )
        return replace(HEALTHY, offsets=rows)

    later = [
        one for one in found(group(100 + done, lag + arrived - done), earlier=group(100, lag), window_ms=6_000)
        if one.check == "growing-lag"
    ]  # fmt: skip
    assert [one.message for one in later] == (
        ["the group falls behind: lag 17936, and it grows by 20 records a second"] if is_behind else []
    )


def test_a_group_that_is_full():
    assert found(max_size=3) == []
    (one,) = found(max_size=2)
    assert (one.check, one.evidence) == ("group-full", ("2 members, and the broker allows 2",))


def test_a_consumer_group_that_waits_for_somebody():
    """A static member that was killed holds its partitions; classic groups are told what they are told."""
    old = member("seat-1", [0, 1], protocol="consumer", member_epoch=4, status="reconciling")
    new = member("seat-2", [2], protocol="consumer", member_epoch=5)
    group = with_members(
        old, new, type="consumer", state="Reconciling", group_epoch=5, assignment_epoch=5, session_timeout_ms=45_000
    )
    (one,) = [one for one in found(group, earlier=group, window_ms=6_000) if one.check == "rebalancing"]
    assert one.message == "the group is reconciling, and waits for 1 member"
    assert one.about == ("seat-1",)
    assert one.evidence[0] == "waits for seat-1; seen for 6s"
    assert one.evidence[1].startswith(
        "seat-1: at epoch 4; if it has stopped, it is removed 45s after its last heartbeat"
    )


def test_a_group_that_keeps_rebalancing():
    past = [record(60_000 - i * 5_000, i, member("seat-1")) for i in range(8)]
    (one,) = found_in(past)
    assert (one.check, one.message) == ("frequent-rebalances", "7 rebalances within 30s")
    assert len(one.evidence) == 2
    rejoined = "a member joined again by itself, or the topics have changed"
    rounds = "a further round of a cooperative rebalance"
    assert one.evidence[1] == f"in 7 of them no member came or left: {rounds}, {rejoined}"
    eager = [replace(each, group=replace(each.group, assignor="range")) for each in past]
    assert found_in(eager)[0].evidence[1] == f"in 7 of them no member came or left: {rejoined}"
    restless = [
        record(60_000 - i * 5_000, i, member("seat-1"), *([member(f"d-{i}", is_static=False)] if i % 2 else []))
        for i in range(8)
    ]
    (one,) = [each for each in found_in(restless) if each.check == "frequent-rebalances"]
    assert one.evidence[1] == "joined or left most often: app (10.0.0.1): 7 times"
    assert one.next_command == "kgm history explain g"
    assert found_in(past[:6]) == []


def test_a_group_without_generations_that_keeps_rebalancing():
    """Each target assignment is a rebalance, however many epochs it is for; its deletion is none."""
    targets = [RecordedTarget(at_ms=NOW - 60_000 + i * 5_000, epoch=3 * i + 2) for i in range(8)]
    (one,) = found_in(targets)
    assert (one.check, one.message) == ("frequent-rebalances", "7 rebalances within 30s")
    assert one.evidence == ("the last one 25s ago",)
    assert found_in(targets[:6]) == []
    deleted = [replace(one, epoch=None) if i % 2 else one for i, one in enumerate(targets)]
    assert found_in(deleted) == []


def found_in(logged):
    recorded = [one for one in logged if isinstance(one, RecordedGroup)]
    return found(recorded=recorded, rebalances_ms=rebalances_ms(logged))


def test_findings_of_a_built_history():
    advice = TimeoutAdviceRow(
        partition=0, group_id="g", group_type="classic", timestamp=1, verdict="raise", now_ms=10_000, advised_ms=45_000,
        advice="x", restarts=9, max_ms=31_000,
    )  # fmt: skip
    (one,) = found(advice=[advice], history="/h")
    assert (one.check, one.severity) == ("session-timeout-advice", "warning")
    assert "raise session.timeout.ms from 10000 to 45000" in one.message
    assert one.next_command == "kgm history timeouts g --store /h"
    assert found(advice=[replace(advice, verdict="keep")]) == []
    alarm = AlarmRow(
        partition=0, offset=1, timestamp=1, group_id="g", group_type="classic", alarm="duplicate-instance-id",
        seat="seat-1", confidence="certain", count=2, evidence=("a", "b"),
    )  # fmt: skip
    (one,) = found(alarms=[alarm], history="/h")
    assert (one.check, one.severity, one.evidence) == ("history-duplicate-instance-id", "error", ("a", "b"))
    assert found(alarms=[replace(alarm, cleared_timestamp=9)]) == []


def test_the_most_severe_come_first_and_commands_survive_a_shell():
    group = with_members(member("seat-1", [0, 1]), member("x", [2], is_static=False), group_id="g; rm -rf ~")
    there = found(group)
    assert [one.severity for one in there] == sorted((one.severity for one in there), key=list(Severity).index)
    assert there[0].next_command == "kgm describe 'g; rm -rf ~' --offsets"
    assert some("abcdefg") == "a, b, c, d, e and 2 more"

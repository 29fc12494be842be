"""What is in the way of a group beside its members' states: applications that do not poll, topics that are gone,
partitions that came later, clients of several kinds. Made-up groups; real ones are in tests/docs and tests/cli."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client.offsets_topic.group_tail import RecordedGroup
from kgm.client.offsets_topic.member_activity import CommitRecord, DepartureRecord, MemberRecord
from kgm.model.client_library import ClientLibrary
from kgm.model.snapshot import OffsetSnapshot, TopicSnapshot
from kgm.operations.doctor.poll_intervals import absences, has_recent_departures, vanishing_topics
from tests.operations.doctor.test_checks import HEALTHY, HOUR, NOW, found, member

SESSION_MS, POLL_MS = 6_000, 20_000
GONE_MS = NOW - 60_000


def dynamic(name, partitions):
    return member(name, partitions, is_static=False)


def of(*members, generation, at_ms):
    group = replace(
        HEALTHY, members=members, generation=generation, offsets=(), session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=POLL_MS,
    )  # fmt: skip
    return RecordedGroup(at_ms=at_ms, group=group)


def commits(last_ms, *, partition=1, every_ms=500, count=20):
    return [
        CommitRecord(at_ms=last_ms - every_ms * back, topic="t", partition=partition, offset=count - back)
        for back in reversed(range(count))
    ]


BEFORE = of(dynamic("a", [0, 1]), dynamic("b", [2, 3]), generation=4, at_ms=GONE_MS - 100_000)
AFTER = of(dynamic("b", [0, 1, 2, 3]), generation=5, at_ms=GONE_MS)


def polls(recorded, read):
    group = recorded[-1].group
    there = found(group, recorded=recorded, commits=read)
    return [one for one in there if one.check == "max-poll-exceeded"]


def test_a_member_that_went_after_a_silence_as_long_as_its_poll_interval():
    (one,) = polls([BEFORE, AFTER], commits(GONE_MS - POLL_MS - 500))
    assert one.about == ("a",)
    assert "silent for 20.5 s" in one.evidence[0]
    assert "its max.poll.interval.ms is 20 s" in one.evidence[0]
    assert one.next_command == "kgm history explain g --generation 5"
    back = of(dynamic("b", [0, 1]), dynamic("a-2", [2, 3]), generation=6, at_ms=NOW - 30_000)
    (one,) = polls([BEFORE, AFTER, back], commits(GONE_MS - POLL_MS - 500))
    assert one.evidence[0].endswith("; a-2 has joined since with the same client id, from the same host")


def test_a_poll_interval_that_is_shorter_than_the_session():
    """The session of the member goes on while it does not poll."""
    longer = replace(BEFORE, group=replace(BEFORE.group, session_timeout_ms=2 * POLL_MS))
    (one,) = polls([longer, AFTER], commits(GONE_MS - POLL_MS - 500))
    assert one.about == ("a",)
    assert "its max.poll.interval.ms is 20 s" in one.evidence[0]


@pytest.mark.parametrize(
    "read",
    [
        commits(GONE_MS - 1_000),  # it left
        commits(GONE_MS - SESSION_MS - 500),  # its session expired
        commits(GONE_MS - POLL_MS - 500, count=2),  # too few
        commits(GONE_MS - POLL_MS - 500, partition=3),  # of another member
    ],
)
def test_other_departures_are_none(read):
    assert polls([BEFORE, AFTER], read) == []


def test_what_was_long_ago_and_members_that_all_left_are_not_looked_at():
    assert has_recent_departures([BEFORE, AFTER], NOW)
    assert not has_recent_departures([BEFORE, AFTER], NOW + HOUR)
    assert not has_recent_departures([BEFORE, of(generation=5, at_ms=GONE_MS)], NOW)
    static = of(member("a", [0, 1]), dynamic("b", [2, 3]), generation=4, at_ms=GONE_MS - 9)
    assert not has_recent_departures([static, AFTER], NOW)


def test_members_of_a_consumer_group_that_came_back_under_their_ids():
    """A process that runs on has the member id that it had; a new process has another one."""
    left = [DepartureRecord(at_ms=GONE_MS, member_id=name) for name in ("a", "b")]
    joined = MemberRecord(at_ms=GONE_MS + 25_700, member_id="a", member_epoch=None, rebalance_timeout_ms=POLL_MS)
    records = [commits(GONE_MS - 1)[0], *left, joined, replace(joined, member_id="c"), replace(joined, member_epoch=7)]
    (one,) = there = absences(records, GONE_MS)
    assert (one.member_id, one.left_ms, one.back_ms) == ("a", GONE_MS, GONE_MS + 25_700)
    assert absences(records, NOW) == []
    (finding,) = [one for one in found(absences=there) if one.check == "max-poll-exceeded"]
    assert (finding.severity, finding.about) == ("warning", ("a",))
    assert finding.evidence[0].endswith(
        "out of the group for 25.7s; its max.poll.interval.ms is 20s: if that had passed, it did not poll for 45.7s"
    )


def test_topics_that_a_library_took_out_of_its_subscription():
    then = of(member("seat-1", topics=("t", "u")), generation=1, at_ms=NOW - 9)
    assert vanishing_topics([then], HEALTHY) == {"u"}
    (one,) = found(vanished_topics=frozenset({"u"}))
    assert (one.check, one.about, one.severity) == ("missing-topics", ("u",), "warning")
    assert one.evidence == ("missing: u",)


def unowned(group):
    return next(one.evidence for one in found(group) if one.check == "unowned-partitions")


def test_partitions_that_were_added_after_the_assignment():
    grown = replace(HEALTHY, topics=(TopicSnapshot(name="t", partitions=6),))
    assert unowned(grown)[1].startswith("probably added after the last rebalance: t[4-5];")
    # One in the middle was not.
    middle = replace(HEALTHY, members=(member("seat-1", [0]), member("seat-2", [2, 3])))
    assert unowned(middle) == ("without an owner: t[1]",)
    # The broker of a consumer group sees them itself.
    assert len(unowned(replace(grown, type="consumer"))) == 1


def library(*candidates):
    name = candidates[0] if len(candidates) == 1 else None
    return ClientLibrary(name=name, confidence="certain" if name else "unknown", candidates=candidates)


def mixed(*kinds):
    members = tuple(
        replace(one, client_library=found_library, subscription_version=version)
        for one, (found_library, version) in zip(HEALTHY.members, kinds, strict=True)
    )
    return [one for one in found(replace(HEALTHY, members=members)) if one.check == "mixed-clients"]


def test_members_on_old_and_new_clients_and_on_several_libraries():
    java, either, rd = library("java"), library("java", "franz-go"), library("librdkafka")
    assert mixed((java, 3), (either, 3)) == []  # it may be the same
    assert mixed((java, 3), (java, None)) == []
    (one,) = mixed((java, 1), (java, 3))
    assert one.message.startswith("the members run on old and new versions of their library")
    assert set(one.evidence) == {"java, subscription version 1: seat-1", "java, subscription version 3: seat-2"}
    (one,) = mixed((either, 3), (rd, 3))
    assert "several client libraries" in one.message


def lagging(committed, end, **more):
    row = OffsetSnapshot(
        "t", 0, committed, end, end - committed, "seat-1", "seat-1-1", 0, None, more.pop("age_ms", None)
    )
    return replace(HEALTHY, offsets=(row,), **more)


def checks(group, **more):
    return {one.check: one for one in found(group, **more)}


def test_a_member_is_not_blamed_for_an_open_transaction():
    group = lagging(5, 9)
    twice = {"earlier": group, "window_ms": 6_000}
    assert "stalled-owner" in checks(group, **twice)
    there = checks(group, **twice, stable_ends={("t", 0): 5})
    assert "stalled-owner" not in there
    assert there["open-transaction"].about == ("t-0",)
    assert there["open-transaction"].evidence[0] == "t[0]: from offset 5"
    # There are records before it, or there is none.
    for stable_end in (7, 9):
        there = checks(group, **twice, stable_ends={("t", 0): stable_end})
        assert "stalled-owner" in there
        assert "open-transaction" not in there
    # It is new, or it ends in time.
    assert checks(group, earlier=lagging(3, 5), window_ms=6_000, stable_ends={("t", 0): 5}) == {}


def test_markers_of_transactions_are_not_lag():
    group = lagging(8, 9)
    assert "stalled-owner" in checks(group, earlier=group, window_ms=6_000)
    assert checks(group, earlier=group, window_ms=6_000, marker_ends=frozenset({("t", 0)})) == {}
    empty = lagging(8, 9, state="Empty", members=())
    assert "empty-with-lag" in checks(empty)
    assert checks(empty, marker_ends=frozenset({("t", 0)})) == {}


@pytest.mark.parametrize(
    ("age_ms", "emptied_ms", "is_found"),
    [
        (3_000, None, True),
        (3_000, 60_000, True),
        (61_000, 60_000, False),  # the last member's
        (900_000, None, False),  # long ago
        (None, None, False),
    ],
)
def test_commits_of_a_group_without_members(age_ms, emptied_ms, is_found):
    group = lagging(9, 9, state="Empty", members=(), age_ms=age_ms)
    recorded = [] if emptied_ms is None else [RecordedGroup(at_ms=NOW - emptied_ms, group=group)]
    assert ("commits-without-members" in checks(group, recorded=recorded)) == is_found


@pytest.mark.parametrize(
    ("strategy", "is_refused"),
    [
        ("cooperative-sticky", False),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range", False),
        ("range,roundrobin", True),
        ("org.apache.kafka.clients.consumer.RangeAssignor", True),
    ],
)
def test_a_consumer_without_the_assignor_of_the_group(strategy, is_refused):
    there = checks(HEALTHY, consumer_settings={"partition.assignment.strategy": strategy})
    assert ("refused-consumer" in there) == is_refused
    new = {"partition.assignment.strategy": strategy, "group.protocol": "CONSUMER"}
    assert "refused-consumer" not in checks(HEALTHY, consumer_settings=new)


def test_a_consumer_whose_instance_id_is_taken():
    settings = {"group.instance.id": "seat-1", "group.protocol": "consumer"}
    new = replace(HEALTHY, type="consumer")
    one = checks(new, consumer_settings=settings)["refused-consumer"]
    assert "UNRELEASED_INSTANCE_ID" in one.message
    assert one.evidence == ("seat-1-1 has it (app, 10.0.0.1)",)
    away = replace(new, members=(replace(new.members[0], status="away"), new.members[1]))
    assert "refused-consumer" not in checks(away, consumer_settings=settings)
    old = checks(HEALTHY, consumer_settings={"group.instance.id": "seat-1"})["refused-consumer"]
    assert (old.severity, old.message.endswith("is fenced")) == ("warning", True)
    assert "refused-consumer" not in checks(HEALTHY, consumer_settings={"group.instance.id": "seat-9"})


def test_a_partition_that_stands_still_while_its_owner_gets_through_the_others():
    def group(*rows):
        offsets = tuple(
            OffsetSnapshot("t", number, committed, end, end - committed, "seat-1", "seat-1-1")
            for number, (committed, end) in enumerate(rows)
        )
        return replace(HEALTHY, offsets=offsets)

    def there(then, now):
        return checks(group(*now), earlier=group(*then), window_ms=6_000)

    one = there([(5, 9), (17, 200)], [(9, 12), (17, 200)])["stalled-partition"]
    assert (one.about, one.evidence[0]) == (("t-1",), "t[1]: stays at offset 17, lag 183; owner seat-1 (app, 10.0.0.1)")
    assert one.evidence[1].endswith("paused the partition")
    of_streams = replace(group((9, 12), (17, 200)), assignor="stream")
    found = checks(of_streams, earlier=replace(group((5, 9), (17, 200)), assignor="stream"), window_ms=6_000)
    assert found["stalled-partition"].evidence[1].endswith("or restores a task behind a transaction that is still open")
    assert "stalled-partition" not in there([(5, 9), (17, 200)], [(8, 12), (17, 200)])  # it had more to read elsewhere
    assert "stalled-partition" not in there([(5, 9), (17, 200)], [(9, 12), (18, 200)])
    assert "stalled-partition" not in there([(5, 9), (17, 17)], [(9, 12), (17, 20)])  # it has just arrived
    assert "stalled-partition" not in there(
        [(9, 9), (17, 200)], [(9, 9), (17, 200)]
    )  # the owner stands still: another check


@pytest.mark.parametrize(("others", "is_told"), [(("u",), True), (("t", "u"), False)])
def test_applications_that_share_a_group_id_and_no_topic(others, is_told):
    first, second = HEALTHY.members
    group = replace(
        HEALTHY,
        members=(replace(first, client_id="mail", topics=("t",)), replace(second, client_id="reports", topics=others)),
    )
    evidence = checks(group)["mixed-subscriptions"].evidence
    assert {"1 member (mail): t", f"1 member (reports): {', '.join(others)}"} <= set(evidence)
    assert any("need a group.id each" in line for line in evidence) == is_told

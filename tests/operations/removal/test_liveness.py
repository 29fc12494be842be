"""What makes a member alive, stopped or unknown: every rule by hand, and what no sequence of events may lead to."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.client.offsets_topic.member_activity import CommitRecord, MemberRecord, RebalanceRecord, RecordedMember
from kgm.client.offsets_topic.writability import Writability
from kgm.client.topic_log.partition_log import Replicas
from kgm.model.snapshot import MemberSnapshot
from kgm.operations.removal.liveness import (
    SHORTEST_SILENCE_MS,
    SILENT_INTERVALS,
    CommitInterval,
    LivenessVerdict,
    Observation,
    commit_interval,
)

ALIVE, STOPPED, UNKNOWN = LivenessVerdict
PAIR = ("t", 0)


def commit(at_ms, partition=0, topic="t", offset=None):
    """A commit of a consumer that handles a record each ms, unless an offset is given."""
    return CommitRecord(at_ms=at_ms, topic=topic, partition=partition, offset=at_ms if offset is None else offset)


def rebalance(at_ms, generation=1, **assignments):
    members = {
        name: RecordedMember(
            member_id=name, group_instance_id=None, session_timeout_ms=45_000, rebalance_timeout_ms=300_000,
            assignment={"t": tuple(partitions)},
        )
        for name, partitions in assignments.items()
    }  # fmt: skip
    return RebalanceRecord(at_ms=at_ms, generation=generation, assignor="range", members=members)


def observed(
    *, static=True, interval_ms=5_000, session_ms=None, committed=None, owned=(0,), status="stable", epoch=None
):
    member = MemberSnapshot(
        member_id="m", group_instance_id="i" if static else None, status=status, member_epoch=epoch,
        assignment={"t": owned},
    )  # fmt: skip
    return Observation(
        member=member, began_s=100.0, owned=member.assignment, session_timeout_ms=session_ms,
        committed={PAIR: 10} if committed is None else committed,
        interval=None if interval_ms is None else CommitInterval(longest_ms=interval_ms, commits=9, record_ms=1),
    )  # fmt: skip


def arrive(one, count, now_s):
    """Kgm sees that many records arrive for a member that has committed offset 10."""
    one.see_offsets({PAIR: 10}, {PAIR: 10}, now_s - 0.5)
    one.see_offsets({PAIR: 10}, {PAIR: 10 + count}, now_s)


# -- how often it commits


@pytest.mark.parametrize(
    ("records", "longest_ms", "commits", "last_ms"),
    [
        ([commit(0), commit(5_000), commit(9_000), commit(14_500)], 5_500, 4, 14_500),
        # One request commits several partitions at once.
        ([commit(0), commit(0, 1), commit(100), commit(100, 1), commit(200), commit(300)], 100, 4, 300),
        # The commits of others are not its own.
        ([commit(0), commit(10, 7), commit(20, 7), commit(30, 7), commit(40, 7)], None, None, 0),
        ([commit(0), commit(5_000), commit(10_000)], None, None, 10_000),
        ([], None, None, None),
        # Before the first rebalance in the records nobody knows who owned what.
        ([commit(0), commit(1), commit(2), commit(3), rebalance(5, m=[0])], None, None, None),
        # It had partition 3 before and has 0 now; what lies between two generations is no interval.
        (
            [rebalance(0, m=[3], x=[0]), *(commit(ms, 3) for ms in (1, 2, 3, 4)), commit(5), rebalance(50, 2, m=[0]),
             commit(100), commit(102)],
            2, 5, 102,
        ),
        # A coordinator whose clock is behind: its commits are not between those before.
        ([commit(0), commit(60), commit(120), commit(180), commit(75), commit(135), commit(195)], 60, 6, 195),
        # While it was no member, it committed nothing.
        ([rebalance(0, x=[0]), commit(1), commit(2), commit(3), commit(4)], None, None, None),
    ],
)  # fmt: skip
def test_the_commit_interval_is_the_longest_that_the_log_shows(records, longest_ms, commits, last_ms):
    interval, last = commit_interval("m", {"t": (0, 1)}, records)
    assert last == last_ms
    found = None if interval is None else (interval.longest_ms, interval.commits)
    assert found == (None if longest_ms is None else (longest_ms, commits))


def test_a_consumer_that_reported_may_have_got_other_partitions():
    records = [
        *(commit(ms) for ms in (0, 10, 20, 30)),
        MemberRecord(at_ms=31, member_id="m", member_epoch=4),
        commit(900),
    ]
    interval, last = commit_interval("m", {"t": (0,)}, records)
    assert interval is not None
    assert (interval.longest_ms, interval.commits, last) == (10, 4, 900)


@pytest.mark.parametrize(
    ("records", "record_ms"),
    [
        # 1,000 ms for 4 records, and for 6 of two partitions.
        ([commit(0, offset=10), commit(500, offset=13), commit(800, offset=13), commit(1_000, offset=14)], 250),
        ([commit(0, offset=10), commit(0, 1, offset=7), commit(400, 1, offset=9), commit(500, offset=11), commit(1_000, offset=14)], 1_000 / 6),
        # A lower offset is a reset, and repeats what was handled.
        ([commit(0, offset=10), commit(500, offset=2), commit(800, offset=5), commit(900, offset=7)], 180),
        # A rebalance and the commits of others do not count.
        ([rebalance(0, m=[0]), *(commit(ms, offset=ms) for ms in (1, 2, 3)), rebalance(9, 2, m=[1]), commit(10, 1, offset=500),
          commit(20, offset=900), commit(30, 1, offset=520)], 22 / 22),
        # Java commits on a timer, also what it has committed before.
        ([commit(ms, offset=3) for ms in (0, 5_000, 10_000, 15_000)], None),
    ],
)  # fmt: skip
def test_what_a_record_takes_is_what_its_commits_show_on_average(records, record_ms):
    interval, _ = commit_interval("m", {"t": (0, 1)}, records)
    assert interval is not None
    assert interval.record_ms == (None if record_ms is None else pytest.approx(record_ms))


@pytest.mark.parametrize(("longest_ms", "silence_ms"), [(1, SHORTEST_SILENCE_MS), (5_000, 25_000), (60_000, 300_000)])
def test_silence_is_five_intervals_and_ten_seconds_at_least(longest_ms, silence_ms):
    assert CommitInterval(longest_ms=longest_ms, commits=5).silence_ms == silence_ms
    assert silence_ms >= SILENT_INTERVALS * longest_ms


# -- alive


def test_a_committed_offset_that_moves_is_a_sign_of_life():
    one = observed()
    one.see_offsets({PAIR: 14}, {PAIR: 14}, 101.0)
    liveness = one.verdict(101.0)
    assert (liveness.verdict, liveness.evidence) == (
        ALIVE, ("it committed offset 14 of t-0 while kgm watched, after 10",),
    )  # fmt: skip


def test_the_first_commit_of_a_partition_is_one_too():
    one = observed(committed={PAIR: None})
    one.see_offsets({PAIR: 3}, {}, 101.0)
    assert one.verdict(101.0).evidence == ("it committed offset 3 of t-0 while kgm watched, after nothing",)


def test_an_offset_that_kgm_had_not_read_before_is_none():
    """The first OffsetFetch failed, or its partitions were not known yet."""
    one = observed(committed={})
    one.see_offsets({PAIR: 3}, {PAIR: 3}, 101.0)
    assert one.verdict(101.0).verdict is UNKNOWN
    one.see_offsets({PAIR: 4}, {PAIR: 4}, 102.0)
    assert one.verdict(102.0).evidence == ("it committed offset 4 of t-0 while kgm watched, after 3",)


def test_offsets_of_a_topic_that_brokers_do_not_show_are_not_none():
    one = observed(committed={})
    one.denied_topics = {"t"}
    one.see_offsets({}, {}, 101.0)
    assert one.verdict(101.0).evidence == ("the committed offsets of 1 partition that it owns could not be read",)


def test_offsets_that_could_not_be_read_are_neither_none_nor_all():
    one = observed(committed={}, owned=(0, 1))
    assert one.verdict(101.0).evidence == ("the committed offsets of 2 partitions that it owns could not be read",)
    one.see_offsets({PAIR: 3}, {PAIR: 3}, 101.0)
    assert one.verdict(101.0).evidence == ("the end offsets of 1 partition that it owns could not be read",)
    one.see_offsets({PAIR: 3}, {PAIR: 3, ("t", 1): 0}, 102.0)
    assert one.verdict(102.0).evidence == ("caught up; no commit expected",)


def test_a_commit_that_changes_no_offset_shows_in_the_log():
    one = observed()
    one.see_records([commit(1, 5)], 101.0)  # somebody else's
    assert one.verdict(101.0).verdict is UNKNOWN
    one.see_records([commit(2)], 102.0)
    assert one.verdict(102.0).verdict is ALIVE


@pytest.mark.parametrize(("static", "verdict"), [(False, ALIVE), (True, UNKNOWN)])
def test_a_dynamic_member_of_a_new_generation_has_rejoined_and_a_static_one_may_be_absent(static, verdict):
    one = observed(static=static)
    one.see_records([rebalance(1, 7, m=[0])], 101.0)
    assert one.verdict(101.0).verdict is verdict


def test_what_a_consumer_reports_is_a_sign_of_life():
    one = observed()
    one.see_records([MemberRecord(at_ms=1, member_id="x", member_epoch=3)], 101.0)
    assert one.verdict(101.0).verdict is UNKNOWN
    one.see_records([MemberRecord(at_ms=1, member_id="m", member_epoch=3)], 101.0)
    assert one.verdict(101.0).verdict is ALIVE


def test_an_epoch_that_rises_is_a_sign_of_life():
    one = observed(epoch=3)
    one.see_epoch(MemberSnapshot(member_id="m", member_epoch=3, status="stable"))
    assert one.verdict(101.0).verdict is UNKNOWN
    one.see_epoch(MemberSnapshot(member_id="m", member_epoch=4, status="stable"))
    assert one.verdict(101.0).verdict is ALIVE


def test_to_leave_with_the_intention_to_return_is_no_sign_of_life():
    """Its member epoch becomes -2 with its last request, and nothing runs after that."""
    one = observed(epoch=3)
    one.see_epoch(MemberSnapshot(member_id="m", member_epoch=-2, status="away"))
    assert one.verdict(101.0).verdict is not ALIVE


def test_still_a_member_after_a_whole_session_takes_heartbeats():
    one = observed(session_ms=45_000, interval_ms=None)
    one.see_still_member(100.0 + 45.9)
    assert one.verdict(145.9).verdict is UNKNOWN
    one.see_still_member(100.0 + 46)
    assert one.verdict(146.0).evidence == (
        "it is still a member after 46 s of watching, and its session timeout is 45 s",
    )  # fmt: skip


def test_a_session_that_somebody_else_started_again_proves_nothing():
    one = observed(session_ms=10_000)
    one.disturbed("the coordinator moved while kgm watched", 105.0)
    one.see_still_member(115.0)
    assert one.verdict(115.0).verdict is UNKNOWN
    one.see_still_member(116.0)
    assert one.verdict(116.0).verdict is ALIVE


# -- stopped


def test_a_member_that_left_to_come_back_has_stopped():
    assert observed(status="away").verdict(100.0).verdict is STOPPED


def test_five_intervals_of_silence_while_records_wait():
    one = observed()
    arrive(one, 20, 101.0)
    assert one.verdict(101.0 + 24.9).verdict is UNKNOWN
    liveness = one.verdict(101.0 + 25)
    assert liveness.verdict is STOPPED
    assert liveness.why == (
        "it committed nothing for 25 s after kgm saw records arrive (20 wait); before that, it committed at least every 5 s "
        "(9 commits in the group's log), and at its pace 23 records that it may have polled would be handled"
    )


def test_records_that_kgm_has_not_seen_arrive_are_no_proof():
    """One record behind its offset: a replay has just written it, or it is the marker of a transaction."""
    one = observed()
    one.see_offsets({PAIR: 10}, {PAIR: 11}, 101.0)
    liveness = one.verdict(1_000.0)
    assert liveness.verdict is UNKNOWN
    assert liveness.evidence[0] == (
        "1 record waits for it, and none arrived while kgm watched, so it is not known since when"
    )
    assert one.proof_ms(105.0) is None


def test_silence_counts_from_when_records_were_seen_waiting():
    one = observed()
    one.see_offsets({PAIR: 10}, {PAIR: 10}, 101.0)
    one.see_offsets({PAIR: 10}, {PAIR: 11}, 120.0)
    one.see_offsets({PAIR: 10}, {PAIR: 11}, 130.0)
    assert one.verdict(140.0).verdict is UNKNOWN
    assert one.verdict(145.0).verdict is STOPPED


def test_what_the_log_shows_of_a_silence_only_tells_how_long_a_look_is_worth_while():
    """Records may not have waited all that time."""
    one = observed()
    one.last_commit_ms = 50_000
    assert one.overdue_ms(90_000, 110.0) is None, "no record is known to wait"
    arrive(one, 20, 104.0)
    assert one.verdict(110.0).verdict is UNKNOWN
    assert one.overdue_ms(74_999, 110.0) is None
    assert one.overdue_ms(75_000, 110.0) == 4_000 + 25_000
    one.heartbeats_without_commits = True
    assert one.overdue_ms(75_000, 110.0) is None
    assert observed(interval_ms=None).overdue_ms(75_000, 110.0) is None


# -- while nobody can commit


def log(in_sync, least, count=2):
    return Writability(partition=3, replicas=Replicas(count=count, in_sync=in_sync), least=least)


@pytest.mark.parametrize(
    ("in_sync", "count", "least", "takes"),
    [
        (2, 2, None, True), (1, 2, 1, True), (1, 2, 2, False), (1, 3, 2, False), (2, 3, 2, True), (2, 3, None, None),
        # More than it has are not needed (Kafka: Partition.effectiveMinIsr).
        (1, 1, 2, True), (2, 2, 3, True), (1, 2, 3, False),
    ],
)  # fmt: skip
def test_a_partition_takes_records_while_enough_of_its_replicas_are_in_sync(in_sync, count, least, takes):
    assert log(in_sync, least, count).takes_records is takes


def test_silence_is_no_proof_while_commits_cannot_be_written():
    """The coordinator refuses every commit with NOT_ENOUGH_REPLICAS, and answers everything else."""
    one = observed(session_ms=45_000)
    arrive(one, 20, 101.0)
    one.see_writability(log(1, 2), 100.0, 126.0)
    liveness = one.verdict(126.0)
    assert liveness.verdict is UNKNOWN
    assert liveness.why == (
        "commits cannot be written: partition 3 of __consumer_offsets has 1 in-sync replica and min.insync.replicas 2"
    )
    one.see_still_member(147.0)
    assert one.verdict(147.0).verdict is UNKNOWN, "the coordinator cannot write that its session has expired, either"
    assert one.proof_ms(105.0) is None


def test_time_in_which_commits_could_not_be_written_does_not_count_as_silence():
    one = observed()
    arrive(one, 20, 101.0)
    one.see_writability(log(1, 2), 100.0, 120.0)
    one.see_writability(log(2, 2), 121.0, 121.0)
    one.see_offsets({PAIR: 10}, {PAIR: 31}, 121.0)
    assert one.verdict(145.9).verdict is UNKNOWN
    assert "commits could not be written while kgm watched" in one.verdict(145.9).evidence
    assert one.verdict(146.0).verdict is STOPPED


def test_a_replica_that_is_not_needed_changes_nothing():
    one = observed()
    arrive(one, 20, 101.0)
    one.see_writability(log(1, 1), 120.0, 120.0)
    assert one.verdict(126.0).verdict is STOPPED


def test_where_the_least_number_of_replicas_cannot_be_read_silence_counts_until_the_log_last_took_a_record():
    one = observed()
    arrive(one, 20, 101.0)
    one.see_writability(log(1, None), 110.0, 130.0)
    assert one.verdict(130.0).verdict is UNKNOWN
    assert one.verdict(130.0).why == (
        "it is not known whether commits can be written: partition 3 of __consumer_offsets has 1 in-sync replica of 2, "
        "and min.insync.replicas cannot be read"
    )
    one.see_writability(log(1, None), 126.0, 130.0)
    assert one.verdict(130.0).verdict is STOPPED


def test_a_rebalance_ends_a_silence_and_records_have_to_arrive_again():
    one = observed()
    arrive(one, 20, 101.0)
    one.disturbed("the group rebalanced while kgm watched", 102.0)
    one.see_offsets({PAIR: 10}, {PAIR: 30}, 103.0)
    assert one.verdict(1_000.0).verdict is UNKNOWN


@pytest.mark.parametrize(
    "change",
    [
        {"interval_ms": None},  # never from a default interval
        {"owned": ()},
        {"committed": {}},
    ],
    ids=str,
)
def test_no_interval_of_its_own_no_partitions_or_no_commits_ever_are_no_proof(change):
    one = observed(**change)
    one.see_offsets(dict(one.committed), {PAIR: 29}, 100.5)
    one.see_offsets(dict(one.committed), {PAIR: 30}, 101.0)
    assert one.verdict(10_000.0).verdict is UNKNOWN


def test_who_heartbeats_without_committing_has_not_stopped():
    """A paused consumer, or one with a record that takes long: it outlived its session after its last commit."""
    one = observed()
    arrive(one, 20, 101.0)
    one.heartbeats_without_commits = True
    liveness = one.verdict(1_000.0)
    assert liveness.verdict is UNKNOWN
    assert "it sent heartbeats since" in liveness.why


def test_a_rebalance_begins_the_silence_again():
    one = observed()
    arrive(one, 20, 101.0)
    one.disturbed("the group rebalanced while kgm watched", 120.0)
    assert one.verdict(130.0).verdict is UNKNOWN
    one.see_offsets({PAIR: 10}, {PAIR: 31}, 121.0)
    assert one.verdict(145.0).verdict is UNKNOWN
    assert one.verdict(146.0).verdict is STOPPED


# -- unknown, and why


@pytest.mark.parametrize(
    ("change", "ends", "why"),
    [
        ({}, {PAIR: 10}, "caught up; no commit expected"),
        ({"owned": ()}, {}, "it owns no partitions, so it commits nothing"),
        ({"committed": {PAIR: None}}, {}, "nothing was ever committed for its partitions"),
        (
            {}, {PAIR: 12},
            ("it committed nothing for 3.0 s after kgm saw records arrive (2 wait); as it commits at least every 5 s, "
             "that is proof only after 25 s"),
        ),
        ({"interval_ms": None}, {PAIR: 11}, "it committed nothing for 3.0 s after kgm saw records arrive (1 wait)"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_said_to_be_unknown_and_why(change, ends, why):
    one = observed(**change)
    one.see_offsets(dict(one.committed), dict.fromkeys(ends, 10), 100.5)
    one.see_offsets(dict(one.committed), ends, 101.0)
    liveness = one.verdict(104.0)
    assert (liveness.verdict, liveness.evidence[0]) == (UNKNOWN, why)


def test_how_long_a_look_has_to_be():
    one = observed(interval_ms=5_000, session_ms=45_000)
    assert one.proof_ms(105.0) == 47_000, "it has nothing to commit"
    arrive(one, 2, 101.0)
    assert one.proof_ms(105.0) == 27_000
    one.heartbeats_without_commits = True
    assert one.proof_ms(105.0) == 47_000
    assert observed(session_ms=None, interval_ms=None).proof_ms(105.0) is None


def test_missing_evidence_is_named():
    one = observed(interval_ms=None)
    one.owned = None
    one.missing.append("no READ on Topic '__consumer_offsets'")
    assert one.verdict(101.0).evidence == ("no READ on Topic '__consumer_offsets'",)


# -- whatever happens

_STEPS = st.lists(
    st.tuples(
        st.floats(0.1, 30),
        st.sampled_from(["look", "lag", "caught up", "commit", "logged commit", "rebalance", "moved", "still there"]),
    ),
    max_size=30,
)


@given(_STEPS, st.booleans(), st.sampled_from([None, 1_000, 5_000]), st.sampled_from([None, 6_000, 45_000]))
def test_stopped_only_after_its_own_silence_and_never_after_a_sign_of_life(steps, static, interval_ms, session_ms):
    """An oracle beside the observation: the moments at which each kind of event was last seen."""
    one = observed(static=static, interval_ms=interval_ms, session_ms=session_ms)
    now, committed, end = 100.0, 10, 10
    waiting_since, undisturbed_since, lived, has_looked = None, 100.0, False, False
    for pause, what in steps:
        now += pause
        match what:
            case "lag":
                end += 5
            case "caught up":
                end = committed
            case "commit":
                committed += 1
                end = max(end, committed)
                lived = True
            case "logged commit":
                one.see_records([commit(0)], now)
                lived = True
            case "rebalance":
                one.see_records([rebalance(0, 9, m=[0])], now)
                waiting_since, undisturbed_since, lived = None, now, lived or not static
            case "moved":
                one.disturbed("the coordinator moved while kgm watched", now)
                waiting_since, undisturbed_since = None, now
            case "still there":
                one.see_still_member(now)
                lived |= session_ms is not None and (now - undisturbed_since) * 1000 >= session_ms + 1_000
        one.see_offsets({PAIR: committed}, {PAIR: end}, now)
        if end <= committed:
            waiting_since = None
        elif waiting_since is None and what == "lag" and has_looked:
            waiting_since = now
        has_looked = True
        silent_ms = 0 if waiting_since is None else (now - waiting_since) * 1000
        is_silent = interval_ms is not None and waiting_since is not None
        is_silent = is_silent and silent_ms >= max(5 * interval_ms, 10_000)
        expected = ALIVE if lived else STOPPED if is_silent else UNKNOWN
        assert one.verdict(now).verdict is expected, (steps, what)


def test_each_verdict_can_be_reached():
    reached = set()
    for lag, interval_ms, commits in itertools.product((False, True), (None, 1_000), (False, True)):
        one = observed(interval_ms=interval_ms)
        one.see_offsets({PAIR: 10}, {PAIR: 10}, 100.5)
        one.see_offsets({PAIR: 11 if commits else 10}, {PAIR: 30 if lag else 11}, 101.0)
        reached.add(one.verdict(200.0).verdict)
    assert reached == {ALIVE, STOPPED, UNKNOWN}


# -- what it may have polled at once


def batches(record_ms=1_000, uncommitted_ms=0):
    """A member that commits each second, as its handler takes no record for longer than that."""
    one = observed(interval_ms=1_000)
    one.interval = CommitInterval(longest_ms=1_000, commits=9, record_ms=record_ms)
    one.read_s, one.uncommitted_ms = one.began_s, uncommitted_ms
    return one


def test_a_backlog_that_it_may_have_polled_at_once_is_no_death():
    """kafkajs and Java's consumer commit what they polled once they have handled all of it."""
    one = batches()
    arrive(one, 204, 101.0)
    seen = one.verdict(130.0)
    assert seen.verdict is UNKNOWN
    assert "it may have polled 204 records at once" in seen.why
    assert one.verdict(100.0 + 5 * 203).verdict is UNKNOWN
    assert one.verdict(100.0 + 5 * 205).verdict is STOPPED


def test_handlers_that_are_slower_under_a_burst_are_no_death():
    """7 records a second, 100 ms each; then 150 more at once, which take 400 ms each."""
    one = batches(record_ms=1_000 / 7, uncommitted_ms=2_000)
    arrive(one, 150, 101.0)
    for second in range(1, 130):
        one.see_offsets({PAIR: 10}, {PAIR: 160 + 7 * second}, 101.0 + second)
        if second <= 60:
            assert one.verdict(101.0 + second).verdict is UNKNOWN
    assert one.verdict(231.0).verdict is STOPPED


def test_what_arrives_after_it_must_have_polled_is_in_no_batch_of_it():
    one = batches()
    arrive(one, 3, 101.0)
    for second in range(1, 30):
        one.see_offsets({PAIR: 10}, {PAIR: 13 + 100 * (second > 3)}, 101.0 + second)
    assert one.verdict(101.0 + 9).verdict is UNKNOWN
    assert one.verdict(101.0 + 10.1).verdict is STOPPED


def test_the_time_before_the_watch_counts_by_the_clock_of_the_coordinator():
    """Dead for ten minutes, with a record each second: that many records, however they came, were handled by now."""
    dead, busy = batches(uncommitted_ms=600_000), batches(uncommitted_ms=12_000)
    for one in (dead, busy):
        arrive(one, 600, 101.0)
        one.see_offsets({PAIR: 10}, {PAIR: 610 + 2}, 103.0)
    assert dead.verdict(112.0).verdict is STOPPED
    assert busy.verdict(112.0).verdict is UNKNOWN


def test_a_rebalance_begins_anew():
    one = batches(uncommitted_ms=600_000)
    one.disturbed("the group rebalanced while kgm watched", 101.0)
    arrive(one, 600, 102.0)
    assert one.verdict(120.0).verdict is UNKNOWN


def test_commits_that_show_no_pace_prove_nothing():
    one = batches(record_ms=None)
    arrive(one, 1, 101.0)
    seen = one.verdict(500.0)
    assert seen.verdict is UNKNOWN
    assert "do not show how long a record takes it" in seen.why
    assert one.proof_ms(105.0) is None

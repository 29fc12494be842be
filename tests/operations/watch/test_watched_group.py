"""A watched group, from made-up polls: no clock, no cluster."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.client.poller import PolledGroup
from kgm.model.errors import NotFoundError, UnreachableError
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.watch.expectations import Expectations
from kgm.operations.watch.watched_group import WatchedGroup

SILENT = "no READ on Topic '__consumer_offsets'"


def static(name, start=1, partitions=(), **more):
    return MemberSnapshot(
        member_id=f"{name}-{start}", group_instance_id=name, status=more.pop("status", "stable"), topics=("t",),
        assignment={"t": tuple(partitions)} if partitions else {}, **more,
    )  # fmt: skip


def dynamic(member_id, partitions=()):
    return MemberSnapshot(
        member_id=member_id, status="stable", topics=("t",), assignment={"t": tuple(partitions)} if partitions else {}
    )


def group(*members, **more):
    return GroupSnapshot(**{"group_id": "g", "type": "classic", "state": "Stable", "members": members} | more)


def rebalancing(*members):
    bare = [replace(one, assignment={}, topics=(), status="reconciling") for one in members]
    return group(*bare, state="PreparingRebalance")


def recorded(generation, *members):
    return RecordedGroup(at_ms=1, group=group(*members, generation=generation, state="Stable" if members else "Empty"))


class Watch:
    """Polls a second apart."""

    def __init__(self, group=None, **expected):
        self.group = group or WatchedGroup("g", expectations=Expectations(**expected))
        self.now_ms = 1_000_000

    def see(self, seen, *records, silent=None, interrupted=None, skipped=False, targets="not read"):
        self.now_ms += 1000
        look = PolledGroup(
            seen=seen, recorded=records, log_unreadable_because=silent, log_interrupted_because=interrupted,
            skipped=skipped, targets_unread_because=targets,
        )  # fmt: skip
        return [(event.kind, event.text) for event in self.group.observe(look, self.now_ms)]

    def kinds(self, *args, **more):
        return [kind for kind, _ in self.see(*args, **more)]


A, B = static("a", 1, [0, 1]), static("b", 1, [2])


def test_a_bounce_of_a_static_member_is_a_replacement_and_nothing_else():
    watch = Watch(expect_no_moves=True, max_rebalances=0)
    assert watch.see(group(A, B, generation=4), recorded(4, A, B)) == [
        ("watching", "classic  Stable  generation 4  2 members, 2 static")
    ]
    again = static("a", 2, [0, 1])
    assert watch.see(group(again, B), recorded(4, again, B)) == [("replaced", "a  a-1 -> a-2")]
    assert watch.kinds(group(again, B)) == []
    assert (watch.group.rebalances, watch.group.moved, watch.group.breach()) == (0, {}, None)
    assert watch.group.doubt is None
    assert watch.group.summary() == "0 rebalances, 0 partitions moved, 1 member replaced"


def test_generations_between_two_polls_are_counted():
    watch = Watch(max_rebalances=2)
    watch.see(group(A, B), recorded(4, A, B))
    assert watch.see(group(A, B), recorded(7, A, B)) == [("generation", "4 -> 7: 3 rebalances")]
    assert watch.group.rebalances == 3
    assert watch.group.breach() == "3 rebalances, more than 2"


def test_moves_that_are_undone_between_two_polls_are_in_the_log():
    watch = Watch(expect_no_moves=True)
    watch.see(group(A, B), recorded(4, A, B))
    alone = static("b", 1, [0, 1, 2])
    events = watch.see(group(A, B), recorded(5, alone), recorded(6, A, B))
    assert [kind for kind, _ in events] == ["generation", "left", "moved", "generation", "joined", "moved"]
    assert events[2] == ("moved", "t[0-1] a -> b")
    assert watch.group.moves_now == ()
    assert watch.group.breach() == "4 handovers: t[0-1] a -> b"


def test_the_log_goes_on_where_it_was_left():
    """While it cannot be read, descriptions show what happens; afterwards only what they have missed is told."""
    watch = Watch(max_rebalances=9)
    watch.see(group(A, B, generation=4), recorded(4, A, B))
    alone = static("b", 1, [0, 1, 2])
    assert watch.kinds(group(alone), interrupted="no answer") == ["note", "left", "moved"]
    assert (watch.group.rebalances, watch.group.handovers) == (0, 2)
    assert (str(watch.group.rebalances_doubt), watch.group.handovers_exact) == (
        "at least: no answer, so the latest may be missing", False,
    )  # fmt: skip
    assert watch.kinds(group(A, B), interrupted="no answer") == ["joined", "moved"]
    told = watch.see(group(A, B), recorded(5, alone), recorded(6, A, B))
    assert told == [("generation", "4 -> 5"), ("generation", "5 -> 6")]
    assert (watch.group.rebalances, watch.group.handovers) == (2, 4)
    assert (watch.group.rebalances_doubt, watch.group.handovers_exact) == (None, True)
    assert watch.kinds(group(alone), recorded(7, alone)) == ["generation", "left", "moved"]


def test_a_log_that_could_not_be_read_at_first_leaves_a_doubt():
    """The generation that the count begins with is not known."""
    watch = Watch(max_rebalances=9)
    watch.see(group(A, B), interrupted="no answer")
    watch.see(group(A, B))
    assert watch.group.unseen() == "no answer when the watch began"


def test_a_partition_that_comes_back_to_its_consumer_is_not_handed_over():
    """All members are gone for a while, and each then gets what it had."""
    watch = Watch(expect_no_moves=True)
    watch.see(group(A, B), recorded(4, A, B))
    empty = group(state="Empty")
    assert "moved" in watch.kinds(empty, recorded(5))
    assert (watch.group.breach(), watch.group.handovers) == (None, 0)
    assert (
        watch.group.verdict(reached=None).breach == "3 partitions moved: t[0-1] a -> no consumer, t[2] b -> no consumer"
    )
    assert watch.group.summary() == "0 rebalances, 3 partitions moved, 0 members replaced"
    a, b = static("a", 2, [0, 1]), static("b", 2, [2])
    watch.see(group(a, b), recorded(6, a, b))
    assert (watch.group.breach(), watch.group.handovers) == (None, 0)
    watch.see(empty, recorded(7))
    a, b = static("a", 3, [0]), static("b", 3, [1, 2])
    watch.see(group(a, b), recorded(8, a, b))
    assert watch.group.breach() == "1 handover: t[1] a -> b"
    # The two generations without members are no rebalances, and t[0] and t[2] have their owners again.
    assert watch.group.summary() == "2 rebalances, 1 partition moved, 1 handover, 0 members replaced"


def test_a_partition_without_a_consumer_breaks_the_expectation_once_the_group_is_stable():
    watch = Watch(expect_no_moves=True)
    watch.see(consumer(A, B, epoch=5))
    shrunk = static("a", 1, [0])
    watch.see(consumer(shrunk, B, epoch=6, state="Reconciling"))
    assert watch.group.breach() is None  # another member, or the same, may get it yet
    watch.see(consumer(shrunk, B, epoch=6))
    assert watch.group.breach() == "1 partition moved: t[1] a -> no consumer"


def test_the_first_owner_of_a_new_partition_takes_it_from_nobody():
    watch = Watch(expect_no_moves=True)
    watch.see(group(A, B), recorded(4, A, B))
    grown = static("b", 1, [2, 3])
    watch.see(group(A, grown), recorded(5, A, grown))
    assert (watch.group.breach(), watch.group.handovers) == (None, 0)
    assert watch.group.verdict(reached=None).breach is None
    taken = static("a", 1, [0, 1, 3])
    watch.see(group(taken, B), recorded(6, taken, B))
    assert watch.group.breach() == "1 handover: t[3] b -> a"


def test_handovers_between_two_polls_of_a_consumer_group_may_be_more():
    """Its log is not read. After one new epoch of a group that was stable, a partition can have moved once at most."""
    watch = Watch()
    watch.see(consumer(A, B, epoch=5))
    swapped = static("a", 1, [0]), static("b", 1, [1, 2])
    watch.see(consumer(*swapped, epoch=6, state="Reconciling"))
    assert (watch.group.handovers, watch.group.handovers_exact) == (1, True)
    watch.see(consumer(A, B, epoch=7))
    assert (watch.group.handovers, watch.group.handovers_exact) == (2, False)
    watch = Watch()
    watch.see(consumer(A, B, epoch=5))
    watch.see(consumer(A, B, epoch=7))
    assert (watch.group.handovers, watch.group.handovers_exact) == (0, False)


def test_a_group_whose_members_have_their_targets_can_hand_over_once_with_the_next_one():
    """It is Assigning while its epoch has no target assignment yet; what the last one gave is where it belongs."""
    swapped = static("a", 1, [0]), static("b", 1, [1, 2])
    for status, is_exact in (("stable", True), ("reconciling", False)):
        watch = Watch()
        watch.see(consumer(A, B, epoch=5), target(5), targets=None)
        between = consumer(A, replace(B, status=status), epoch=5, state="Assigning")
        watch.see(between, targets=None)
        watch.see(consumer(*swapped, epoch=7), target(7), targets=None)
        assert (watch.group.handovers, watch.group.handovers_exact) == (1, is_exact)


@given(st.lists(st.lists(st.sampled_from("abc-"), min_size=3, max_size=3), min_size=1, max_size=8))
def test_handovers_are_the_changes_in_the_list_of_consumers_of_each_partition(generations):
    """Whatever the log says. A dash: the partition has no consumer."""
    watch = Watch()
    watch.see(group(A, B), recorded(0, A, B))
    for number, owners in enumerate(generations):
        members = [static(name, 1, [p for p in range(3) if owners[p] == name]) for name in sorted({*owners} - {"-"})]
        watch.see(group(*members, state="Stable" if members else "Empty"), recorded(number + 1, *members))
    lists = [[one for one in taken if one != "-"] for taken in zip("aab", *generations, strict=True)]
    assert watch.group.handovers == sum(one != then for taken in lists for one, then in pairwise(taken))
    between_consumers = [move for move in watch.group.moves_now if move.owner_after is not None]
    assert watch.group.handovers >= len(between_consumers)


def offset(partition, committed, end):
    lag = end - committed if end >= committed else None
    return OffsetSnapshot(
        topic="t", partition=partition, committed=committed, end=end, lag=lag, group_instance_id="a", member_id="a-1"
    )


def test_a_committed_offset_past_the_end_is_no_lag_and_is_said_once():
    watch = Watch()
    sane, beyond = (offset(0, 5, 5), offset(1, 5, 5)), (offset(0, 5, 5), offset(1, 5, 0))
    watch.see(group(A, B, offsets=sane), recorded(1, A, B))
    assert watch.see(group(A, B, offsets=beyond)) == [
        ("note", "1 committed offset is past the end: topic recreated or records lost (t[1]); the lag there is unknown")
    ]
    assert watch.group.latest.lag is None
    assert watch.see(group(A, B, offsets=beyond)) == []
    late = Watch()
    assert late.kinds(group(A, B, offsets=beyond), recorded(1, A, B)) == ["watching", "note"]


def test_without_the_log_visible_rebalances_are_counted():
    watch = Watch(max_rebalances=9)
    assert watch.kinds(group(A, B), silent=SILENT) == ["note", "watching"]
    assert watch.kinds(rebalancing(A, B), silent=SILENT) == ["state"]
    assert watch.kinds(rebalancing(A, B), silent=SILENT) == []
    assert watch.kinds(group(A, B), silent=SILENT) == ["state"]
    assert watch.group.rebalances == 1  # the round that was seen
    c = dynamic("c", [2])
    assert watch.kinds(group(A, static("b", 1), c), silent=SILENT) == ["joined", "moved"]
    assert watch.group.rebalances == 2  # one that was not, but must have been
    assert watch.group.doubt.more is None
    assert watch.group.summary() == "at least 2 rebalances, 1 partition moved, at least 1 handover, 0 members replaced"


def test_a_rebalance_in_progress_at_the_first_poll_is_not_counted():
    watch = Watch()
    watch.see(rebalancing(A, B), silent=SILENT)
    watch.see(group(A, B), silent=SILENT)
    assert watch.group.rebalances == 0
    assert watch.group.baseline == group(A, B)


def test_members_that_join_during_a_rebalance_and_owners_after_it():
    watch = Watch()
    watch.see(group(A, B), recorded(1, A, B))
    c = dynamic("c")
    assert watch.see(rebalancing(A, B, c)) == [("state", "Stable -> PreparingRebalance"), ("joined", "c")]
    full = (static("a", 1, [0]), B, dynamic("c", [1]))
    assert watch.see(group(*full), recorded(2, *full)) == [
        ("generation", "1 -> 2"), ("moved", "t[1] a -> c"), ("state", "PreparingRebalance -> Stable"),
    ]  # fmt: skip


def consumer(*members, epoch, **more):
    return group(*members, type="consumer", group_epoch=epoch, assignment_epoch=epoch, **more)


def test_epochs_count_where_the_group_has_them():
    watch = Watch()
    watch.see(consumer(A, B, epoch=5))
    assert watch.see(consumer(A, B, epoch=6)) == [("epoch", "5 -> 6")]
    assert watch.group.doubt is None
    assert watch.see(consumer(A, B, epoch=9)) == [("epoch", "6 -> 9: 1 to 3 rebalances")]
    assert (watch.group.rebalances, watch.group.rebalances_doubt.more) == (2, 2)
    assert watch.group.summary() == "2 to 4 rebalances, 0 partitions moved, 0 members replaced"


def test_a_limit_is_broken_only_if_the_least_number_is_above_it():
    """With descriptions alone, five epochs are one to five rebalances."""
    for most, breach, unseen in (
        (0, "1 rebalance, more than 0 (up to 4 more: {why})", None),
        (4, None, "1 to 5 rebalances, at most 4 expected: {why}"),
        (5, None, None),
    ):
        watch = Watch(max_rebalances=most)
        watch.see(consumer(A, B, epoch=2))
        watch.see(consumer(A, B, epoch=7))
        why = watch.group.rebalances_doubt.why
        assert "several epochs passed between two polls" in why
        assert watch.group.breach() == (None if breach is None else breach.format(why=why))
        if breach is None:
            assert watch.group.unseen() == (None if unseen is None else unseen.format(why=why))
        verdict = watch.group.verdict(reached=None)
        assert (verdict.rebalances, verdict.rebalances_max) == (1, 5)


def target(epoch):
    return RecordedTarget(at_ms=1, epoch=epoch)


def test_each_target_assignment_in_the_log_is_a_rebalance():
    watch = Watch(max_rebalances=2)
    watch.see(consumer(A, B, epoch=2), target(2), targets=None)
    assert watch.see(consumer(A, B, epoch=7), target(3), target(7), targets=None) == [
        ("epoch", "2 -> 3"), ("epoch", "3 -> 7"),
    ]  # fmt: skip
    assert watch.see(consumer(A, B, epoch=7), target(7), targets=None) == []  # written again
    assert (watch.group.rebalances, watch.group.rebalances_doubt, watch.group.breach()) == (2, None, None)
    assert watch.group.handovers_exact is False  # there were two between the polls
    assert watch.see(consumer(A, B, epoch=7), target(None), target(7), targets=None) == [("epoch", "7 -> 7")]
    assert watch.group.breach() == "3 rebalances, more than 2"


def test_a_description_that_is_older_than_the_log_counts_nothing():
    watch = Watch()
    watch.see(consumer(A, B, epoch=2), target(3), targets=None)
    watch.see(consumer(A, B, epoch=3), target(4), targets=None)
    watch.see(consumer(A, B, epoch=4), targets=None)
    assert (watch.group.rebalances, watch.group.rebalances_doubt) == (1, None)


def test_the_log_of_a_consumer_group_goes_on_where_it_was_left():
    watch = Watch()
    watch.see(consumer(A, B, epoch=2), target(2), targets=None)
    watch.see(consumer(A, B, epoch=6), targets="no answer")
    assert watch.group.summary().startswith("1 to 4 rebalances")
    assert "no answer" in watch.group.rebalances_doubt.why
    watch.see(consumer(A, B, epoch=8), target(5), target(6), target(8), targets=None)
    assert (watch.group.rebalances, watch.group.rebalances_doubt) == (3, None)


def test_of_the_log_before_the_first_poll_only_the_last_record_is_known():
    watch = Watch(WatchedGroup("g", baseline=consumer(A, B, epoch=2)))
    watch.see(consumer(A, B, epoch=5), replace(target(5), follows_gap=True), targets=None)
    assert watch.group.summary().startswith("1 to 3 rebalances")


def after_gap(record):
    """A record before which compaction may have removed others."""
    return replace(record, follows_gap=True)


@pytest.mark.parametrize(
    ("most", "breach", "unseen"),
    [
        (0, "1 rebalance, more than 0 (up to 5 more: {why})", None),
        (4, None, "1 to 6 rebalances, at most 4 expected: {why}"),
        (6, None, None),
    ],
)  # fmt: skip
def test_target_assignments_that_were_compacted_away_are_between_one_and_the_epochs(most, breach, unseen):
    watch = Watch(max_rebalances=most)
    watch.see(consumer(A, B, epoch=2), target(2), targets=None)
    assert watch.see(consumer(A, B, epoch=8), after_gap(target(8)), targets=None) == [
        ("epoch", "2 -> 8: 1 to 6 rebalances")
    ]
    why = "some of its records in __consumer_offsets were not read, or compaction has removed them"
    assert watch.group.breach() == (None if breach is None else breach.format(why=why))
    if breach is None:
        assert watch.group.unseen() == (None if unseen is None else unseen.format(why=why))
    assert watch.group.handovers_exact is False
    assert watch.see(consumer(A, B, epoch=9), after_gap(target(9)), targets=None) == [("epoch", "8 -> 9")]
    assert watch.group.summary().startswith("2 to 7 rebalances")


def test_generations_that_were_compacted_away_can_have_been_empty():
    """The only member is closed and another one joins: generation 2 has no members, so there is one rebalance."""
    watch = Watch(max_rebalances=1, expect_no_moves=True)
    watch.see(group(A), recorded(1, A))
    assert watch.see(group(A), after_gap(recorded(3, A))) == [("generation", "1 -> 3: 1 to 2 rebalances")]
    assert (watch.group.rebalances, watch.group.rebalances_doubt.more, watch.group.breach()) == (1, 1, None)
    assert watch.group.unseen().startswith("1 to 2 rebalances, at most 1 expected: ")
    empty = group(state="Empty")
    assert watch.see(empty, after_gap(recorded(5)))[0] == ("generation", "3 -> 5: 0 to 1 rebalances")
    assert watch.group.summary().startswith("1 to 3 rebalances")
    assert ("generation", "5 -> 6") in watch.see(group(A), after_gap(recorded(6, A)))
    assert watch.group.summary().startswith("2 to 4 rebalances")


def test_no_generation_is_missing_between_two_that_follow_each_other():
    watch = Watch(max_rebalances=1, expect_no_moves=True)
    watch.see(group(A), recorded(1, A))
    watch.see(group(A), after_gap(recorded(1, A)))
    watch.see(group(A), after_gap(recorded(2, A)))
    assert (watch.group.rebalances, watch.group.rebalances_doubt, watch.group.unseen()) == (1, None, None)


def test_where_generations_without_members_count_only_the_moves_are_not_known():
    """As in a rollout, which compares with generations."""
    watch = Watch(counts_empty=True)
    watch.see(group(A), recorded(1, A))
    watch.see(group(A), after_gap(recorded(3, A)))
    assert (watch.group.rebalances, watch.group.rebalances_doubt, watch.group.handovers_exact) == (2, None, False)


def test_target_assignments_before_a_change_to_the_classic_protocol_may_be_missing():
    watch = Watch()
    watch.see(consumer(A, B, epoch=3), target(3), targets=None)
    watch.see(group(A, B), after_gap(recorded(6, A, B)))
    assert watch.group.summary().startswith("0 to 6 rebalances")


def test_a_change_of_the_protocol_is_no_rebalance():
    """The broker keeps the number: epoch 3 of a consumer group becomes generation 3, and the other way around. Kafka
    4.3: one consumer-protocol member of three leaves, and the two others rebalance once, to generation 4."""
    watch = Watch(max_rebalances=1)
    c = dynamic("c", [2])
    watch.see(consumer(A, B, c, epoch=3), target(3), targets=None)
    events = watch.see(rebalancing(A, B), target(None), recorded(3, A, B), targets=None)
    assert "generation" not in [kind for kind, _ in events]
    assert watch.see(group(A, B), recorded(4, A, B))[0] == ("generation", "3 -> 4")
    assert (watch.group.rebalances, watch.group.doubt, watch.group.breach()) == (1, None, None)
    watch.see(consumer(A, B, epoch=4), target(4), targets=None)
    assert watch.group.rebalances == 1
    watch.see(consumer(A, B, epoch=5), target(5), targets=None)
    assert watch.group.rebalances == 2


def test_epochs_without_a_target_assignment_are_no_rebalance_of_the_classic_group_that_follows():
    watch = Watch()
    watch.see(consumer(A, B, epoch=3), target(3), targets=None)
    watch.see(group(A, B), target(None), recorded(5, A, B), recorded(6, A, B), targets=None)
    assert watch.group.rebalances == 1


def test_a_member_of_a_consumer_group_that_goes_away_and_returns():
    watch = Watch(quiet_ms=1000)
    watch.see(consumer(A, B, epoch=5))
    away = replace(A, status="away")
    assert watch.see(consumer(away, B, epoch=5, state="Reconciling")) == [
        ("state", "Stable -> Reconciling"), ("away", "a"),
    ]  # fmt: skip
    watch.see(consumer(away, B, epoch=5))
    assert watch.group.missing() == ["a is away"]
    assert watch.kinds(consumer(static("a", 2, [0, 1]), B, epoch=5)) == ["replaced", "back"]
    assert watch.group.missing() == []


@pytest.mark.parametrize(
    ("seen", "missing"),
    [
        (group(B), ["a has not rejoined", "no consumer owns t[0-1]"]),
        (
            group(A, B, state="PreparingRebalance"),
            ["its state is PreparingRebalance: waits for members to rejoin (Kafka does not report which have): a, b"],
        ),
        (group(A, replace(B, status="reconciling"), type="consumer"), ["b is reconciling"]),
        (group(A, static("b")), ["no consumer owns t[2]"]),
        (group(A, B), []),
    ],
)
def test_stable_says_what_is_missing(seen, missing):
    watch = Watch(quiet_ms=2000)
    watch.see(group(A, B), silent=SILENT)
    watch.see(seen, silent=SILENT)
    assert watch.group.missing() == missing


def test_as_many_dynamic_members_as_before_are_needed():
    watch = Watch()
    watch.see(group(dynamic("c", [0]), dynamic("d", [1])), silent=SILENT)
    watch.see(group(dynamic("d", [0, 1])), silent=SILENT)
    assert watch.group.missing() == ["1 of 2 members have joined"]
    watch.see(group(dynamic("d", [0]), dynamic("e", [1])), silent=SILENT)
    assert watch.group.missing() == []


def test_an_expected_number_of_members_replaces_those_from_before():
    watch = Watch(members=1)
    watch.see(group(A, B), silent=SILENT)
    assert watch.group.missing() == ["the group has 2 members, not 1"]
    watch.see(group(static("b", 1, [0, 1, 2])), silent=SILENT)
    assert watch.group.missing() == []


def test_bounced_is_when_every_member_has_been_restarted():
    watch = Watch(bounced=True, quiet_ms=1000)
    watch.see(group(A, B), recorded(1, A, B))
    watch.see(group(A, B))
    assert watch.group.missing() == ["a has not been restarted", "b has not been restarted"]
    new = static("a", 2, [0, 1]), static("b", 2, [2])
    watch.see(group(new[0], B), recorded(1, new[0], B))
    assert watch.group.missing() == ["b has not been restarted"]
    watch.see(group(*new), recorded(1, *new))
    assert not watch.group.is_quiet()
    watch.see(group(*new))
    watch.see(group(*new))
    assert watch.group.is_quiet()
    assert watch.group.verdict(reached=True).replaced == ("a", "b")


def test_events_restart_the_quiet_time_except_harmless_ones():
    watch = Watch(quiet_ms=2000)
    rows = [replace_lag(lag) for lag in (0, 500, 500)]
    watch.see(group(A, B, offsets=rows[0]), recorded(1, A, B))
    assert watch.kinds(group(A, B, offsets=rows[1])) == ["lag"]
    watch.see(group(A, B, offsets=rows[2]))
    watch.see(group(A, B, offsets=rows[2]))
    assert watch.group.is_quiet()
    assert watch.kinds(group(A, B, offsets=rows[2]), recorded(2, A, B)) == ["generation"]
    assert not watch.group.is_quiet()


def replace_lag(lag):
    row = OffsetSnapshot(topic="t", partition=0, committed=0, end=lag, lag=lag, group_instance_id="a", member_id="a-1")
    return (row,)


def test_lag_is_reported_when_it_starts_doubles_halves_and_ends():
    watch = Watch()
    told = []
    for lag in (0, 3, 0, 50, 150, 200, 290, 301, 160, 149, 90, 40, 0):
        events = watch.see(group(A, offsets=replace_lag(lag)), silent=SILENT)
        told += [text for kind, text in events if kind == "lag"]
    assert told == ["0 -> 150", "150 -> 301", "301 -> 149", "149 -> 90"]


def test_brokers_that_fail_and_return_and_coordinators_that_move():
    watch = Watch(quiet_ms=1000)
    one, two = (CoordinatorNode(id=n, host="h", port=9092 + n) for n in (1, 2))
    watch.see(group(A, B, coordinator=one), recorded(1, A, B))
    gone = UnreachableError("no broker can be reached at x:1")
    assert watch.see(gone) == [("unreachable", "no broker can be reached at x:1")]
    assert watch.see(gone) == []
    assert watch.group.missing() == ["the group cannot be described"]
    assert watch.see(group(A, B, coordinator=two)) == [
        ("reachable", "the group can be described again"), ("coordinator", "broker 1 -> 2 (h:9094)"),
    ]  # fmt: skip
    assert watch.group.rebalances == 0


def test_a_group_that_is_deleted_and_created_again():
    watch = Watch()
    watch.see(group(A), recorded(7, A))
    missing = NotFoundError("group 'g' does not exist")
    assert watch.see(missing) == [("gone", "the group no longer exists")]
    assert watch.see(missing) == []
    assert watch.group.missing() == ["the group does not exist"]
    assert watch.kinds(group(A), recorded(1, A)) == ["generation", "watching"]
    assert watch.group.rebalances == 1
    assert watch.see(group(A, B), recorded(9, A, B))[0] == ("generation", "1 -> 9: 8 rebalances")
    assert watch.see(group(A, B), recorded(2, A, B)) == [("generation", "9 -> 2: 2 rebalances")]


def test_a_group_that_does_not_exist_yet():
    watch = Watch()
    missing = NotFoundError("group 'g' does not exist")
    assert watch.see(missing) == [("absent", "the group does not exist")]
    assert watch.see(missing) == []
    assert watch.kinds(group(A), silent=SILENT) == ["note", "watching"]


def test_a_baseline_from_a_file_shows_what_has_happened_since():
    before = group(A, B, generation=4)
    watch = Watch(WatchedGroup("g", expectations=Expectations(expect_no_moves=True, max_rebalances=1), baseline=before))
    taken = static("b", 2, [0, 1, 2])
    assert watch.kinds(group(taken), recorded(6, taken)) == [
        "generation", "left", "replaced", "moved", "watching",
    ]  # fmt: skip
    assert watch.group.rebalances == 2
    assert watch.group.breach() == "2 handovers: t[0-1] a -> b"
    assert watch.group.missing() == ["a has not rejoined"]


def test_a_log_that_was_not_read_completely_is_reported():
    watch = Watch()
    watch.see(group(A), recorded(1, A))
    watch.see(group(A), recorded(3, A), skipped=True)
    assert watch.group.doubt.more is None
    assert watch.group.verdict(reached=None).rebalances_doubt == watch.group.doubt


def test_a_late_first_record_counts_by_what_it_changes():
    watch = Watch()
    watch.see(group(A, B))
    again = static("a", 2, [0, 1])
    assert watch.kinds(group(again, B), recorded(4, again, B)) == ["replaced"]
    assert (watch.group.rebalances, str(watch.group.doubt)) == (0, "at least: the previous generation is unknown")
    assert watch.kinds(group(again), recorded(5, again)) == ["generation", "left", "moved"]
    other = Watch()
    other.see(group(A, B))
    assert other.kinds(group(A), recorded(5, A)) == ["left", "moved"]
    assert other.group.rebalances == 1


def test_other_values_are_reported_by_name():
    watch = Watch()
    watch.see(group(A, assignor="range"), silent=SILENT)
    assert watch.see(group(A, assignor="sticky"), silent=SILENT) == [("assignor", "range -> sticky")]
    assert watch.see(group(replace(A, topics=("t", "u")), assignor="sticky"), silent=SILENT) == [
        ("subscription", "a  t, u")
    ]
    assert watch.kinds(consumer(A, epoch=1, assignor="uniform")) == ["type", "assignor", "subscription"]

"""The story of a group, from looks that are made up: no clock, no cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.cli.output.watch.event_lines import event_json, line
from kgm.client.offsets_topic_tail import Recorded
from kgm.client.poller import Look
from kgm.model.errors import NotFoundError, UnreachableError
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.watch.story import Goal, Story, story_json, summary

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
    return Recorded(at_ms=1, group=group(*members, generation=generation, state="Stable" if members else "Empty"))


class Watch:
    """Looks a second apart."""

    def __init__(self, story=None, **goal):
        self.story = story or Story("g", goal=Goal(**goal))
        self.now_ms = 1_000_000

    def see(self, seen, *records, silent=None, skipped=False):
        self.now_ms += 1000
        look = Look(seen=seen, recorded=records, log_silent_because=silent, skipped=skipped)
        return [(event.kind, event.text) for event in self.story.see(look, self.now_ms)]

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
    assert (watch.story.rebalances, watch.story.moved, watch.story.breach()) == (0, {}, None)
    assert watch.story.doubt is None
    assert summary(watch.story) == "0 rebalances, 0 partitions moved, 1 member replaced"


def test_generations_that_went_by_between_two_looks_are_counted():
    watch = Watch(max_rebalances=2)
    watch.see(group(A, B), recorded(4, A, B))
    assert watch.see(group(A, B), recorded(7, A, B)) == [("generation", "4 -> 7: 3 rebalances")]
    assert watch.story.rebalances == 3
    assert watch.story.breach() == "3 rebalances, more than 2"


def test_moves_that_were_undone_between_two_looks_are_in_the_log():
    watch = Watch(expect_no_moves=True)
    watch.see(group(A, B), recorded(4, A, B))
    alone = static("b", 1, [0, 1, 2])
    events = watch.see(group(A, B), recorded(5, alone), recorded(6, A, B))
    assert [kind for kind, _ in events] == ["generation", "left", "moved", "generation", "joined", "moved"]
    assert events[2] == ("moved", "t[0-1] a -> b")
    assert watch.story.moves_now == ()
    assert watch.story.breach() == "2 partitions moved: t[0-1] a -> b"


def test_without_the_log_rebalances_are_counted_as_far_as_they_show():
    watch = Watch(max_rebalances=9)
    assert watch.kinds(group(A, B), silent=SILENT) == ["note", "watching"]
    assert watch.kinds(rebalancing(A, B), silent=SILENT) == ["state"]
    assert watch.kinds(rebalancing(A, B), silent=SILENT) == []
    assert watch.kinds(group(A, B), silent=SILENT) == ["state"]
    assert watch.story.rebalances == 1  # the round that was seen
    c = dynamic("c", [2])
    assert watch.kinds(group(A, static("b", 1), c), silent=SILENT) == ["joined", "moved"]
    assert watch.story.rebalances == 2  # one that was not, but must have been
    assert "at least" in watch.story.doubt
    assert summary(watch.story) == "at least 2 rebalances, 1 partition moved, 0 members replaced"


def test_what_is_said_of_a_round_that_was_under_way_at_the_first_look():
    watch = Watch()
    watch.see(rebalancing(A, B), silent=SILENT)
    watch.see(group(A, B), silent=SILENT)
    assert watch.story.rebalances == 0
    assert watch.story.baseline == group(A, B)


def test_members_that_come_and_go_during_a_round_and_owners_after_it():
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
    assert watch.story.doubt is None
    assert watch.see(consumer(A, B, epoch=9)) == [("epoch", "6 -> 9: up to 3 rebalances")]
    assert (watch.story.rebalances, watch.story.doubt.partition(":")[0]) == (4, "at most")


def test_a_member_of_a_consumer_group_goes_away_and_is_back():
    watch = Watch(settle_ms=1000)
    watch.see(consumer(A, B, epoch=5))
    away = replace(A, status="away")
    assert watch.see(consumer(away, B, epoch=5, state="Reconciling")) == [
        ("state", "Stable -> Reconciling"), ("away", "a"),
    ]  # fmt: skip
    watch.see(consumer(away, B, epoch=5))
    assert watch.story.unsettled_because() == ["a is away"]
    assert watch.kinds(consumer(static("a", 2, [0, 1]), B, epoch=5)) == ["replaced", "back"]
    assert watch.story.unsettled_because() == []


@pytest.mark.parametrize(
    ("seen", "missing"),
    [
        (group(B), ["a is not back", "nobody owns t[0-1]"]),
        (group(A, B, state="PreparingRebalance"), ["its state is PreparingRebalance"]),
        (group(A, replace(B, status="reconciling"), type="consumer"), ["b is reconciling"]),
        (group(A, static("b")), ["nobody owns t[2]"]),
        (group(A, B), []),
    ],
)
def test_stable_says_what_is_missing(seen, missing):
    watch = Watch(settle_ms=2000)
    watch.see(group(A, B), silent=SILENT)
    watch.see(seen, silent=SILENT)
    assert watch.story.unsettled_because() == missing


def test_dynamic_members_have_to_be_as_many_as_before():
    watch = Watch()
    watch.see(group(dynamic("c", [0]), dynamic("d", [1])), silent=SILENT)
    watch.see(group(dynamic("d", [0, 1])), silent=SILENT)
    assert watch.story.unsettled_because() == ["1 of 2 members are there"]
    watch.see(group(dynamic("d", [0]), dynamic("e", [1])), silent=SILENT)
    assert watch.story.unsettled_because() == []


def test_a_group_that_is_to_shrink_has_its_number_said():
    watch = Watch(members=1)
    watch.see(group(A, B), silent=SILENT)
    assert watch.story.unsettled_because() == ["it has 2 members, not 1"]
    watch.see(group(static("b", 1, [0, 1, 2])), silent=SILENT)
    assert watch.story.unsettled_because() == []


def test_bounced_is_when_everybody_was_started_anew():
    watch = Watch(bounced=True, settle_ms=1000)
    watch.see(group(A, B), recorded(1, A, B))
    watch.see(group(A, B))
    assert watch.story.unsettled_because() == ["a was not restarted", "b was not restarted"]
    new = static("a", 2, [0, 1]), static("b", 2, [2])
    watch.see(group(new[0], B), recorded(1, new[0], B))
    assert watch.story.unsettled_because() == ["b was not restarted"]
    watch.see(group(*new), recorded(1, *new))
    assert not watch.story.settled()
    watch.see(group(*new))
    watch.see(group(*new))
    assert watch.story.settled()
    assert story_json(watch.story, reached=True)["replaced"] == ["a", "b"]


def test_whatever_happens_starts_the_settle_time_anew_but_for_what_does_no_harm():
    watch = Watch(settle_ms=2000)
    rows = [replace_lag(lag) for lag in (0, 500, 500)]
    watch.see(group(A, B, offsets=rows[0]), recorded(1, A, B))
    assert watch.kinds(group(A, B, offsets=rows[1])) == ["lag"]
    watch.see(group(A, B, offsets=rows[2]))
    watch.see(group(A, B, offsets=rows[2]))
    assert watch.story.settled()
    assert watch.kinds(group(A, B, offsets=rows[2]), recorded(2, A, B)) == ["generation"]
    assert not watch.story.settled()


def replace_lag(lag):
    row = OffsetSnapshot(topic="t", partition=0, committed=0, end=lag, lag=lag, group_instance_id="a", member_id="a-1")
    return (row,)


def test_lag_is_told_when_it_starts_doubles_halves_and_ends():
    watch = Watch()
    told = []
    for lag in (0, 3, 0, 50, 150, 200, 290, 301, 160, 149, 90, 40, 0):
        events = watch.see(group(A, offsets=replace_lag(lag)), silent=SILENT)
        told += [text for kind, text in events if kind == "lag"]
    assert told == ["0 -> 150", "150 -> 301", "301 -> 149", "149 -> 90"]


def test_brokers_that_go_and_come_back_and_coordinators_that_move():
    watch = Watch(settle_ms=1000)
    one, two = (CoordinatorNode(id=n, host="h", port=9092 + n) for n in (1, 2))
    watch.see(group(A, B, coordinator=one), recorded(1, A, B))
    gone = UnreachableError("no broker can be reached at x:1")
    assert watch.see(gone) == [("unreachable", "no broker can be reached at x:1")]
    assert watch.see(gone) == []
    assert watch.story.unsettled_because() == ["it cannot be seen"]
    assert watch.see(group(A, B, coordinator=two)) == [
        ("reachable", "it can be seen again"), ("coordinator", "broker 1 -> 2 (h:9094)"),
    ]  # fmt: skip
    assert watch.story.rebalances == 0


def test_a_group_that_is_deleted_and_made_anew():
    watch = Watch()
    watch.see(group(A), recorded(7, A))
    missing = NotFoundError("group 'g' does not exist")
    assert watch.see(missing) == [("gone", "the group does not exist any more")]
    assert watch.see(missing) == []
    assert watch.story.unsettled_because() == ["the group does not exist"]
    assert watch.kinds(group(A), recorded(1, A)) == ["generation", "watching"]
    assert watch.story.rebalances == 1


def test_a_group_that_is_not_there_yet():
    watch = Watch()
    missing = NotFoundError("group 'g' does not exist")
    assert watch.see(missing) == [("absent", "the group does not exist")]
    assert watch.see(missing) == []
    assert watch.kinds(group(A), silent=SILENT) == ["note", "watching"]


def test_a_baseline_from_before_says_what_has_happened_since():
    before = group(A, B, generation=4)
    watch = Watch(Story("g", goal=Goal(expect_no_moves=True, max_rebalances=1), baseline=before))
    taken = static("b", 2, [0, 1, 2])
    assert watch.kinds(group(taken), recorded(6, taken)) == [
        "generation", "left", "replaced", "moved", "watching",
    ]  # fmt: skip
    assert watch.story.rebalances == 2
    assert watch.story.breach().startswith("2 partitions moved")
    assert watch.story.unsettled_because() == ["a is not back"]


def test_a_log_that_was_too_much_to_read_is_said():
    watch = Watch()
    watch.see(group(A), recorded(1, A))
    watch.see(group(A), recorded(3, A), skipped=True)
    assert watch.story.doubt.startswith("at least")
    assert story_json(watch.story, reached=None)["rebalances_exact"] is False


def test_a_first_record_that_comes_late_counts_by_what_it_changes():
    watch = Watch()
    watch.see(group(A, B))
    again = static("a", 2, [0, 1])
    assert watch.kinds(group(again, B), recorded(4, again, B)) == ["replaced"]
    assert (watch.story.rebalances, watch.story.doubt) == (0, "at least: the generation from before was not found")
    assert watch.kinds(group(again), recorded(5, again)) == ["generation", "left", "moved"]
    other = Watch()
    other.see(group(A, B))
    assert other.kinds(group(A), recorded(5, A)) == ["left", "moved"]
    assert other.story.rebalances == 1


def test_other_values_are_told_by_their_names():
    watch = Watch()
    watch.see(group(A, assignor="range"), silent=SILENT)
    assert watch.see(group(A, assignor="sticky"), silent=SILENT) == [("assignor", "range -> sticky")]
    assert watch.see(group(replace(A, topics=("t", "u")), assignor="sticky"), silent=SILENT) == [
        ("subscription", "a  t, u")
    ]
    assert watch.kinds(consumer(A, epoch=1, assignor="uniform")) == ["type", "assignor", "subscription"]


def test_lines_are_clean_and_json_is_exact():
    evil = "a\x1b]0;x\x07\n[red]"
    story = Story("g\u202e")
    (event,) = story.see(Look(seen=group(dynamic(evil, [0]), group_id="g\u202e")), 1_700_000_000_000)
    assert line(event) == "2023-11-14T22:13:20Z  g\\u202e  watching  classic  Stable  1 member, 0 static"
    (event,) = story.see(
        Look(seen=group(group_id="g\u202e", state="Empty"), recorded=(recorded(2),)), 1_700_000_001_000
    )[:1] or [None]
    assert event.identity == evil
    assert "\x1b" not in line(event)
    assert "\n" not in line(event)
    item = event_json(event, story)
    assert (item["identity"], item["written_at"], item["group_id"]) == (evil, "1970-01-01T00:00:00.001Z", "g\u202e")

"""The loop of `kgm watch` on made-up polls, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client.poller import PolledGroup
from kgm.model.errors import AuthorizationError, NotFoundError, UnreachableError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.watch.expectations import Expectations
from kgm.operations.watch.watch import Goal, Watch, WatchLimits
from kgm.operations.watch.watched_group import WatchedGroup
from tests.operations.watch.virtual_time import VirtualTime


def group(*starts, group_id="g", partitions=(0, 1)):
    """One static member `a`, in its first, second, ... start."""
    (start,) = starts
    member = MemberSnapshot(
        member_id=f"a-{start}", group_instance_id="a", status="stable", assignment={"t": partitions}
    )
    return GroupSnapshot(group_id=group_id, type="consumer", state="Stable", members=(member,), assignment_epoch=4)


class Polls:
    """What each poll sees of the groups, then the last poll again and again."""

    def __init__(self, *polls):
        self._polls = list(polls)

    def poll(self):
        seen = self._polls.pop(0) if len(self._polls) > 1 else self._polls[0]
        if isinstance(seen, dict):
            return seen
        return {one.group_id: PolledGroup(seen=one) for one in (seen if isinstance(seen, tuple) else (seen,))}


class Recorder:
    """Everything that was shown; leaves after so many calls."""

    def __init__(self, leaves_after=None):
        self.shown, self.calls, self._leaves_after = [], 0, leaves_after

    def show(self, events, now_ms):
        self.calls += 1
        self.shown += [(event.kind, event.text) for event in events]

    def has_left(self):
        return self._leaves_after is not None and self.calls >= self._leaves_after

    @property
    def kinds(self):
        return [kind for kind, _ in self.shown]


class Interrupted(Polls):
    """As if the operator pressed Ctrl-C during the poll after these."""

    def poll(self):
        if len(self._polls) == 1:
            raise KeyboardInterrupt
        return super().poll()


def test_an_interrupted_watch_says_how_it_ended():
    groups = [WatchedGroup("g")]
    watch = Watch(Interrupted(group(1), group(2), group(2)), groups, WatchLimits(interval_ms=500), VirtualTime())
    watch.begin()
    recorder = Recorder()
    with pytest.raises(KeyboardInterrupt):
        watch.run(recorder)
    assert recorder.shown[-1] == ("ended", "0 rebalances, 0 partitions moved, 1 member replaced")


def watched(polls, *names, recorder=None, expected=None, unseen=None, **limits):
    groups = [WatchedGroup(name, expectations=expected or Expectations(quiet_ms=1_000)) for name in names or ["g"]]
    watch = Watch(Polls(*polls), groups, WatchLimits(**{"interval_ms": 500} | limits), VirtualTime(), unseen=unseen)
    watch.begin()
    recorder = recorder or Recorder()
    watch.run(recorder)
    return watch, recorder


def test_it_ends_once_the_group_has_been_quiet_for_long_enough():
    watch, recorder = watched([group(1)], goal=Goal.STABLE)
    assert recorder.shown[-1] == ("stable", "for 1s: 0 rebalances, 0 partitions moved, 0 members replaced")
    assert recorder.kinds == ["watching", "stable"]
    assert watch.error is None
    (verdict,) = watch.verdicts()
    assert (verdict.reached, verdict.missing, verdict.looks) == (True, (), 3)


def test_what_is_expected_of_all_matching_groups_is_not_known_if_some_may_be_invisible():
    unseen = AuthorizationError("groups may be invisible")
    counting = Expectations(quiet_ms=1_000, max_rebalances=9)
    assert watched([group(1)], unseen=unseen, goal=Goal.STABLE)[0].error is unseen
    assert watched([group(1)], unseen=unseen, expected=counting, looks=2)[0].error is unseen
    assert watched([group(1)], unseen=unseen, looks=2)[0].error is None  # nothing is expected
    late = watched([group(1)], unseen=unseen, goal=Goal.STABLE, looks=1)[0].error
    assert late is not None
    assert late.exit_code == 8  # what is seen is enough to say no


def test_bounced_waits_for_every_member():
    bounced = Expectations(quiet_ms=1_000, bounced=True)
    watch, recorder = watched([group(1)] * 4 + [group(2)], goal=Goal.BOUNCED, expected=bounced)
    assert recorder.kinds == ["watching", "replaced", "stable"]
    (verdict,) = watch.verdicts()
    assert (verdict.reached, verdict.replaced) == (True, ("a",))


def test_a_broken_expectation_ends_it_at_once():
    strict = Expectations(expect_no_moves=True)
    watch, recorder = watched([group(1), group(1, partitions=(0,))], expected=strict, goal=Goal.STABLE)
    assert recorder.kinds == ["watching", "moved", "breach"]
    assert watch.error is not None
    assert watch.error.message == "group 'g': 1 partition moved: t[1] a -> no consumer"
    assert watch.error.hint == "kgm describe g"
    assert watch.verdicts()[0].reached is False


def test_time_and_polls_are_limits():
    watch, recorder = watched([group(1)], duration_ms=2_000)
    assert (watch.error, recorder.kinds) == (None, ["watching", "ended"])
    watch, recorder = watched([group(1)], looks=3)
    assert (watch.error, watch.groups[0].looks) == (None, 3)
    assert watch.verdicts()[0].reached is None
    watch, _ = watched([group(1)], looks=3, goal=Goal.BOUNCED, expected=Expectations(bounced=True))
    assert watch.error is not None
    assert watch.error.message == "group 'g': not bounced within 1s"
    assert watch.error.facts == ("g: a has not been restarted",)


COUNTED = [Expectations(expect_no_moves=True), Expectations(max_rebalances=0)]
LOST = UnreachableError("no answer", group_id="g")


@pytest.mark.parametrize("expected", COUNTED)
def test_an_expectation_is_not_met_if_the_group_cannot_be_described_at_the_end(expected):
    polls = [{"g": PolledGroup(seen=group(1))}, {"g": PolledGroup(seen=LOST)}]
    watch, _ = watched(polls, expected=expected, looks=5)
    assert watch.error is LOST
    (verdict,) = watch.verdicts()
    assert (verdict.handovers_exact, verdict.rebalances_doubt.more) == (False, None)
    watch, _ = watched([*polls, polls[0]], expected=expected, looks=5)
    assert watch.error is None
    assert watch.verdicts()[0].handovers_exact
    watch, _ = watched(polls, looks=5)
    assert watch.error is None  # nothing was expected


@pytest.mark.parametrize("expected", COUNTED)
@pytest.mark.parametrize("more", [{"looks": 5}, {"goal": Goal.STABLE}])
def test_an_expectation_is_not_met_if_what_happens_between_polls_is_not_seen(expected, more):
    expected = replace(expected, quiet_ms=1_000)
    poll = PolledGroup(seen=replace(group(1), type="classic"), log_unreadable_because="READ on the topic is missing")
    watch, _ = watched([{"g": poll}], expected=expected, **more)
    assert watch.error.exit_code == 7
    assert "READ on the topic is missing" in watch.error.facts[0]
    watch, _ = watched([{"g": poll}], **more)
    assert watch.error is None


@pytest.mark.parametrize("expected", COUNTED)
@pytest.mark.parametrize("more", [{}, {"goal": Goal.STABLE}])
def test_an_expectation_is_not_met_while_the_log_may_have_more(expected, more):
    """A read that fails may succeed later: the watch goes on until its limit."""
    expected = replace(expected, quiet_ms=1_000)
    seen = replace(group(1), type="classic", generation=4)
    read, lost = {"g": PolledGroup(seen=seen)}, {"g": PolledGroup(seen=seen, log_interrupted_because="no answer")}
    watch, _ = watched([read, lost], expected=expected, looks=9, **more)
    assert (watch.error.exit_code, watch.groups[0].looks) == (7, 9)
    assert "no answer" in watch.error.facts[0]
    assert watch.verdicts()[0].rebalances_doubt.more is None
    watch, _ = watched([read, *[lost] * 4, read], expected=expected, looks=9, **more)
    assert (watch.error, watch.verdicts()[0].rebalances_doubt) == (None, None)
    watch, _ = watched([read, lost], looks=9, **more)
    assert watch.error is None  # nothing was expected of what the log has


def test_a_group_that_is_not_quiet_for_long_enough_is_named():
    one, other = group(1, group_id="one"), group(1, group_id="other")
    restarted = [(one, replace(group(i, group_id="other"))) for i in range(2, 6)]
    watch, _ = watched([(one, other), *restarted], "one", "other", looks=4, goal=Goal.STABLE)
    assert watch.error is not None
    assert watch.error.message == "group 'other': not stable within 1s"
    assert watch.error.facts == ("other: not quiet for 1s yet",)
    assert [verdict.reached for verdict in watch.verdicts()] == [True, False]


def test_a_watch_of_less_than_a_second_says_how_long_it_was():
    watch, _ = watched([group(1), group(2)], goal=Goal.STABLE, duration_ms=200, expected=Expectations(quiet_ms=5_000))
    assert watch.error.message == "group 'g': not stable within 200ms"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ((group(1, group_id="one"), LOST), 5), ((LOST, LOST), 5),
        ((replace(group(1, group_id="one"), state="Assigning"), LOST), 8),
        ((group(1, group_id="one"), NotFoundError("group 'other' does not exist")), 8),
    ],
)  # fmt: skip
def test_a_group_that_cannot_be_described_at_the_end_is_not_known_to_be_unstable(last, code):
    first = {name: PolledGroup(seen=group(1, group_id=name)) for name in ("one", "other")}
    end = {name: PolledGroup(seen=seen) for name, seen in zip(("one", "other"), last, strict=True)}
    watch, _ = watched([first, end], "one", "other", looks=5, goal=Goal.STABLE, expected=Expectations(quiet_ms=1_000))
    assert watch.error.exit_code == code


def test_an_observer_that_leaves_ends_it():
    _, recorder = watched([group(1)], recorder=Recorder(leaves_after=3))
    assert (recorder.calls, recorder.kinds) == (3, ["watching"])


@pytest.mark.parametrize("error", [NotFoundError("group 'g' does not exist"), UnreachableError("no broker")])
def test_a_group_that_cannot_be_described_at_first_is_an_error(error):
    class Failing:
        def poll(self):
            return {"g": PolledGroup(seen=error)}

    watch = Watch(Failing(), [WatchedGroup("g")], WatchLimits(interval_ms=500), VirtualTime())
    with pytest.raises(type(error)):
        watch.begin()
    assert watch.verdicts()[0].latest is None

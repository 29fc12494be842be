"""The loop of `kgm wait` on made-up descriptions, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.errors import AuthorizationError, BrokerError, KgmError, NotFoundError, UnreachableError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.groups.trends import TrendKind
from kgm.operations.watch.conditions import parse_condition
from kgm.operations.watch.wait import WaitLimits, wait_for
from tests.operations.watch.virtual_time import VirtualTime

GROUP = GroupSnapshot(
    group_id="g", type="classic", state="Stable", members=(MemberSnapshot(member_id="m", status="stable"),)
)
EMPTY = GroupSnapshot(group_id="g", type="classic", state="Empty")
GONE, AWAY = NotFoundError("group 'g' does not exist"), UnreachableError("no broker can be reached at x:1")


class Script:
    """Descriptions and errors in this order, then the last one again and again."""

    def __init__(self, *answers: GroupSnapshot | KgmError) -> None:
        self._answers = list(answers)
        self.budgets_ms: list[int] = []

    def renew(self, timeout_ms: int) -> None:
        self.budgets_ms.append(timeout_ms)

    def describe_group(self, group_id: str, *, offsets: bool) -> GroupSnapshot:
        assert (group_id, offsets) == ("g", False)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, KgmError):
            raise answer
        return answer


def waited(answers, *conditions, timeout_ms=30_000, hold_ms=0, must_exist=False):
    limits = WaitLimits(timeout_ms=timeout_ms, hold_ms=hold_ms, interval_ms=50, must_exist=must_exist)
    return wait_for(Script(*answers), "g", [parse_condition(text) for text in conditions], limits, VirtualTime())


def test_brokers_that_fail_are_waited_for():
    assert waited([AWAY, GONE, AWAY, GROUP], "stable").met
    result = waited([GROUP, AWAY], "stable", hold_ms=60_000, timeout_ms=1_000)
    assert not result.met
    assert [(one.condition.text, one.met, one.seen) for one in result.conditions] == [("stable", False, AWAY.message)]
    assert result.group == GROUP  # as it was described last
    assert result.error.exit_code == 5


def test_a_group_that_is_deleted_meanwhile_is_empty():
    assert waited([GROUP, GONE], "empty").met
    assert waited([GROUP, GONE], "members=0").met
    assert not waited([GROUP, GONE], "empty", "members=1", timeout_ms=1_000).met
    assert waited([GROUP, GONE], "empty", must_exist=True).met  # it did
    with pytest.raises(NotFoundError):
        waited([GONE], "empty", must_exist=True)
    assert not waited([GONE], "empty", timeout_ms=1_000).met  # a mistyped name is not an empty group


def test_errors_that_waiting_does_not_solve_end_it():
    with pytest.raises(AuthorizationError):
        waited([AuthorizationError("no")], "stable", timeout_ms=600_000)


LAGGING = replace(GROUP, offsets=(OffsetSnapshot("t", 0, 5, 9, 4, None, "m", 0),))
UNREAD = replace(GROUP, offsets=(OffsetSnapshot("t", 0, None, None, None, None, "m", 0),))


class Slow(Script):
    """Each poll takes this long, or as long as it may: then it fails, or lacks the offsets. So do all that begin after
    `until_ms`."""

    def __init__(self, time: VirtualTime, takes_ms: int, until_ms: int, *, lacks: GroupSnapshot | None = None) -> None:
        super().__init__(GROUP if lacks is None else LAGGING)
        self._time, self._takes_ms, self._end_ms, self._lacks = time, takes_ms, time.now_ms() + until_ms, lacks

    def describe_group(self, group_id: str, *, offsets: bool) -> GroupSnapshot:
        is_answered = self._takes_ms <= self.budgets_ms[-1] and self._time.now_ms() < self._end_ms
        self._time.sleep_ms(self._takes_ms if is_answered else self.budgets_ms[-1])
        if is_answered:
            return self._answers[0]
        if self._lacks is None:
            raise AWAY
        return self._lacks


@pytest.mark.parametrize(
    ("takes_ms", "until_ms", "condition", "hold_ms", "code"),
    [
        # Brokers that answer, but not within what is left for the last poll.
        (400, 3_000, "members=2", 0, 8), (1_300, 3_000, "members=2", 0, 8),
        # What was met before is not known to hold until the end.
        (1, 2_480, "stable", 2_500, 8),
        # Brokers that have stopped answering, or never began.
        (1, 1_500, "members=2", 0, 5), (10_000, 3_000, "stable", 0, 5),
    ],
)  # fmt: skip
def test_a_poll_that_the_end_cuts_off_says_nothing(takes_ms, until_ms, condition, hold_ms, code):
    time = VirtualTime()
    limits = WaitLimits(timeout_ms=3_000, hold_ms=hold_ms, interval_ms=50)
    result = wait_for(Slow(time, takes_ms, until_ms), "g", [parse_condition(condition)], limits, time)
    assert result.error.exit_code == code


@pytest.mark.parametrize(("takes_ms", "until_ms", "code"), [(400, 3_000, 8), (1, 1_500, 7)])
def test_offsets_that_the_end_keeps_from_being_read_are_those_of_before(takes_ms, until_ms, code):
    time = VirtualTime()
    limits = WaitLimits(timeout_ms=3_000, hold_ms=0, interval_ms=50)
    source = Slow(time, takes_ms, until_ms, lacks=UNREAD)
    result = wait_for(source, "g", [parse_condition("lag<=0")], limits, time, unread=lambda: ["the offsets"])
    assert result.error.exit_code == code


ANSWERED = BrokerError("the broker answered", kafka_error=-1)


@pytest.mark.parametrize(
    ("polls", "code"),
    [
        ([GROUP, AWAY], 5), ([AWAY], 5), ([EMPTY, ANSWERED], 1),
        ([AWAY, EMPTY], 8), ([EMPTY], 8), ([GROUP, GONE], 8), ([GONE], 8),
    ],
)  # fmt: skip
def test_a_condition_that_the_last_poll_could_not_check_is_not_known_to_fail(polls, code):
    result = waited(polls, "stable", "members>=3", timeout_ms=1_000)
    assert (result.met, result.error.exit_code) == (False, code)
    assert result.error.message == "group 'g': not met within 1s: stable, members>=3"


def _row(lag):
    return OffsetSnapshot("t", 0, 5, None if lag is None else 5 + lag, lag, None, "m", 0)


@pytest.mark.parametrize(
    ("lag", "unread", "others", "code"),
    [
        (None, ["the end of 't[0]' could not be read"], [], 7),
        (None, ["the end of 't[0]' could not be read"], ["stable"], 7),
        (None, ["the end of 't[0]' could not be read"], ["members>=3"], 8),
        (3, ["the end of 'u[0]' could not be read"], [], 8),
        (None, [], [], 8),
    ],
)
def test_a_lag_that_could_not_be_read_is_not_known_to_be_too_high(lag, unread, others, code):
    group = replace(GROUP, offsets=(_row(lag),))
    result = wait_for(
        LagScript(group), "g", [parse_condition(text) for text in ["lag<=0", *others]],
        WaitLimits(timeout_ms=1_000, hold_ms=0, interval_ms=50), VirtualTime(), unread=lambda: unread,
    )  # fmt: skip
    assert result.error.exit_code == code
    assert (unread[-1] in result.error.facts if unread else True) is (code == 7 or not unread)


def test_conditions_must_hold():
    broken = [GROUP] * 5 + [AWAY] + [GROUP]
    result = waited(broken, "stable", hold_ms=1_000)
    assert result.met
    assert 5 * 50 + 1_000 <= result.waited_ms < 2_000
    late = waited([GROUP], "stable", hold_ms=60_000, timeout_ms=1_000)
    assert late.error is not None
    assert late.error.message == "group 'g': not met within 1s: stable"
    assert late.error.facts == ("met at the last poll, but not for 1m",)


@pytest.mark.parametrize("interval_ms", [9_000, 10_000, 3_600_000])
def test_an_interval_as_long_as_the_timeout_does_not_end_it_early(interval_ms):
    limits = WaitLimits(timeout_ms=10_000, hold_ms=0, interval_ms=interval_ms)
    late = wait_for(Script(EMPTY, GROUP), "g", [parse_condition("stable")], limits, VirtualTime())
    assert late.met
    never = wait_for(Script(EMPTY), "g", [parse_condition("stable")], limits, VirtualTime())
    assert not never.met
    assert 9_000 <= never.waited_ms <= 10_000


def test_a_group_without_members_must_stay_so_for_a_moment():
    """A coordinator that has just taken over may describe a group as it was before its members joined."""
    assert not waited([EMPTY] * 3 + [GROUP], "empty", timeout_ms=5_000).met
    assert waited([EMPTY], "empty").waited_ms >= 1_000
    assert waited([GROUP], "stable").waited_ms < 50


def test_each_poll_has_a_time_limit_within_that_of_the_wait():
    script = Script(AWAY)
    limits = WaitLimits(timeout_ms=6_000, hold_ms=0, interval_ms=500)
    wait_for(script, "g", [parse_condition("stable")], limits, VirtualTime())
    assert script.budgets_ms[0] == 5_000
    assert script.budgets_ms == sorted(script.budgets_ms, reverse=True)
    assert script.budgets_ms[-1] >= 100


def test_the_error_says_what_was_seen_last_and_what_to_run():
    result = waited([AWAY], "stable", "members>=3", timeout_ms=1_000)
    assert result.error is not None
    assert result.error.message == "group 'g': not met within 1s: stable, members>=3"
    assert result.error.facts == (f"stable: {AWAY.message}", f"members>=3: {AWAY.message}")
    assert result.error.hint == "kgm describe g"


def test_a_lag_that_is_too_high_is_told_with_its_trend():
    """Each poll finds 10 fewer, 50 ms later and a few ms more."""

    def polled(lag):
        return replace(GROUP, offsets=(OffsetSnapshot("t", 0, 2000 - lag, 2000, lag, None, "m", 0),))

    lags = range(1000, 690, -10)
    result = wait_for(
        LagScript(*map(polled, lags)), "g", [parse_condition("lag<=0")],
        WaitLimits(timeout_ms=1_600, hold_ms=0, interval_ms=50), VirtualTime(),
    )  # fmt: skip
    assert (result.trend.kind, result.met) == (TrendKind.FALLING, False)
    lag = sum(row.lag for row in result.group.offsets)
    assert lag * 50 / 10 <= result.trend.done_in_ms <= lag * 55 / 10
    assert [one.seen for one in result.conditions] == [f"lag {lag}, {result.trend.text}"]


class LagScript(Script):
    """Descriptions with offsets."""

    def describe_group(self, group_id, *, offsets):
        assert offsets
        return super().describe_group(group_id, offsets=False)

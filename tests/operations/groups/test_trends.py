"""How lag changes between two polls, on made-up descriptions whose rates are plain to see."""

from __future__ import annotations

import pytest

from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.operations.groups.trends import OPEN_TRANSACTION, TrendKind, group_trends, partition_trend

T0, WINDOW_MS = 1_000_000, 10_000


def row(committed, end, *, partition=0, lost=0, age_ms=None):
    lag = None if committed is None or committed > end else end - committed - lost
    return OffsetSnapshot("t", partition, committed, end, lag, None, None, lost, None, age_ms)


def seen(then, now, *, window_ms=WINDOW_MS, stable_end=None):
    return partition_trend(then, now, then_ms=T0, now_ms=T0 + window_ms, stable_end=stable_end)


@pytest.mark.parametrize(
    ("then", "now", "text"),
    [
        # 100 records in 10 s, none of which is committed.
        (row(0, 1000), row(0, 1100), "rising 10/s"),
        # 1000 are committed, 100 arrive: 90 fewer a second, and 900 are left.
        (row(0, 1800), row(1000, 1900), "falling 90/s, done in 10s"),
        # Nothing arrives: 1800 left, 20 a second.
        (row(0, 2000), row(200, 2000), "falling 20/s, done in 1m30s"),
        (row(0, 50), row(60, 60), "caught up"),
        (row(60, 60), row(60, 60), "caught up"),
        # What waits is what arrives between two commits.
        (row(900, 1000), row(1900, 1980), "steady"),
    ],
)
def test_the_trend_of_a_partition(then, now, text):
    assert seen(then, now).text == text


@pytest.mark.parametrize(
    ("then", "now", "why"),
    [
        (None, row(0, 10), "seen once"),
        (row(0, 10), row(0, 10), "nothing arrived, and nothing was committed"),
        (row(None, 10), row(5, 10), "its lag is not known"),
        (row(50, 40), row(50, 60), "its lag is not known"),  # past the end
        (row(50, 100), row(20, 100), "the committed offset was set back"),
        (row(50, 100), row(50, 60), "the end of the log went back"),
        (row(0, 100, lost=10), row(0, 150, lost=40), "retention deletes"),
        # Of 1000 records that arrive, 500 may be in the commit that is due; the lag grew by 400.
        (row(0, 5000), row(600, 6000), "less than one commit may change it"),
    ],
)
def test_what_two_polls_do_not_tell_is_unknown(then, now, why):
    trend = seen(then, now)
    assert (trend.kind, trend.text, trend.done_in_ms) == (TrendKind.UNKNOWN, "unknown", None)
    assert why in trend.because


def test_polls_at_the_same_time_tell_nothing():
    assert seen(row(0, 10), row(5, 20), window_ms=0).kind is TrendKind.UNKNOWN


def test_rates_are_measured_from_commit_to_commit_where_their_ages_are_known():
    """It reads 100 a second and commits every 4 s: three commits are seen in 10 s or two, and the rate is the same."""
    for then, now in [
        (row(0, 10_000, age_ms=1_000), row(800, 10_000, age_ms=3_000)),
        (row(0, 10_000, age_ms=3_000), row(1200, 10_000, age_ms=1_000)),
    ]:
        trend = seen(then, now)
        assert trend.committed_per_s == pytest.approx(100)
        assert trend.done_in_ms == (10_000 - now.committed) * 10
    # The same as above, with 60 a second of 100 that arrive.
    assert seen(row(0, 5000, age_ms=2_000), row(600, 6000, age_ms=2_000)).text == "rising 40/s"


def test_an_open_transaction_hides_the_trend_only_while_all_before_it_is_committed():
    held = seen(row(50, 100), row(50, 200), stable_end=50)
    assert held.kind is TrendKind.UNKNOWN
    assert held.because == f"{OPEN_TRANSACTION} from 50"
    assert seen(row(50, 100), row(50, 200), stable_end=150).kind is TrendKind.RISING
    assert seen(row(50, 100), row(50, 200), stable_end=200).kind is TrendKind.RISING


def of_group(*pairs):
    then, now = zip(*pairs, strict=True)
    groups = [GroupSnapshot(group_id="g", type="classic", state="Stable", offsets=tuple(rows)) for rows in (then, now)]
    return group_trends(*groups, then_ms=T0, now_ms=T0 + WINDOW_MS)


def test_a_group_is_done_when_its_last_partition_is():
    trends = of_group((row(0, 1000), row(500, 1000)), (row(0, 400, partition=1), row(100, 400, partition=1)))
    assert [trends.partitions["t", number].done_in_ms for number in (0, 1)] == [10_000, 30_000]
    assert trends.total.text == "falling 60/s, done in 30s"


def test_a_group_is_never_done_while_one_partition_does_not_fall():
    trends = of_group((row(0, 5000), row(4000, 5000)), (row(7, 10, partition=1), row(7, 10, partition=1)))
    assert (trends.total.kind, trends.total.done_in_ms) == (TrendKind.FALLING, None)
    assert trends.total.because == "t[1] does not fall"


def test_what_is_unknown_of_one_partition_is_unknown_of_the_group():
    trends = of_group((row(0, 1000), row(500, 1000)), (row(None, 9, partition=1), row(None, 9, partition=1)))
    assert trends.total.kind is TrendKind.UNKNOWN
    assert trends.total.because == "t[1]: its lag is not known"
    assert trends.of([row(500, 1000)]).text == "falling 50/s, done in 10s"


def test_an_end_that_is_too_far_away_is_none():
    assert seen(row(0, 10**12), row(1, 10**12)).done_in_ms is None

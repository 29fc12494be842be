"""When an owner that committed nothing between two descriptions has missed its commits: five of its own intervals, as
for the guard of removals (docs/guard.md)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgm.client import connect
from kgm.client.lag_times import latest_commits
from kgm.client.offsets_topic.member_activity import CommitRecord, GroupActivity
from kgm.operations.doctor.activity import silent_owners
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.operations.doctor.own_commits import OwnCommits, OwnCommitsQueries
from kgm.operations.removal.liveness import CommitInterval
from kgm.server import serve_in_thread
from tests.operations.doctor.test_checks import HEALTHY, NOW, found, offset
from tests.waiting import until

WINDOW_MS = 6_000
BEFORE = replace(HEALTHY, offsets=(offset(0, 5), offset(1), offset(2, owner="seat-2"), offset(3, owner="seat-2")))
AFTER = replace(BEFORE, offsets=(offset(0, 8), *BEFORE.offsets[1:]))
STREAMS = {"assignor": "stream"}


def every(interval_ms):
    return CommitInterval(longest_ms=interval_ms, commits=12)


def checks(commits, *, window_ms=WINDOW_MS, **kind):
    rows = found(
        replace(AFTER, **kind), earlier=replace(BEFORE, **kind), window_ms=window_ms,
        own_commits={} if commits is None else {"seat-1": commits},
    )  # fmt: skip
    return [(one.check, one.severity) for one in rows if one.check == "stalled-owner"]


ERROR = [("stalled-owner", "error")]


@pytest.mark.parametrize("kind", [{}, STREAMS], ids=["plain", "streams"])
@pytest.mark.parametrize(
    ("interval_ms", "silent_ms", "expected"),
    [(1_000, 6_000, ERROR), (30_000, 29_000, []), (30_000, 149_999, []), (30_000, 150_000, ERROR)],
)
def test_an_owner_is_stalled_after_five_of_its_own_intervals(kind, interval_ms, silent_ms, expected):
    assert checks(OwnCommits(every(interval_ms), NOW - silent_ms), **kind) == expected


def test_of_a_plain_consumer_of_which_nothing_is_known_any_window_tells():
    assert checks(None) == ERROR
    assert checks(OwnCommits()) == ERROR


@pytest.mark.parametrize("kind", [STREAMS, {"type": "streams", "assignor": "sticky"}], ids=["classic", "streams"])
def test_of_streams_nothing_is_known_within_five_of_the_intervals_it_has_by_default(kind):
    """commit.interval.ms is 30000 by default."""
    assert checks(None, **kind) == []
    assert checks(OwnCommits(None, NOW - 20_000), **kind) == []
    assert checks(OwnCommits(None, NOW - 160_000), **kind) == ERROR
    assert checks(None, window_ms=150_000, **kind) == ERROR


class Log:
    """In place of the group's log: owner seat-1 commits its partitions every 30 s."""

    unreadable_because = None
    records = tuple(
        CommitRecord(at_ms=NOW - 20_000 - 30_000 * age, topic="t", partition=0, offset=20 - age)
        for age in range(12, -1, -1)
    )

    def __init__(self, cluster, group_id):
        pass

    def read_back(self, is_enough, deadline):
        assert is_enough(self.records) == bool(self.records)
        return list(self.records)


class EmptyLog(Log):
    records = ()


class NoDeadline:
    class deadline:
        @staticmethod
        def part(share):
            return None


@pytest.mark.parametrize(
    ("log", "interval_ms", "skipped"), [(Log, 30_000, 0), (EmptyLog, None, 1)], ids=["known", "unknown"]
)
def test_the_interval_comes_from_the_log(monkeypatch, log, interval_ms, skipped):
    monkeypatch.setattr("kgm.operations.doctor.own_commits.GroupActivity", log)
    then, now = (replace(each, **STREAMS) for each in (BEFORE, AFTER))
    silent = silent_owners(GroupFacts(group=now, now_ms=NOW, earlier=then, window_ms=WINDOW_MS))
    assert [*silent] == ["seat-1"]
    queries = OwnCommitsQueries(NoDeadline)
    commits = queries.of(now, silent, WINDOW_MS, NOW)["seat-1"]
    assert (None if commits.interval is None else commits.interval.longest_ms) == interval_ms
    assert len(queries.skipped) == skipped
    for one in queries.skipped:
        assert (one.checks, one.is_optional) == (("stalled-owner",), True)
        assert "--window 2m30s" in one.why


# -- real transactions


@pytest.fixture
def transactions():
    """Ends a number of transactions of group g, each with an offset of t[0]; then the client of the broker."""
    with serve_in_thread(topics={"t": 1}) as server, connect(server.bootstrap) as cluster:
        producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "p"})
        producer.init_transactions(30)
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g"})

        def run(number, *, is_committed):
            for offset_ in range(number):
                producer.begin_transaction()
                producer.send_offsets_to_transaction(
                    [TopicPartition("t", 0, offset_)], consumer.consumer_group_metadata(), 30
                )
                (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
                time.sleep(0.01)  # records of the next millisecond

        yield cluster, run
        consumer.close()


def records_of(cluster, number):
    """The group's commits, once the transactions of this number have ended."""

    def read():
        return GroupActivity(cluster, "g").read_back(lambda _: False, cluster.deadline)

    return until(read, "they have not ended", accept=lambda rows: [one.is_open for one in rows] == [False] * number)


def test_transactions_that_are_aborted_again_and_again_commit_nothing(transactions):
    cluster, run = transactions
    run(5, is_committed=True)
    run(12, is_committed=False)
    (last_ms,) = latest_commits(records_of(cluster, 17)).values()
    silent = {"seat-1": [offset(0)]}
    commits = OwnCommitsQueries(cluster).of(HEALTHY, silent, 1, NOW)["seat-1"]
    assert (commits.last_ms, commits.interval.commits) == (last_ms, 5)
    missed_ms = 5 * commits.interval.longest_ms
    assert commits.are_overdue(HEALTHY, 1, last_ms + missed_ms)
    assert not commits.are_overdue(HEALTHY, 1, last_ms + missed_ms - 1)


def test_a_streams_application_that_only_aborts_is_held_to_how_often_it_does(transactions):
    """Its default interval is 100 ms with transactions, not 30 s."""
    cluster, run = transactions
    run(12, is_committed=False)
    records_of(cluster, 12)
    group = replace(HEALTHY, **STREAMS)
    queries = OwnCommitsQueries(cluster)
    commits = queries.of(group, {"seat-1": [offset(0)]}, WINDOW_MS, NOW)["seat-1"]
    assert (commits.last_ms, commits.interval.commits) == (None, 12)
    assert commits.are_overdue(group, 5 * commits.interval.longest_ms, NOW)
    assert queries.skipped == []

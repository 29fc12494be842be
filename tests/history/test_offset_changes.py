"""What is said of committed offsets: each reason by Kafka's own rules, and the fold as a slow one has it."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.coordinator.offsets.store import Offsets
from kgm.history.facts.offset_changes import BrokerView, GroupMoment, OffsetFold
from kgm.history.rows import CommitRow, OwnerRow
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue

MINUTE, DAY = 60_000, 86_400_000


def row(offset, ms, committed, *, partition=0, topic="t", **more):
    """A commit, or a tombstone if committed is None."""
    return CommitRow(
        partition=7, offset=offset, timestamp=ms, group_id="g", topic=topic, topic_partition=partition,
        tombstone=committed is None, committed_offset=committed, commit_timestamp=None if committed is None else ms,
        visible_offset=more.pop("visible", offset), **more,
    )  # fmt: skip


def owner(start, end, seat, *, partition=0):
    return OwnerRow(
        partition=7, group_id="g", group_type="classic", topic="t", topic_partition=partition, seat=seat,
        member_id=seat, from_offset=start, from_timestamp=0, from_generation=1, known_from=True, to_offset=end,
        exact=False, place="t",
    )  # fmt: skip


def moment(offset, members, ms=0, **more):
    return GroupMoment(offset=offset, timestamp=ms, members=members, **more)


def folded(commits, moments=(), owners=(), **view):
    fold = OffsetFold(moments, owners, BrokerView(**view))
    fold.feed(commits)
    return fold


def last(*arguments, **view):
    """(what, confidence) of the newest change of partition 0."""
    change = [one for one in folded(*arguments, **view).changes() if one.topic_partition == 0][-1]
    return change.what, change.confidence


EMPTY = moment(2, 0, 100, empty_ms=100)


@pytest.mark.parametrize(
    ("gone_ms", "retention_ms", "seen"),
    [
        (100 + DAY, DAY, ("expired", "likely")),
        (100 + DAY + 21 * MINUTE, DAY, ("expired", "possible")),
        (99 + DAY, DAY, ("tombstoned", "unknown")),
        (100 + DAY, None, ("tombstoned", "unknown")),
    ],
)
def test_the_retention_counts_from_when_a_classic_group_became_empty(gone_ms, retention_ms, seen):
    """Kafka: ClassicGroup.offsetExpirationCondition."""
    commits = [row(1, 50, 5), row(3, gone_ms, None)]
    assert last(commits, [moment(0, 1), EMPTY], retention_ms=retention_ms) == seen
    (held,) = folded(commits[:1], [moment(0, 1), EMPTY], retention_ms=DAY).held()
    assert held.expires_ms == 100 + DAY


def test_it_counts_from_the_commit_in_a_simple_group_and_in_a_consumer_group():
    """Kafka: ConsumerGroup.offsetExpirationCondition; a classic group without a protocol type."""
    for moments in ((), (moment(0, 1), moment(2, 0, 100))):
        assert last([row(1, 50, 5), row(3, 50 + DAY, None)], moments, retention_ms=DAY) == ("expired", "likely")
        (held,) = folded([row(1, 50, 5)], moments, retention_ms=DAY).held()
        assert held.expires_ms == 50 + DAY


def test_a_time_that_the_commit_asked_for_goes_before_the_retention():
    """OffsetCommit before version 5 has a retention; the record has the time then (OffsetCommitValue 1)."""
    asked = row(1, 50, 5, expire_timestamp=500)
    assert last([asked, row(3, 500, None)], [moment(0, 1), EMPTY], retention_ms=DAY) == ("expired", "likely")
    (held,) = folded([asked], [moment(0, 1), EMPTY], retention_ms=DAY).held()
    assert held.expires_ms == 500


def test_while_members_subscribe_nothing_expires():
    (held,) = folded([row(1, 50, 5)], [moment(0, 1)], retention_ms=DAY).held()
    assert held.expires_ms is None


def test_who_may_have_deleted_an_offset():
    """A topic takes the offsets of all its partitions with it, and DeleteGroups the group's own record."""
    others = [row(0, 40, 1, partition=1), row(1, 50, 5)]
    moments = [moment(-1, 1), EMPTY]
    ids = [row(1, 50, 5, topic_id=b"a" * 16)]
    gone = row(3, 200, None)
    assert last([*others, gone], moments) == ("offsets-deleted", "certain")
    assert last([others[1], gone], moments) == ("tombstoned", "unknown")
    assert last([others[1], gone], moments, absent={"t"}) == ("topic-deleted", "likely")
    assert last([*ids, gone], moments, topics={"t": b"b" * 16}) == ("topic-deleted", "likely")
    assert last([*ids, gone], moments, topics={"t": b"a" * 16}) == ("offsets-deleted", "certain")
    assert last([others[1], gone], [*moments, moment(4, None, 200)]) == ("group-deleted", "certain")
    owned = [owner(0, None, "a")]
    assert last([others[1], gone], moments[:1], owned) == ("topic-deleted", "likely")
    assert last([others[1], gone], moments[:1], owned, absent={"t"}) == ("topic-deleted", "certain")


def test_what_is_missing_is_unknown():
    late = [moment(5, 1, complete=False)]
    (commit,) = folded([row(1, 50, 5)], late).changes()
    assert (commit.by, commit.confidence) == ("unknown", "unknown")
    assert last([row(1, 50, None)], [moment(0, 0)]) == ("tombstoned", "unknown")
    (commit,) = folded([row(1, 50, 5)], [moment(0, 1), moment(5, 1, complete=False)]).changes()
    assert (commit.by, commit.confidence) == ("member", "likely")


def test_what_the_log_has_no_more():
    held = folded(
        [row(0, 0, 3), row(1, 0, 9, partition=1), row(2, 0, 1, partition=2)], starts={("t", 0): 8, ("t", 1): 9}
    )
    assert [one.lost for one in held.held()] == [5, 0, None]


@dataclass(frozen=True)
class Log:
    commits: list
    moments: list
    owners: list


@st.composite
def logs(draw):
    """Commits of two partitions, some of them in transactions, between changes of the group."""
    commits, moments, owners = [], [], []
    for offset in range(0, draw(st.integers(1, 24)) * 2, 2):
        kind, partition = draw(st.sampled_from("cccctdmo")), draw(st.integers(0, 1))
        if kind == "m":
            members = draw(st.sampled_from([None, 0, 1]))
            moments.append(moment(offset, members, offset, complete=draw(st.booleans())))
        elif kind == "o":
            if owners and owners[-1].to_offset is None:
                owners[-1] = owner(owners[-1].from_offset, offset, owners[-1].seat)
            owners.append(owner(offset, None, draw(st.sampled_from("ab"))))
        elif kind == "d":
            commits.append(row(offset, offset, None, partition=partition))
        else:
            more = {"txn": "committed", "visible": offset + draw(st.sampled_from([1, 5]))} if kind == "t" else {}
            commits.append(row(offset, offset, draw(st.integers(0, 3)), partition=partition, **more))
    return Log(commits, moments, owners)


def slow(log, partition):
    """(what, before, after, commits, by, seat) of each commit that counts, one after the other, by looking at the whole log
    each time; None for a tombstone."""
    seen, held, deleted = [], None, -1
    for one in sorted(log.commits, key=lambda one: (one.visible_offset, one.offset)):
        if one.topic_partition != partition:
            continue
        if one.tombstone:
            held, deleted = None, one.offset
            seen.append(None)
            continue
        if (held is not None and held.offset > one.offset) or deleted > one.offset:
            continue
        at = one.visible_offset
        before = [each for each in log.moments if each.offset < at]
        after = [each for each in log.moments if each.offset > at]
        owned = [o for o in log.owners if o.topic_partition == partition and o.from_offset < at <= (o.to_offset or at)]
        seat = None
        if one.txn:
            by = "transaction"
        elif before and before[-1].members:
            by, seat = "member", next((o.seat for o in owned if o.to_offset != at), None)
        elif not before and after and not after[0].complete:
            by = "unknown"
        else:
            by = "not-a-member"
        was = None if held is None else held.committed_offset
        what = "committed"
        if was is not None and by == "not-a-member" and any(each.members for each in before):
            what = "reset"
        elif was is not None and one.committed_offset < was:
            what = "jumped-back"
        seen.append((what, was, one.committed_offset, by, seat))
        held = one
    return seen, None if held is None else held.committed_offset


@given(logs())
def test_the_fold_says_what_a_slow_one_says(log):
    fold = folded(log.commits, log.moments, log.owners)
    held = {one.topic_partition: one.committed for one in fold.held()}
    for partition in (0, 1):
        rows, end = slow(log, partition)
        assert held.get(partition) == end
        for change in fold.changes():
            if change.topic_partition != partition:
                continue
            if not change.commits:
                assert rows.pop(0) is None
                continue
            run, rows = rows[: change.commits], rows[change.commits :]
            assert {(what, by, seat) for what, _, _, by, seat in run} == {(change.what, change.by, change.seat)}
            assert (run[0][1], run[-1][2]) == (change.before, change.after)
            steps = [(was, now) for _, was, now, _, _ in run[1:]]
            assert all(was is not None and now >= was for was, now in steps)
        assert rows == []


def by_the_coordinator(commits):
    """The committed offset of each partition, according to the coordinator, which replays commits and markers as Kafka
    does."""
    offsets = Offsets()
    writes = [(one.offset, one) for one in commits]
    markers = [(one.visible_offset, one.offset) for one in commits if one.txn]
    for at, one in sorted([*writes, *markers], key=lambda each: each[0]):
        if isinstance(one, int):
            offsets.end_transaction(one, commit=True)
            continue
        key = OffsetCommitKey(group="g", topic=one.topic, partition=one.topic_partition)
        value = None if one.tombstone else OffsetCommitValue(offset=one.committed_offset, commit_timestamp=0)
        offsets.replay(key, value, at if one.txn else None)
    return {partition: committed.offset for (_, partition), committed in offsets.of("g").items()}


@given(logs())
def test_the_offsets_that_exist_are_those_of_the_coordinator(log):
    held = {one.topic_partition: one.committed for one in folded(log.commits).held()}
    assert held == by_the_coordinator(log.commits)


def test_a_tombstone_removes_a_pending_commit():
    """Between the commit in a transaction and its marker."""
    fold = folded([row(0, 0, 10), row(1, 1, 20, txn="committed", visible=3), row(2, 2, None)])
    assert fold.held() == []
    assert [one.what for one in fold.changes()] == ["committed", "tombstoned"]

"""The fold over a group's records: by hand, against what a real broker made of the same log, and after compaction."""

import base64
import random

import pytest

from kgm.history.reconstruct.classic_snapshots import ChangeKind, OffsetGaps, SnapshotKind
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.batch import decode_batches
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import decode_record
from tests.history.reconstruct.plain_fold import GroupCommitRecord, GroupMetadataRecord, fold, gaps_between
from tests.records.real_logs import groups, partitions, segment_bytes, truth


def member(seat, life="", *, static=False, topics=("t",), owns=(), assignment=None):
    return MemberMetadata(
        member_id=f"{seat}-{life}" if static else seat, group_instance_id=seat if static else None,
        subscription=encode_subscription(Subscription(topics=topics)), session_timeout=6_000,
        assignment=encode_assignment(MemberAssignment(partitions={"t": list(owns)})) if assignment is None else assignment,
    )  # fmt: skip


def group(generation, *members, protocol_type="consumer", state_timestamp=-1, protocol="range"):
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        members=list(members),
        current_state_timestamp=state_timestamp,
        protocol=protocol if members else None,
    )


def history(*values, gaps=None):
    """Values at the offsets 0, 10, 20, ... and one second apart; no gaps unless said."""
    records = [
        value
        if isinstance(value, GroupCommitRecord)
        else GroupMetadataRecord(offset=10 * at, timestamp=1_000 * at, value=value)
        for at, value in enumerate(values)
    ]
    return fold(records, OffsetGaps() if gaps is None else gaps)


def kinds(found):
    return [snapshot.kind for snapshot in found.snapshots]


def shown(found):
    return [(change.kind, change.identity, change.generation, change.absorbed) for change in found.changes]


def test_the_four_points_at_which_kafka_writes_and_the_tombstone():
    a, b = member("a", 1, static=True), member("b", 1, static=True)
    found = history(
        group(0),
        group(1, a, b),
        group(1, member("a", 2, static=True), b),
        group(2),
        None,
        group(0),
        group(1, member("c")),
    )
    assert kinds(found) == ["new", "synced", "replaced", "empty", "tombstone", "new", "synced"]
    assert shown(found) == [
        ("joined", "a", 1, None), ("joined", "b", 1, None), ("replaced", "a", 1, True), ("left", "a", 2, None),
        ("left", "b", 2, None), ("joined", "c", 1, None),
    ]  # fmt: skip
    assert [(each.from_generation, each.to_generation, each.lost_rounds) for each in found.rebalances] == [
        (0, 1, 0), (1, 2, 0), (0, 1, 0),
    ]  # fmt: skip
    assert found.end is found.snapshots[-1]
    assert history(group(0), None).end is None
    assert history().end is None


def test_a_bounce_that_was_not_absorbed_is_told_apart():
    found = history(group(0), group(1, member("a", 1, static=True)), group(2, member("a", 2, static=True)))
    assert shown(found)[-1] == (ChangeKind.REPLACED, "a", 2, False)
    assert found.changes[-1].old_member_id == "a-1"
    assert len(found.rebalances) == 2


def test_lost_rounds_are_counted():
    found = history(group(0), group(1, member("a")), group(5, member("a"), member("b")))
    assert [each.lost_rounds for each in found.rebalances] == [0, 3]


def test_the_same_again_is_no_change():
    found = history(group(0), group(1, member("a")), group(1, member("a")))
    assert kinds(found)[-1] is SnapshotKind.REPEATED
    assert len(found.changes) == len(found.rebalances) == 1


def test_other_topics_of_the_same_member():
    found = history(group(0), group(1, member("a")), group(2, member("a", topics=("t", "u"))))
    assert shown(found)[-1] == ("resubscribed", "a", 2, None)
    broken = member("a")
    broken.subscription = b"\0"
    assert len(history(group(0), group(1, member("a")), group(2, broken)).changes) == 1


def test_groups_of_other_kinds_are_not_taken_apart():
    found = history(group(0), group(1, member("a", assignment=b"\1connect"), protocol_type="connect"))
    assert (found.end.members["a"].topics, found.end.members["a"].assigned, found.end.owners) == (None, None, {})
    assert history(group(0), group(1, member("a", assignment=b"\0"))).end.members["a"].assigned is None


def test_what_moves_and_what_stays():
    found = history(
        group(0), group(1, member("a", owns=(0, 1)), member("b", owns=(2, 3))),
        group(2, member("a", owns=(0, 2)), member("c", owns=(3, 4))),
    )  # fmt: skip
    assert (found.rebalances[1].moved, found.rebalances[1].kept) == (2, 1)


def test_a_group_of_the_consumer_protocol_that_became_a_classic_one():
    assert kinds(history(group(7, member("a")))) == ["converted"]


def test_bounds_of_the_stop():
    """Partition 0 is committed at 900 and 2,600, partition 1 at 950 and 2,450; the round ends at 2,000 after 300 ms."""

    def commit(offset, timestamp, partition):
        return GroupCommitRecord(offset=offset, timestamp=timestamp, topic="t", partition=partition)

    records = [
        GroupMetadataRecord(offset=0, timestamp=0, value=group(0)),
        GroupMetadataRecord(offset=1, timestamp=500, value=group(1, member("a", owns=(0, 1)), state_timestamp=400)),
        commit(2, 900, 0), commit(3, 950, 1), commit(4, 960, 9),
        GroupMetadataRecord(offset=5, timestamp=2_000, value=group(2, member("b", owns=(0, 1)), state_timestamp=1_700)),
        commit(6, 2_450, 1), commit(7, 2_460, 9), commit(8, 2_600, 0), commit(9, 2_601, 0),
        GroupMetadataRecord(offset=10, timestamp=3_000, value=group(3)),
    ]  # fmt: skip
    found = fold(records, OffsetGaps())
    assert [(each.stopped_min_ms, each.stopped_max_ms, each.stopped_partition_max_ms) for each in found.rebalances] == [
        (100, None, None),
        (300, 1_700, 1_700 + 1_500),
        (None, None, None),
    ]
    # Nothing shows when partition 1 was consumed again: the 1,700 ms of partition 0 are no bound for both.
    rare = fold([record for record in records if record.offset != 6], OffsetGaps())
    assert (rare.rebalances[1].stopped_min_ms, rare.rebalances[1].stopped_max_ms) == (300, None)
    assert rare.rebalances[1].stopped_partition_max_ms is None
    eaten = fold(records, OffsetGaps((3,), (4,)))
    assert [(each.stopped_min_ms, each.stopped_max_ms) for each in eaten.rebalances][1] == (None, None)
    for record in records:
        if isinstance(record, GroupMetadataRecord) and record.value.members:
            record.value.protocol = "cooperative-sticky"
    assert {(each.stopped_min_ms, each.stopped_max_ms) for each in fold(records, OffsetGaps()).rebalances} == {
        (None, None)
    }


def test_gaps():
    gaps = gaps_between([3, 4, 7, 8, 9, 20])
    assert (gaps.starts, gaps.ends) == ((0, 5, 10), (3, 7, 20))
    expected = {
        (after, before): any(offset in {0, 1, 2, 5, 6, *range(10, 20)} for offset in range(after + 1, before))
        for after in range(-1, 22)
        for before in range(after + 1, 23)
    }
    assert {pair: gaps.within(*pair) for pair in expected} == expected
    assert not gaps_between(range(5)).within(-1, 5)


def test_windows_that_compaction_has_eaten_are_not_guessed_at():
    a = member("a", 1, static=True)
    later = member("a", 2, static=True)
    found = history(group(3, a), group(7, later), gaps=OffsetGaps((2, 13), (5, 15)))
    assert kinds(found) == ["converted", "unknown"]
    assert found.changes[0].absorbed is None
    assert (found.rebalances[0].lost_rounds, found.rebalances[0].complete) == (None, False)
    assert history(group(3, a), gaps=OffsetGaps((0,), (10,))).snapshots[0].complete
    first = fold([GroupMetadataRecord(offset=10, timestamp=0, value=group(3, a))], OffsetGaps((0,), (10,)))
    assert (first.snapshots[0].kind, first.snapshots[0].complete) == (SnapshotKind.UNKNOWN, False)
    # A generation that falls is another life, whose end is gone.
    assert not history(group(3, a), group(1, a)).rebalances[0].complete


# -- logs of a real broker


def real(kind, partition):
    """({group: its GroupMetadata records and commits}, gaps) of a partition."""
    void = {line["offset"] for line in truth(kind, partition) if line.get("txn") in ("aborted", "open")}
    found, offsets = {}, []
    for data in segment_bytes(kind, partition):
        for batch in decode_batches(data):
            for row in batch.records:
                offsets.append(row.offset)
                if batch.is_control or row.offset in void:
                    continue
                record = decode_record(row.key, row.value)
                if record.key.API_KEY == 2:
                    each = GroupMetadataRecord(offset=row.offset, timestamp=row.timestamp, value=record.value)
                    found.setdefault(record.key.group, []).append(each)
                elif record.key.API_KEY == 1 and record.value is not None:
                    key = record.key
                    each = GroupCommitRecord(
                        offset=row.offset, timestamp=row.timestamp, topic=key.topic, partition=key.partition
                    )
                    found.setdefault(key.group, []).append(each)
    return found, gaps_between(offsets)


def histories(kind):
    found = {}
    for partition in partitions(kind):
        records, gaps = real(kind, partition)
        found |= {group: fold(rows, gaps) for group, rows in records.items()}
    return found


def described(end):
    return {
        (m.record.member_id, m.record.group_instance_id, m.record.client_id, m.record.client_host,
         base64.b64encode(m.record.subscription).decode(), base64.b64encode(m.record.assignment).decode())
        for m in end.members.values()
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["plain", "compacted"])
@pytest.mark.slow
def test_groups_end_as_the_broker_says(kind):
    """groups.json was asked of a broker that had loaded this log and had no clients."""
    found = histories(kind)
    checked = 0
    for said in groups(kind):
        if said["type"] != "classic":
            assert said["groupId"] not in found or found[said["groupId"]].end is None
            continue
        end = found[said["groupId"]].end
        response = said["describe"]["response"]
        if end is None:  # nothing but commits
            assert (said["state"], response["members"]) == ("Empty", [])
            continue
        assert end.protocol_type == said["protocolType"]
        if said["state"] == "Stable":
            assert (end.protocol or "") == response["protocolData"]
            assert described(end) == {
                (
                    m["memberId"],
                    m.get("groupInstanceId"),
                    m["clientId"],
                    m["clientHost"],
                    m["memberMetadata"],
                    m["memberAssignment"],
                )
                for m in response["members"]
            }
            checked += 1
        else:
            assert (said["state"], end.members) == ("Empty", {}) or said["groupId"] == "mig-mixed"
    assert checked >= (15 if kind == "plain" else 1)
    alive = {said["groupId"] for said in groups(kind) if said["type"] == "classic"}
    assert {name for name, each in found.items() if each.end is not None} <= alive


@pytest.mark.slow
def test_a_whole_log_is_complete_and_tells_every_kind():
    found = histories("plain")
    assert all(each.complete for history in found.values() for each in (*history.snapshots, *history.rebalances))
    seen = {snapshot.kind for history in found.values() for snapshot in history.snapshots}
    assert seen >= set(SnapshotKind) - {SnapshotKind.UNKNOWN, SnapshotKind.REPEATED, SnapshotKind.CONVERTED}
    rebalances = [each for history in found.values() for each in history.rebalances]
    assert all(each.stopped_max_ms >= each.stopped_min_ms for each in rebalances if each.stopped_max_ms is not None)
    assert sum(each.stopped_max_ms is not None for each in rebalances) >= 20
    absorbed = {
        change.absorbed for history in found.values() for change in history.changes if change.kind == "replaced"
    }
    assert absorbed == {True, False}


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_compaction_takes_certainty_but_never_truth(seed):
    """Superseded records of a prefix are taken away, as the log cleaner does it: every group ends the same, and what is
    still said to be complete was so before."""
    rng = random.Random(seed)
    for partition in partitions("plain"):
        records, gaps = real("plain", partition)
        everything = sorted((row.offset, name) for name, rows in records.items() for row in rows)
        assert gaps == OffsetGaps()
        until = rng.choice(everything)[0]
        last = {key(name, row): row.offset for name, rows in records.items() for row in rows if row.offset < until}
        kept = {
            name: [row for row in rows if row.offset >= until or last[key(name, row)] == row.offset]
            for name, rows in records.items()
        }
        gone = {row.offset for rows in records.values() for row in rows} - {
            row.offset for rows in kept.values() for row in rows
        }
        size = max(line["offset"] for line in truth("plain", partition)) + 1
        left = gaps_between(offset for offset in range(size) if offset not in gone)
        for name, rows in records.items():
            whole, eaten = fold(rows, OffsetGaps()), fold(kept[name], left)
            assert (eaten.end and described(eaten.end)) == (whole.end and described(whole.end))
            truths = {
                (each.offset, each.from_generation, each.to_generation, each.lost_rounds) for each in whole.rebalances
            }
            claims = {
                (each.offset, each.from_generation, each.to_generation, each.lost_rounds)
                for each in eaten.rebalances
                if each.complete
            }
            assert claims <= truths
            said = {(each.offset, each.kind) for each in whole.snapshots}
            assert {
                (each.offset, each.kind) for each in eaten.snapshots if each.kind is not SnapshotKind.UNKNOWN
            } <= said
            facts = {(each.offset, each.identity, each.absorbed) for each in whole.changes if each.kind == "replaced"}
            assert {
                (each.offset, each.identity, each.absorbed) for each in eaten.changes if each.absorbed is not None
            } <= facts


def key(name, row):
    return (name, row.topic, row.partition) if isinstance(row, GroupCommitRecord) else name

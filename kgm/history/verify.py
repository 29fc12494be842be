"""How far a log can be trusted: what is missing, what cannot be read, and since when it is complete.

Missing offsets are not damage, because compaction removes what was written again later; but what happened there is not
known. So each partition and each group has a record from which on nothing is missing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.message_objects import message_objects
from kgm.history.decode.raw_batch import RawBatch
from kgm.history.decode.record_order import in_order, partitions_of, pieces, with_times
from kgm.history.decode.record_tables import Decoded, decode_raw_batches
from kgm.history.decode.transactions import TransactionOutcome, transaction_outcomes
from kgm.history.decode.vector_cursor import Positions
from kgm.history.folders import Damage
from kgm.history.reconstruct.classic_snapshots import OffsetGaps, SnapshotKind
from kgm.history.reconstruct.partition_replay import PartitionReplay, Timeline
from kgm.history.reconstruct.timelines import joined
from kgm.history.row_tables import read_rows
from kgm.history.rows import BadRow
from kgm.history.schema import RAW
from kgm.records.batch import NO_TIMESTAMP
from kgm.records.record import message_classes
from kgm.records.record_types import RecordType

_EXAMPLES = 3
_KIND = ("reason", "key_type", "value_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets from start up to end (exclusive) that are not in the log."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """Records of a producer's transaction without an end in the log: its commits are pending."""

    producer_id: int
    producer_epoch: int | None
    first_offset: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One partition. end_offset: the one after its last record. missing: the number of offsets in gaps, the first of
    which may be what preceded the log. doubles: records that occurred more than once. complete_from, complete_since:
    the first record after the last gap, and its time in ms."""

    partition: int
    records: int
    first_offset: int
    end_offset: int
    first_timestamp: int | None
    last_timestamp: int | None
    doubles: int
    controls: int
    missing: int
    gaps: tuple[Gap, ...]
    complete_from: int
    complete_since: int | None
    open_transactions: tuple[OpenTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """One group with metadata in the log. protocol: classic or consumer. first, last: generations or group epochs.
    windows: between how many pairs of consecutive records something may be missing. complete: nothing is missing, and
    the group's beginning is there too. complete_from, complete_since: the record from which on nothing is missing, and
    its time in ms. lost_rounds: generations that were never completed, which is not a gap in the log."""

    group_id: str
    partition: int
    protocol: str
    records: int
    first: int
    last: int
    windows: int
    complete: bool
    complete_from: int
    complete_since: int | None
    lost_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadExample:
    """A record that cannot be decoded."""

    partition: int
    offset: int
    error: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecords:
    """Records that cannot be decoded for one reason (as in `rows.BadRow`), with the first few of them."""

    reason: str
    key_type: int | None
    value_version: int | None
    count: int
    examples: tuple[BadExample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVerdict:
    """A whole log. unknown_tags: how many records have fields from a newer Kafka; these are decoded except for those
    fields. damages: where reading segments stopped. complete_since, until: the window in which nothing is missing from
    any partition, in ms; None if there is none."""

    partitions: tuple[PartitionVerdict, ...]
    groups: tuple[GroupVerdict, ...]
    bad: tuple[BadRecords, ...]
    records: int
    unknown_tags: int
    damages: tuple[Damage, ...]
    complete_since: int | None
    until: int | None

    @property
    def bad_records(self) -> int:
        return sum(each.count for each in self.bad)

    @property
    def sound(self) -> bool:
        """Whether everything present can be read; a torn tail is normal in a copy of a running broker's files."""
        return not self.bad and all(damage.torn for damage in self.damages)


def verify(raw: pa.Table, damages: Iterable[Damage] = ()) -> LogVerdict:
    """The verdict on records by `schema.RAW`, in any order. damages: noted while reading them."""
    raw = with_times(raw.select(RAW.names))
    verdicts = [_verify_partition(number, raw) for number in partitions_of(raw)]
    return replace(joined_verdict(verdicts), damages=tuple(damages))


def joined_verdict(verdicts: Sequence[LogVerdict]) -> LogVerdict:
    """The verdict on a log, from the verdicts on its partitions."""
    since = [each.complete_since for each in verdicts]
    known = [each for each in since if each is not None]
    return LogVerdict(
        partitions=tuple(each for verdict in verdicts for each in verdict.partitions),
        groups=tuple(each for verdict in verdicts for each in verdict.groups),
        bad=_joined_bad([each for verdict in verdicts for each in verdict.bad]),
        records=sum(each.records for each in verdicts), unknown_tags=sum(each.unknown_tags for each in verdicts),
        damages=tuple(each for verdict in verdicts for each in verdict.damages),
        complete_since=max(known) if known and len(known) == len(since) else None,
        until=max((each.until for each in verdicts if each.until is not None), default=None),
    )  # fmt: skip


def _verify_partition(number: int, raw: pa.Table) -> LogVerdict:
    table = in_order(number, raw)
    count = int(pc.sum(pc.equal(raw.column("partition"), number)).as_py())
    partition = _partition(number, table, count - len(table))
    replay, batches, timelines = PartitionReplay(number), [], []
    for piece in pieces(table):
        batch = RawBatch(piece)
        timelines_of_piece, _ = replay.feed(batch)
        batches.append(batch)
        timelines += timelines_of_piece
    decoded = decode_raw_batches(batches)
    tags = sum(
        int(pc.sum(pc.greater(table.column("unknown_tags"), 0)).as_py() or 0) for table in decoded.records.values()
    )
    return LogVerdict(
        partitions=(partition,), groups=(*_classic(joined(timelines)), *_consumer(decoded, partition)),
        bad=_bad(decoded.bad), records=len(table), unknown_tags=tags, damages=(),
        complete_since=partition.complete_since, until=partition.last_timestamp,
    )  # fmt: skip


def _partition(number: int, raw: pa.Table, doubles: int) -> PartitionVerdict:
    offset = raw.column("offset").to_numpy()
    times = raw.column("timestamp")
    expected = np.append(0, offset[:-1] + 1)
    at = np.nonzero(offset > expected)[0]
    gaps = tuple(
        Gap(start=start, end=end) for start, end in zip(expected[at].tolist(), offset[at].tolist(), strict=True)
    )
    last = int(at[-1]) if len(at) else 0
    since = times[last].as_py()
    bounds = pc.min_max(times.filter(pc.not_equal(times, NO_TIMESTAMP))).as_py()
    return PartitionVerdict(
        partition=number, records=len(raw), first_offset=int(offset[0]), end_offset=int(offset[-1]) + 1,
        first_timestamp=bounds["min"], last_timestamp=bounds["max"], doubles=doubles,
        controls=int(pc.sum(pc.fill_null(raw.column("control"), False)).as_py() or 0),  # noqa: FBT003
        missing=sum(gap.end - gap.start for gap in gaps), gaps=gaps, complete_from=int(offset[last]),
        complete_since=None if since == NO_TIMESTAMP else since, open_transactions=_open(raw, offset),
    )  # fmt: skip


def _open(raw: pa.Table, offset: Positions) -> tuple[OpenTransaction, ...]:
    rows = np.nonzero(transaction_outcomes(raw).outcome == TransactionOutcome.OPEN)[0]
    producers = to_list(raw.column("producer_id").take(pa.array(rows)))
    epochs = to_list(raw.column("producer_epoch").take(pa.array(rows)))
    by_producer: dict[int, list[int]] = {}
    for place, producer in enumerate(producers):
        by_producer.setdefault(-1 if producer is None else producer, []).append(place)
    return tuple(
        OpenTransaction(
            producer_id=producer, producer_epoch=epochs[places[0]], first_offset=int(offset[rows[places[0]]]),
            records=len(places),
        )
        for producer, places in by_producer.items()
    )  # fmt: skip


def _classic(timelines: Iterable[Timeline]) -> Iterable[GroupVerdict]:
    for each in timelines:
        snapshots = each.history.snapshots
        # A lower generation is that of a new group with this id; the end of the previous one is gone.
        fallen = {rebalance.offset for rebalance in each.history.rebalances if not rebalance.complete}
        broken = [number for number, one in enumerate(snapshots) if not one.complete or one.offset in fallen]
        start = snapshots[broken[-1] if broken else 0]
        living = [one.generation for one in snapshots if one.kind is not SnapshotKind.TOMBSTONE]
        yield GroupVerdict(
            group_id=each.group_id, partition=each.partition, protocol="classic", records=len(snapshots),
            first=living[0] if living else -1, last=living[-1] if living else -1, windows=len(broken),
            complete=not broken, complete_from=start.offset, complete_since=start.timestamp,
            lost_rounds=sum(rebalance.lost_rounds or 0 for rebalance in each.history.rebalances),
        )  # fmt: skip


def _consumer(decoded: Decoded, partition: PartitionVerdict) -> Iterable[GroupVerdict]:
    """Groups of the consumer protocol, according to the records that raise their epoch."""
    kind = RecordType.CONSUMER_GROUP_METADATA
    table = decoded.records.get(kind)
    if table is None:
        return
    missing = OffsetGaps(tuple(gap.start for gap in partition.gaps), tuple(gap.end for gap in partition.gaps))
    rows: dict[str, list[tuple[int, int | None, int | None]]] = {}
    plain = (to_list(table.column(name)) for name in ("offset", "timestamp"))
    objects = (
        message_objects(cls, table.column(name))
        for cls, name in zip(message_classes(kind), ("key", "value"), strict=True)
    )
    for offset, timestamp, key, value in zip(*plain, *objects, strict=True):
        rows.setdefault(key.group_id, []).append((offset, timestamp, None if value is None else value.epoch))
    for name, written in sorted(rows.items()):
        offsets = [-1, *(offset for offset, _, _ in written)]
        broken = [number for number, pair in enumerate(pairwise(offsets)) if missing.within(*pair)]
        epochs = [epoch for _, _, epoch in written if epoch is not None]
        start = written[broken[-1] if broken else 0]
        yield GroupVerdict(
            group_id=name, partition=partition.partition, protocol="consumer", records=len(written),
            first=epochs[0] if epochs else -1, last=epochs[-1] if epochs else -1, windows=len(broken),
            complete=not broken, complete_from=start[0], complete_since=start[1], lost_rounds=0,
        )  # fmt: skip


def _bad(bad: pa.Table) -> tuple[BadRecords, ...]:
    by_kind: dict[tuple[str, int | None, int | None], list[int]] = {}
    for row, kind in enumerate(zip(*(to_list(bad.column(name)) for name in _KIND), strict=True)):
        by_kind.setdefault(kind, []).append(row)
    return tuple(
        BadRecords(
            reason=reason, key_type=key_type, value_version=version, count=len(rows),
            examples=tuple(
                BadExample(
                    partition=each.partition, offset=each.offset, error=each.error, key=each.key, value=each.value
                )
                for each in read_rows(BadRow, bad.take(pa.array(rows[:_EXAMPLES])))
            ),
        )
        for (reason, key_type, version), rows in sorted(by_kind.items(), key=lambda item: -len(item[1]))
    )  # fmt: skip


def _joined_bad(parts: Sequence[BadRecords]) -> tuple[BadRecords, ...]:
    """By reason, type and version, the largest first; with the examples from the first partition that has any."""
    by_kind: dict[tuple[str, int | None, int | None], BadRecords] = {}
    for each in parts:
        kind = each.reason, each.key_type, each.value_version
        known = by_kind.get(kind)
        by_kind[kind] = each if known is None else replace(known, count=known.count + each.count)
    return tuple(sorted(by_kind.values(), key=lambda each: -each.count))

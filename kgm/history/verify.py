"""How far a log can be trusted: what is missing, what cannot be read, and since when it tells everything.

Offsets that are missing are no damage, as compaction takes away what was written again later; but what happened there
is not known. So of each partition, and of each group, it is said from where on nothing is missing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import listed
from kgm.history.decode.record_order import in_order, partitions_of
from kgm.history.decode.record_tables import Decoded, decode
from kgm.history.decode.transactions import OPEN, fates
from kgm.history.decode.vector_cursor import Positions
from kgm.history.folders import Damage
from kgm.history.reconstruct.classic_snapshots import Gaps, Kind
from kgm.history.reconstruct.timelines import Timeline, timelines
from kgm.history.schema import RAW

_CONSUMER_GROUP = 3
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets from start to before end that are not in the log."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """Records of a producer's transaction that has no end in the log: its commits are pending."""

    producer_id: int
    producer_epoch: int | None
    first_offset: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One partition. end_offset: behind its last record. missing: offsets in gaps, of which the first may be what was
    before the log. doubles: records that were there more than once. complete_from, complete_since: the first record
    behind the last gap, and its time in ms."""

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
    windows: how many steps from one of its records to the next were not seen whole. complete: none, and its beginning
    was seen too. complete_from, complete_since: from which record on everything was seen. lost_rounds: generations that
    were never completed, which is no gap of the log."""

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
    """One record that cannot be decoded."""

    partition: int
    offset: int
    error: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecords:
    """Records that cannot be decoded for one reason (`schema.REASONS`), with the first few."""

    reason: str
    key_type: int | None
    value_version: int | None
    count: int
    examples: tuple[BadExample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All of a log. unknown_tags: records with fields of a newer Kafka, which are decoded but for these. damages: where
    segments could not be read on. complete_since, until: the window in which nothing is missing from any partition, in
    ms; None if there is none."""

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
        """Whether everything that is there can be read; a torn tail is what a copy of a running broker has."""
        return not self.bad and all(damage.torn for damage in self.damages)


def verify(raw: pa.Table, damages: Iterable[Damage] = ()) -> Verdict:
    """Of records by `schema.RAW`, in any order, and what was noted while they were read."""
    raw = raw.select(RAW.names)
    tables = {number: in_order(number, raw) for number in partitions_of(raw)}
    doubles = Counter(listed(raw.column("partition")))
    doubles.subtract({number: len(table) for number, table in tables.items()})
    partitions = tuple(_partition(number, table, doubles[number]) for number, table in tables.items())
    whole = pa.concat_tables(tables.values()) if tables else raw
    decoded = decode(whole)
    tags = sum(
        int(pc.sum(pc.greater(table.column("unknown_tags"), 0)).as_py() or 0) for table in decoded.records.values()
    )
    since = [each.complete_since for each in partitions]
    until = [each.last_timestamp for each in partitions if each.last_timestamp is not None]
    known = [each for each in since if each is not None]
    return Verdict(
        partitions=partitions, groups=(*_classic(timelines(whole)), *_consumer(decoded, partitions)),
        bad=_bad(decoded.bad), records=len(whole), unknown_tags=tags, damages=tuple(damages),
        complete_since=max(known) if known and len(known) == len(since) else None, until=max(until, default=None),
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
    bounds = pc.min_max(times).as_py()
    return PartitionVerdict(
        partition=number, records=len(raw), first_offset=int(offset[0]), end_offset=int(offset[-1]) + 1,
        first_timestamp=bounds["min"], last_timestamp=bounds["max"], doubles=doubles,
        controls=int(pc.sum(pc.fill_null(raw.column("control"), False)).as_py() or 0),  # noqa: FBT003
        missing=sum(gap.end - gap.start for gap in gaps), gaps=gaps, complete_from=int(offset[last]),
        complete_since=times[last].as_py(), open_transactions=_open(raw, offset),
    )  # fmt: skip


def _open(raw: pa.Table, offset: Positions) -> tuple[OpenTransaction, ...]:
    rows = np.nonzero(fates(raw).fate == OPEN)[0]
    producers = listed(raw.column("producer_id").take(pa.array(rows)))
    epochs = listed(raw.column("producer_epoch").take(pa.array(rows)))
    found: dict[int, list[int]] = {}
    for place, producer in enumerate(producers):
        found.setdefault(-1 if producer is None else producer, []).append(place)
    return tuple(
        OpenTransaction(
            producer_id=producer, producer_epoch=epochs[places[0]], first_offset=int(offset[rows[places[0]]]),
            records=len(places),
        )
        for producer, places in found.items()
    )  # fmt: skip


def _classic(found: Iterable[Timeline]) -> Iterable[GroupVerdict]:
    for each in found:
        snapshots = each.history.snapshots
        # A generation that falls is another life of the group, whose end is gone.
        fallen = {rebalance.offset for rebalance in each.history.rebalances if not rebalance.complete}
        broken = [number for number, one in enumerate(snapshots) if not one.complete or one.offset in fallen]
        start = snapshots[broken[-1] if broken else 0]
        living = [one.generation for one in snapshots if one.kind is not Kind.TOMBSTONE]
        yield GroupVerdict(
            group_id=each.group_id, partition=each.partition, protocol="classic", records=len(snapshots),
            first=living[0] if living else -1, last=living[-1] if living else -1, windows=len(broken),
            complete=not broken, complete_from=start.offset, complete_since=start.timestamp,
            lost_rounds=sum(rebalance.lost_rounds or 0 for rebalance in each.history.rebalances),
        )  # fmt: skip


def _consumer(decoded: Decoded, partitions: tuple[PartitionVerdict, ...]) -> Iterable[GroupVerdict]:
    """Groups of the consumer protocol, by the records that raise their epoch."""
    table = decoded.records.get(_CONSUMER_GROUP)
    if table is None:
        return
    missing = {
        each.partition: Gaps(tuple(gap.start for gap in each.gaps), tuple(gap.end for gap in each.gaps))
        for each in partitions
    }
    rows: dict[tuple[int, str], list[tuple[int, int | None, int | None]]] = {}
    for partition, offset, timestamp, key, value in zip(
        *(table.column(name).to_pylist() for name in ("partition", "offset", "timestamp", "key", "value")), strict=True
    ):
        epoch = None if value is None else value["epoch"]
        rows.setdefault((partition, key["group_id"]), []).append((offset, timestamp, epoch))
    for (partition, name), written in sorted(rows.items()):
        offsets = [-1, *(offset for offset, _, _ in written)]
        broken = [number for number, pair in enumerate(pairwise(offsets)) if missing[partition].within(*pair)]
        epochs = [epoch for _, _, epoch in written if epoch is not None]
        start = written[broken[-1] if broken else 0]
        yield GroupVerdict(
            group_id=name, partition=partition, protocol="consumer", records=len(written),
            first=epochs[0] if epochs else -1, last=epochs[-1] if epochs else -1, windows=len(broken),
            complete=not broken, complete_from=start[0], complete_since=start[1], lost_rounds=0,
        )  # fmt: skip


def _bad(bad: pa.Table) -> tuple[BadRecords, ...]:
    found: dict[tuple[str, int | None, int | None], list[int]] = {}
    for row, key in enumerate(zip(*(listed(bad.column(name)) for name in _KIND), strict=True)):
        found.setdefault(key, []).append(row)
    names = ("partition", "offset", "error", "key", "value")
    return tuple(
        BadRecords(
            reason=reason, key_type=key_type, value_version=version, count=len(rows),
            examples=tuple(BadExample(**row) for row in bad.select(names).take(pa.array(rows[:_EXAMPLES])).to_pylist()),
        )
        for (reason, key_type, version), rows in sorted(found.items(), key=lambda item: -len(item[1]))
    )  # fmt: skip


_KIND = ("reason", "key_type", "value_version")

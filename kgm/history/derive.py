"""Derives every silver and gold table of `schema` from raw records, plus the state needed to continue later.

`derive(all)` gives the same as `derive(the first part)` and then `derive(the rest, carry=...)`, merged by `merge`: a
row replaces an older row with the same key (`schema.KEYS`). Records that were seen before, or that occur twice, change
nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.carry import Carry, dump_carry, load_carry, new_partition
from kgm.history.causes.session_timeouts import SessionLookup, no_session
from kgm.history.decode.raw_batch import RawBatch
from kgm.history.decode.record_order import in_order, partitions_of, pieces, with_times
from kgm.history.decode.record_tables import Decoded, decode, decode_raw_batches
from kgm.history.decode.transactions import transaction_outcomes
from kgm.history.partitions import Partition, PartitionRecords
from kgm.history.reconstruct.partition_replay import Timeline
from kgm.history.reconstruct.timelines import joined, snapshot_table
from kgm.history.row_tables import RowCollector
from kgm.history.rows import ROW_CLASSES
from kgm.history.schema import BAD, KEYS, RAW, TABLES
from kgm.history.tables import commit_table, member_table

__all__ = ["DERIVED", "Carry", "DerivedTables", "derive", "merge"]

#: The tables that `derive` makes.
DERIVED = tuple(name for name in TABLES if name.startswith(("silver_", "gold_")))


@dataclass(frozen=True, slots=True)
class DerivedTables:
    """tables: by name (`DERIVED`), each with its schema: new rows, and rows that replace older ones with the same key.
    bad: the new records that cannot be decoded, by `schema.BAD`. carry: the state for the records that come next."""

    tables: dict[str, pa.Table]
    bad: pa.Table
    carry: Carry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The new records of a partition, read once. gaps: how many gaps in the offsets precede each record; opened:
    earlier records of transactions that had not ended by then."""

    raw: pa.Table
    gaps: np.ndarray[tuple[int], np.dtype[np.int64]]
    opened: pa.Table
    decoded: Decoded
    timelines: list[Timeline]


def derive(raw: pa.Table, *, carry: Carry | None = None, session_of_group: SessionLookup = no_session) -> DerivedTables:
    """Everything that records by `schema.RAW` show: for whole partitions, or for what follows the records that `carry`
    has seen. Offsets missing in between count as removed by compaction. No content of a log raises an error.

    session_of_group: looks up the session timeout of members of the consumer protocol, which no record has; where it
    returns None, the timeout is inferred from the records."""
    partitions = load_carry(carry)
    rows, bad, timelines = RowCollector(), [BAD.empty_table()], []
    commits, members = [TABLES["silver_commit"].empty_table()], [TABLES["silver_member"].empty_table()]
    raw = with_times(raw.select(RAW.names).combine_chunks())
    for number in partitions_of(raw):
        partition = partitions.setdefault(number, new_partition(number))
        read = _read(raw, partition)
        counted = _counted_commits(read)
        partition.feed(
            rows,
            PartitionRecords(
                offsets=read.raw.column("offset").to_numpy(), gaps=read.gaps, decoded=read.decoded,
                timelines={each.group_id: each for each in read.timelines},
                commits=counted,
            ),
            session_of_group=session_of_group,
        )  # fmt: skip
        commits.append(counted)
        members.append(member_table(read.decoded))
        bad.append(read.decoded.bad)
        timelines += read.timelines
    tables = {
        "silver_commit": pa.concat_tables(commits),
        "silver_member": pa.concat_tables(members),
        "silver_snapshot": snapshot_table(timelines),
    }
    tables |= {name: rows.table(ROW_CLASSES[name]) for name in DERIVED if name not in tables}
    return DerivedTables(tables=tables, bad=pa.concat_tables(bad), carry=dump_carry(partitions))


def merge(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables of two steps as one: rows of `after` replace those in `before` with the same key."""
    return {name: _merged(name, before[name], after[name]) for name in before}


def _merged(name: str, before: pa.Table, after: pa.Table) -> pa.Table:
    if not len(before) or not len(after):
        return after if not len(before) else before
    replaced = set(_keys(name, after))
    kept = before.filter(pa.array([each not in replaced for each in _keys(name, before)], type=pa.bool_()))
    return pa.concat_tables([kept, after])


def _keys(name: str, table: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(table.column(column).to_pylist() for column in KEYS[name]), strict=True)


def _read(raw: pa.Table, partition: Partition) -> _Read:
    replay = partition.replay
    opened = replay.open
    mine = in_order(partition.number, raw, replay.next_offset).combine_chunks()
    batches, gaps, timelines = [], [np.zeros(0, dtype=np.int64)], []
    for piece in pieces(mine):
        batch = RawBatch(piece)
        timelines_of_piece, counts = replay.feed(batch)
        batches.append(batch)
        gaps.append(counts)
        timelines += timelines_of_piece
    return _Read(
        raw=mine, gaps=np.concatenate(gaps), opened=opened, decoded=decode_raw_batches(batches),
        timelines=list(joined(timelines)),
    )  # fmt: skip


def _counted_commits(read: _Read) -> pa.Table:
    """The commits that have come to count since the last run: new ones, and older ones whose transaction ended now."""
    whole = pa.concat_tables([read.opened, read.raw])
    outcomes = transaction_outcomes(whole)
    table = commit_table(read.decoded, whole, outcomes)
    if len(read.opened):
        table = pa.concat_tables([commit_table(decode(read.opened), whole, outcomes), table])
    return table.filter(pc.is_valid(table.column("visible_offset")))

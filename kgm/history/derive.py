"""From raw records to every silver and gold table of `schema`, and what has to be kept to go on behind them.

`derive(all)` gives the same as `derive(the first part)` and then `derive(the rest, carry=...)`, merged by
`merge`: rows with the key (`schema.KEYS`) of one that was there replace it. Records that were seen already, or that
come twice, change nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.classic_groups import ClassicGroup
from kgm.history.columns import decode
from kgm.history.commit_windows import Commits, commit_windows
from kgm.history.membership import Change
from kgm.history.rows import Rows
from kgm.history.schema import CARRY, KEYS, RAW, TABLES
from kgm.history.tables import commits, members
from kgm.history.timelines import Timeline, snapshot_table, timelines
from kgm.history.transactions import fates

#: The tables that `derive` makes.
DERIVED = tuple(name for name in TABLES if name.startswith(("silver_", "gold_")))
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Carry:
    """What is known of everything so far, as a small table by `schema.CARRY`."""

    table: pa.Table


@dataclass(frozen=True, slots=True)
class Derived:
    """tables: by name (`DERIVED`), each with its schema: new rows, and rows that replace older ones of the same key.
    carry: for the records that come next."""

    tables: dict[str, pa.Table]
    carry: Carry


def derive(raw: pa.Table, *, carry: Carry | None = None) -> Derived:
    """Everything that records by `schema.RAW` tell: of whole partitions, or of what follows what `carry` has seen.
    Offsets that are missing in between count as eaten by compaction. Raises nothing for what a log may hold."""
    raw = _in_order(raw, carry)
    found = list(timelines(raw))
    decoded = decode(raw)
    tables = {
        "silver_commit": commits(decoded, raw, fates(raw)),
        "silver_member": members(decoded),
        "silver_snapshot": snapshot_table(found),
    }
    rows = Rows()
    seen = commit_windows(tables["silver_commit"])
    for timeline in found:
        _classic(rows, timeline, seen.get((timeline.partition, timeline.group_id)))
    tables |= {name: rows.table(name) for name in DERIVED if name not in tables}
    return Derived(tables=tables, carry=_carry(raw))


def _classic(rows: Rows, timeline: Timeline, seen: Commits | None) -> None:
    group = ClassicGroup(rows, timeline.partition, timeline.group_id)
    history = timeline.history
    changes: dict[int, list[Change]] = {}
    for change in history.changes:
        changes.setdefault(change.offset, []).append(change)
    rebalances = {each.offset: each for each in history.rebalances}
    windows = None if seen is None else seen.windows([each.offset for each in history.snapshots])
    for at, snapshot in enumerate(history.snapshots):
        if windows is not None:
            group.commits(windows[at])
        offset = snapshot.offset
        group.record(snapshot, changes.get(offset, ()), rebalances.get(offset), timeline.leader_epochs[offset])
    if windows is not None:
        group.commits(windows[-1])
    group.timed(history.rebalances)
    group.finish()


def merge(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Two steps' tables as one: rows of `after` replace those of `before` that have their key."""
    return {name: _merged(name, before[name], after[name]) for name in before}


def _merged(name: str, before: pa.Table, after: pa.Table) -> pa.Table:
    key = list(KEYS[name])
    if not len(before) or not len(after):
        return after if not len(before) else before
    taken = set(zip(*(after.column(column).to_pylist() for column in key), strict=True))
    mine = zip(*(before.column(column).to_pylist() for column in key), strict=True)
    kept = before.filter(pa.array([each not in taken for each in mine], type=pa.bool_()))
    return pa.concat_tables([kept, after])


def _in_order(raw: pa.Table, carry: Carry | None) -> pa.Table:
    """By partition and offset, each record once, with those that the carry has seen."""
    parts = [raw.select(RAW.names)]
    if carry is not None:
        parts = [_raw_of(state) for state in carry.table.column("state").to_pylist()] + parts
    whole = pa.concat_tables(parts).combine_chunks()
    partition, offset = whole.column("partition").to_numpy(), whole.column("offset").to_numpy()
    order = np.lexsort((offset, partition))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(partition[order]) != 0) | (np.diff(offset[order]) != 0)
    return whole.take(pa.array(order[first]))


def _raw_of(state: bytes) -> pa.Table:
    with pa.ipc.open_stream(state) as stream:
        return stream.read_all()


def _carry(raw: pa.Table) -> Carry:
    rows = []
    for partition in pc.unique(raw.column("partition")).to_pylist():
        mine = raw.filter(pc.equal(raw.column("partition"), partition))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, mine.schema) as stream:
            stream.write_table(mine)
        rows.append(
            {
                "partition": partition,
                "group_id": None,
                "offset": pc.max(mine.column("offset")).as_py(),
                "version": _VERSION,
                "state": sink.getvalue().to_pybytes(),
            }
        )
    return Carry(pa.Table.from_pylist(rows, schema=CARRY))

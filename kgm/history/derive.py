"""From raw records to every silver and gold table of `schema`, and what has to be kept to go on behind them.

`derive(all)` gives the same as `derive(the first part)` and then `derive(the rest, carry=...)`, merged by
`merge`: rows with the key (`schema.KEYS`) of one that was there replace it. Records that were seen already, or that
come twice, change nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.record_tables import decode
from kgm.history.decode.transactions import fates
from kgm.history.facts.commit_windows import commit_windows
from kgm.history.facts.consumer_groups import SESSION_MS
from kgm.history.partitions import Partition, dump, load
from kgm.history.reconstruct.timelines import Carry as Timelines
from kgm.history.reconstruct.timelines import resume, snapshot_table
from kgm.history.rows import Row, Rows
from kgm.history.schema import CARRY, KEYS, RAW, TABLES
from kgm.history.tables import commits, members

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


def derive(raw: pa.Table, *, carry: Carry | None = None, consumer_session_ms: int = SESSION_MS) -> Derived:
    """Everything that records by `schema.RAW` tell: of whole partitions, or of what follows what `carry` has seen.
    Offsets that are missing in between count as eaten by compaction. Raises nothing for what a log may hold.

    consumer_session_ms: group.consumer.session.timeout.ms of the brokers, which no record tells."""
    partitions, past = _load(carry)
    raw = _in_order(raw, partitions)
    told = resume(raw, past)
    opened = RAW.empty_table() if past is None else _opened(past)
    decoded = decode(pa.concat_tables([opened, raw]))
    both = pa.concat_tables([opened, raw])
    counted = commits(decoded, both, fates(both))
    counted = counted.filter(pc.is_valid(counted.column("visible_offset")))
    tables = {
        "silver_commit": counted,
        "silver_member": members(decoded),
        "silver_snapshot": snapshot_table(told.timelines),
    }
    rows, windows = Rows(), commit_windows(counted)
    for number in pc.unique(raw.column("partition")).to_pylist():
        partition = partitions.setdefault(number, Partition(number))
        partition.feed(
            rows, raw.filter(pc.equal(raw.column("partition"), number)), decoded,
            {each.group_id: each for each in told.timelines if each.partition == number},
            {group: found for (where, group), found in windows.items() if where == number},
            session_ms=consumer_session_ms,
        )  # fmt: skip
    tables |= {name: rows.table(name) for name in DERIVED if name not in tables}
    return Derived(tables=tables, carry=_dump(partitions, told.carry))


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


def _in_order(raw: pa.Table, partitions: Mapping[int, Partition]) -> pa.Table:
    """By partition and offset, each record once, without those that were seen before."""
    whole = raw.select(RAW.names).combine_chunks()
    when = whole.column("timestamp")
    if when.null_count:
        whole = whole.set_column(
            whole.schema.get_field_index("timestamp"), RAW.field("timestamp"), pc.fill_null(when, -1)
        )
    partition, offset = whole.column("partition").to_numpy(), whole.column("offset").to_numpy()
    order = np.lexsort((offset, partition))
    keep = np.ones(len(order), dtype=np.bool_)
    keep[1:] = (np.diff(partition[order]) != 0) | (np.diff(offset[order]) != 0)
    for number, known in partitions.items():
        keep &= (partition[order] != number) | (offset[order] >= known.next_offset)
    return whole.take(pa.array(order[keep]))


def _opened(past: Timelines) -> pa.Table:
    """Records of transactions that had no end yet."""
    table = past.table
    return table.filter(pc.equal(table.column("kind"), "open")).select(RAW.names)


def _load(carry: Carry | None) -> tuple[dict[int, Partition], Timelines | None]:
    found: dict[int, Partition] = {}
    parts = []
    for row in [] if carry is None else carry.table.to_pylist():
        partition = found.setdefault(row["partition"], Partition(row["partition"]))
        state = load(row["state"])
        if row["group_id"] is not None:
            partition.groups[row["group_id"]] = state
            continue
        partition.next_offset, partition.gaps = row["offset"], state["gaps"]
        partition.topics = {topic: (offset, name) for topic, offset, name in state["topics"]}
        with pa.ipc.open_stream(state["timelines"]) as stream:
            parts.append(stream.read_all())
    return found, Timelines(pa.concat_tables(parts)) if parts else None


def _dump(partitions: Mapping[int, Partition], told: Timelines) -> Carry:
    rows = []
    for number, known in partitions.items():
        here: Row = {"partition": number, "offset": known.next_offset, "version": _VERSION}
        topics = [[topic, *said] for topic, said in known.topics.items()]
        mine = told.table.filter(pc.equal(told.table.column("partition"), number))
        state = {"gaps": known.gaps, "topics": topics, "timelines": _ipc(mine)}
        rows.append({**here, "group_id": None, "state": dump(state)})
        rows += [{**here, "group_id": group, "state": dump(state)} for group, state in known.groups.items()]
    return Carry(pa.Table.from_pylist(rows, schema=CARRY))


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found

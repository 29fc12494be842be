"""From a table of raw records to the history of every classic group in it, and that into the tables of `schema`.

What has been told need not be told again: `resume` goes on where another call stopped, by a `Carry`."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.record_order import in_order, partitions_of, pieces
from kgm.history.reconstruct.classic_snapshots import History, Kind, Rebalance
from kgm.history.reconstruct.partition_replay import Known, Teller, Timeline, Written
from kgm.history.schema import GOLD_REBALANCE, RAW, SILVER_MEMBER_CHANGE, SILVER_SNAPSHOT

__all__ = [
    "CARRY",
    "Carry",
    "Timeline",
    "Told",
    "change_table",
    "rebalance_table",
    "resume",
    "snapshot_table",
    "timelines",
]

#: What `Carry.table` looks like. Rows of a kind:
#: partition  what is known of a partition: `offset` is the one behind its last record
#: group      the last GroupMetadata record of a group, a tombstone too
#: commit     a partition that a group has committed: when it last was, and from where on that counts
#: open       a record of a transaction that has no end yet, whole
#: and `state` is what else has to be known (JSON).
CARRY = pa.schema([
    pa.field("kind", pa.string(), nullable=False), *RAW, pa.field("group_id", pa.string()),
    pa.field("state", pa.string()),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Carry:
    """What the timelines of later records need of earlier ones: a table by CARRY, of the size of a compacted log."""

    table: pa.Table


class Told(NamedTuple):
    """timelines: by partition and group id. carry: for the records that come after these."""

    timelines: list[Timeline]
    carry: Carry


def timelines(raw: pa.Table) -> Iterator[Timeline]:
    """Every group with a GroupMetadata record, by partition and group id. The table holds all that is known of its
    partitions: what is missing between their offsets counts as eaten by compaction."""
    log = Log()
    yield from _joined(log.feed(raw))


def resume(raw: pa.Table, carry: Carry | None = None) -> Told:
    """What these records add to the histories of groups, if they come behind those that the carry was made from.

    However a log is cut, the snapshots and changes of the parts, one after the other, are those of the whole, and so
    are the rebalances if later ones replace those with the same offset: the last rebalance of a group is told again
    when commits behind the cut tell more of it. Records that the carry has seen change nothing."""
    log = Log(carry)
    found = list(_joined(log.feed(raw)))
    return Told(found, log.carry())


class Log:
    """All partitions, told piece by piece; for a log that is too large to be told at once."""

    def __init__(self, carry: Carry | None = None) -> None:
        self._tellers = {} if carry is None else _tellers(carry.table)

    def feed(self, raw: pa.Table) -> Iterator[Timeline]:
        """What records behind those that were fed before add. A group may come several times."""
        raw = raw.select(RAW.names)
        for number in partitions_of(raw):
            teller = self._tellers.setdefault(number, Teller(number))
            for piece in pieces(in_order(number, raw, teller.next_offset)):
                yield from teller.feed(piece)

    def carry(self) -> Carry:
        """For the records that come after those that were fed."""
        rows: list[dict[str, Any]] = []
        opened = [CARRY.empty_table()]
        for teller in self._tellers.values():
            rows += _carried(teller)
            columns = [pa.array(["open"] * len(teller.open)), *teller.open.columns]
            columns += [pa.nulls(len(teller.open), pa.string())] * 2
            opened.append(pa.Table.from_arrays(columns, schema=CARRY))
        return Carry(pa.concat_tables([pa.Table.from_pylist(rows, schema=CARRY), *opened]))


def _joined(found: Iterable[Timeline]) -> Iterator[Timeline]:
    """Each group once."""
    groups: dict[tuple[int, str], list[Timeline]] = {}
    for each in found:
        groups.setdefault((each.partition, each.group_id), []).append(each)
    for key in sorted(groups):
        yield _one(groups.pop(key))


def _one(parts: list[Timeline]) -> Timeline:
    if len(parts) == 1:
        return parts[0]
    # A rebalance that is told again is the last one that was told.
    rebalances = {rebalance.offset: rebalance for part in parts for rebalance in part.history.rebalances}
    history = History(
        tuple(snapshot for part in parts for snapshot in part.history.snapshots),
        tuple(change for part in parts for change in part.history.changes),
        tuple(rebalances.values()),
        parts[-1].history.end,
    )
    epochs = {offset: epoch for part in parts for offset, epoch in part.leader_epochs.items()}
    first = parts[0]
    return Timeline(
        group_id=first.group_id, partition=first.partition, history=history, leader_epochs=epochs, before=first.before
    )


def _carried(teller: Teller) -> Iterator[dict[str, Any]]:
    yield {
        "kind": "partition", "partition": teller.partition, "offset": teller.next_offset,
        "state": json.dumps({"gaps": teller.gaps}),
    }  # fmt: skip
    for name, known in teller.groups.items():
        here = {"partition": teller.partition, "group_id": name}
        if known.written is not None:
            state = {
                "kind": known.kind, "complete": known.complete, "gaps": known.gaps,
                "rebalanced_at": known.rebalanced_at, "ended_at": known.ended_at,
                "rebalance": None if known.rebalance is None else asdict(known.rebalance),
            }  # fmt: skip
            yield {**here, "kind": "group", **known.written._asdict(), "state": json.dumps(state)}
        for (topic, partition), (visible, timestamp) in known.committed.items():
            place = json.dumps([topic, partition])
            yield {**here, "kind": "commit", "offset": visible, "timestamp": timestamp, "state": place}


def _tellers(table: pa.Table) -> dict[int, Teller]:
    found: dict[int, Teller] = {}
    opened = table.filter(pc.equal(table.column("kind"), "open")).select(RAW.names)
    rest = table.filter(pc.not_equal(table.column("kind"), "open"))
    for row in rest.to_pylist():
        teller = found.setdefault(row["partition"], Teller(row["partition"]))
        state = json.loads(row["state"])
        if row["kind"] == "partition":
            teller.next_offset, teller.gaps = row["offset"], state["gaps"]
            teller.open = opened.filter(pc.equal(opened.column("partition"), row["partition"]))
            continue
        known = teller.groups.setdefault(row["group_id"], Known())
        if row["kind"] == "commit":
            topic, partition = state
            known.committed[topic, partition] = row["offset"], row["timestamp"]
            continue
        known.written = Written(*(row[name] for name in Written._fields))
        known.kind, known.complete, known.gaps = Kind(state["kind"]), state["complete"], state["gaps"]
        known.rebalanced_at, known.ended_at = state["rebalanced_at"], state["ended_at"]
        known.rebalance = None if state["rebalance"] is None else Rebalance(**state["rebalance"])
    return found


def snapshot_table(found: Iterable[Timeline]) -> pa.Table:
    """`schema.SILVER_SNAPSHOT`."""
    facts, columns = _facts(found, lambda history: history.snapshots)
    columns |= {
        "kind": [fact.kind.value for fact in facts], "generation": [fact.generation for fact in facts],
        "protocol_type": [fact.protocol_type for fact in facts], "protocol": [fact.protocol for fact in facts],
        "leader": [fact.leader for fact in facts], "state_timestamp": [fact.state_timestamp for fact in facts],
        "members": [len(fact.members) for fact in facts], "sync_ms": [fact.sync_ms for fact in facts],
        "contiguous": [fact.complete for fact in facts],
    }  # fmt: skip
    return _table(columns, len(facts), SILVER_SNAPSHOT)


def change_table(found: Iterable[Timeline]) -> pa.Table:
    """`schema.SILVER_MEMBER_CHANGE`."""
    facts, columns = _facts(found, lambda history: history.changes)
    records = [fact.member.record for fact in facts]
    columns |= {
        "generation": [fact.generation for fact in facts], "kind": [fact.kind.value for fact in facts],
        "member_id": [record.member_id for record in records],
        "old_member_id": [fact.old_member_id for fact in facts],
        "group_instance_id": [record.group_instance_id for record in records],
        "client_id": [record.client_id for record in records],
        "client_host": [record.client_host for record in records],
        "session_timeout_ms": [record.session_timeout for record in records],
        "absorbed": [fact.absorbed for fact in facts], "complete": [fact.complete for fact in facts],
    }  # fmt: skip
    return _table(columns, len(facts), SILVER_MEMBER_CHANGE)


def rebalance_table(found: Iterable[Timeline]) -> pa.Table:
    """`schema.GOLD_REBALANCE`, the causes of which are found elsewhere."""
    facts, columns = _facts(found, lambda history: history.rebalances)
    names = [field.name for field in fields(Rebalance) if field.name in GOLD_REBALANCE.names]
    columns |= {name: list(map(attrgetter(name), facts)) for name in names}
    return _table(columns, len(facts), GOLD_REBALANCE)


def _facts(
    found: Iterable[Timeline], of_history: Callable[[History], tuple[Any, ...]]
) -> tuple[list[Any], dict[str, list[Any]]]:
    """(facts of all histories, the columns that say where each stands)."""
    facts: list[Any] = []
    groups: list[str] = []
    partitions: list[int] = []
    epochs: list[int | None] = []
    for each in found:
        mine = of_history(each.history)
        facts += mine
        groups += [each.group_id] * len(mine)
        partitions += [each.partition] * len(mine)
        epochs += [each.leader_epochs.get(fact.offset) for fact in mine]
    columns = {
        "partition": partitions, "offset": [fact.offset for fact in facts],
        "timestamp": [fact.timestamp for fact in facts], "leader_epoch": epochs, "group_id": groups,
    }  # fmt: skip
    return facts, columns


def _table(columns: dict[str, list[Any]], count: int, schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.array(columns[field.name], type=field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)

"""All groups of one partition of `__consumer_offsets`, from where an earlier call stopped."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.record_tables import Decoded
from kgm.history.facts.classic_groups import ClassicGroup
from kgm.history.facts.commit_windows import Commits, Window
from kgm.history.facts.consumer_groups import KINDS, SESSION_MS, ConsumerGroup
from kgm.history.facts.restarts import Restarts
from kgm.history.reconstruct.classic_snapshots import Change, Rebalance, Snapshot
from kgm.history.reconstruct.timelines import Timeline
from kgm.history.rows import Row, Rows, position
from kgm.history.tables import OFFSET_COMMIT

_PARTITION_METADATA = 4
_NO_ID = bytes(16)


@dataclass(slots=True)
class Partition:
    """next_offset: behind the last record that was seen. gaps: how many there are in the offsets before that. topics:
    the name of each topic id (in hex) that is known, and the offset of the record that told it. groups: the state of
    each group."""

    number: int
    next_offset: int = 0
    gaps: int = 0
    topics: dict[str, tuple[int, str]] = field(default_factory=dict)
    groups: dict[str, Row] = field(default_factory=dict)

    def name(self, topic: str, offset: int) -> str | None:
        """The name of a topic id, if a record up to an offset tells it."""
        known = self.topics.get(topic)
        return None if known is None or known[0] > offset else known[1]

    def feed(
        self, rows: Rows, raw: pa.Table, decoded: Decoded, timelines: Mapping[str, Timeline],
        commits: Mapping[str, Commits], *, session_ms: int = SESSION_MS,
    ) -> None:  # fmt: skip
        """What the records of the partition add. raw: those, in order; decoded: these, and commits of earlier ones."""
        offset = raw.column("offset").to_numpy()
        expected = np.append(self.next_offset, offset[:-1] + 1)
        gaps = self.gaps + np.cumsum(offset > expected)
        self._topics(rows, decoded)
        records = _records(self.number, decoded, offset, gaps)
        touched = timelines.keys() | records.keys() | (commits.keys() & self.groups.keys())
        for name in sorted(touched):
            _Group(self, rows, name, session_ms).feed(timelines.get(name), records.get(name, []), commits.get(name))
        if len(offset):
            self.gaps, self.next_offset = int(gaps[-1]), int(offset[-1]) + 1

    def _topics(self, rows: Rows, decoded: Decoded) -> None:
        for offset, topic_id, name in sorted([*_committed_topics(self.number, decoded), *_older(self.number, decoded)]):
            if topic_id is not None and topic_id != _NO_ID and topic_id.hex() not in self.topics:
                self.topics[topic_id.hex()] = offset, name
                row = {"partition": self.number, "topic_id": topic_id, "topic": name, "offset": offset}
                rows.put("silver_topic", row)


def _of(partition: int, table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table.column("partition"), partition))


def _committed_topics(partition: int, decoded: Decoded) -> list[tuple[int, bytes | None, str]]:
    if OFFSET_COMMIT not in decoded.records:
        return []
    table = _of(partition, decoded.records[OFFSET_COMMIT])
    chosen = pa.table({
        "offset": table.column("offset"),
        "id": pc.struct_field(table.column("value"), "topic_id"),
        "topic": pc.struct_field(table.column("key"), "topic"),
    })  # fmt: skip
    first = chosen.group_by(["id", "topic"]).aggregate([("offset", "min")])
    names = ("offset_min", "id", "topic")
    return list(zip(*(first.column(name).to_pylist() for name in names), strict=True))


def _older(partition: int, decoded: Decoded) -> list[tuple[int, bytes | None, str]]:
    """From records that brokers wrote before 4.1."""
    if _PARTITION_METADATA not in decoded.records:
        return []
    return [
        (row["offset"], topic["topic_id"], topic["topic_name"])
        for row in _of(partition, decoded.records[_PARTITION_METADATA]).to_pylist()
        for topic in (row["value"] or {}).get("topics") or ()
    ]


def _records(partition: int, decoded: Decoded, offset: Any, gaps: Any) -> dict[str, list[tuple[int, Row, int]]]:
    """(type, record, gaps in the offsets before it) of groups of the consumer protocol, in order."""
    found: dict[str, list[tuple[int, Row, int]]] = {}
    for kind in KINDS:
        if kind not in decoded.records:
            continue
        table = _of(partition, decoded.records[kind])
        before = gaps[np.searchsorted(offset, table.column("offset").to_numpy())].tolist()
        for row, count in zip(table.to_pylist(), before, strict=True):
            found.setdefault(row["key"]["group_id"], []).append((kind, row, count))
    for rows in found.values():
        rows.sort(key=lambda each: each[1]["offset"])
    return found


class _Group:
    """A group, of either type or of one after the other."""

    def __init__(self, partition: Partition, rows: Rows, name: str, session_ms: int) -> None:
        self.partition, self.name = partition, name
        known = partition.groups.get(name, {})
        self.gaps: int = known.get("gaps", 0)
        self.restarts = Restarts(known.get("restarts"))
        self.begun = {each for each in ("classic", "consumer") if each in known}
        self.classic = ClassicGroup(rows, partition.number, name, self.restarts, known.get("classic"))
        self.consumer = ConsumerGroup(
            rows, partition.number, name, partition.name, self.restarts, known.get("consumer"), session_ms=session_ms
        )

    def feed(self, timeline: Timeline | None, records: list[tuple[int, Row, int]], commits: Commits | None) -> None:
        steps: list[tuple[int, Callable[[], None]]] = [
            (row["offset"], partial(self._consumer, *record)) for record in records for row in record[1:2]
        ]
        if timeline is not None:
            self.classic.previous = timeline.before
            steps += self._classic_steps(timeline)
        steps.sort(key=itemgetter(0))
        windows = None if commits is None else commits.windows([offset for offset, _ in steps])
        for at, (_, step) in enumerate(steps):
            self._commits(windows, at)
            step()
        self._commits(windows, len(steps))
        if timeline is not None:
            self.classic.timed(timeline.history.rebalances)
        self._finish()

    def _commits(self, windows: list[list[Window]] | None, at: int) -> None:
        """What was committed before anything is known of a group tells nothing of it."""
        if windows is not None and windows[at]:
            if "classic" in self.begun:
                self.classic.commits(windows[at])
            if "consumer" in self.begun:
                self.consumer.commits(windows[at])

    def _classic_steps(self, timeline: Timeline) -> list[tuple[int, Callable[[], None]]]:
        history = timeline.history
        changes: dict[int, list[Change]] = {}
        for change in history.changes:
            changes.setdefault(change.offset, []).append(change)
        rebalances = {each.offset: each for each in history.rebalances}
        return [
            (
                each.offset,
                partial(
                    self._classic, each, changes.get(each.offset, ()), rebalances.get(each.offset),
                    timeline.leader_epochs[each.offset],
                ),
            )
            for each in history.snapshots
        ]  # fmt: skip

    def _classic(
        self, snapshot: Snapshot, changes: Sequence[Change], rebalance: Rebalance | None, leader_epoch: int | None
    ) -> None:
        self.begun.add("classic")
        self.classic.record(snapshot, changes, rebalance, leader_epoch)

    def _consumer(self, kind: int, row: Row, gaps: int) -> None:
        self.begun.add("consumer")
        base = position(self.partition.number, row["offset"], row["timestamp"], row["leader_epoch"])
        self.consumer.record(kind, base, row["key"], row["value"], complete=gaps == self.gaps)
        self.gaps = gaps

    def _finish(self) -> None:
        state: Row = {"gaps": self.gaps, "restarts": self.restarts.state()}
        for name, group in (("classic", self.classic), ("consumer", self.consumer)):
            if name in self.begun:
                group.finish()
                state[name] = group.state()
        self.partition.groups[self.name] = state


def dump(state: Row) -> bytes:
    """A state as bytes."""
    return json.dumps(state, default=_plain, separators=(",", ":")).encode()


def load(data: bytes) -> Row:
    """A state from its bytes."""
    found: Row = json.loads(data, object_hook=_bytes)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    raise TypeError(type(value).__name__)


def _bytes(value: Row) -> Any:
    return b64decode(value["$bytes"]) if "$bytes" in value else value

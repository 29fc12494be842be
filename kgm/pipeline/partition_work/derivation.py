"""Turns one partition of `__consumer_offsets` from raw records into its files of every table: a worker's part of a
build.

Records are read from where the last build stopped, in chunks that fit into memory; each chunk is derived with the state
kept from the previous one. If rows replace older ones, the partition's file of that table is merged with them;
otherwise a file is added. No file of the last build is changed: a build's files are new, or taken over from the last
build."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.causes.session_timeouts import GivenSessions, no_session
from kgm.history.derive import DERIVED, Carry, derive, merge
from kgm.history.places.parquet import read_table, write_table
from kgm.history.places.remote_path import Place, below
from kgm.history.schema import KEYS, RAW, TABLES
from kgm.history.store.commit_log import each_once
from kgm.model.gc_threshold import collect_rarely

BAD = "bronze_bad"
#: The tables that a build writes.
BUILT = (*DERIVED, BAD)
#: The size of a chunk: this many records, or this many bytes of files.
_CHUNK_RECORDS = 1_000_000
_CHUNK_BYTES = 256 << 20
#: If a partition has more files than this for a table, they are merged into one.
_MOST_FILES = 8
#: The digits of a build's number, in names that sort correctly.
DIGITS = 6


def split(name: str) -> tuple[str, str]:
    """(layer, table) for a name in `kgm.history.schema.TABLES`."""
    layer, _, rest = name.partition("_")
    return layer, rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a partition's files of a build go, and which files there are. store: its place; tables: the directory in it
    for the files of tables. before: the partition's files in the last build, by table and by their paths in the store,
    with their row counts; empty if it is built from its beginning. files: the same for this build."""

    store: Place
    tables: Place
    partition: int
    number: int
    writer: str
    before: Mapping[str, Mapping[str, int]]
    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def old(self, name: str) -> list[Place]:
        """The files of the last build for a table, oldest first."""
        return [self.store / path for path in sorted(self.before.get(name, ()))]

    def keep(self, name: str) -> None:
        """Keep the last build's files for a table in this build."""
        self.files.setdefault(name, {}).update(self.before.get(name, {}))

    def write(self, name: str, table: pa.Table) -> None:
        """Add a file, under a unique name: another attempt of the same task may also be writing, and one that seemed
        dead may continue."""
        attempt = uuid.uuid4().hex[:8]
        file = f"p{self.partition:05}-b{self.number:0{DIGITS}}-{self.writer}-{attempt}.parquet"
        path = self.tables.joinpath(*split(name), file)
        write_table(table, path)
        self.files.setdefault(name, {})["/".join(below(self.store, path))] = len(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition in a build. files: those with its raw records from `start` on, in the order of their first offsets;
    bounds: the first and the last offset in each. sessions: the user's session timeouts of consumer groups."""

    partition: int
    start: int
    files: tuple[Place, ...]
    bounds: tuple[tuple[int, int], ...]
    output: Output
    sessions: GivenSessions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPartition:
    """What a worker did. records: how many it read; bad: how many of them cannot be decoded. files: see `Output`."""

    partition: int
    records: int
    bad: int
    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def build_partition(work: PartitionWork) -> str:
    """Write a partition's files into the build; returns a `BuiltPartition` as JSON. Meant for a process of its own."""
    collect_rarely()
    old = work.output.old("carry")
    carry = Carry(pa.concat_tables([read_table(path, schema=TABLES["carry"]) for path in old])) if old else None
    tables: dict[str, pa.Table] = {name: TABLES[name].empty_table() for name in BUILT}
    records = 0
    for raw in _chunks(work):
        derived = derive(raw, carry=carry, session_of_group=work.sessions or no_session)
        carry = derived.carry
        new = {**derived.tables, BAD: derived.bad}
        tables = _merged(tables, new) if records else new
        records += len(raw)
    for name in BUILT:
        _write(work, name, tables[name])
    if carry is not None:
        work.output.write("carry", carry.table)
    done = BuiltPartition(
        partition=work.partition, records=records, bad=len(tables[BAD]), files=work.output.files
    )  # fmt: skip
    return json.dumps(asdict(done))


def _chunks(work: PartitionWork) -> Iterator[pa.Table]:
    """Raw records in the order of their offsets. Files whose offset ranges overlap are in one chunk."""
    waiting: list[pa.Table] = []
    records = size = last = 0
    begins = [*(first for first, _ in work.bounds[1:]), None]
    for path, (_, end), following in zip(work.files, work.bounds, begins, strict=True):
        table = _of_file(path, work)
        waiting.append(table)
        records += len(table)
        size += table.nbytes
        last = max(last, end)
        is_apart = following is None or following > last
        if is_apart and (records >= _CHUNK_RECORDS or size >= _CHUNK_BYTES):
            yield _sorted(waiting)
            waiting, records, size = [], 0, 0
    if records:
        yield _sorted(waiting)


def _of_file(path: Place, work: PartitionWork) -> pa.Table:
    where = (pc.field("partition") == work.partition) & (pc.field("offset") >= work.start)
    return read_table(path, columns=RAW.names, filters=where).cast(RAW)


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    offset = whole.column("offset")
    if len(whole) > 1 and not pc.all(pc.less(offset[:-1], offset[1:])).as_py():
        whole = each_once(whole.sort_by("offset"))
    return whole


def _merged(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    both = merge({name: before[name] for name in DERIVED}, {name: after[name] for name in DERIVED})
    return {**both, BAD: pa.concat_tables([before[BAD], after[BAD]])}


def _write(work: PartitionWork, name: str, new: pa.Table) -> None:
    """Write the partition's files of a table: those of the last build and a new one, or a single one with all rows."""
    old = work.output.old(name)
    if len(new) and old and (_replaces(name, new, work.start) or len(old) >= _MOST_FILES):
        before = pa.concat_tables([read_table(path, schema=TABLES[name]) for path in old])
        new = merge({name: before}, {name: new})[name]
        old = []
    if old:
        work.output.keep(name)
    if len(new):
        work.output.write(name, new)


def _replaces(name: str, new: pa.Table, start: int) -> bool:
    """Whether rows may have the key of an older one: not if their key includes the offset of a newer record."""
    return "offset" not in KEYS[name] or bool(pc.less(pc.min(new.column("offset")), start).as_py())

"""One partition of `__consumer_offsets` from its raw records to its files of every table: a worker's part of a build.

Records are read from where the last build stopped, in chunks that fit into memory; each chunk is derived with what was
kept of the one before. If rows replace older ones, the partition's file of that table is merged with them; otherwise a
file is added. No file of the last build is changed: files are new, or those of the last build."""

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
#: A chunk: so many records, or so many bytes of files.
_CHUNK_RECORDS = 1_000_000
_CHUNK_BYTES = 256 << 20
#: If a partition has more files of a table, they are made one.
_MOST_FILES = 8
#: Of the number of a build, in names that are sorted.
DIGITS = 6


def split(name: str) -> tuple[str, str]:
    """(layer, table) of a name in `kgm.history.schema.TABLES`."""
    layer, _, rest = name.partition("_")
    return layer, rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a partition's files of a build go, and which there are. store: its place; tables: the directory in it with
    the files of tables. before: the partition's files in the last build, by table and by their paths in the store, with
    their rows; none if it is built from its beginning. files: the same of this build."""

    store: Place
    tables: Place
    partition: int
    number: int
    writer: str
    before: Mapping[str, Mapping[str, int]]
    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def old(self, name: str) -> list[Place]:
        """Those of the last build for a table, oldest first."""
        return [self.store / path for path in sorted(self.before.get(name, ()))]

    def keep(self, name: str) -> None:
        """Have the files of the last build for a table in this one."""
        self.files.setdefault(name, {}).update(self.before.get(name, {}))

    def write(self, name: str, table: pa.Table) -> None:
        """Add a file, under a name of its own: another attempt of the same task may write, too, and one that died may
        go on."""
        attempt = uuid.uuid4().hex[:8]
        file = f"p{self.partition:05}-b{self.number:0{DIGITS}}-{self.writer}-{attempt}.parquet"
        path = self.tables.joinpath(*split(name), file)
        write_table(table, path)
        self.files.setdefault(name, {})["/".join(below(self.store, path))] = len(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition in a build. files: those with its raw records from `start` on, in the order of their first offsets;
    bounds: the first and the last offset in each. sessions: the session timeouts of consumer groups that are given."""

    partition: int
    start: int
    files: tuple[Place, ...]
    bounds: tuple[tuple[int, int], ...]
    output: Output
    sessions: GivenSessions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPartition:
    """What a worker did. records: read; bad: those of them that cannot be decoded. files: see `Output`."""

    partition: int
    records: int
    bad: int
    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def build_partition(work: PartitionWork) -> str:
    """Write the files of a partition into the build; returns a `BuiltPartition` as JSON. For a process of its own."""
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
    """Raw records in the order of their offsets. What two files have records between one another's is one chunk."""
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
    """Write the partition's files of a table: those of the last build and a new one, or one with all rows."""
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
    """Whether rows may have the key of an older one: not if their key has the offset of a newer record."""
    return "offset" not in KEYS[name] or bool(pc.less(pc.min(new.column("offset")), start).as_py())

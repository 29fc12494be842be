"""One partition of `__consumer_offsets` from its raw records to its files of every table: a worker's part of a build.

Records are read from where the last build stopped, in chunks that fit into memory; each chunk is derived with what was
kept of the one before. If rows replace older ones, the partition's file of that table is merged with them; otherwise a
file is added. No file of the last build is changed: files are new, or links to those of the last build."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgm.history.causes.session_timeouts import GivenSessions, no_session
from kgm.history.derive import DERIVED, Carry, derive, merge
from kgm.history.schema import KEYS, RAW, TABLES
from kgm.model.gc_threshold import collect_rarely
from kgm.pipeline.layout import split

BAD = "bronze_bad"
#: The tables that a build writes.
BUILT = (*DERIVED, BAD)
#: A chunk: so many records, or so many bytes of files.
_CHUNK_RECORDS = 1_000_000
_CHUNK_BYTES = 256 << 20
#: If a partition has more files of a table, they are made one.
_MOST_FILES = 8
_CODEC = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition in a build. files: those with its raw records from `start` on, in the order of their first offsets.
    build: the directory of the build; before: that of the last one, None if the partition is built from its
    beginning. sessions: the session timeouts of consumer groups that are given."""

    partition: int
    start: int
    files: tuple[Path, ...]
    build: Path
    number: int
    before: Path | None
    sessions: GivenSessions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPartition:
    """What a worker did. records: read; bad: those of them that cannot be decoded."""

    partition: int
    records: int
    bad: int


def build_partition(work: PartitionWork) -> BuiltPartition:
    """Write the files of a partition into the build's directory. For a process of its own."""
    collect_rarely()
    carry = _carried(work)
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
        _save(carry.table, _file(work.build, "carry", work))
    return BuiltPartition(partition=work.partition, records=records, bad=len(tables[BAD]))


def _carried(work: PartitionWork) -> Carry | None:
    if work.before is None:
        return None
    files = _files(work.before, "carry", work.partition)
    return Carry(pa.concat_tables([pq.read_table(path, schema=TABLES["carry"]) for path in files])) if files else None


def _chunks(work: PartitionWork) -> Iterator[pa.Table]:
    """Raw records in the order of their offsets."""
    waiting: list[pa.Table] = []
    records = size = 0
    for path in work.files:
        table = _of_file(path, work)
        waiting.append(table)
        records += len(table)
        size += table.nbytes
        if records >= _CHUNK_RECORDS or size >= _CHUNK_BYTES:
            yield _sorted(waiting)
            waiting, records, size = [], 0, 0
    if records:
        yield _sorted(waiting)


def _of_file(path: Path, work: PartitionWork) -> pa.Table:
    where = (pc.field("partition") == work.partition) & (pc.field("offset") >= work.start)
    return pq.read_table(path, columns=RAW.names, filters=where).cast(RAW)


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    offset = whole.column("offset")
    if len(whole) > 1 and not pc.all(pc.less(offset[:-1], offset[1:])).as_py():
        whole = whole.sort_by("offset")
    return whole


def _merged(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    both = merge({name: before[name] for name in DERIVED}, {name: after[name] for name in DERIVED})
    return {**both, BAD: pa.concat_tables([before[BAD], after[BAD]])}


def _write(work: PartitionWork, name: str, new: pa.Table) -> None:
    """Write the partition's files of a table: links to those of the last build and a new one, or one with all rows."""
    old = [] if work.before is None else _files(work.before, name, work.partition)
    if len(new) and old and (_replaces(name, new, work.start) or len(old) >= _MOST_FILES):
        before = pa.concat_tables([pq.read_table(path, schema=TABLES[name]) for path in old])
        new = merge({name: before}, {name: new})[name]
        old = []
    for path in old:
        link = work.build.joinpath(*split(name), path.name)
        link.unlink(missing_ok=True)
        os.link(path, link)
    if len(new):
        _save(new, _file(work.build, name, work))


def _replaces(name: str, new: pa.Table, start: int) -> bool:
    """Whether rows may have the key of an older one: not if their key has the offset of a newer record."""
    return "offset" not in KEYS[name] or bool(pc.less(pc.min(new.column("offset")), start).as_py())


def _file(build: Path, name: str, work: PartitionWork) -> Path:
    return build.joinpath(*split(name), f"p{work.partition:05}-b{work.number:06}.parquet")


def _files(build: Path, name: str, partition: int) -> list[Path]:
    """Of a partition, oldest first."""
    return sorted(build.joinpath(*split(name)).glob(f"p{partition:05}-b*.parquet"))


def _save(table: pa.Table, path: Path) -> None:
    """Write a file as a whole: another attempt of the same task may write it at the same time."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, made, compression=_CODEC)
    made.replace(path)

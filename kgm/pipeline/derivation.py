"""One partition of `__consumer_offsets` from its raw records to its files of every table: a worker's part of a build.

Records are read from where the last build stopped, in stretches that fit into memory, each of which is derived with
what the one before it left to carry on with. Rows that replace older ones send the partition's file of that table
through a merge; otherwise a file is added. Nothing that counts is touched: files are new, or links to the last build's.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgm.history.decode.record_tables import decode
from kgm.history.derive import DERIVED, Carry, derive, merge
from kgm.history.schema import KEYS, RAW, TABLES
from kgm.model.gc_threshold import collect_rarely
from kgm.pipeline.layout import split

BAD = "bronze_bad"
#: The tables that a build writes.
BUILT = (*DERIVED, BAD)
#: A stretch: so many records, or so many bytes of files.
_STRETCH_RECORDS = 1_000_000
_STRETCH_BYTES = 256 << 20
#: More files than these of one partition are made one.
_MOST_FILES = 8
_CODEC = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One partition in a build. files: with its raw records from `start` on, in order of their first offsets. before:
    the last build's directory, None if the partition is done from its beginning."""

    partition: int
    start: int
    files: tuple[Path, ...]
    build: Path
    number: int
    before: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of it. records: read. bad: of those, not decoded."""

    partition: int
    records: int
    bad: int


def run(work: Work) -> Done:
    """Write the files of a partition into the build's directory. For a process of its own."""
    collect_rarely()
    carry = _carried(work)
    tables: dict[str, pa.Table] = {name: TABLES[name].empty_table() for name in BUILT}
    records = 0
    for raw in _stretches(work):
        found = derive(raw, carry=carry)
        carry = found.carry
        new = {**found.tables, BAD: decode(raw).bad}
        tables = _joined(tables, new, work.start) if records else new
        records += len(raw)
    for name in BUILT:
        _write(work, name, tables[name])
    if carry is not None:
        _save(carry.table, _file(work.build, "carry", work))
    return Done(partition=work.partition, records=records, bad=len(tables[BAD]))


def _carried(work: Work) -> Carry | None:
    if work.before is None:
        return None
    files = _files(work.before, "carry", work.partition)
    return Carry(pa.concat_tables([pq.read_table(path, schema=TABLES["carry"]) for path in files])) if files else None


def _stretches(work: Work) -> Iterator[pa.Table]:
    """Raw records in the order of their offsets."""
    waiting: list[pa.Table] = []
    records = size = 0
    for path in work.files:
        table = _of_file(path, work)
        waiting.append(table)
        records += len(table)
        size += table.nbytes
        if records >= _STRETCH_RECORDS or size >= _STRETCH_BYTES:
            yield _sorted(waiting)
            waiting, records, size = [], 0, 0
    if records:
        yield _sorted(waiting)


def _of_file(path: Path, work: Work) -> pa.Table:
    where = (pc.field("partition") == work.partition) & (pc.field("offset") >= work.start)
    return pq.read_table(path, columns=RAW.names, filters=where).cast(RAW)


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    offset = whole.column("offset")
    if len(whole) > 1 and not pc.all(pc.less(offset[:-1], offset[1:])).as_py():
        whole = whole.sort_by("offset")
    return whole


def _joined(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table], start: int) -> dict[str, pa.Table]:
    del start
    both = merge({name: before[name] for name in DERIVED}, {name: after[name] for name in DERIVED})
    return {**both, BAD: pa.concat_tables([before[BAD], after[BAD]])}


def _write(work: Work, name: str, new: pa.Table) -> None:
    """The partition's files of a table: those of the last build and a new one, or one that has it all."""
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
    """Whether rows may have the key of an older one: those that only newer records can have made do not."""
    return "offset" not in KEYS[name] or bool(pc.less(pc.min(new.column("offset")), start).as_py())


def _file(build: Path, name: str, work: Work) -> Path:
    return build.joinpath(*split(name), f"p{work.partition:05}-b{work.number:06}.parquet")


def _files(build: Path, name: str, partition: int) -> list[Path]:
    """Of a partition, oldest first."""
    return sorted(build.joinpath(*split(name)).glob(f"p{partition:05}-b*.parquet"))


def _save(table: pa.Table, path: Path) -> None:
    """As a whole: another attempt of the same task may be at it as well."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, made, compression=_CODEC)
    made.replace(path)

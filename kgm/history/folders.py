"""Copies of a broker's folders `__consumer_offsets-N`: their segments, oldest first, and the records in them.

Reading a copy changes nothing and locks nothing, unlike `kgm.records.log`, which is for a log that kgm itself writes. A
copy of a running broker's files often ends in a torn tail, which is noted and is not an error; only the last segment of
a partition can. Segments can be gzipped (`.log.gz`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import pyarrow as pa

from kgm.history.decode.raw import segment_records
from kgm.history.expansion import RecordExpansion
from kgm.history.gzipped_segment import unpack
from kgm.history.places.remote_path import Place, check_is_directory, check_is_file, inside
from kgm.history.schema import RAW
from kgm.model.errors import DecodeError, UsageError
from kgm.records.segment import LOG, SWAP, BadBatch, Ending, base_offset_of, ending

TOPIC = "__consumer_offsets"
GZIPPED = ".gz"
#: The most bytes of keys and values that one process reads, unless the files themselves are larger.
MOST_BYTES = 512 << 20
_NO_SEGMENT = "it does not begin as a segment of a log: it may be another kind of file"
_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
#: Partition numbers are int32.
MOST_PARTITION = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One partition. segments: those to read; last: the newest one that there is. size: of its files, in bytes."""

    partition: int
    path: Place
    segments: tuple[Place, ...]
    last: Place
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Where reading a segment stopped. torn: whether it stopped at what was being written when the writer died or the
    copy was taken. position: in bytes; None if only the segment is known. Later segments are still read."""

    partition: int
    path: Place
    position: int | None
    reason: str
    torn: bool


@dataclass(slots=True)
class Reading:
    """What was noted while reading folders."""

    damages: list[Damage] = field(default_factory=list)


def folders(path: Place) -> tuple[Folder, ...]:
    """The partitions in a directory, or the one that the directory is, by number. If there are several topics,
    `__consumer_offsets` is read.

    Raises MissingFileError if there is no directory, UsageError if it holds no segments."""
    check_is_directory(path)
    by_topic: dict[str, list[Folder]] = {}
    for each in (path, *inside(path)):
        named = _named(each.name)
        segments = _segments(each) if named is not None and each.is_dir() else ()
        if named is not None and segments:
            folder = Folder(
                partition=named[1], path=each, segments=segments, last=segments[-1],
                size=sum(segment.stat().st_size for segment in segments),
            )  # fmt: skip
            by_topic.setdefault(named[0], []).append(folder)
    if not by_topic:
        raise UsageError(
            f"directory {path} holds no segments",
            facts=(f"expected: folders {TOPIC}-N with files like 00000000000000000000.log in them",),
            hint=f"copy them from a broker's log.dirs: rsync -a BROKER:LOG_DIR/{TOPIC}-* {path}",
        )
    if TOPIC not in by_topic and len(by_topic) > 1:
        raise UsageError(f"directory {path} holds several topics: {', '.join(sorted(by_topic))}")
    chosen = by_topic.get(TOPIC) or next(iter(by_topic.values()))
    return tuple(sorted(chosen, key=lambda folder: folder.partition))


def _named(folder: str) -> tuple[str, int] | None:
    """The topic and the partition that a folder is for; None if it is another kind of folder, such as TOPIC--1."""
    named = _FOLDER.fullmatch(folder)
    if named is None or int(named["partition"]) > MOST_PARTITION or (named["topic"] == f"{TOPIC}-"):
        return None
    return named["topic"], int(named["partition"])


def _segments(directory: Place) -> tuple[Place, ...]:
    """The segments, oldest first. The `.swap` file of a finished compaction replaces the segment of the same name."""
    by_offset: dict[int, Place] = {}
    for path in inside(directory):
        name = path.name.removesuffix(GZIPPED)
        base = base_offset_of(name.removesuffix(SWAP), LOG)
        if base is not None and (base not in by_offset or name.endswith(SWAP)):
            check_is_file(path)
            by_offset[base] = path
    return tuple(by_offset[base] for base in sorted(by_offset))


def read_folder(folder: Folder, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Every record of a partition by `schema.RAW`, with ascending offsets. Raises DecodeError for a codec that cannot
    be read here, and OSError."""
    next_offset = 0
    for path in folder.segments:
        file, size, problem = _open(path)
        base = base_offset_of(path.name.removesuffix(GZIPPED).removesuffix(SWAP)) or 0
        with file:
            try:
                for batch in segment_records(folder.partition, file, size, from_offset=max(base, next_offset)):
                    if batch.num_rows:
                        next_offset = batch.column("offset")[-1].as_py() + 1
                        yield batch
                if problem is not None:
                    reading.damages.append(_damage(folder, path, size, problem, torn=False))
            except BadBatch as bad:
                is_last = problem is None and path == folder.last
                found = ending(file, bad, size, base_offset=base, next_offset=max(base, next_offset), is_last=is_last)
                reason = _NO_SEGMENT if found is Ending.NO_SEGMENT else bad.message
                torn = found is Ending.TORN
                reading.damages.append(_damage(folder, path, bad.position, problem or reason, torn=torn))
            except DecodeError as error:
                if error.hint is not None:
                    raise
                reading.damages.append(_damage(folder, path, None, error.message, torn=False))


def _damage(folder: Folder, path: Place, position: int | None, reason: str, *, torn: bool) -> Damage:
    return Damage(partition=folder.partition, path=path, position=position, reason=reason, torn=torn)


def _open(path: Place) -> tuple[BinaryIO, int, str | None]:
    """(the segment, its size, why a part of it is missing)"""
    if not path.name.endswith(GZIPPED):
        return path.open("rb"), path.stat().st_size, None
    unpacked = unpack(path)
    return cast("BinaryIO", unpacked.file), unpacked.size, unpacked.problem


def raw_table(source: tuple[Folder, ...], reading: Reading, *, most_bytes: int | None = None) -> pa.Table:
    """All records of all partitions, by partition and offset. Raises RefusedError for more than `most_bytes` (None: the
    size of the files, but at least 512 MiB), and for more than files of their size may hold (`expansion`)."""
    size = sum(folder.size for folder in source)
    expansion = RecordExpansion(
        source[0].path if len(source) == 1 else f"{len(source)} partitions", most_bytes or max(size, MOST_BYTES)
    )
    expansion.grow(size)
    batches = []
    for folder in source:
        for batch in read_folder(folder, reading):
            expansion.count(batch)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema=RAW)

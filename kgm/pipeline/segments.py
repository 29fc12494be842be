"""Copies of a broker's folders `__consumer_offsets-N`, read in place.

Offsets stay valid when the broker rolls or compacts its segments between two reads. Only whole batches are read, so the
tail of a file that is being written is read once it is complete."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kgm.history.folders import GZIPPED, Folder, Reading, folders, read_folder
from kgm.history.places.remote_path import Place, place
from kgm.model.errors import UsageError
from kgm.pipeline.parts import Part, Partitions
from kgm.records.segment import LOG, SWAP, BadBatch, Ending, FileTail, base_offset_of, batches, ending


@dataclass
class FolderPart(Part):
    """Offsets of the partition in a folder."""

    folder: Folder
    start: int
    end: int

    def __post_init__(self) -> None:
        self.number, self.path = self.folder.partition, str(self.folder.path)

    def records(self) -> Iterator[pa.RecordBatch]:
        """Raises UsageError for damage other than a torn tail."""
        reading = Reading()
        for batch in read_folder(_within(self), reading):
            yield self.within(batch)
        _check(reading)


class SegmentFolders(Partitions):
    """The partitions in a directory."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._ends = Ends()

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        return {folder.partition: (0, self._ends.of(folder)) for folder in folders(self._path)}

    def between(self, start: Mapping[int, int], end: Mapping[int, int]) -> Sequence[Part]:
        return [
            FolderPart(folder, start.get(number, 0), end[number])
            for folder in by_size(folders(self._path))
            if (number := folder.partition) in end and end[number] > start.get(number, 0)
        ]


def by_size(partitions: Sequence[Folder]) -> list[Folder]:
    """The folders, largest first: the last task to start is then a short one."""
    return sorted(partitions, key=lambda folder: (-folder.size, folder.partition))


def slice_records(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The records of a slice (`taking.slices`). Raises UsageError, MissingFileError."""
    (folder,) = folders(place(row["path"]))
    return FolderPart(folder, row["start"], row["end"]).records()


def _within(part: FolderPart) -> Folder:
    """The folder, reduced to the segments that can hold something of the part."""
    starts = [_base_offset(path) for path in part.folder.segments]
    ends = [*starts[1:], None]
    chosen = tuple(
        path
        for path, start, end in zip(part.folder.segments, starts, ends, strict=True)
        if (end is None or end > part.start) and start < part.end
    )
    return replace(part.folder, segments=chosen)


def _base_offset(path: Place) -> int:
    return base_offset_of(path.name.removesuffix(GZIPPED).removesuffix(SWAP), LOG) or 0


def _check(reading: Reading) -> None:
    for damage in reading.damages:
        if not damage.torn:
            raise _damaged(damage.path, damage.position, damage.reason)


def _damaged(path: Place, position: int | None, reason: str) -> UsageError:
    where = "" if position is None else f" at byte {position}"
    return UsageError(
        f"{path} is damaged{where}: {reason}",
        facts=("nothing after it in this file can be read, so the records from there on are not captured",),
        hint="copy the file from the broker again, or see what is readable: "
        f"kgm history verify --source segments:{shlex.quote(str(path.parent.parent))}",
    )


class Ends:
    """Where the whole batches of partitions end; can be asked again as their files grow."""

    def __init__(self) -> None:
        #: By last segment: (its inode, position, next offset) up to which it was read.
        self._known: dict[Place, tuple[int, int, int]] = {}

    def of(self, folder: Folder) -> int:
        """The next offset of a partition. Raises UsageError if its last segment has no torn tail but damage."""
        path = folder.last
        if path.name.endswith(GZIPPED):
            last = replace(folder, segments=(path,))
            reading = Reading()
            ends = [batch.column("offset")[-1].as_py() + 1 for batch in read_folder(last, reading)]
            _check(reading)
            return max(ends, default=_base_offset(path))
        stat = path.stat()
        inode, position, next_offset = self._known.get(path, (stat.st_ino, 0, _base_offset(path)))
        if inode != stat.st_ino or stat.st_size < position:
            position, next_offset = 0, _base_offset(path)
        with path.open("rb") as file:
            rest = FileTail(file, position)
            begun = position
            try:
                for at, batch in batches(rest, stat.st_size - begun, from_offset=next_offset):
                    position, next_offset = begun + at + len(batch.data), batch.last_offset + 1
            except BadBatch as bad:
                # If nothing new precedes damage, nothing is read, and so nothing else would show it.
                bad = BadBatch(begun + bad.position, bad.message, whole=bad.whole)
                found = ending(
                    file, bad, stat.st_size, base_offset=_base_offset(path), next_offset=next_offset, is_last=True
                )
                if found is not Ending.TORN:
                    raise _damaged(path, bad.position, bad.message) from bad
        self._known = {**self._known, path: (stat.st_ino, position, next_offset)}
        return next_offset

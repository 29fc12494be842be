"""The records of user topics, on disk: `topic_log` plus files from which a restart rebuilds it.

A partition is a folder TOPIC-PARTITION of segments of record batches, named after their first offset as in Kafka. A
segment whose records were all dropped is deleted. Appending opens a file; `flush` makes it durable and closes it, so
that the number of open files does not grow with the number of partitions."""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kgm.model.uuids import uuid_of
from kgm.records.batch import Batch
from kgm.records.files import check_folder, open_file, open_to_read
from kgm.records.segment import BadBatch, CorruptLogError, Ending, batches, ending
from kgm.server.logs.append_warnings import AppendWarnings
from kgm.server.logs.flush import flush_all
from kgm.server.logs.topic_log import PartitionLog, TopicLogs
from kgm.text.files import flush_folder

#: A new segment is started at this size. Only whole segments can be deleted.
SEGMENT_BYTES = 1024 * 1024
_SEGMENT = re.compile(r"\d{20}\.log")
_FOLDER = re.compile(r"(.+)-(\d+)")
#: The file next to the segments in which a Kafka broker stores the topic's id.
_METADATA = "partition.metadata"
_METADATA_MAX_BYTES = 1024
_FOLDER_MODE = 0o700


class TopicFiles(TopicLogs):
    """The logs of all partitions, in memory and on disk."""

    def __init__(
        self,
        folder: Path,
        warn: Callable[[str], None],
        seconds: Callable[[], float],
        *,
        topic_max_bytes: int,
        total_max_bytes: int,
    ) -> None:
        super().__init__(topic_max_bytes=topic_max_bytes, total_max_bytes=total_max_bytes)
        self._folder = folder
        self._warn = warn
        #: For all partitions together: there may be thousands, on one disk.
        self._appending = AppendWarnings(f"topics in {folder}", warn, seconds)
        self._segments: dict[tuple[str, int], list[tuple[int, Path]]] = {}
        self._open: dict[Path, int] = {}
        self._new: set[Path] = set()
        self._broken: OSError | None = None

    # -- at the start

    def load(self, topics: Mapping[str, int]) -> None:
        """Read what an earlier run wrote for these topics. Raises OSError."""
        for folder in sorted(self._folder.iterdir()):
            name = _FOLDER.fullmatch(folder.name)
            if name is None or not topics.get(name[1], 0) > int(name[2]):
                continue
            self._load_partition(name[1], int(name[2]), folder)

    def _load_partition(self, topic: str, partition: int, folder: Path) -> None:
        check_folder(folder)
        log = self._topics.setdefault(topic, {})[partition] = PartitionLog()
        segments = self._segments[topic, partition] = []
        paths = sorted(path for path in folder.iterdir() if _SEGMENT.fullmatch(path.name))
        for path in paths:
            base_offset = int(path.stem)
            if not segments:
                log.start_offset = log.end_offset = base_offset
            segments.append((base_offset, path))
            before = log.size
            self._load_segment(log, path, is_last=path == paths[-1])
            self._grow(topic, log.size - before)

    def _load_segment(self, log: PartitionLog, path: Path, *, is_last: bool) -> None:
        """Read the batches; cut off an incomplete one at the end of the last segment, such as a killed process leaves
        behind.

        Raises CorruptLogError for corruption that a killed process cannot cause; then nothing is cut off."""
        fd = open_file(path, os.O_RDWR)
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(fd).st_size
            try:
                for _, batch in batches(file, size, from_offset=log.end_offset):
                    log.add([batch])
            except BadBatch as bad:
                found = ending(file, bad, size, base_offset=int(path.stem), next_offset=log.end_offset, is_last=is_last)
                if found is not Ending.TORN:
                    raise CorruptLogError(
                        f"{path} is damaged at byte {bad.position}: {bad.message}",
                        facts=("nothing was cut off: whole batches or files follow, or it is another file",),
                        hint=f"restore it from a copy, or give up its records: rm {shlex.quote(str(path))}",
                    ) from bad
                self._warn(
                    f"{path}: truncated at byte {bad.position}, {size - bad.position} bytes were removed: {bad.message}"
                )
                os.ftruncate(fd, bad.position)

    def delete(self, topic: str) -> None:
        super().delete(topic)
        for at in [at for at in self._segments if at[0] == topic]:
            for _, path in self._segments.pop(at):
                if path in self._open:
                    os.close(self._open.pop(path))
                path.unlink(missing_ok=True)
            folder = self._folder / f"{topic}-{at[1]}"
            self._new.discard(folder)
            (folder / _METADATA).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the folder may contain other files
                folder.rmdir()

    # -- appending

    def _store(self, topic: str, partition: int, batches: list[Batch]) -> None:
        if not batches:
            return
        with self._appending:
            self._write(topic, partition, batches)

    def _write(self, topic: str, partition: int, batches: list[Batch]) -> None:
        if self._broken is not None:
            raise self._broken
        path = self._active(topic, partition, batches[0].base_offset)
        fd = self._open.get(path)
        if fd is None:
            fd = self._open[path] = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        size = os.fstat(fd).st_size
        data = b"".join(batch.data for batch in batches)
        self.is_dirty = True
        try:
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError:
            os.ftruncate(fd, size)
            raise

    def _active(self, topic: str, partition: int, base_offset: int) -> Path:
        """The segment to append to."""
        segments = self._segments.setdefault((topic, partition), [])
        if segments and segments[-1][1].exists() and segments[-1][1].stat().st_size < SEGMENT_BYTES:
            return segments[-1][1]
        folder = self._folder / f"{topic}-{partition}"
        if not os.path.lexists(folder):
            folder.mkdir(mode=_FOLDER_MODE)
            self._new.add(self._folder)
        check_folder(folder)
        path = folder / f"{base_offset:020}.log"
        if not segments or segments[-1][1] != path:
            segments.append((base_offset, path))
        self._new.add(folder)
        return path

    def _dropped(self, topic: str, partition: int, start_offset: int) -> None:
        """Delete the segments whose records were all dropped. The newest stays: it records where the log ends."""
        segments = self._segments.get((topic, partition), [])
        while len(segments) > 1 and segments[1][0] <= start_offset:
            _, path = segments.pop(0)
            path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Make everything appended durable. After a failure it is unknown what is on disk, so every later append
        fails."""
        opened, self._open = self._open, {}
        new, self._new = self._new, set()
        self.is_dirty = False
        flushes = [*(partial(os.fsync, fd) for fd in opened.values()), *(partial(flush_folder, path) for path in new)]
        errors = [error for error in flush_all(flushes) if error is not None]
        for fd in opened.values():
            os.close(fd)
        if errors:
            self._broken = errors[0]
            self._appending.failed(errors[0])
            raise errors[0]


def known_ids(folder: Path) -> dict[str, bytes]:
    """The ids of the topics whose folders were copied from a Kafka broker. Raises OSError."""
    ids = {}
    for path in folder.glob(f"*-0/{_METADATA}"):
        check_folder(path.parent)
        with open_to_read(path) as file:
            text = file.read(_METADATA_MAX_BYTES).decode(errors="replace")
        line = re.search(r"^topic_id: ([\w-]{22})$", text, re.MULTILINE)
        topic_id = None if line is None else uuid_of(line[1])
        if topic_id is not None:
            ids[path.parent.name.removesuffix("-0")] = topic_id
    return ids

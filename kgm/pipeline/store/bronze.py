"""The raw records of a store: files that tasks write, and entries of the log that make them count."""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kgm.history.places.remote_path import Place, at_once
from kgm.history.places.small_files import listed, put, unfinished
from kgm.history.schema import BRONZE_RAW, RAW
from kgm.history.store.commit_log import LOG, Commit, Span, Spans, committed, read_log
from kgm.model.errors import RefusedError
from kgm.pipeline.store import delta
from kgm.pipeline.store.layout import Store

#: This many objects of the log are folded into one.
_FOLD: Final = 50
#: A file that no commit names after this time is from a capture that died; no batch of records takes that long.
ORPHAN_S = 86_400.0


@dataclass(slots=True)
class Bronze:
    """The raw records of a store, for one writer. objects: of the log, with the commits in them; began_s: when the
    writer began to write the files of its next commit, by its own clock."""

    store: Store
    objects: dict[Place, dict[str, Commit]] = field(default_factory=dict)
    began_s: float = field(default_factory=time.time)

    @classmethod
    def of(cls, store: Store) -> "Bronze":
        return cls(store, read_log(store.raw))

    @property
    def commits(self) -> dict[str, Commit]:
        return {name: commit for each in self.objects.values() for name, commit in each.items()}

    @property
    def spans(self) -> dict[Place, Spans]:
        """The spans of every file."""
        raw = self.store.raw
        return {raw / name: file.spans for commit in self.commits.values() for name, file in commit.files.items()}

    def holding(self, ranges: Mapping[int, tuple[int, int]]) -> dict[Place, Spans]:
        """The spans of files that can hold a record between these offsets, from start to end (exclusive)."""
        wanted = {number: Span(start, end - 1, 0) for number, (start, end) in ranges.items()}
        return {path: spans for path, spans in self.spans.items() if _overlap(spans, wanted)}

    def positions(self, source: str) -> dict[int, int]:
        """How far a source was read."""
        reached: dict[int, int] = {}
        for commit in self.commits.values():
            if commit.source == source:
                for number, at in commit.positions.items():
                    reached[number] = max(reached.get(number, 0), at)
        return reached

    def add(self, commit: Commit) -> None:
        """Make a commit count whose files exist. Raises RefusedError if they do not: this process was suspended for so
        long that another one considered them abandoned."""
        name = f"{self.store.writer}-{uuid.uuid4().hex[:8]}"
        path = self._put(0, name, {name: commit})
        if time.time() - self.began_s > ORPHAN_S / 2:
            there = at_once(lambda path: path.exists(), [self.store.raw / file for file in commit.files])
            if not all(there):
                path.unlink(missing_ok=True)
                del self.objects[path]
                raise RefusedError(
                    f"files of this capture were swept from {self.store.path}: it was suspended for too long",
                    hint="nothing is lost: run it again",
                )
        self._fold(0)
        self.publish()

    def sweep(self, now_ns: int) -> int:
        """Delete what captures and builds that died left behind: old files that no commit names, or that were not
        renamed into place. now_ns: by the store's clock. Only for the holder of the claim. Returns how many files it
        deleted."""
        oldest = now_ns - int(ORPHAN_S * 1e9)

        def old(files: Mapping[Place, Any]) -> list[Place]:
            return [path for path, stat in files.items() if stat.st_mtime_ns < oldest]

        left = [path for each in self.store.directories for path in old(unfinished(each))]
        if parts := old(listed(self.store.raw, "part-*.parquet")):
            # Read after the listing: whatever was committed in the meantime is named.
            named = {name for commit in committed(self.store.raw).values() for name in commit.files}
            left += [path for path in parts if path.name not in named]
        at_once(lambda path: path.unlink(missing_ok=True), left)
        return len(left)

    def publish(self) -> None:
        """Update Delta's log, too, including what other writers, or one that died, have added."""
        if self.store.delta and (spans := self.spans):
            from pyspark.sql.pandas.types import from_arrow_schema

            schema = from_arrow_schema(BRONZE_RAW).json()
            delta.publish(self.store.raw, spans, schema, now_ms=int(time.time() * 1000))

    def _put(self, level: int, name: str, commits: dict[str, Commit]) -> Place:
        path = self.store.raw / LOG / f"{level}-{name}.json"
        put(path, json.dumps({"commits": {key: each.to_json() for key, each in commits.items()}}).encode())
        self.objects[path] = commits
        return path

    def _fold(self, level: int) -> None:
        """Fold many objects into one of the next level, so that reading all is fast and none is rewritten often."""
        mine = [path for path in self.objects if path.name.startswith(f"{level}-")]
        if len(mine) < _FOLD:
            return
        together = {name: commit for path in mine for name, commit in self.objects[path].items()}
        self._put(level + 1, f"{self.store.writer}-{uuid.uuid4().hex[:8]}", together)
        for path in mine:
            path.unlink(missing_ok=True)
            del self.objects[path]
        self._fold(level + 1)


def _overlap(one: Spans, other: Spans) -> bool:
    return any(
        number in one and one[number].first <= span.last and span.first <= one[number].last
        for number, span in other.items()
    )


def as_raw(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch from Spark, for which every column is nullable, with the schema `schema.RAW`."""
    return pa.RecordBatch.from_arrays([batch.column(name) for name in RAW.names], names=RAW.names).cast(RAW)

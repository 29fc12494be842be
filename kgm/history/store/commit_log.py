"""What was captured into a store: which files in bronze/raw count.

    DIR/**/*.parquet            records
    DIR/_kgm_log/LEVEL-ID.json  {"commits": {NAME: {"source", "positions", "files": {FILE: {"size", "spans"}}}}}

A commit is its entry: files that no entry names do not count, and an entry is put atomically after its files. The log
is the union of all its objects, by name of the commit, so any number of writers can add to it without coordination,
objects can be folded into one (which names the same commits before the others are deleted), and a reader that sees
both, or either, sees the same. Nothing in it is ever changed.

Two writers that did not see each other may both have taken a record. Kafka's record is the same wherever it is read, so
readers drop the duplicate (`each_once`)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.places.remote_path import Place, read_all
from kgm.history.places.small_files import listed
from kgm.model.errors import UsageError

LOG: Final = "_kgm_log"
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Span:
    """What a file holds of one partition: the first and last offset (inclusive), and how many records."""

    first: int
    last: int
    records: int

    def joined(self, other: "Span") -> "Span":
        return Span(min(self.first, other.first), max(self.last, other.last), self.records + other.records)


#: By partition.
Spans = dict[int, Span]


def unconfirmed_until(spans: Iterable[Span]) -> int:
    """The end (exclusive) of the records of a partition that were read before later ones went missing; 0 if there are
    none. spans: of the partition in every file; what one file holds was read at once."""
    found = end = 0
    for span in sorted(spans, key=lambda each: each.first):
        if span.first > end or span.last - span.first >= span.records:
            found = end
        end = max(end, span.last + 1)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFile:
    """size: in bytes."""

    size: int
    spans: Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """source: where the records are from, by a name that does not change; None for a dump. positions: how far the
    source was read with this commit, the next offset of each partition. files: by their paths in the directory."""

    source: str | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    files: Mapping[str, CommittedFile] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source, "positions": {str(number): at for number, at in self.positions.items()},
            "files": {
                name: {
                    "size": file.size,
                    "spans": {str(at): [span.first, span.last, span.records] for at, span in file.spans.items()},
                }
                for name, file in self.files.items()
            },
        }  # fmt: skip

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> "Commit":
        return cls(
            source=content["source"], positions={int(at): offset for at, offset in content["positions"].items()},
            files={
                name: CommittedFile(
                    size=file["size"], spans={int(at): Span(*span) for at, span in file["spans"].items()}
                )
                for name, file in content["files"].items()
            },
        )  # fmt: skip


def read_log(directory: Place) -> dict[Place, dict[str, Commit]]:
    """The commits by name, for each object in a directory's log; empty if there is no log. Raises UsageError."""
    for _ in range(_TRIES):
        # An empty object is still being written, in stores that list it before it is complete.
        paths = [path for path, stat in listed(directory / LOG, "*.json").items() if stat.st_size]
        contents = read_all(paths)
        if None not in contents:
            return {path: _commits(path, content or b"") for path, content in zip(paths, contents, strict=True)}
        # Objects were folded into another one, which the next listing will have.
    raise UsageError(f"{directory / LOG} changes faster than it can be read", hint="run it again")


def committed(directory: Place) -> dict[str, Commit]:
    """Every commit by name."""
    return {name: commit for commits in read_log(directory).values() for name, commit in commits.items()}


def _commits(path: Place, content: bytes) -> dict[str, Commit]:
    try:
        return {name: Commit.of_json(each) for name, each in json.loads(content)["commits"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} was not written by kgm history capture: {error}") from error


def each_once(rows: pa.Table) -> pa.Table:
    """Sorted records without those that have the same place as the previous one: two writers that did not see each
    other may both have taken a record."""
    if len(rows) < 2:
        return rows
    same = [pc.equal(rows.column(name)[1:], rows.column(name)[:-1]) for name in ("partition", "offset")]
    again = pc.and_(*same)
    if not pc.any(again).as_py():
        return rows
    return rows.filter(pa.chunked_array([pa.array([True]), *pc.invert(again).chunks]))

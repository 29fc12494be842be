"""The input and output of jobs: plain values, so that a caller needs no PySpark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

from kgm.history.places.remote_path import Place, place
from kgm.model.errors import MissingFileError, UsageError

_SOURCES = "kafka, segments:DIR, parquet:DIR or delta:DIR"


class StoreFormat(StrEnum):
    """The format of a store's tables."""

    PARQUET = "parquet"
    DELTA = "delta"


class SourceKind(StrEnum):
    """Where records come from. KAFKA: the live topic; SEGMENTS: copies of a broker's folders; the others: dumps."""

    KAFKA = "kafka"
    SEGMENTS = "segments"
    PARQUET = "parquet"
    DELTA = "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How to start Spark. master: None for the one from `spark-submit` or `conf`, or else all cores of this machine.
    conf: Spark's own settings, which override kgm's. jars: a directory of jars, for networks without Maven Central;
    `KGM_SPARK_JARS` if None."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records come from. path: for all kinds except the live topic. properties: for the live topic, a Java
    client's as in client.properties, with `bootstrap.servers`. topic: `__consumer_offsets`, or the name of a copy.
    cluster: the id of the only cluster to read it from; None for whichever answers."""

    kind: SourceKind
    path: Place | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    topic: str = "__consumer_offsets"
    cluster: str | None = None

    @classmethod
    def parse(cls, text: str, properties: Mapping[str, str] | None = None) -> Self:
        """The source for a text `kafka` or KIND:DIR. Raises UsageError."""
        if text == SourceKind.KAFKA:
            return cls(kind=SourceKind.KAFKA, properties=dict(properties or {}))
        named = re.fullmatch("(segments|parquet|delta):(.+)", text)
        if named is None:
            raise UsageError(f"{text!r} is not a valid source", hint=f"one of {_SOURCES}")
        return cls(kind=SourceKind(named[1]), path=place(named[2]))

    @property
    def is_live(self) -> bool:
        """Whether it is the topic of a cluster."""
        return self.kind is SourceKind.KAFKA

    @property
    def is_dump(self) -> bool:
        """Whether it is a table that was written once, so that nothing is added to it. Spark reads it; kgm itself
        reads all other sources, in slices of partitions."""
        return self.kind in {SourceKind.PARQUET, SourceKind.DELTA}

    def directory(self) -> Place:
        """Where the source is, for all kinds except the live topic. Raises MissingFileError and UsageError for one that
        does not exist or is not of its kind, as far as that can be checked without Spark."""
        if self.path is None:
            raise UsageError(f"source {self.kind} needs a directory")
        if self.kind is SourceKind.SEGMENTS:
            from kgm.history.folders import folders

            folders(self.path.resolve())
        elif not self.path.exists():
            raise MissingFileError(f"{self.path} does not exist")
        return self.path.resolve()

    def __str__(self) -> str:
        if self.is_live:
            return f"{self.kind}:{self.properties.get('bootstrap.servers', '')}"
        return f"{self.kind}:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureProgress:
    """What a capture has done since it started. records: written; repeated: read, but already in the store; batches:
    how many had something new."""

    records: int = 0
    repeated: int = 0
    batches: int = 0

    def after(self, added: int, repeated: int) -> Self:
        """The progress after one more batch."""
        return replace(
            self, records=self.records + added, repeated=self.repeated + repeated, batches=self.batches + (added > 0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What a build did. number: of the build, or of the previous one if there was nothing new. records: how many it
    read, of which `bad` could not be decoded. partitions: those with something new; rebuilt: the ones among them that
    were built again from their beginning because older records had been added. rows: of each table, now."""

    number: int
    records: int
    bad: int
    partitions: tuple[int, ...]
    rebuilt: tuple[int, ...]
    rows: Mapping[str, int]
    captured: CaptureProgress | None = None

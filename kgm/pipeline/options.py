"""What a job is asked for and what it says when it is done: plain values, so that who asks needs no PySpark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from kgm.model.errors import NotFoundError, UsageError

_SOURCES = "kafka, segments:DIR, parquet:DIR or delta:DIR"


class Format(StrEnum):
    """What the tables of a store are written in."""

    PARQUET = "parquet"
    DELTA = "delta"


class Kind(StrEnum):
    """Where records come from."""

    KAFKA = "kafka"
    SEGMENTS = "segments"
    PARQUET = "parquet"
    DELTA = "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How to get a Spark. master: None for what `spark-submit` or `conf` says, and all cores of this machine without
    them. conf: Spark's own settings, which win over kgm's. jars: a directory of jars for networks that do not reach
    Maven Central; without it `KGM_SPARK_JARS` counts."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records come from. path: of everything but Kafka. properties: of a Java client, for Kafka: what a
    client.properties holds, `bootstrap.servers` among it, each passed on as it is. topic: `__consumer_offsets`, or what
    a copy of it is called."""

    kind: Kind
    path: Path | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    topic: str = "__consumer_offsets"

    @classmethod
    def parse(cls, text: str, properties: Mapping[str, str] | None = None) -> Self:
        """Of `kafka` or KIND:DIR. Raises UsageError."""
        if text == Kind.KAFKA:
            return cls(kind=Kind.KAFKA, properties=dict(properties or {}))
        named = re.fullmatch("(segments|parquet|delta):(.+)", text)
        if named is None:
            raise UsageError(f"source {text!r} is not understood", hint=f"one of {_SOURCES}")
        return cls(kind=Kind(named[1]), path=Path(named[2]))

    def directory(self) -> Path:
        """Where the source is, unless it is Kafka. Raises NotFoundError and UsageError, in words, for one that is not
        there or is not what it is said to be, as far as that is seen without Spark."""
        if self.path is None:
            raise UsageError(f"source {self.kind} wants a directory")
        if self.kind is Kind.SEGMENTS:
            from kgm.history.folders import folders

            folders(self.path.resolve())
        elif not self.path.exists():
            raise NotFoundError(f"{self.path} does not exist")
        return self.path.resolve()

    def __str__(self) -> str:
        if self.kind is Kind.KAFKA:
            return f"kafka:{self.properties.get('bootstrap.servers', '')}"
        return f"{self.kind}:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a capture has done since it started. records: written; repeated: read, but in the store already; batches:
    that held something new."""

    records: int = 0
    repeated: int = 0
    batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What a build did. number: the build's, as it stands in kgm-history.json; the one before if there was nothing new.
    records: read by it, of which `bad` could not be decoded. partitions: that had something new; rebuilt: of those, the
    ones done again from their beginning, since older records had come in. rows: in each table, now."""

    number: int
    records: int
    bad: int
    partitions: tuple[int, ...]
    rebuilt: tuple[int, ...]
    rows: Mapping[str, int]
    captured: Progress | None = None

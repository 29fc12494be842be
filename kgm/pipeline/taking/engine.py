"""What does the work of a capture: this process, or Spark.

Starting Spark costs more than reading millions of records. So unless a Spark master was requested, Spark is not started
for a small batch, and not at all if every batch is small."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kgm.client.failures import is_temporary
from kgm.model.errors import KgmError
from kgm.pipeline import session, tasks
from kgm.pipeline.options import Source, SparkOptions
from kgm.pipeline.parts import Partitions
from kgm.pipeline.taking import slices
from kgm.pipeline.taking.slices import Ranges, Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A batch that spans fewer offsets is small. Reading this many takes about as long as starting Spark and having it read
#: them on many cores.
SMALL_OFFSETS: Final = 10_000_000
#: The same number of attempts that Spark makes for a task.
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 1.0
_MOST_THREADS: Final = 4

Work = Callable[[Slice], str]


@dataclass(slots=True)
class Engine:
    """The engine for one capture of a source."""

    options: SparkOptions
    source: Source
    _spark: "SparkSession | None" = None
    _partitions: Partitions | None = None

    def spark(self) -> "SparkSession":
        """The session, which the first call starts. Raises UsageError."""
        if self._spark is None:
            self._spark = session.start(self.options, self.source)
        return self._spark

    @property
    def has_spark(self) -> bool:
        """Whether a master was requested, or a session is running."""
        running = sys.modules.get("pyspark")
        return (
            self.options.master is not None
            or "spark.master" in self.options.conf
            or "PYSPARK_GATEWAY_PORT" in os.environ
            or (running is not None and running.SparkContext._active_spark_context is not None)  # noqa: SLF001
        )

    @property
    def _known_partitions(self) -> Partitions:
        if self._partitions is None:
            self._partitions = slices.partitions_of(self.source)
        return self._partitions

    def cluster_of(self) -> str | None:
        """The cluster's id, if the source has it."""
        return None if self.source.is_dump else slices.cluster_of(self.source)

    def bounds(self) -> Ranges:
        """(first offset, next offset) of each partition, according to the broker or the files themselves."""
        return self._known_partitions.bounds()

    def each(self, work: Work, ranges: Ranges) -> list[str]:
        """What a function returns for each slice of these offsets. It may be called more than once for a slice, and
        only one of its results counts. Raises KgmError."""
        works = slices.slices(self._known_partitions, ranges)
        offsets = sum(end - start for start, end in ranges.values())
        if self.has_spark or offsets >= SMALL_OFFSETS:
            return tasks.each(self.spark(), work, works)
        return _here(work, works)


def _here(work: Work, works: Sequence[Slice]) -> list[str]:
    """Call `work` in threads of this process, which let others run while they wait or compress."""
    pool = ThreadPoolExecutor(max(1, min(len(works), os.cpu_count() or 1, _MOST_THREADS)))
    try:
        return list(pool.map(lambda each: _tried(work, each), works))
    finally:
        pool.shutdown(cancel_futures=True)


def _tried(work: Work, part: Slice) -> str:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return work(part)
        except KgmError as error:
            if not is_temporary(error) or attempt == _ATTEMPTS:
                raise
        time.sleep(_PAUSE_S)
    raise AssertionError("unreachable")

"""Calls a function for each of several values, on all cores of a cluster; also reads files there."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from zipimport import zipimporter

import pyarrow as pa

from kgm.model import errors
from kgm.model.errors import KgmError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = TypeVar("Work")


def each(spark: "SparkSession", function: Callable[[Work], str], works: Sequence[Work]) -> list[str]:
    """What a function returns for each value, in a task of its own. It may be called more than once for a value, and
    only one of its results counts."""

    def tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = [function(works[at]) for at in batch.column(0).to_pylist()]
            _forget_archives()
            yield pa.RecordBatch.from_pydict({"done": done}, schema=pa.schema([pa.field("done", pa.string())]))

    frame = spark.range(0, len(works), 1, len(works)).mapInArrow(tasks, "done string")
    with failures():
        return [row.done for row in frame.collect()]


def _forget_archives() -> None:
    """Make a worker forget its importers of archives; the next import creates them again from what they have read.

    PySpark makes a worker read the directories of all archives again before each task, in Python: 0.1 s for the one of
    PySpark itself, which is more than many tasks take."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


@contextmanager
def failures() -> Iterator[None]:
    """Turns a kgm error that a worker raised back into that error, without its place in the worker."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        known = raised_by_worker(error)
        if known is None:
            raise
        raise known from error


def rows(
    spark: "SparkSession", function: Callable[[Work], Iterable[pa.RecordBatch]], works: Sequence[Work],
    schema: pa.Schema,
) -> "DataFrame":  # fmt: skip
    """The rows that a function returns for each value."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if not works:
        return spark.createDataFrame([], from_arrow_schema(schema))

    def tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from function(works[at])
            _forget_archives()

    return spark.range(0, len(works), 1, len(works)).mapInArrow(tasks, from_arrow_schema(schema))


def raised_by_worker(error: BaseException) -> KgmError | None:
    """The KgmError from a worker or a data source, which Spark has turned into text; None if there is none."""
    found = re.search(r"kgm\.model\.errors\.(\w+): (.*)", str(error))
    kind = None if found is None else getattr(errors, found[1], None)
    if found is None or not (isinstance(kind, type) and issubclass(kind, KgmError)):
        return None
    return kind(found[2].strip())

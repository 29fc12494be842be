"""Calls a function for each group on all cores of a cluster."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Tasks for each core: groups differ in size, and several short tasks even that out.
_TASKS_PER_CORE = 4


def map_groups(frame: "DataFrame", function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> "DataFrame":
    """Call a function with all rows of one group at a time, on all cores; what it returns (by `schema`) is the result.

    The function runs on other machines: it and what it refers to must be importable there, or picklable. Each core
    has several tasks; Spark would put a few small rows into one."""
    cores = frame.sparkSession.sparkContext.defaultParallelism
    spread = frame.repartition(cores * _TASKS_PER_CORE, "group_id")
    return spread.groupBy("group_id").applyInArrow(function, from_arrow_schema(schema))


def map_texts(frame: "DataFrame", function: Callable[[str], Iterable[str]]) -> list[str]:
    """Call a function as `map_groups` does, with the column `text` of each row; returns all texts that it returned.
    (Spark inspects the parameter count of the function it is given, so a plain function is passed here.)"""

    def texts_of(table: pa.Table) -> pa.Table:
        found = [made for text in table.column("text").to_pylist() for made in function(text)]
        return pa.table({"text": pa.array(found, pa.string())})

    return [row.text for row in map_groups(frame, texts_of, pa.schema([("text", pa.string())])).collect()]

"""The tables of a history, to be asked: as a build has left them in a directory, or as they come out of raw records
here and now. Both answer with plain rows, so that who asks needs no pyarrow.

A built store is DIR/kgm-history.json, DIR/bronze, DIR/silver, DIR/gold. Its tables are Parquet, with Spark's log of
what counts (`_spark_metadata`) or without, or Delta; Spark is not needed to read any of them. Only files that may hold
what is asked for are opened, and of them only the row groups that do."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kgm.history import schema
from kgm.history.sink_files import counted_files
from kgm.model.errors import NotFoundError, UsageError

MANIFEST = "kgm-history.json"
Row = dict[str, Any]
_LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which rows. group_ids: None for every group. Times in ms since 1970: since is inclusive, until is exclusive."""

    group_ids: tuple[str, ...] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def filter(self, table: pa.Schema) -> pc.Expression | None:
        """As an expression on the columns that the table has."""
        found: pc.Expression | None = None
        for expression in self._expressions(table):
            found = expression if found is None else found & expression
        return found

    def _expressions(self, table: pa.Schema) -> Iterator[pc.Expression]:
        names = set(table.names)
        if self.group_ids is not None and "group_id" in names:
            yield pc.field("group_id").isin(pa.array(self.group_ids, pa.string()))
        # An interval counts if any of it lies within, an event if it does.
        is_interval = "from_timestamp" in names
        starts, ends = ("from_timestamp", "to_timestamp") if is_interval else ("timestamp", "timestamp")
        if self.since_ms is not None and ends in names:
            yield (pc.field(ends) >= self.since_ms) | pc.field(ends).is_null()
        if self.until_ms is not None and starts in names:
            yield pc.field(starts) < self.until_ms


class Tables(Protocol):
    """A history to be asked."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Where it is from: `cluster` (an id, or None) and what else is known."""

    def table(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a table of `schema.TABLES`. Raises NotFoundError where a store has not got it."""

    def rows(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> list[Row]:
        """The same as dicts."""


@dataclass
class Built:
    """The tables of a store."""

    path: Path
    #: Data sets by table: the files of a store are listed once.
    _open: dict[str, ds.Dataset] = field(default_factory=dict)

    @cached_property
    def about(self) -> Mapping[str, Any]:
        return read_manifest(self.path)

    def table(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> pa.Table:
        dataset = self._open.get(name)
        if dataset is None:
            dataset = self._open[name] = self._dataset(name)
        wanted = list(schema.TABLES[name].names if columns is None else columns)
        found = dataset.to_table(columns=wanted, filter=asked.filter(dataset.schema))
        return found.cast(pa.schema([schema.TABLES[name].field(column) for column in wanted]))

    def rows(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> list[Row]:
        return _rows(self.table(name, asked, columns))

    def _dataset(self, name: str) -> ds.Dataset:
        layer, _, rest = name.partition("_")
        directory = self.path / layer / rest
        if layer not in _LAYERS or not directory.is_dir():
            raise NotFoundError(
                f"the history in {self.path} has no table {layer}/{rest}",
                hint=f"build it: kgm history build --out {self.path}",
            )
        files = [str(file) for file in counted_files(directory)]
        columns = schema.TABLES[name]
        if not files:
            return ds.dataset(columns.empty_table())
        return ds.dataset(
            files, schema=columns, format="parquet", partitioning=ds.HivePartitioning.discover(),
            partition_base_dir=str(directory),
        )  # fmt: skip


@dataclass
class Derived:
    """Tables that are in memory."""

    tables: Mapping[str, pa.Table]
    about: Mapping[str, Any]

    def table(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> pa.Table:
        found = self.tables[name]
        expression = asked.filter(found.schema)
        found = found if expression is None else found.filter(expression)
        return found if columns is None else found.select(list(columns))

    def rows(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> list[Row]:
        return _rows(self.table(name, asked, columns))


def _rows(table: pa.Table) -> list[Row]:
    found: list[Row] = table.to_pylist()
    return found


def open_store(path: Path) -> Built:
    """Raises NotFoundError where there is no built history, UsageError for one of a newer kgm."""
    store = Built(path)
    version = store.about.get("schema_version", schema.VERSION)
    if isinstance(version, int) and version > schema.VERSION:
        raise UsageError(f"the history in {path} has tables of version {version}; this kgm reads {schema.VERSION}")
    return store


def read_manifest(path: Path) -> Mapping[str, Any]:
    """What kgm-history.json of a store says. Raises NotFoundError, UsageError."""
    file = path / MANIFEST
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"{path} holds no built history: {file} does not exist",
            hint=f"build it: kgm history build --source segments:DIR --out {path}",
        ) from None
    except ValueError as error:
        raise UsageError(f"file {file} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"file {file} is not what a build of kgm writes")
    return found

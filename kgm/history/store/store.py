"""The tables of a history, to be asked: as a build has left them in a directory, or as they come out of raw records
here and now. Both answer with plain rows, so that who asks needs no pyarrow.

A built store is DIR/kgm-history.json, DIR/bronze, DIR/silver, DIR/gold. Its tables are Parquet, with Spark's log of
what counts (`_spark_metadata`) or without, or Delta; Spark is not needed to read any of them. Only files that may hold
what is asked for are opened, and of them only the row groups that do."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from kgm.history import schema
from kgm.history.store.query import Asked, read_files
from kgm.history.store.sink_files import counted_files
from kgm.java.partitions import partition_for
from kgm.model.errors import NotFoundError, UsageError

MANIFEST = "kgm-history.json"
Row = dict[str, Any]
_LAYERS = ("bronze", "silver", "gold")
_FILE = re.compile(r"p(\d{5})-")

__all__ = ["MANIFEST", "Asked", "Built", "Derived", "Row", "Tables", "open_store", "read_manifest"]


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
    #: Files by table: they are listed once.
    _files: dict[str, Sequence[Path]] = field(default_factory=dict)
    #: The partition that holds a group, if it is known.
    _homes: dict[str, int | None] = field(default_factory=dict)

    @cached_property
    def about(self) -> Mapping[str, Any]:
        return read_manifest(self.path)

    def table(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> pa.Table:
        every = schema.TABLES[name]
        wanted = every if columns is None else pa.schema([every.field(column) for column in columns])
        return read_files(self._of(name, asked), asked, wanted)

    def rows(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> list[Row]:
        return _rows(self.table(name, asked, columns))

    def _of(self, name: str, asked: Asked) -> Sequence[Path]:
        """The files of a table that may hold something of the groups that are asked for."""
        files = self._listed(name)
        if asked.group_ids is None or "group_id" not in schema.TABLES[name].names:
            return files
        homes = [self._home(group) for group in asked.group_ids]
        if None in homes:
            return files
        return [file for file in files if (place := _partition_of(file)) is None or place in homes]

    def _home(self, group: str) -> int | None:
        """The partition of `__consumer_offsets` that holds a group: where the coordinator looks for it (Kafka's
        GroupCoordinatorService.partitionFor), if it is there; otherwise some partition may be missing in the store, and
        nobody knows how many there are."""
        if group not in self._homes:
            known = [int(number) for number in self.about.get("built_up_to", ())]
            number = partition_for(group, max(known) + 1) if known else -1
            self._homes[group] = number if number in known and self._is_in(group, number) else None
        return self._homes[group]

    def _is_in(self, group: str, partition: int) -> bool:
        asked = Asked(group_ids=(group,))
        wanted = pa.schema([schema.TABLES[schema.TABLES_OF_GROUPS[0]].field("group_id")])
        return any(
            len(read_files([file for file in self._listed(name) if _partition_of(file) == partition], asked, wanted))
            for name in schema.TABLES_OF_GROUPS
        )

    def _listed(self, name: str) -> Sequence[Path]:
        if name not in self._files:
            layer, _, rest = name.partition("_")
            directory = self.path / layer / rest
            if layer not in _LAYERS or not directory.is_dir():
                raise NotFoundError(
                    f"the history in {self.path} has no table {layer}/{rest}",
                    hint=f"build it: kgm history build --out {self.path}",
                )
            self._files[name] = counted_files(directory)
        return self._files[name]


def _partition_of(file: Path) -> int | None:
    """Files of a build are named after the partition that they are of."""
    named = _FILE.match(file.name)
    return None if named is None else int(named[1])


@dataclass
class Derived:
    """Tables that are in memory."""

    tables: Mapping[str, pa.Table]
    about: Mapping[str, Any]

    def table(self, name: str, asked: Asked, columns: Sequence[str] | None = None) -> pa.Table:
        found = asked.of(self.tables[name])
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

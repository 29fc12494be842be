"""The tables of a history, for queries: as a build left them in a directory, or as derived from raw records in this
process. Both return rows (`kgm.history.rows`), so that callers need no pyarrow.

The manifest of a built store, DIR/builds/NUMBER-WRITER.json, names the files of every table. An older store has
DIR/kgm-history.json, and DIR/bronze, DIR/silver, DIR/gold with files that either all count, or count according to the
log of Delta or Spark (`_spark_metadata`). Spark is not needed to read any of them. Only files that may hold wanted rows
are opened, and of those only the row groups that may."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from kgm.history import schema
from kgm.history.expansion import RowExpansion
from kgm.history.folders import Damage
from kgm.history.places.parquet import failures_of
from kgm.history.places.remote_path import Place
from kgm.history.row_tables import columns_of, read_rows, row_table
from kgm.history.rows import AnyRow
from kgm.history.store.commit_log import each_once
from kgm.history.store.manifest import Manifest, read_manifest
from kgm.history.store.query import RowFilter, read_files
from kgm.history.store.sink_files import counted_files
from kgm.java.partitions import partition_for
from kgm.model.errors import MissingFileError

_RAW, _PLACE = "bronze_raw", ("partition", "offset")
_LAYERS = ("bronze", "silver", "gold")
_FILE = re.compile(r"p(\d{5})-")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOrigin:
    """Where a history is from. cluster: its id; source: what was read; last_ms: the time of the last record; damages:
    where segments could not be read. None, or empty, if not known.

    unconfirmed_until: by partition, an offset up to which records were read before later ones went missing. A log that
    is read once shows of each key the last record: the cleaner removes a tombstone after what it deletes. But what was
    read earlier may have been deleted since, by a tombstone that was gone when the rest was read."""

    cluster: str | None = None
    source: str | None = None
    last_ms: int | None = None
    damages: tuple[Damage, ...] = ()
    unconfirmed_until: Mapping[int, int] = field(default_factory=dict)


class Tables(Protocol):
    """A history that can be queried."""

    @property
    def origin(self) -> HistoryOrigin:
        """Where the history is from."""

    def table(self, name: str, wanted: RowFilter, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a table in `schema.TABLES`; all columns if None. Raises MissingFileError if a store does not have
        the table."""

    def rows(self, cls: type[AnyRow], wanted: RowFilter) -> list[AnyRow]:
        """Rows of the class's table, with the columns that the class has."""


@dataclass
class BuiltStore:
    """The tables of a store."""

    path: Place
    #: Files by table, listed only once.
    _files: dict[str, Sequence[Place]] = field(default_factory=dict)
    #: The partition that holds a group, None if it is not known.
    _partition_of_group: dict[str, int | None] = field(default_factory=dict)

    @cached_property
    def _expansion(self) -> RowExpansion:
        """Counts everything that is read; callers may keep all of it."""
        return RowExpansion(self.path)

    @cached_property
    def manifest(self) -> Manifest:
        """Raises MissingFileError, UsageError."""
        return read_manifest(self.path)

    @property
    def origin(self) -> HistoryOrigin:
        partitions = self.manifest.partitions.items()
        limits = {number: built.unconfirmed_until for number, built in partitions if built.unconfirmed_until}
        return HistoryOrigin(cluster=self.manifest.cluster, unconfirmed_until=limits)

    def table(self, name: str, wanted: RowFilter, columns: Sequence[str] | None = None) -> pa.Table:
        every = schema.TABLES[name]
        chosen = every if columns is None else pa.schema([every.field(column) for column in columns])
        with failures_of(self.path):
            if name == _RAW:
                return _raw_records(self._files_of(name, wanted), wanted, chosen, self._expansion)
            return read_files(self._files_of(name, wanted), wanted, chosen, self._expansion)

    def rows(self, cls: type[AnyRow], wanted: RowFilter) -> list[AnyRow]:
        table = self.table(cls.table, wanted, columns_of(cls))
        files = self._files_of(cls.table, wanted)
        self._expansion.count(files[0] if len(files) == 1 else self.path.joinpath(*cls.table.split("_", 1)), table)
        return read_rows(cls, table)

    def _files_of(self, name: str, wanted: RowFilter) -> Sequence[Place]:
        """The files of a table that can hold rows of the wanted groups."""
        files = self.files(name)
        if wanted.group_ids is None or "group_id" not in schema.TABLES[name].names:
            return files
        homes = [self._home(group) for group in wanted.group_ids]
        if None in homes:
            return files
        return [file for file in files if (number := _partition_of(file)) is None or number in homes]

    def _home(self, group: str) -> int | None:
        """The partition of `__consumer_offsets` that holds a group: the one in which the coordinator looks for it, if
        the group is there; otherwise a partition may be missing in the store, so the partition count is unknown."""
        if group not in self._partition_of_group:
            known = self.manifest.partitions.keys()
            number = partition_for(group, max(known) + 1) if known else -1
            self._partition_of_group[group] = number if number in known and self._is_in(group, number) else None
        return self._partition_of_group[group]

    def _is_in(self, group: str, partition: int) -> bool:
        wanted = RowFilter(group_ids=(group,))
        columns = pa.schema([schema.TABLES[schema.TABLES_OF_GROUPS[0]].field("group_id")])
        return any(
            len(read_files(files, wanted, columns, self._expansion))
            for name in schema.TABLES_OF_GROUPS
            if (files := [file for file in self.files(name) if _partition_of(file) == partition])
        )

    def files(self, name: str) -> Sequence[Place]:
        """The files of a table that count. Raises MissingFileError if a store does not have the table."""
        if name not in self._files:
            self._files[name] = self._counted(name)
        return self._files[name]

    def _counted(self, name: str) -> Sequence[Place]:
        named = {} if name == _RAW else self.manifest.files or {}
        if name in named:
            return [self.path / file for file in named[name]]
        layer, _, rest = name.partition("_")
        directory = self.path / layer / rest
        if layer not in _LAYERS or not directory.is_dir():
            raise MissingFileError(
                f"the history in {self.path} has no table {layer}/{rest}",
                hint=f"build it: kgm history build --out {self.path}",
            )
        return counted_files(directory)


def _raw_records(files: Sequence[Place], wanted: RowFilter, columns: pa.Schema, expansion: RowExpansion) -> pa.Table:
    """Each record once, by its place."""
    place = [field for field in schema.BRONZE_RAW if field.name in _PLACE and field.name not in columns.names]
    rows = read_files(files, wanted, pa.schema([*columns, *place]), expansion)
    return each_once(rows.sort_by([(name, "ascending") for name in _PLACE])).select(columns.names)


def _partition_of(file: Place) -> int | None:
    """The partition of a file; files of a build are named after it. None for other files."""
    named = _FILE.match(file.name)
    return None if named is None else int(named[1])


@dataclass
class TablesInMemory:
    """Tables that were derived in this process."""

    tables: Mapping[str, pa.Table]
    origin: HistoryOrigin = field(default_factory=HistoryOrigin)

    def table(self, name: str, wanted: RowFilter, columns: Sequence[str] | None = None) -> pa.Table:
        chosen = wanted.of(self.tables[name])
        return chosen if columns is None else chosen.select(list(columns))

    def rows(self, cls: type[AnyRow], wanted: RowFilter) -> list[AnyRow]:
        return read_rows(cls, self.table(cls.table, wanted, columns_of(cls)))

    def with_rows(self, cls: type[AnyRow], rows: Sequence[AnyRow]) -> "TablesInMemory":
        """The same tables, one of them with more rows."""
        more = pa.concat_tables([self.tables[cls.table], row_table(cls, rows)])
        return replace(self, tables={**self.tables, cls.table: more})


def open_store(path: Place) -> BuiltStore:
    """The built store at a path. Raises MissingFileError if there is no built history, UsageError for a newer kgm's."""
    store = BuiltStore(path)
    _ = store.manifest
    return store


def has_group(tables: Tables, group_id: str) -> bool:
    """Whether the history has any record of a group, at any time."""
    wanted = RowFilter(group_ids=(group_id,))
    return any(len(tables.table(name, wanted, ["group_id"])) for name in schema.TABLES_OF_GROUPS)

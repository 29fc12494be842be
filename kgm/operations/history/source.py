"""Opens a history: where it is read from, and which part of it is requested."""

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from kgm.history.causes.broker_log import explained
from kgm.history.causes.session_timeouts import SessionLookup
from kgm.history.places.remote_path import Place, place
from kgm.history.rows import AnyRow, OwnerRow, RebalanceRow, TopicRow
from kgm.model.distribution import install_command
from kgm.model.errors import NotFoundError, PartialError, UsageError
from kgm.operations.history.broker_logs import broker_reasons, check_broker_logs
from kgm.operations.history.own_removals import audited, own_removals
from kgm.pipeline.options import SourceKind
from kgm.text.wording import many, typed

if TYPE_CHECKING:
    from kgm.history.store.query import RowFilter
    from kgm.history.store.tables import Tables

#: A single process derives at most this many bytes of files; anything larger has to be built.
MOST_BYTES = 512 << 20
#: Modules that may not be installed, and the extra that contains each. Spark is not needed for everything.
_EXTRAS = dict.fromkeys(("numpy", "pyarrow"), "history") | dict.fromkeys(("pandas", "pyspark", "py4j"), "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySource:
    """Where a history is. kind: the kind of raw records, which are derived in this process; None for a built store.
    connection, bootstrap: the options that name the cluster, and its address, for the live topic; more: other options
    that the answers depend on, for raw records."""

    path: Place
    kind: SourceKind | None = None
    connection: str = ""
    bootstrap: str | None = None
    more: str = ""

    @classmethod
    def parse(cls, text: str) -> "HistorySource":
        """`segments:DIR`, `parquet:DIR` or `delta:DIR`; anything else is the directory of a built store. DIR may also
        be a URI. Raises UsageError for one that is not supported."""
        kind, colon, path = text.partition(":")
        if colon and kind in (SourceKind.SEGMENTS, SourceKind.PARQUET, SourceKind.DELTA):
            return cls(path=place(path), kind=SourceKind(kind))
        return cls(path=place(text))

    @property
    def option(self) -> str:
        """The option of `kgm history` that names it."""
        if self.kind is None:
            return f"--store {shlex.quote(str(self.path))}"
        if self.kind is SourceKind.KAFKA:
            return self.connection
        return f"--source {shlex.quote(f'{self.kind}:{self.path}')}" + (f" {self.more}" if self.more else "")

    @property
    def raw(self) -> tuple[str, Place]:
        """(kind, directory) of the raw records: the source itself, or what was captured into the store."""
        if self.kind is None:
            return SourceKind.PARQUET.value, self.path / "bronze" / "raw"
        return self.kind.value, self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """An open history, and the requested time range in ms since 1970; since is inclusive, until is exclusive.
    broker_logs: files that say why groups rebalanced, and directories of such files. unread: notes on what was not
    read, except damaged segments, which the tables have."""

    source: HistorySource
    tables: "Tables"
    since_ms: int | None = None
    until_ms: int | None = None
    broker_logs: tuple[Path, ...] = ()
    unread: tuple[str, ...] = ()

    def filter(self, group_id: str | None = None) -> "RowFilter":
        """A filter for the rows of this group, or of every group, within the time range."""
        from kgm.history.store.query import RowFilter

        return RowFilter(
            group_ids=None if group_id is None else (group_id,), since_ms=self.since_ms, until_ms=self.until_ms
        )

    def all_times(self, group_id: str | None = None) -> "RowFilter":
        """A filter for the same rows without the time range."""
        from kgm.history.store.query import RowFilter

        return RowFilter(group_ids=None if group_id is None else (group_id,))

    def rows(self, cls: type[AnyRow], group_id: str | None = None) -> list[AnyRow]:
        """The rows of a table within the time range."""
        return self.tables.rows(cls, self.filter(group_id))

    def owners(self, wanted: "RowFilter") -> list[OwnerRow]:
        """The wanted rows with the name of each topic, even if only a later record or another group shows it."""
        rows = self.tables.rows(OwnerRow, wanted)
        if all(row.topic is not None for row in rows):
            return rows
        names = self.topic_names()
        return [replace(row, topic=row.topic or names.get(row.topic_id or b"")) for row in rows]

    def topic_names(self) -> dict[bytes, str]:
        """The names of topic ids, as far as the history has them."""
        return {row.topic_id: row.topic for row in self.tables.rows(TopicRow, self.all_times())}

    def rebalances(self, group_id: str | None = None) -> list[RebalanceRow]:
        """Rebalances by time, of one group or of all, as explained by the brokers' logs and this machine's audit log.
        Raises NotFoundError, UsageError for a log that cannot be read."""
        removals = own_removals(os.environ)
        if not self.broker_logs:
            return audited(in_order(self.rows(RebalanceRow, group_id)), removals)

        # A group that was deleted and created again counts its generations from the beginning, so all times are needed.
        every = in_order(self.tables.rows(RebalanceRow, self.all_times(group_id)))
        since, until = self.since_ms, self.until_ms
        return [
            row
            for row in audited(explained(every, broker_reasons(self.broker_logs)), removals)
            if (since is None or row.timestamp >= since) and (until is None or row.timestamp < until)
        ]

    def require_group(self, group_id: str) -> None:
        """Raises NotFoundError if the history has nothing about the group at any time; see `lacks`."""
        from kgm.history.store.tables import has_group

        if not has_group(self.tables, group_id):
            raise self.lacks(
                f"group {group_id} is not in the history",
                facts=(f"searched: {self.source.option}",),
                hint=f"list its groups: kgm history rebalances {self.source.option} -o name",
                group_id=group_id,
            )

    def lacks(
        self, message: str, *, facts: Iterable[str] = (), hint: str, group_id: str | None = None
    ) -> NotFoundError | PartialError:
        """The error about something that the history does not have. If a part could not be read, it may be there, and
        nobody can say that it is not. A torn tail is where the copy ends, not a part of it."""
        damaged = sum(not damage.torn for damage in self.tables.origin.damages)
        if not damaged and not self.unread:
            return NotFoundError(message, facts=tuple(facts), hint=hint, group_id=group_id)
        unread = [f"not read to the end: {many(damaged, 'segment')}"] if damaged else list(self.unread)
        return PartialError(
            f"{message}, but a part of the history was not read",
            facts=(*facts, *unread),
            hint=self.command("verify") if damaged else hint,
            group_id=group_id,
        )

    def command(self, name: str, group_id: str | None = None) -> str:
        """The command `kgm history NAME` for the same history."""
        words = ["kgm history", name, *([] if group_id is None else [typed(group_id)]), self.source.option]
        return " ".join(words)


class _Located(Protocol):
    """Where and when something happened, according to a record."""

    @property
    def timestamp(self) -> int: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


_LocatedRow = TypeVar("_LocatedRow", bound=_Located)


def in_order(rows: Iterable[_LocatedRow]) -> list[_LocatedRow]:
    """Rows in the order in which they happened: those of a partition, and so of a group, by offset, since the clock of
    a group's next coordinator can be behind; those of different partitions by time."""
    keyed = []
    latest: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: (row.partition, row.offset)):
        # The latest time so far puts a record with an earlier one behind those that precede it in the log.
        at = latest[row.partition] = max(latest.get(row.partition, row.timestamp), row.timestamp)
        keyed.append((at, row))
    return [row for _, row in sorted(keyed, key=lambda each: (each[0], each[1].partition, each[1].offset))]


def open_history(
    source: HistorySource | str | Place, *, since_ms: int | None = None, until_ms: int | None = None,
    broker_logs: Iterable[Path] = (), most_bytes: int | None = None, sessions: "SessionLookup | None" = None,
) -> History:  # fmt: skip
    """Open a built store, or derive every table from raw records. Raises NotFoundError and UsageError for a source that
    does not exist or is not what it claims to be, or if numpy or pyarrow is not installed; RefusedError for more than
    `most_bytes` of raw records (MOST_BYTES if None).

    sessions: the session timeouts of consumer groups, which no record has; those not given are inferred from the
    records. UsageError for a built store, whose rows were derived before."""
    if not isinstance(source, HistorySource):
        source = HistorySource.parse(str(source))
    broker_logs = tuple(broker_logs)
    check_broker_logs(broker_logs)
    with extra_needed():
        tables = _tables(source, MOST_BYTES if most_bytes is None else most_bytes, sessions)
    return History(source=source, tables=tables, since_ms=since_ms, until_ms=until_ms, broker_logs=broker_logs)


def _tables(source: HistorySource, most_bytes: int, sessions: "SessionLookup | None") -> "Tables":
    if source.kind is None:
        if sessions is not None:
            raise UsageError(
                "session timeouts cannot be given for a store: its rebalances were explained when it was built",
                hint="read the records that it was built from, with --source parquet:DIR/bronze/raw",
            )
        from kgm.history.store.tables import open_store

        return open_store(source.path)
    from kgm.history.in_process import derive_source

    return derive_source(source.kind.value, source.path, most_bytes=most_bytes, sessions=sessions)


@contextlib.contextmanager
def extra_needed() -> Iterator[None]:
    """A context for code that needs numpy, pyarrow or Spark: raises UsageError with the extra to install if one is
    missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        raise UsageError(
            f"kgm history needs {missing}, which is not installed", hint=install_command(_EXTRAS[missing])
        ) from error

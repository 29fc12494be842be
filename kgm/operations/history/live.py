"""The history of a live cluster: the topic `__consumer_offsets`, read by kgm's own client and derived in this process.

For one group only its partition is read, otherwise all of them. The answers are the same as from a copy of the brokers'
segments. If a partition is too large to be read from its beginning, everything before `since` is missing, and
rebalances whose previous state it held are marked as incomplete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kgm.client.admin_client import AdminClient
from kgm.client.offsets_topic.topic_reader import LogPart, TopicReader
from kgm.history.causes.session_timeouts import SessionLookup, SessionSource, SessionTimeout, no_session
from kgm.history.rows import OwnerRow, RebalanceRow, TopicRow
from kgm.model.errors import KgmError
from kgm.operations.groups.rebalance_wait import RebalanceWait, read_rebalance_wait
from kgm.operations.history.offsets import broker_view
from kgm.operations.history.source import MOST_BYTES, History, HistorySource, extra_needed
from kgm.pipeline.options import SourceKind
from kgm.text.whole_numbers import whole_number

if TYPE_CHECKING:
    from kgm.history.facts.offset_changes import BrokerView
    from kgm.history.growing import GrowingTables
    from kgm.history.store.tables import TablesInMemory

#: Seconds between two reads of `follow`.
POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRequest:
    """What to read. group_id: None for all groups. since_ms, until_ms: the time of the requested rows. connection: the
    options that name the cluster, for commands that continue with the same history. sessions: the session timeouts of
    consumer groups that are given; the others are read from the cluster."""

    group_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    broker_logs: tuple[Path, ...] = ()
    connection: str = ""
    max_bytes: int = MOST_BYTES
    sessions: SessionLookup = no_session


class LiveHistory:
    """The history as far as it was read, and what follows. on_progress: called with the number of offsets read and the
    total."""

    def __init__(
        self, cluster: AdminClient, request: LiveRequest, on_progress: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        self._cluster, self._request, self._on_progress = cluster, request, on_progress
        self._reader = TopicReader(
            cluster, group_id=request.group_id, max_bytes=request.max_bytes, since_ms=request.since_ms
        )
        self._tables: GrowingTables | None = None
        self._asked: dict[str, SessionTimeout | None] = {}
        self._asked_names: dict[bytes, str | None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was not read."""
        if not self._reader.shortened:
            return ()
        numbers = ", ".join(map(str, sorted(self._reader.shortened)))
        return (f"partition {numbers} was read only from --since on: it is too large to be read from its beginning",)

    def read(self) -> History:
        """The history with everything that the brokers have now. Raises KgmError (see `TopicReader.read`); UsageError
        if numpy or pyarrow is not installed."""
        with extra_needed():
            self._add(self._reader.read(self._cluster.deadline, self._on_progress))
        return self._history()

    def follow(self, sleep: Callable[[float], None]) -> Iterator[tuple[History, Sequence[RebalanceRow]]]:
        """The history and the new rebalances, oldest first, each time that groups have rebalanced since the last read.
        Never ends. The cluster client's time budget is renewed for each read. Raises what `read` raises."""
        start = self._history() if self._tables is not None else self.read()
        seen = {_key(row) for row in start.rebalances(self._request.group_id)}
        while True:
            sleep(POLL_S)
            self._cluster.renew()
            parts = self._reader.read(self._cluster.deadline)
            if not parts:
                continue
            self._add(parts)
            history = self._history()
            new = [row for row in history.rebalances(self._request.group_id) if _key(row) not in seen]
            seen |= {_key(row) for row in new}
            if new:
                yield history, new

    def broker_view(self, history: History, group_id: str, retention_ms: int | None) -> BrokerView:
        """What the brokers currently report about a group's offsets: see `offsets.broker_view`."""
        return broker_view(self._cluster, history, group_id, retention_ms)

    def wait(self, group_id: str) -> RebalanceWait | None:
        """What a rebalancing group is currently waiting for; None if it is not rebalancing, or cannot be described."""
        try:
            group = self._cluster.describe_group(group_id, offsets=False)
        except KgmError:
            return None
        return read_rebalance_wait(self._cluster, group)

    def _history(self) -> History:
        assert self._tables is not None
        request = self._request
        source = HistorySource(
            path=Path(), kind=SourceKind.KAFKA, connection=request.connection, bootstrap=self._cluster.bootstrap
        )
        return History(
            source=source, tables=self._with_names(self._tables.tables), since_ms=request.since_ms,
            until_ms=request.until_ms, broker_logs=request.broker_logs, unread=self.notes,
        )  # fmt: skip

    def _with_names(self, tables: TablesInMemory) -> TablesInMemory:
        """The tables with the names of the topics that nothing was committed to, as the cluster has them. It is asked
        once per topic."""
        from kgm.history.store.query import RowFilter

        known = {row.topic_id for row in tables.rows(TopicRow, RowFilter())}
        nameless = {
            row.topic_id: row
            for row in tables.rows(OwnerRow, RowFilter())
            if row.topic_id is not None and row.topic is None and row.topic_id not in known
        }
        unasked = nameless.keys() - self._asked_names.keys()
        if unasked:
            self._asked_names |= dict.fromkeys(unasked) | self._cluster.topic_names(unasked)
        rows = [
            TopicRow(partition=row.partition, topic_id=topic_id, topic=name, offset=row.from_offset)
            for topic_id, row in nameless.items()
            if (name := self._asked_names[topic_id]) is not None
        ]
        return tables.with_rows(TopicRow, rows)

    def _add(self, parts: Iterable[LogPart]) -> None:
        if self._tables is None:
            from kgm.history.growing import GrowingTables

            self._tables = GrowingTables(
                cluster=self._cluster.cluster_id, source="kafka", session_of_group=self._session_of_group
            )
        self._tables.add((part.partition, part.first_offset, part.data) for part in parts)

    def _session_of_group(self, group_id: str, group_type: str) -> SessionTimeout | None:
        """The session timeout of members whose sessions the broker controls: the given one, else the group's setting,
        else the brokers'; None if that cannot be read. The cluster is asked once per group."""
        given = self._request.sessions(group_id, group_type)
        if given is not None:
            return given
        if group_id not in self._asked:
            self._asked[group_id] = self._ask_session(group_id, group_type)
        return self._asked[group_id]

    def _ask_session(self, group_id: str, group_type: str) -> SessionTimeout | None:
        ms = self._cluster.session_timeout_ms(group_id, group_type)
        if ms is None:
            return None
        name = f"group.{group_type}.min.session.timeout.ms"
        allowed_ms = whole_number(self._cluster.broker_settings(group_id, [name]).get(name))
        return SessionTimeout.exactly(ms, SessionSource.BROKER, allowed_ms=allowed_ms or 0)


def _key(row: RebalanceRow) -> tuple[int, int, str]:
    return row.partition, row.offset, row.group_id

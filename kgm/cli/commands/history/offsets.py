"""`kgm history offsets`: what happened to the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupOption
from kgm.cli.options.history import HistoryOptions, TheGroup, history_options, one_group
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.rows_json import Json, at, cluster_json, held_offset_json, offset_change_json, window_json
from kgm.cli.output.history.words import short
from kgm.cli.output.report import Column, Columns, Report, Table, emit, object_table
from kgm.model.errors import UsageError
from kgm.text.durations import parse_duration
from kgm.text.wording import in_words, many

if TYPE_CHECKING:
    from kgm.history.facts.offset_changes import BrokerView, HeldOffset, OffsetChange
    from kgm.operations.history import History
    from kgm.operations.history.offsets import OffsetHistory

_SCHEMA = "kgm.history-offsets/v1"
_COLUMNS: Columns = {
    "topic": "TOPIC", "partition": Column(title="PARTITION", right=True), "at": "AT", "what": "WHAT",
    "before": Column(title="BEFORE", right=True), "after": Column(title="AFTER", right=True),
    "commits": Column(title="COMMITS", right=True), "last": "LAST", "by": "BY", "confidence": "CONFIDENCE",
    "evidence": "EVIDENCE",
}  # fmt: skip
#: offsets.retention.minutes is at least 1.
_LEAST_RETENTION_MS = 60_000


@cluster_options
@history_options
def offsets(
    *,
    group: TheGroup = None,
    group_option: GroupOption = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only offsets on this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", help="Only offsets on this partition.")
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention", metavar="TIME", help="The brokers' offsets.retention.minutes: 168h. [read with -b]"
        ),
    ] = None,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Show what happened to the committed offsets of a group: commits, jumps back, resets, and why offsets are gone.

    Consecutive commits by the same committer are one line. BY: while a group has members, the owner of the partition,
    because only members can commit then; "not a member" is an admin tool, or a consumer that assigns partitions to
    itself. If the records allow more than one reason for a missing offset, it is "tombstoned", with the reasons that
    they rule out. Commits that compaction has removed are not shown. An offset that was committed before records went
    missing may be gone: the record that deleted it may be one of them.

    With -b HOST:PORT and neither --source nor --store, kgm reads the live topic (READ on __consumer_offsets), and also
    shows which topics are gone and how many records are no longer in the logs (DESCRIBE on the topics)."""
    name = one_group(group, group_option)
    retention_ms = None if retention is None else parse_duration(retention, "--retention")
    if retention_ms is not None and retention_ms < _LEAST_RETENTION_MS:
        raise UsageError(f"--retention {retention} is less than Kafka allows", hint="--retention 168h")
    from kgm.operations.history.offsets import offset_history

    history, view = _opened(options, common, name, retention_ms)
    told = offset_history(history, name, view, topic=topic, partition=partition)
    items = [offset_change_json(one) for one in told.changes]
    data = {
        "group_id": name, "window": window_json(history), "retention_ms": told.retention_ms, "changes": items,
        "offsets": [held_offset_json(one) for one in told.held],
    }  # fmt: skip
    emit(
        Report(
            schema=_SCHEMA,
            data=data,
            tables=[_changes(name, told, history), *_held(told.held)],
            keys=[*_COLUMNS],
            names=list(dict.fromkeys(f"{one.topic}:{one.topic_partition}" for one in told.changes)),
            items=items,
            rows=[*map(_row, told.changes)],
            cluster=cluster_json(history),
        ),
        common,
    )


def _opened(
    options: HistoryOptions, common: RunOptions, group_id: str, retention_ms: int | None
) -> tuple[History, BrokerView]:
    from kgm.cli.output.history.damages import warn_of_gaps
    from kgm.history.facts.offset_changes import BrokerView

    if not options.is_live(common):
        return options.open(common, group_id), BrokerView(retention_ms=retention_ms)
    with options.live(common, group_id) as live:
        history = live.read()
        warn_of_gaps(history, group_id)
        return history, live.broker_view(history, group_id, retention_ms)


def _changes(group: str, told: OffsetHistory, history: History) -> Table:
    places = len({one.place for one in told.changes})
    notes = [] if told.changes else ["no commit and no tombstone in this history"]
    notes.append(f"next: {history.command('rebalances', group)}")
    heading = f"{group}  offsets of {many(places, 'partition')}"
    return object_table(_COLUMNS, map(_row, told.changes), heading, notes)


def _row(one: OffsetChange) -> Json:
    """A row of csv and of the table: in words, and without what only repeats `at`."""
    return {
        **offset_change_json(one), "what": in_words(one.what), "commits": one.commits or None,
        "last": at(one.last_ms) if one.commits > 1 else None, "by": _by(one),
    }  # fmt: skip


def _by(one: OffsetChange) -> str | None:
    if one.seat is not None:
        return short(one.seat)
    return None if one.by is None else in_words(one.by)


def _held(held: Sequence[HeldOffset]) -> list[Table]:
    if not held:
        return []
    columns: Columns = {
        "topic": "TOPIC", "partition": Column(title="PARTITION", right=True),
        "committed": Column(title="COMMITTED", right=True), "at": "AT", "expires": "EXPIRES",
        "lost": Column(title="LOST", right=True), "rule": "RULE",
    }  # fmt: skip
    lost = sum(one.lost or 0 for one in held)
    notes = [f"{many(lost, 'record')} below the start of the logs: deleted before the group read them"] if lost else []
    rows = ({**held_offset_json(one), "lost": one.lost or None} for one in held)
    heading = "committed now" if all(one.confirmed for one in held) else "committed last, as far as it is known"
    return [object_table(columns, rows, heading, notes)]

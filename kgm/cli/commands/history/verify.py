"""`kgm history verify`: how far the records can be trusted, and from when on they are complete."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.history import HistoryOptions, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options
from kgm.cli.output.history.forms import DAMAGE, PARTITION
from kgm.cli.output.history.rows_json import Json, at, at_text
from kgm.cli.output.report import Cell, Column, Report, Table, emit, object_table
from kgm.model.errors import ConditionNotMet
from kgm.model.forms.json_form import as_json
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.history.verify import BadRecords, GroupVerdict, LogVerdict, PartitionVerdict

_SCHEMA = "kgm.history-verify/v1"
_GROUPS_SHOWN = 20
_COLUMNS = {
    "partition": Column(title="PARTITION", right=True),
    "records": Column(title="RECORDS", right=True),
    "first_offset": Column(title="FIRST", right=True),
    "end_offset": Column(title="END", right=True),
    "missing": Column(title="MISSING", right=True),
    "doubles": Column(title="DOUBLE", right=True),
    "open_transactions": Column(title="OPEN TXN", right=True),
    "first": Column(title="FROM"),
    "last": Column(title="TO"),
    "complete_since": Column(title="COMPLETE SINCE"),
    "complete_from": Column(title="COMPLETE FROM", right=True, wide=True),
    "controls": Column(title="MARKERS", right=True, wide=True),
}


@output_options
@history_options
def verify(
    *,
    fail_if_unsound: Annotated[
        bool, typer.Option("--fail-if-unsound", help="Exit 8 if anything but a torn tail cannot be read.")
    ] = False,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Report which records are missing or cannot be read, and from when on the history is complete.

    Missing offsets are not damage: compaction removes records that were replaced later. But what happened in a gap is
    unknown, so a history is complete only after the last gap. Records whose type or version kgm does not know are kept
    and counted, and are never an error."""
    from kgm.operations.history.raw_records import verify_source

    source = options.source()
    verdict = verify_source(source)
    kind, path = source.raw
    data = _data(f"{kind}:{path}", verdict)
    errors = []
    if fail_if_unsound and not verdict.sound:
        errors.append(ConditionNotMet(f"{path} is not sound: {_in_words(verdict)}"))
    emit(
        Report(
            schema=_SCHEMA, data=data, tables=_tables(f"{kind}:{path}", verdict),
            keys=[*_COLUMNS], names=[str(each.partition) for each in verdict.partitions], items=data["partitions"],
            rows=[*map(_row, verdict.partitions)], errors=errors,
        ),
        common,
    )  # fmt: skip
    if errors:
        from kgm.cli.output.failures import exit_with

        exit_with(errors, done=0)


def _data(source: str, verdict: LogVerdict) -> Json:
    return {
        "source": source, "sound": verdict.sound, "records": verdict.records, "bad_records": verdict.bad_records,
        "unknown_tags": verdict.unknown_tags, "complete_since": at(verdict.complete_since), "until": at(verdict.until),
        "partitions": [_partition_json(each) for each in verdict.partitions],
        "groups": [_group_json(each) for each in verdict.groups],
        "bad": [_bad_json(each) for each in verdict.bad],
        "damages": [as_json(each, DAMAGE, {"path": str(each.path)}) for each in verdict.damages],
    }  # fmt: skip


def _partition_json(each: PartitionVerdict) -> Json:
    own = {
        "first": at(each.first_timestamp), "last": at(each.last_timestamp), "complete_since": at(each.complete_since),
    }  # fmt: skip
    return as_json(each, PARTITION, own)


def _row(each: PartitionVerdict) -> Json:
    """A row of csv and of the table, which have the number of records in open transactions."""
    return {**_partition_json(each), "open_transactions": sum(one.records for one in each.open_transactions)}


def _group_json(each: GroupVerdict) -> Json:
    return asdict(each) | {
        "first": _generation(each.first), "last": _generation(each.last), "complete_since": at(each.complete_since),
    }  # fmt: skip


def _generation(generation: int) -> int | None:
    """The generation, or None: nothing is known about a group of which only a tombstone is left."""
    return generation if generation >= 0 else None


def _bad_json(each: BadRecords) -> Json:
    examples = [asdict(one) | {"key": _base64(one.key), "value": _base64(one.value)} for one in each.examples]
    return asdict(each) | {"examples": examples}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


# -- for people


def _in_words(verdict: LogVerdict) -> str:
    damaged = sum(not each.torn for each in verdict.damages)
    texts = [f"{verdict.bad_records:,} records cannot be decoded"] if verdict.bad_records else []
    return ", ".join([*texts, *([f"{many(damaged, 'segment')} damaged"] if damaged else [])]) or "sound"


def _tables(source: str, verdict: LogVerdict) -> list[Table]:
    return [_partitions(source, verdict), *_groups(verdict), *_bad(verdict), *_damages(verdict)]


def _partitions(source: str, verdict: LogVerdict) -> Table:
    whole = sum(each.complete for each in verdict.groups)
    notes = [
        f"{verdict.records:,} records: {_in_words(verdict)}",
        f"{whole} of {many(len(verdict.groups), 'group')} are complete from their beginning",
    ]
    if verdict.complete_since is not None:
        since, until = at_text(verdict.complete_since), at_text(verdict.until)
        notes.append(f"nothing is missing in any partition from {since} to {until}")
    if verdict.unknown_tags:
        notes.append(f"{many(verdict.unknown_tags, 'record')} with fields of a newer Kafka, which were ignored")
    return object_table(_COLUMNS, map(_row, verdict.partitions), source, notes)


def _groups(verdict: LogVerdict) -> list[Table]:
    """The groups that are not complete."""
    broken = [each for each in verdict.groups if not each.complete]
    if not broken:
        return []
    columns = {
        "group_id": Column(title="GROUP"), "partition": Column(title="PARTITION", right=True),
        "first": Column(title="FROM", right=True), "last": Column(title="TO", right=True),
        "windows": Column(title="BROKEN STEPS", right=True), "complete_since": Column(title="COMPLETE SINCE"),
    }  # fmt: skip
    rest = len(broken) - _GROUPS_SHOWN
    notes = [f"and {rest} more: -o json has them all"] if rest > 0 else []
    return [object_table(columns, map(_group_json, broken[:_GROUPS_SHOWN]), "incomplete groups", notes)]


def _bad(verdict: LogVerdict) -> list[Table]:
    if not verdict.bad:
        return []
    columns = [
        Column(title="REASON"), Column(title="TYPE", right=True), Column(title="VERSION", right=True),
        Column(title="RECORDS", right=True), Column(title="FOR EXAMPLE"), Column(title="ERROR"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for each in verdict.bad:
        one = each.examples[0] if each.examples else None
        example = (None, None) if one is None else (f"{one.partition}:{one.offset}", one.error)
        rows.append([each.reason, each.key_type, each.value_version, each.count, *example])
    return [Table(columns=columns, rows=rows, heading="records that cannot be decoded")]


def _damages(verdict: LogVerdict) -> list[Table]:
    if not verdict.damages:
        return []
    columns = [
        Column(title="SEGMENT"), Column(title="BYTE", right=True), Column(title="WHAT"), Column(title="REASON"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [str(each.path), each.position, "torn tail" if each.torn else "damage", each.reason] for each in verdict.damages
    ]
    return [Table(columns=columns, rows=rows, heading="where reading segments stopped")]

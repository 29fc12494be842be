"""`kgm history verify`: how far the records can be trusted, and since when they tell everything."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.commands.history.decode import raw_source
from kgm.cli.commands.history.rows import Json, at
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.extras import extra_needed
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.model.errors import ConditionNotMet
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.history.folders import Damage
    from kgm.history.verify import BadRecords, GroupVerdict, PartitionVerdict, Verdict

SCHEMA = "kgm.history-verify/v1"
_GROUPS_SHOWN = 20


@output_options
@of_history
def verify(
    *,
    fail_if_unsound: Annotated[
        bool, typer.Option("--fail-if-unsound", help="Exit 8 if anything cannot be read, but for a torn tail.")
    ] = False,
    where: Where,
    common: RunOptions,
) -> None:
    """Say what is missing in the records, what cannot be read, and since when they tell everything.

    Offsets that are missing are no damage: compaction takes away what was written again later. But what happened there
    is not known, so a history is whole only behind the last gap. Records of types and versions that kgm does not know
    are kept, counted, and never fatal."""
    kind, path = raw_source(where)
    with extra_needed():
        from kgm.history.folders import Reading
        from kgm.history.in_process import partitions_of
        from kgm.history.verify import verify as verify_records

        reading = Reading()
        verdicts = [verify_records(raw) for raw in partitions_of(kind, path, reading=reading) if len(raw)]
        data = _data(f"{kind}:{path}", verdicts, reading.damages)
    errors = []
    if fail_if_unsound and not data["sound"]:
        errors.append(ConditionNotMet(f"{path} is not sound: {_in_words(data)}"))
    emit(
        Report(
            schema=SCHEMA, data=data, tables=_tables(data),
            names=[str(each["partition"]) for each in data["partitions"]],
            items=data["partitions"], errors=errors,
        ),
        common,
    )  # fmt: skip
    if errors:
        from kgm.cli.output.failures import exit_with

        exit_with(errors, done=0)


def _data(source: str, verdicts: Sequence[Verdict], damages: Sequence[Damage]) -> Json:
    """One verdict out of those of each partition."""
    since = [each.complete_since for each in verdicts]
    until = [each.until for each in verdicts if each.until is not None]
    known = [each for each in since if each is not None]
    bad = _joined([each for verdict in verdicts for each in verdict.bad])
    return {
        "source": source,
        "sound": not bad and all(damage.torn for damage in damages),
        "records": sum(each.records for each in verdicts),
        "bad_records": sum(each["count"] for each in bad),
        "unknown_tags": sum(each.unknown_tags for each in verdicts),
        "complete_since": at(max(known)) if known and len(known) == len(since) else None,
        "until": at(max(until, default=None)),
        "partitions": [_partition_json(each) for verdict in verdicts for each in verdict.partitions],
        "groups": [_group_json(each) for verdict in verdicts for each in verdict.groups],
        "bad": bad,
        "damages": [
            {
                "partition": each.partition, "path": str(each.path), "position": each.position, "reason": each.reason,
                "torn": each.torn,
            }
            for each in damages
        ],
    }  # fmt: skip


def _partition_json(each: PartitionVerdict) -> Json:
    return {
        "partition": each.partition, "records": each.records, "first_offset": each.first_offset,
        "end_offset": each.end_offset, "first": at(each.first_timestamp), "last": at(each.last_timestamp),
        "doubles": each.doubles, "controls": each.controls, "missing": each.missing,
        "gaps": [{"start": gap.start, "end": gap.end} for gap in each.gaps], "complete_from": each.complete_from,
        "complete_since": at(each.complete_since),
        "open_transactions": [
            {
                "producer_id": one.producer_id, "producer_epoch": one.producer_epoch, "first_offset": one.first_offset,
                "records": one.records,
            }
            for one in each.open_transactions
        ],
    }  # fmt: skip


def _group_json(each: GroupVerdict) -> Json:
    return {
        "group_id": each.group_id, "partition": each.partition, "protocol": each.protocol, "records": each.records,
        "first": _known(each.first), "last": _known(each.last), "windows": each.windows, "complete": each.complete,
        "complete_from": each.complete_from, "complete_since": at(each.complete_since),
        "lost_rounds": each.lost_rounds,
    }  # fmt: skip


def _known(generation: int) -> int | None:
    """Of a group of which only a tombstone is left nothing is known."""
    return generation if generation >= 0 else None


def _joined(found: Sequence[BadRecords]) -> list[Json]:
    """By reason, type and version, most first; with the examples of the first partition that has any."""
    rows: dict[tuple[str, int | None, int | None], Json] = {}
    for each in found:
        key = each.reason, each.key_type, each.value_version
        row = rows.setdefault(
            key,
            {
                "reason": each.reason, "key_type": each.key_type, "value_version": each.value_version, "count": 0,
                "examples": [
                    {
                        "partition": one.partition, "offset": one.offset, "error": one.error, "key": _base64(one.key),
                        "value": _base64(one.value),
                    }
                    for one in each.examples
                ],
            },
        )  # fmt: skip
        row["count"] += each.count
    return sorted(rows.values(), key=lambda row: -row["count"])


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


# -- for people


def _in_words(data: Json) -> str:
    damaged = sum(not each["torn"] for each in data["damages"])
    said = [f"{data['bad_records']:,} records cannot be decoded"] if data["bad_records"] else []
    return ", ".join([*said, *([f"{many(damaged, 'segment')} damaged"] if damaged else [])]) or "sound"


def _tables(data: Json) -> list[Table]:
    return [_partitions(data), *_groups(data), *_bad(data), *_damages(data)]


def _partitions(data: Json) -> Table:
    columns = [
        Column(title="PARTITION", right=True), Column(title="RECORDS", right=True), Column(title="FIRST", right=True),
        Column(title="END", right=True), Column(title="MISSING", right=True), Column(title="DOUBLE", right=True),
        Column(title="OPEN TXN", right=True), Column(title="FROM"), Column(title="TO"), Column(title="COMPLETE SINCE"),
        Column(title="COMPLETE FROM", right=True, wide=True), Column(title="MARKERS", right=True, wide=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each["partition"], each["records"], each["first_offset"], each["end_offset"], each["missing"],
            each["doubles"], sum(one["records"] for one in each["open_transactions"]), each["first"], each["last"],
            each["complete_since"], each["complete_from"], each["controls"],
        ]
        for each in data["partitions"]
    ]  # fmt: skip
    whole = sum(each["complete"] for each in data["groups"])
    notes = [
        f"{data['records']:,} records: {_in_words(data)}",
        f"{whole} of {many(len(data['groups']), 'group')} are known from their beginning on",
    ]
    if data["complete_since"] is not None:
        notes.append(f"nothing is missing in any partition from {data['complete_since']} to {data['until']}")
    if data["unknown_tags"]:
        notes.append(f"fields of a newer Kafka were left aside in {many(data['unknown_tags'], 'record')}")
    return Table(columns=columns, rows=rows, heading=data["source"], notes=notes)


def _groups(data: Json) -> list[Table]:
    """Those of which something is missing."""
    broken = [each for each in data["groups"] if not each["complete"]]
    if not broken:
        return []
    columns = [
        Column(title="GROUP"), Column(title="PARTITION", right=True), Column(title="FROM", right=True),
        Column(title="TO", right=True), Column(title="BROKEN STEPS", right=True), Column(title="COMPLETE SINCE"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [each["group_id"], each["partition"], each["first"], each["last"], each["windows"], each["complete_since"]]
        for each in broken[:_GROUPS_SHOWN]
    ]
    rest = len(broken) - _GROUPS_SHOWN
    notes = [f"and {rest} more: -o json has them all"] if rest > 0 else []
    return [Table(columns=columns, rows=rows, heading="groups of which something is missing", notes=notes)]


def _bad(data: Json) -> list[Table]:
    if not data["bad"]:
        return []
    columns = [
        Column(title="REASON"), Column(title="TYPE", right=True), Column(title="VERSION", right=True),
        Column(title="RECORDS", right=True), Column(title="FOR EXAMPLE"), Column(title="ERROR"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for each in data["bad"]:
        one: dict[str, Any] = each["examples"][0] if each["examples"] else {}
        place = f"{one['partition']}:{one['offset']}" if one else None
        rows.append(
            [each["reason"], each["key_type"], each["value_version"], each["count"], place, one.get("error")]
        )  # fmt: skip
    return [Table(columns=columns, rows=rows, heading="records that cannot be decoded")]


def _damages(data: Json) -> list[Table]:
    if not data["damages"]:
        return []
    columns = [
        Column(title="SEGMENT"), Column(title="BYTE", right=True), Column(title="WHAT"), Column(title="REASON"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [each["path"], each["position"], "torn tail" if each["torn"] else "damage", each["reason"]]
        for each in data["damages"]
    ]
    return [Table(columns=columns, rows=rows, heading="where segments could not be read on")]

"""`kgm assign`: one of Kafka's assignors on groups that are written down, offline."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias

import typer

from kgm.cli.options.common import Common, common_as
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.model.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kgm.assignors.json_cases import AssignmentCase
    from kgm.model.assignment import Assignment

    _Answer: TypeAlias = tuple[AssignmentCase, dict[str, dict[str, Sequence[int]]]]

SCHEMA = "kgm.assign/v1"


@common_as("ndjson")
def assign_command(
    *,
    from_file: Annotated[
        str, typer.Option("--from-file", metavar="FILE", help="Cases, one JSON object a line; - reads stdin.")
    ],
    assignor: Annotated[
        str | None, typer.Option("--assignor", metavar="NAME", help="Run this one, whatever the file says.")
    ] = None,
    library: Annotated[
        str, typer.Option("--library", metavar="LIBRARY", help="java or librdkafka: whose client leads the group.")
    ] = "java",
    common: Common,
) -> None:
    """Run an assignor on written-down groups: JSON lines in, JSON lines out, one process for any number.

    A line: {"assignor": NAME, "topics": [{"name", "partitions", "racks"?}], "members": [{"member_id",
    "group_instance_id"?, "rack"?, "topics", "owned"?, "generation"?}], "case"?}. What `kgm describe -o json` prints is
    read too. NAME: range, roundrobin, sticky, cooperative-sticky, consumer-uniform, consumer-range, or an assignor of
    your own that is installed beside kgm. With -o table, loads and moves of a single case are shown as well.
    """
    with _opened(from_file) as source:
        answers = _answers(source, assignor, library)
        if common.output == "ndjson":
            # One by one, so that another program can hold a conversation through two pipes.
            for case, assignment in answers:
                emit(Report(schema=SCHEMA, data={}, items=[{"case": case.case, "assignment": assignment}]), common)
        else:
            emit(_report(list(answers)), common)


def _opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open(path, "rb")  # noqa: PTH123  (a context manager for the caller)
    except FileNotFoundError:
        raise NotFoundError(f"file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"file {path} cannot be read: {error.strerror}") from error


def _answers(source: BinaryIO, assignor: str | None, library: str) -> Iterator[_Answer]:
    """Each case and its answer. Raises UsageError with the number of the line that is wrong."""
    from kgm.assignors import assign
    from kgm.assignors.json_cases import cases_from_json

    for number, data in _documents(source):
        try:
            for case in cases_from_json(data, assignor):
                given = assign(case.assignor, case.group, library)
                yield case, {member: dict(topics) for member, topics in given.items()}
        except UsageError as error:
            raise UsageError(f"line {number}: {error.message}", hint=error.hint) from error


def _documents(source: BinaryIO) -> Iterator[tuple[int, Any]]:
    """JSON values with the lines they start on: one a line, or a single one over all lines."""
    is_first = True
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            rest = source.read() if is_first else b""
            if not rest.strip():
                raise UsageError(f"line {number}: not JSON: {_reason(error)}") from error
            yield number, _whole(line + rest, number)
            return
        is_first = False


def _whole(text: bytes, first: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = first + error.lineno - 1 if isinstance(error, json.JSONDecodeError) else first
        raise UsageError(f"line {where}: not JSON: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return str(error)


def _report(answers: Sequence[_Answer]) -> Report:
    from kgm.model.assignment import as_ranges, count
    from kgm.text.wording import many

    rows: list[list[Cell]] = []
    for case, assignment in answers:
        for member, topics in assignment.items():
            start: list[Cell] = [_label(case.case), case.assignor, member]
            rows += [[*start, topic, as_ranges(numbers), len(numbers)] for topic, numbers in topics.items()]
            if not topics:
                rows.append([*start, None, None, 0])
    columns = [
        Column(title="CASE"),
        Column(title="ASSIGNOR", wide=True),
        Column(title="MEMBER-ID"),
        Column(title="TOPIC"),
        Column(title="PARTITIONS"),
        Column(title="COUNT", right=True),
    ]
    assigned = sum(count(topics) for _, assignment in answers for topics in assignment.values())
    note = f"{many(len(answers), 'case')}, {many(assigned, 'partition')} assigned"
    tables = [Table(columns=columns, rows=rows, notes=[note])]
    if len(answers) == 1:
        tables += _loads_and_moves(*answers[0])
    return Report(
        schema=SCHEMA,
        data={
            "cases": [
                {"case": case.case, "assignor": case.assignor, "assignment": assignment} for case, assignment in answers
            ]
        },
        tables=tables,
        names=[member for _, assignment in answers for member in assignment],
    )


def _loads_and_moves(case: AssignmentCase, assignment: Assignment) -> list[Table]:
    """For people, of a single case: how much everybody has, before and after, and what goes from whom to whom."""
    from kgm.model.assignment import as_ranges, count, moves

    before = {member.member_id: member.owned for member in case.group.members}
    changes = moves(before, assignment)
    gained = Counter(move.owner_after for move in changes)
    lost = Counter(move.owner_before for move in changes)
    loads: list[list[Cell]] = [
        [member, count(before[member]), count(topics), gained[member], lost[member]]
        for member, topics in assignment.items()
    ]
    handovers: dict[tuple[str, str | None, str | None], list[int]] = {}
    for move in changes:
        handovers.setdefault((move.topic, move.owner_before, move.owner_after), []).append(move.partition)
    counts = [count(topics) for topics in assignment.values()] or [0]
    moved = sum(1 for move in changes if move.owner_before is not None and move.owner_after is not None)
    none, new = gained[None], len(changes) - moved - gained[None]
    note = f"{moved} moved from one member to another, {new} that nobody owned before, {none} that nobody gets"
    load_columns = [Column(title="MEMBER-ID")]
    load_columns += [Column(title=title, right=True) for title in ("BEFORE", "AFTER", "GAINED", "LOST")]
    move_columns = [Column(title=title) for title in ("TOPIC", "PARTITIONS", "FROM", "TO")]
    handed: list[list[Cell]] = [[t, as_ranges(numbers), a, b] for (t, a, b), numbers in handovers.items()]
    return [
        Table(heading="Loads", columns=load_columns, rows=loads, notes=[f"loads from {min(counts)} to {max(counts)}"]),
        Table(heading="Moves", columns=move_columns, rows=handed, notes=[note]),
    ]


def _label(case: Any) -> Cell:
    return case if isinstance(case, str | int) or case is None else json.dumps(case)

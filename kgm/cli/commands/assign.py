"""`kgm assign`: run one of Kafka's assignors on groups from a file, offline."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options_with
from kgm.cli.output.report import Cell, Column, Columns, Report, Table, emit, object_table
from kgm.model.errors import MissingFileError, UsageError
from kgm.text.input_files import MOST_BYTES, open_input

if TYPE_CHECKING:
    from kgm.assignors.json_cases import AssignmentCase
    from kgm.model.assignment import Move

SCHEMA = "kgm.assign/v1"
_COLUMNS: Columns = {
    "case": "CASE", "assignor": Column(title="ASSIGNOR", wide=True), "member_id": "MEMBER-ID", "topic": "TOPIC",
    "partitions": "PARTITIONS", "count": Column(title="COUNT", right=True),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedCase:
    """A case and its result. assignment: partitions by member id and topic."""

    case: AssignmentCase
    assignment: dict[str, dict[str, Sequence[int]]]


@output_options_with("ndjson")
def assign_command(
    *,
    from_file: Annotated[
        str, typer.Option("--from-file", metavar="FILE", help="Cases, one JSON object per line; - reads stdin.")
    ],
    assignor: Annotated[
        str | None, typer.Option("--assignor", metavar="NAME", help="Run this assignor, whatever the file says.")
    ] = None,
    library: Annotated[
        str, typer.Option("--library", metavar="NAME", help="Client library of the group's leader, for example sarama.")
    ] = "java",
    options: RunOptions,
) -> None:
    """Run an assignor on groups from a file: JSON lines in, JSON lines out, in one process for any number of cases.

    A line: {"assignor": NAME, "topics": [{"name", "partitions", "racks"?}], "members": [{"member_id",
    "group_instance_id"?, "rack"?, "topics", "owned"?, "generation"?}], "leader"?, "case"?}. The output of `kgm describe
    -o json` is accepted too. NAME: range, roundrobin, sticky, cooperative-sticky, consumer-uniform, consumer-range, or
    a custom assignor that is installed alongside kgm. A group can have up to 200000 partitions. With -o table, the
    loads and moves of a single case are shown too."""
    from kgm.cli.output.contracts.assign import line_json

    # Close it even if the output fails: a generator that is still open at exit prints a complaint.
    with _opened(from_file) as source, contextlib.closing(_assigned(source, assignor, library)) as answers:
        if options.output == "ndjson":
            # One by one, so that another program can send a case and read its answer through two pipes.
            for one in answers:
                if not emit(Report(schema=SCHEMA, data={}, items=[line_json(one.case, one.assignment)]), options):
                    break  # the reader has gone; there may be no end to the cases
        else:
            emit(_report(list(answers)), options)


def _opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open_input(path)
    except FileNotFoundError:
        raise MissingFileError(f"file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"file {path} cannot be read: {error.strerror or error}") from error


def _assigned(source: BinaryIO, assignor: str | None, library: str) -> Generator[AssignedCase, None, None]:
    """Each case with its assignment. Raises UsageError with the number of the invalid line."""
    from kgm.assignors import assign
    from kgm.assignors.json_cases import cases_from_json

    for number, data in _documents(source):
        try:
            for case in cases_from_json(data, assignor):
                assignment = assign(case.assignor, case.group, library)
                yield AssignedCase(
                    case=case, assignment={member: dict(topics) for member, topics in assignment.items()}
                )
        except UsageError as error:
            raise UsageError(f"line {number}: {error.message}", hint=error.hint) from error


def _documents(source: BinaryIO) -> Iterator[tuple[int, Any]]:
    """JSON values with the numbers of their first lines: one value per line, or a single value spanning all lines."""
    is_first = True
    for number, line in enumerate(_lines(source), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            rest = _read(source, -len(line)) if is_first else b""
            if not rest.strip():
                raise UsageError(f"line {number}: not JSON: {_reason(error)}") from error
            yield number, _whole(line + rest, number)
            return
        is_first = False


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """The lines of the file. Raises UsageError for a line that is too long or cannot be read."""
    while line := _read(source, 0, is_line=True):
        yield line


def _read(source: BinaryIO, offset: int, *, is_line: bool = False) -> bytes:
    """A line, or the rest of the file. offset: minus the bytes of MOST_BYTES that are already used."""
    most = MOST_BYTES + offset
    try:
        data = source.readline(most + 1) if is_line else source.read(most + 1)
    except OSError as error:
        raise UsageError(f"the file cannot be read: {error.strerror or error}") from error
    if len(data) > most:
        raise UsageError(f"the file has a case of more than {MOST_BYTES >> 20} MiB")
    return data


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


# -- tables


def _report(answers: Sequence[AssignedCase]) -> Report:
    from kgm.cli.output.contracts.assign import case_json

    tables = [_assignment_table(answers)]
    if len(answers) == 1:
        tables += _loads_and_moves(answers[0])
    return Report(
        schema=SCHEMA,
        data={"cases": [case_json(one.case, one.assignment) for one in answers]},
        tables=tables,
        keys=[*_COLUMNS],
        rows=_rows(answers),
        names=[member for one in answers for member in one.assignment],
    )


def _rows(answers: Sequence[AssignedCase]) -> Iterator[dict[str, Cell]]:
    """A row for each topic of each member, and for each member that gets none."""
    from kgm.model.assignment import as_ranges

    for one in answers:
        for member, topics in one.assignment.items():
            start = (_label(one.case.case), one.case.assignor, member)
            for topic, numbers in topics.items():
                yield dict(zip(_COLUMNS, (*start, topic, as_ranges(numbers), len(numbers)), strict=True))
            if not topics:
                yield dict(zip(_COLUMNS, (*start, None, None, 0), strict=True))


def _assignment_table(answers: Sequence[AssignedCase]) -> Table:
    from kgm.model.assignment import count
    from kgm.text.wording import many

    assigned = sum(count(topics) for one in answers for topics in one.assignment.values())
    note = f"{many(len(answers), 'case')}, {many(assigned, 'partition')} assigned"
    return object_table(_COLUMNS, _rows(answers), notes=[note])


def _loads_and_moves(answer: AssignedCase) -> list[Table]:
    """For people, for a single case: how many partitions each member has before and after, and which moved."""
    from kgm.model.assignment import count, moves

    before = {member.member_id: member.owned for member in answer.case.group.members}
    changes = moves(before, answer.assignment)
    gained = Counter(move.owner_after for move in changes)
    lost = Counter(move.owner_before for move in changes)
    loads: list[list[Cell]] = [
        [member, count(before[member]), count(topics), gained[member], lost[member]]
        for member, topics in answer.assignment.items()
    ]
    counts = [count(topics) for topics in answer.assignment.values()] or [0]
    load_columns = [Column(title="MEMBER-ID")]
    load_columns += [Column(title=title, right=True) for title in ("BEFORE", "AFTER", "GAINED", "LOST")]
    note = f"loads from {min(counts)} to {max(counts)}"
    return [Table(heading="Loads", columns=load_columns, rows=loads, notes=[note]), _moves_table(changes)]


def _moves_table(changes: Sequence[Move]) -> Table:
    from kgm.model.assignment import as_ranges
    from kgm.text.joined_moves import joined_moves

    moved = sum(1 for move in changes if move.owner_before is not None and move.owner_after is not None)
    added = sum(1 for move in changes if move.owner_before is None)
    dropped = sum(1 for move in changes if move.owner_after is None)
    note = f"{moved} moved from one member to another, {added} had no owner before, {dropped} have none now"
    columns = [Column(title=title) for title in ("TOPIC", "PARTITIONS", "FROM", "TO")]
    rows: list[list[Cell]] = [
        [one.topic, as_ranges(one.partitions), one.owner_before, one.owner_after] for one in joined_moves(changes)
    ]
    return Table(heading="Moves", columns=columns, rows=rows, notes=[note])


def _label(case: Any) -> Cell:
    return case if isinstance(case, str | int) or case is None else json.dumps(case)

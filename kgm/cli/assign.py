"""`kgm assign`: one of Kafka's assignors on groups that are written down, offline."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from kgm.cli.options import Common, common_as
from kgm.cli.output import Cell, Column, Report, Table, emit
from kgm.model.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kgm.assignors.case import Case
    from kgm.model.assignment import Assignment

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
    read too. NAME: range, roundrobin, sticky, cooperative-sticky, consumer-uniform, consumer-range.
    """
    with _opened(from_file) as source:
        answers = _answers(source, assignor, library)
        if common.output == "ndjson":
            # One by one, so that another program can hold a conversation through two pipes.
            for answer in answers:
                item = {"case": answer["case"], "assignment": answer["assignment"]}
                emit(Report(schema=SCHEMA, data={}, items=[item]), common)
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


def _answers(source: BinaryIO, assignor: str | None, library: str) -> Iterator[dict[str, Any]]:
    """One JSON object for each case. Raises UsageError with the number of the line that is wrong."""
    from kgm.assignors import assign
    from kgm.assignors.case import cases_from_json

    for number, data in _documents(source):
        try:
            for case in cases_from_json(data, assignor):
                yield _answer(case, assign(case.assignor, case.group, library))
        except UsageError as error:
            raise UsageError(f"line {number}: {error.message}", hint=error.hint) from error


def _answer(case: Case, assignment: Assignment) -> dict[str, Any]:
    plain = {member: dict(topics) for member, topics in assignment.items()}
    return {"case": case.case, "assignor": case.assignor, "assignment": plain}


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


def _report(answers: Iterable[dict[str, Any]]) -> Report:
    from kgm.model.assignment import as_ranges, count

    answers = list(answers)
    rows: list[list[Cell]] = [
        [_label(answer["case"]), answer["assignor"], member, topic, as_ranges(partitions) or None, len(partitions)]
        for answer in answers
        for member, topics in answer["assignment"].items()
        for topic, partitions in (topics or {None: []}).items()
    ]
    columns = [
        Column(title="CASE"),
        Column(title="ASSIGNOR", wide=True),
        Column(title="MEMBER-ID"),
        Column(title="TOPIC"),
        Column(title="PARTITIONS"),
        Column(title="COUNT", right=True),
    ]
    noun = "case" if len(answers) == 1 else "cases"
    assigned = sum(count(topics) for answer in answers for topics in answer["assignment"].values())
    return Report(
        schema=SCHEMA,
        data={"cases": answers},
        tables=[Table(columns=columns, rows=rows, notes=[f"{len(answers)} {noun}, {assigned} partitions assigned"])],
        names=[member for answer in answers for member in answer["assignment"]],
    )


def _label(case: Any) -> Cell:
    return case if isinstance(case, str | int) or case is None else json.dumps(case)

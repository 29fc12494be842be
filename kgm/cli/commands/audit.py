"""`kgm audit`: removals and rollouts done by kgm on this machine: who, when, why, and the results."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.group_names import OnlyGroupsOption
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options
from kgm.cli.output.report import Column, Report, emit, object_table
from kgm.model.errors import ConditionNotMet, UsageError

if TYPE_CHECKING:
    from kgm.operations.audit.audit_log import AuditedRemoval, AuditLogContents

SCHEMA = "kgm.audit/v1"
_BREAKS_SHOWN = 5
_COLUMNS = {
    "time": Column(title="TIME"),
    "operator_and_host": Column(title="OPERATOR"),
    "group_id": Column(title="GROUP"),
    "group_instance_id": Column(title="INSTANCE-ID"),
    "member_id": Column(title="MEMBER-ID", wide=True),
    "action": Column(title="ACTION", wide=True),
    "result": Column(title="RESULT"),
    "verdict": Column(title="LIVENESS", wide=True),
    "error": Column(title="ERROR", wide=True),
    "reason": Column(title="REASON"),
    "cluster_id": Column(title="CLUSTER"),
    "note": Column(title="NOTE"),
    "uid": Column(title="UID", wide=True),
    "client_host": Column(title="CLIENT-HOST", wide=True),
    "finished_at": Column(title="FINISHED", wide=True),
}
_KEYS = ("time", "operator", *[*_COLUMNS][2:], "host")


@output_options
def audit(
    *,
    group: OnlyGroupsOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="2h, 7d, or a time: 2026-11-21, 2026-11-21T03:00Z.")
    ] = None,
    operator: Annotated[
        list[str] | None, typer.Option("--operator", metavar="NAME", help="Only by these operators; repeatable.")
    ] = None,
    common: RunOptions,
) -> None:
    """Show the removals, deletions and rollouts made by kgm on this machine, oldest first: who, when, why, the result.

    The log is $XDG_STATE_HOME/kgm/audit.jsonl (~/.local/state). An entry without an outcome is `unknown`: kgm ended
    before the outcome was known; `kgm describe` shows the group as it is now. If records of the log were removed or
    changed, the exit code is 8."""
    from kgm.cli.output.failures import print_error, print_warning
    from kgm.operations.audit.audit_log import AuditLog, default_path

    start = None if since is None else parse_since(since, time.time())
    log = AuditLog(default_path(os.environ))
    found = log.read()
    failure = _failure(found)
    if found.torn:
        lines = "1 line" if found.torn == 1 else f"{found.torn} lines"
        why = ": kgm was killed while it wrote" if failure is None else ""
        print_warning(f"{lines} of the audit log cannot be read{why}")
    if failure is None and found.newer:
        records = "1 record is" if found.newer == 1 else f"{found.newer} records are"
        print_warning(f"{records} newer than the head of the audit log: kgm was killed between writing the two")
    if failure is None and not found.has_head:
        print_warning(
            "the audit log has no head yet, so missing records at its end go unnoticed: the next removal creates one"
        )
    kept = [
        one
        for one in found.removals
        if (not group or one.group_id in group)
        and (start is None or one.time >= start)
        and (not operator or one.operator in operator)
    ]
    items = [removal_json(one) for one in kept]
    emit(
        Report(
            schema=SCHEMA,
            data={
                "file": str(log.path),
                "removals": items,
                "torn_lines": found.torn,
                "problems": [] if failure is None else list(failure.facts),
            },
            tables=[object_table(_COLUMNS, ({**one, "operator_and_host": _operator_and_host(one)} for one in items))],
            keys=_KEYS,
            names=[one.group_instance_id or one.member_id or one.group_id or "?" for one in kept],
            items=items,
            errors=[] if failure is None else [failure],
        ),
        common,
    )
    if failure is not None:
        print_error(failure)
        raise typer.Exit(failure.exit_code)


def _failure(found: AuditLogContents) -> ConditionNotMet | None:
    """The error for an incomplete log; None if the log is complete."""
    facts = [
        f"line {one.line} of {one.path} does not follow the line before it" for one in found.breaks[:_BREAKS_SHOWN]
    ]
    if len(found.breaks) > _BREAKS_SHOWN:
        facts.append(f"{len(found.breaks) - _BREAKS_SHOWN} more lines do not follow the line before them")
    facts += found.problems
    if not facts:
        return None
    return ConditionNotMet(
        "the audit log is not complete: records were removed or changed",
        facts=facts,
        hint="compare it with a copy; then move audit.jsonl* elsewhere, and the next removal starts a new log",
    )


def removal_json(one: AuditedRemoval) -> dict[str, Any]:
    """An entry of `data.removals`."""
    found = asdict(one) | {"evidence": list(one.evidence)}
    if one.finished_at is None:
        found["note"] = _why_unknown(one)
    return found


def _why_unknown(one: AuditedRemoval) -> str:
    if one.host == os.uname().nodename and one.pid is not None and _is_running(one.pid):
        return f"process {one.pid} may still be running"
    return "kgm ended before the outcome was known: run kgm describe"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0


def _operator_and_host(one: dict[str, Any]) -> str:
    return f"{one['operator'] or '?'}@{one['host'] or '?'}"


def parse_since(text: str, now: float) -> str:
    """The time in the log's own format, which sorts as text. now: seconds since the epoch. Raises UsageError.

    A time without a zone is in this machine's time zone."""
    from kgm.operations.audit.audit_log import timestamp
    from kgm.text.durations import parse_duration

    days = re.fullmatch(r"\s*(\d{1,5})d\s*", text)
    try:
        if days is not None:
            return timestamp(now - int(days[1]) * 86_400)
        if re.match(r"\d{4}-", text):
            return timestamp(datetime.fromisoformat(text).timestamp())
        return timestamp(now - parse_duration(text, "--since") / 1000)
    except (UsageError, ValueError, OverflowError, OSError):
        raise UsageError(
            f"--since: {text!r} is neither a time nor how long ago", hint="write 30m, 7d or 2026-11-21"
        ) from None

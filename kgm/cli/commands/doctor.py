"""`kgm doctor`: what is wrong with groups, or soon will be, with the evidence and the next command to run."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.invocation import with_cluster
from kgm.cli.options.group_names import GroupsOption
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.errors import ConditionNotMet, KgmError, UsageError
from kgm.operations.doctor.findings import Finding, Severity
from kgm.text.durations import parse_duration
from kgm.text.names import in_order
from kgm.text.wording import many, some

if TYPE_CHECKING:
    from kgm.operations.doctor.diagnosis import Diagnosis
    from kgm.operations.doctor.history_findings import HistoryFacts
    from kgm.operations.settings.ignored_checks import IgnoredCheck

SCHEMA = "kgm.doctor/v1"
_NEVER = "never"
#: From this many groups on, people see the same finding of severity info as one row.
_MANY_GROUPS = 3


@cluster_options
def doctor(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups to examine.")] = None,
    *,
    group: GroupsOption = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    window: Annotated[
        str,
        typer.Option("--window", metavar="DURATION", help="How long to wait for members to commit; 0s: do not wait."),
    ] = "6s",
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="DIR", help="A built history; its advice and alarms become findings."),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", metavar="NAME", help="Only these checks; repeatable or a,b.")
    ] = None,
    no_ignore: Annotated[
        bool, typer.Option("--no-ignore", help="Also report what config.toml says to ignore.")
    ] = False,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on", metavar="SEVERITY", help="Exit 8 for this severity and above: error | warning | info | never."
        ),
    ] = "warning",
    options: RunOptions,
) -> None:
    """Diagnose groups: each finding with its evidence and the next command. Examines all groups by default.

    Checks members, owners, subscriptions, state and offsets. If records are waiting or a group is rebalancing, it
    checks twice, --window apart, to see which members make progress. It also checks the latest records of the
    coordinators (READ on __consumer_offsets), and the advice and alarms of a built history. A consumer that a group
    refuses does not appear in any description: put its settings in --command-config or -X
    (partition.assignment.strategy, group.instance.id, group.protocol), and doctor shows why it was refused. Changes
    nothing.

    error: something is not consumed, or will be lost. warning: it causes rebalances, or will. info: worth knowing. List
    accepted findings in config.toml, in [[ignore]] tables for all clusters or [[profiles.NAME.ignore]] tables for one
    profile: check = "NAME", reason = "why", and group = "GLOB" unless it applies to all groups. They are counted, but
    never change the exit code.

    Exits 8 if there are findings of severity --fail-on or above. Exits 7 if there are none but some checks could not
    run, because what they need could not be read, or if groups may be invisible, because no group is named and this
    login has no DESCRIBE on the cluster (4 if it cannot see any group). Exits 6 if --history is about another
    cluster."""
    from kgm.cli.output.failures import exit_with, print_error, warn_of_unknown_offsets, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.client.failures import refuse_evidence_of_other_cluster
    from kgm.operations.doctor.diagnosis import diagnose
    from kgm.operations.doctor.findings import Severity
    from kgm.operations.doctor.known_removals import known_removals

    if fail_on not in (*Severity, _NEVER):
        raise UsageError(f"--fail-on: {fail_on!r} is not one of {', '.join(Severity)}, {_NEVER}")
    window_ms = parse_duration(window, "--window")
    names = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    checks = _checks(check)
    ignored = () if no_ignore else _ignored_checks(options)
    facts = _history_facts(history)
    with options.cluster(reads_only=True) as connected:
        if facts is not None:
            refuse_evidence_of_other_cluster(f"the history in {facts.folder}", facts.cluster_id, connected.cluster_id)
        diagnosis = diagnose(
            connected, names, match, window_ms=window_ms, history=facts,
            removals=known_removals(os.environ), checks=checks, ignored=ignored, consumer_settings=options.settings,
            phase=functools.partial(progress, options),
        )  # fmt: skip
        warn_of_unseen_groups(diagnosis.unseen)
        warn_of_unknown_offsets(connected)
        where = cluster_json(connected)
    findings = [
        replace(one, next_command=None if one.next_command is None else with_cluster(one.next_command))
        for one in diagnosis.findings
    ]
    diagnosis = replace(diagnosis, findings=tuple(findings))
    blind = diagnosis.unread(checks)
    _emit(diagnosis, where, blind, options)
    exit_with(diagnosis.errors, done=len(diagnosis.group_ids))
    if fail_on == _NEVER:
        return
    failing = [one for one in diagnosis.findings if one.severity.rank <= Severity(fail_on).rank]
    if failing:
        ids = ", ".join(in_order({one.group_id for one in failing})[:5])
        print_error(ConditionNotMet(f"{many(len(failing), 'finding')} of severity {fail_on} or above in: {ids}"))
        raise typer.Exit(ConditionNotMet.exit_code)
    exit_with([blind] if blind is not None else [], done=len(diagnosis.group_ids))


def _checks(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that --check lists. Raises UsageError."""
    from kgm.operations.doctor.check_names import check_names

    names = check_names((word.strip() for value in given or () for word in value.split(",") if word.strip()), "--check")
    if given and not names:
        raise UsageError("--check: the name of the check is empty")
    return names


def _ignored_checks(options: RunOptions) -> tuple[IgnoredCheck, ...]:
    """The findings to ignore. Raises UsageError, including for a check that does not exist."""
    from kgm.operations.doctor.check_names import check_names
    from kgm.operations.settings.ignored_checks import read_ignored_checks
    from kgm.operations.settings.loading import config_file

    ignored = read_ignored_checks(config_file(os.environ), options.profile)
    for one in ignored:
        check_names([one.check], one.where)
    return ignored


def _history_facts(folder: str | None) -> HistoryFacts | None:
    """The advice and alarms of a built history. Raises NotFoundError, UsageError."""
    if folder is None:
        return None
    from kgm.operations.doctor.history_findings import read_history
    from kgm.operations.history.source import extra_needed

    with extra_needed():
        return read_history(folder)


# -- tables


def _emit(diagnosis: Diagnosis, where: dict[str, str | None], blind: KgmError | None, options: RunOptions) -> None:
    from kgm.cli.output.contracts.doctor import diagnosis_json, finding_json

    emit(
        Report(
            schema=SCHEMA,
            data=diagnosis_json(diagnosis),
            tables=map(_table, [diagnosis]),
            keys=("severity", "group_id", "check", "message", "evidence", "next_command", "about"),
            names=(f"{one.group_id}/{one.check}" for one in diagnosis.findings),
            items=map(finding_json, diagnosis.findings),
            cluster=where,
            errors=[*diagnosis.errors, *([] if blind is None else [blind])],
        ),
        options,
    )


def _table(diagnosis: Diagnosis) -> Table:
    """For people: the evidence and the next command below each finding. A finding of severity info on many groups is
    shown once."""
    columns = [Column(title=title) for title in ("SEVERITY", "GROUP", "CHECK", "FINDING")]
    rows: list[list[Cell]] = []
    alike: dict[tuple[str, str], list[Finding]] = {}
    for one in diagnosis.findings:
        if one.severity is Severity.INFO:
            alike.setdefault((one.check, one.message), []).append(one)
    for one in diagnosis.findings:
        same = alike.get((one.check, one.message), [one])
        if len(same) < _MANY_GROUPS:
            rows.append([one.severity, one.group_id, one.check, one.message])
            rows += [["", "", "", f"  {line}"] for line in one.evidence]
        elif one is same[0]:
            rows.append([one.severity, many(len(same), "group"), one.check, one.message])
            rows.append(["", "", "", f"  {some(each.group_id for each in same)}"])
        else:
            continue
        if one.next_command:
            rows.append(["", "", "", f"  -> {one.next_command}"])
    if diagnosis.errors and not diagnosis.group_ids:
        notes = ["no group could be examined"]
    else:
        notes = [f"{many(len(diagnosis.group_ids), 'group')} examined: {_counts(diagnosis.findings) or 'no findings'}"]
    notes += [f"ignored: {one.finding.check} in {one.finding.group_id}: {one.reason}" for one in diagnosis.ignored]
    notes += [f"not checked: {', '.join(one.checks)}: {one.why}" for one in diagnosis.skipped]
    return Table(columns=columns if rows else [], rows=rows, notes=notes)


def _counts(findings: Sequence[Finding]) -> str:
    """`1 error, 2 warnings, 1 info`."""
    counts = {severity: sum(one.severity is severity for one in findings) for severity in Severity}
    return ", ".join(
        f"{count} info" if severity is Severity.INFO else many(count, severity)
        for severity, count in counts.items()
        if count
    )

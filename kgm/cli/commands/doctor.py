"""`kgm doctor`: what is wrong with groups, or soon will be, with the evidence and the next command to run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.errors import (
    AuthenticationError,
    AuthorizationError,
    ConditionNotMet,
    KgmError,
    NotFoundError,
    UsageError,
)
from kgm.operations.doctor.case import SEVERITIES, Case, Finding, findings_of
from kgm.text.durations import parse_duration
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.client.offsets_topic_tail import Recorded
    from kgm.model.snapshot import GroupSnapshot

SCHEMA = "kgm.doctor/v1"
_RETENTION = "offsets.retention.minutes"
#: Of the time that is left, what reading the coordinators' logs may take.
_LOG_SHARE = 0.3
Tables = Mapping[str, list[dict[str, Any]]]


@cluster
def doctor(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups to look at.")] = None,
    *,
    group: Annotated[list[str] | None, typer.Option("-g", "--group", help="A group; repeatable.")] = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="DURATION", help="How long to watch whether members commit; 0s: not.")
    ] = "6s",
    history: Annotated[
        str | None, typer.Option("--history", metavar="DIR", help="A built history: its advice and alarms count too.")
    ] = None,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="SEVERITY", help="Exit 8 from which on: error | warning | info | never.")
    ] = "warning",
    common: Common,
) -> None:
    """Look for what is wrong with groups: each finding with its evidence and the next command. All groups by default.

    Looks at members, owners, subscriptions, state and offsets; twice, --window apart, where records wait or a group
    rebalances, to see who works and who does not; at what the coordinators wrote lately (READ on __consumer_offsets);
    and at the advice and alarms of a built history. Changes nothing.

    error: something is not consumed, or will be lost. warning: it costs rebalances, or will. info: worth knowing.
    Exits 8 when there are findings of --fail-on or above."""
    if fail_on not in (*SEVERITIES, "never"):
        raise UsageError(f"--fail-on: {fail_on!r} is not one of {', '.join(SEVERITIES)}, never")
    window_ms = parse_duration(window, "--window")
    named = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    told = _told(history)
    with common.cluster(reads_only=True) as connected:
        exam = _Exam(connected=connected, window_ms=window_ms, history=history, told=told)
        exam.look(named, match, common)
        where = cluster_json(connected)
    findings = sorted(
        exam.findings, key=lambda one: (SEVERITIES.index(one.severity), one.group_id, one.check, one.message)
    )
    _emit(exam, findings, where, common)
    from kgm.cli.output.failures import finish, tell

    finish(exam.errors, done=len(exam.cases))
    grave = [] if fail_on == "never" else SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    failing = [one for one in findings if one.severity in grave]
    if failing:
        ids = ", ".join(sorted({one.group_id for one in failing})[:5])
        tell(ConditionNotMet(f"{many(len(failing), 'finding')} of severity {fail_on} or above in: {ids}"))
        raise typer.Exit(ConditionNotMet.exit_code)


def _told(history: str | None) -> Tables:
    """The tables of a built history that say something of the present. Raises NotFoundError, UsageError."""
    if history is None:
        return {}
    import pathlib
    from dataclasses import asdict

    from kgm.history.rows import AlarmRow, TimeoutAdviceRow
    from kgm.operations.history.source import HistorySource, open_history

    opened = open_history(HistorySource(path=pathlib.Path(history)))
    return {
        TimeoutAdviceRow.table: [asdict(row) for row in opened.rows(TimeoutAdviceRow)],
        AlarmRow.table: [asdict(row) for row in opened.rows(AlarmRow)],
    }


@dataclass(slots=True, kw_only=True)
class _Exam:
    """One run over the groups of a cluster."""

    connected: AdminClient
    window_ms: int
    history: str | None
    told: Tables
    cases: list[Case] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    errors: list[KgmError] = field(default_factory=list)
    #: What was not looked at, and why.
    skipped: list[dict[str, str]] = field(default_factory=list)

    def look(self, named: Sequence[str], match: str | None, common: Common) -> None:
        """Everything, from the choice of groups to the findings. Raises KgmError when nobody answers."""
        from kgm.cli.output.progress import progress

        with progress(common, "looking at groups"):
            ids = self._chosen(named, match)
            first = self._described(ids)
            past = self._past(sorted(first))
        second: dict[str, GroupSnapshot] = {}
        busy = [group_id for group_id, seen in first.items() if _is_worth_another_look(seen)]
        if busy and self.window_ms:
            with progress(common, "watching who commits"):
                self.connected.deadline.sleep(self.window_ms / 1000)
                second = self._again(busy)
        elif busy:
            self._skip("stalled-owner, rebalancing", "there was no second look (--window 0s)")
        now_ms = round(time.time() * 1000)
        for group_id in sorted(first):
            self._examine(first[group_id], second.get(group_id), past.get(group_id, ()), now_ms)

    def _chosen(self, named: Sequence[str], match: str | None) -> list[str]:
        import fnmatch

        from kgm.cli.output.failures import warn_of_unseen_groups

        if named and match is None:
            return list(named)
        listing = self.connected.list_groups()
        warn_of_unseen_groups(self.connected, listing)
        self.errors += listing.errors
        ids = [row.group_id for row in listing.groups if match is None or fnmatch.fnmatchcase(row.group_id, match)]
        if match is not None and not ids:
            self.errors.append(NotFoundError(f"no group matches {match}"))
        return list(dict.fromkeys([*named, *ids]))

    def _described(self, ids: Sequence[str]) -> dict[str, GroupSnapshot]:
        from kgm.cli.output.failures import warn_of_unseen_topics

        found: dict[str, GroupSnapshot] = {}
        for group_id, answer in zip(ids, self.connected.describe_groups(ids), strict=True):
            if not isinstance(answer, KgmError):
                found[group_id] = answer
            elif isinstance(answer, NotFoundError | AuthenticationError | AuthorizationError):
                self.errors.append(answer)
            else:
                self.findings.append(_undescribed(group_id, answer))
        warn_of_unseen_topics(self.connected)
        return found

    def _past(self, ids: Sequence[str]) -> Mapping[str, Sequence[Recorded]]:
        """What the coordinators wrote of groups that are not of the consumer protocol."""
        from kgm.client.offsets_topic_tail import GroupTail

        if not ids:
            return {}
        tail = GroupTail(self.connected, ids)
        found = tail.read_back(self.connected.deadline.part(_LOG_SHARE))
        if tail.silent_because is not None:
            self._skip("duplicate-instance-id, session-too-short, frequent-rebalances, offsets-expire-soon",
                       tail.silent_because)  # fmt: skip
        return found

    def _again(self, ids: Sequence[str]) -> dict[str, GroupSnapshot]:
        answers = zip(ids, self.connected.describe_groups(ids), strict=True)
        return {group_id: answer for group_id, answer in answers if not isinstance(answer, KgmError)}

    def _examine(
        self, first: GroupSnapshot, second: GroupSnapshot | None, past: Sequence[Recorded], now_ms: int
    ) -> None:
        from kgm.client.poller import completed

        latest = second or first
        if past:
            latest = completed(latest, past[-1].group)
        case = Case(
            group=latest,
            now_ms=now_ms,
            earlier=None if second is None else first,
            window_ms=self.window_ms,
            past=past,
            retention_ms=self._retention_ms(latest) if latest.state == "Empty" and latest.offsets else None,
            denied_topics=frozenset(self.connected.denied_topics),
            speaks_consumer_protocol=self._speaks_consumer_protocol(),
            advice=[row for row in self.told.get("gold_timeout_advice", ()) if row["group_id"] == latest.group_id],
            alarms=[row for row in self.told.get("gold_alarm", ()) if row["group_id"] == latest.group_id],
            history=self.history,
        )
        self.cases.append(case)
        self.findings += findings_of(case)

    def _retention_ms(self, group: GroupSnapshot) -> int | None:
        found = self.connected.broker_settings(group.group_id, [_RETENTION]).get(_RETENTION, "")
        return int(found) * 60_000 if found.isascii() and found.isdigit() else None

    def _speaks_consumer_protocol(self) -> bool:
        from kgm.protocol.apis import ApiKey

        try:
            return self.connected.brokers.on_any(
                lambda connection: connection.supports(ApiKey.CONSUMER_GROUP_HEARTBEAT), self.connected.deadline
            )
        except KgmError:
            return False

    def _skip(self, checks: str, why: str) -> None:
        self.skipped.append({"checks": checks, "why": why})


def _is_worth_another_look(group: GroupSnapshot) -> bool:
    """Whether time tells more: records wait for members, or the group is not at rest."""
    if not group.members:
        return False
    return group.state != "Stable" or any(row.lag for row in group.offsets)


def _undescribed(group_id: str, error: KgmError) -> Finding:
    from kgm.operations.doctor.case import command

    return Finding(
        group_id=group_id,
        check="coordinator-unavailable",
        severity="error",
        message=error.message,
        evidence=error.facts,
        next_command=command("kgm", "config", "test", "-g", group_id),
    )


# -- what is said


def _emit(exam: _Exam, findings: Sequence[Finding], where: dict[str, str | None], common: Common) -> None:
    items = [_json(one) for one in findings]
    examined = len(exam.cases)
    counts = {severity: sum(one.severity == severity for one in findings) for severity in SEVERITIES}
    told = ", ".join(
        many(count, name) if name != "info" else f"{count} info" for name, count in counts.items() if count
    )
    notes = [f"{many(examined, 'group')} looked at: {told or 'nothing found'}"]
    notes += [f"not checked: {one['checks']}: {one['why']}" for one in exam.skipped]
    emit(
        Report(
            schema=SCHEMA,
            data={"groups": [case.group.group_id for case in exam.cases], "findings": items, "skipped": exam.skipped,
                  "window_ms": exam.window_ms, "history": exam.history},
            tables=_tables(findings, notes, is_data=common.is_data),
            names=[f"{one.group_id}/{one.check}" for one in findings],
            items=items,
            cluster=where,
            errors=exam.errors,
        ),
        common,
    )  # fmt: skip


def _tables(findings: Sequence[Finding], notes: Sequence[str], *, is_data: bool) -> list[Table]:
    """For programs a row a finding; for people the evidence and the next command below it."""
    columns = [Column(title=title) for title in ("SEVERITY", "GROUP", "CHECK", "FINDING")]
    if is_data:
        columns += [Column(title="EVIDENCE"), Column(title="NEXT")]
        rows: list[list[Cell]] = [
            [one.severity, one.group_id, one.check, one.message, "; ".join(one.evidence), one.next_command]
            for one in findings
        ]
        return [Table(columns=columns, rows=rows)]
    rows = []
    for one in findings:
        rows.append([one.severity, one.group_id, one.check, one.message])
        rows += [["", "", "", f"  {line}"] for line in one.evidence]
        if one.next_command:
            rows.append(["", "", "", f"  -> {one.next_command}"])
    return [Table(columns=columns if findings else [], rows=rows, notes=notes)]


def _json(one: Finding) -> dict[str, Any]:
    """One of `data.findings`."""
    return {
        "group_id": one.group_id,
        "check": one.check,
        "severity": one.severity,
        "message": one.message,
        "evidence": list(one.evidence),
        "about": list(one.about),
        "next_command": one.next_command,
    }

"""`kgm delete-groups`: parse the options, call the operation, show its verdicts, and ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli import invocation
from kgm.cli.change_run import ChangeRun, refuse_without_terminal
from kgm.cli.options.group_names import GroupsOption
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.options.words import topic_names
from kgm.cli.output.report import Report, cluster_json, object_table
from kgm.cli.stop_signal import interrupted_by_signals
from kgm.text.shell import shell_word
from kgm.text.wording import group_command, many, partitions_text, typed

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.operations.audit.audit_log import AuditTrail
    from kgm.operations.change.carrying_out import StaleVerdictError
    from kgm.operations.change.report import ChangeReport
    from kgm.operations.deletion.deletion import PreparedDeletion
    from kgm.operations.deletion.outcome import DeletionResult
    from kgm.operations.deletion.request import DeletionRequest

SCHEMA = "kgm.delete-groups/v1"
_COLUMNS = {
    "group_id": "GROUP", "topic": "TOPIC", "result": "RESULT", "verdict=idleness.verdict": "VERDICT",
    "last_use_at=idleness.last_use_at": "LAST-USE", "committed=offsets": "COMMITTED", "error": "ERROR", "note": "NOTE",
    "evidence=idleness.evidence": "EVIDENCE",
}  # fmt: skip
_NOTHING = "nothing was deleted"
#: The most groups that a hint names.
_MOST_NAMES = 20


@cluster_options
def delete_groups(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups.")] = None,
    *,
    group: GroupsOption = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    from_file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="FILE",
                     help="One group per line, as -o name prints it; '# ' begins a comment. - is stdin."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC",
                     help="Delete only the committed offsets of this topic; the groups stay. Repeatable, or a,b."),
    ] = None,
    stale_topics: Annotated[
        bool, typer.Option("--stale-topics", help="Only the offsets of topics that no member subscribes to.")
    ] = False,
    idle_for: Annotated[
        str, typer.Option("--idle-for", metavar="DURATION", help="Minimum time since the last commit.")
    ] = "24h",
    assume_idle: Annotated[
        bool, typer.Option("--assume-idle", help="Delete even if the time of the last commit is not known.")
    ] = False,
    guard_window: Annotated[
        str | None,
        typer.Option("--guard-window", metavar="DURATION",
                     help="How long to watch for commits if the log does not show them. Default: not at all."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="For the audit log; up to 255 characters.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Do not ask for confirmation. The guard still applies.")
    ] = False,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Treat absent groups and offsets as success.")
    ] = False,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Delete even if the audit log cannot be written; do not write to it.")
    ] = False,
    options: RunOptions,
) -> None:  # fmt: skip
    """Delete groups that are empty and idle, or committed offsets of topics that a group no longer reads.

    kgm deletes a group only if it is a group of consumers, has no members, and has committed nothing for --idle-for.
    The log of its coordinator shows that (READ on __consumer_offsets), even for consumers that assign partitions to
    themselves and are not members. A group that is not known to be idle, or has offsets in an open transaction, is
    deleted only with --assume-idle. One group that kgm refuses to delete stops the whole batch.

    Consumers that restart in a deleted group start at the position that their auto.offset.reset gives. The deleted
    offsets are in the audit log. kgm does not reset offsets: kafka-consumer-groups.sh --reset-offsets does."""
    from kgm.cli.options import removal_ids as ids
    from kgm.operations.deletion.request import DEFAULT_REASON, DeletionRequest
    from kgm.text.durations import parse_duration

    named = [*(groups or ()), *(group or ()), *(() if from_file is None else ids.read_ids(from_file))]
    request = DeletionRequest(
        group_ids=tuple(dict.fromkeys(named)),
        pattern=match,
        topics=tuple(topic_names(topic)),
        is_stale=stale_topics,
        idle_ms=parse_duration(idle_for, "--idle-for"),
        assume_idle=assume_idle,
        ignore_missing=ignore_missing,
        window_ms=None if guard_window is None else parse_duration(guard_window, "--guard-window"),
        reason=DEFAULT_REASON if reason is None else reason,
    )
    refuse_without_terminal(_NOTHING, dry_run=dry_run, yes=yes, group_id=None)
    with interrupted_by_signals(), options.cluster(reads_only=dry_run) as connected:
        _Run(connected, request, options, dry_run=dry_run, yes=yes, audit=not no_audit).run()


class _Run(ChangeRun["PreparedDeletion", "DeletionResult"]):
    """One deletion."""

    def __init__(self, connected: AdminClient, request: DeletionRequest, options: RunOptions, **how: bool) -> None:
        super().__init__(connected, options, group_ids=request.group_ids, **how)
        self._request = request

    @property
    def _where(self) -> str:
        return self._place

    @property
    def _nothing(self) -> str:
        return _NOTHING

    @property
    def _changed(self) -> str:
        return f"{self._what}s of {self._place} were deleted"

    def _doing(self, number: int) -> str:
        return f"deleting {many(number, self._what)} of {self._place}"

    def _question(self, number: int) -> str:
        return f"Delete {many(number, self._what)}?"

    @property
    def _what(self) -> str:
        return "offset" if self._request.is_of_offsets else "group"

    @property
    def _look(self) -> str:
        names = self._request.group_ids
        return group_command("describe", names[0], "--offsets") if len(names) == 1 else "kgm list"

    def _prepare(self) -> PreparedDeletion:
        from kgm.operations.deletion import deletion

        return deletion.prepare(self._cluster, self._request, phase=self._phase())

    def _number(self, prepared: PreparedDeletion) -> int:
        return sum(len(one.offsets) if one.topic is not None else 1 for one in prepared.present)

    def _execute(self, prepared: PreparedDeletion, audit: AuditTrail | None) -> ChangeReport[DeletionResult]:
        from kgm.operations.change.operator import current_operator
        from kgm.operations.deletion import deletion

        return deletion.execute(
            self._cluster, prepared, operator=current_operator(), audit=audit, phase=self._phase()
        )  # fmt: skip

    def _outdated(self, prepared: PreparedDeletion, error: StaleVerdictError) -> PreparedDeletion:
        return prepared.forbidding(error)

    def _hint(self, prepared: PreparedDeletion) -> str:
        """How to delete the groups that are allowed, and what would make the others deletable."""
        from kgm.operations.deletion.idleness import IdleVerdict

        why = {one: prepared.why_not(one) for one in prepared.present}
        refused = [one for one, text in why.items() if text is not None]
        if refused and all(one.impediment is None for one in refused):
            if any(prepared.idleness[one].verdict is IdleVerdict.ACTIVE for one in refused):
                return "wait, or state a shorter --idle-for if these offsets are no longer needed"
            sure = invocation.again_with("--assume-idle", read=self._request.group_ids)
            return f"make sure that nothing commits there (kgm history offsets GROUP); if you know that: {sure}"
        allowed = dict.fromkeys(one.group_id for one, text in why.items() if text is None)
        if 0 < len(allowed) <= _MOST_NAMES and not self._request.is_of_offsets:
            return f"the others: kgm delete-groups {' '.join([*map(typed, allowed), *self._words])}"
        return self._look

    @property
    def _words(self) -> Iterator[str]:
        """The options that say what must be known about a group, and how it is deleted, without those that name it."""
        from kgm.operations.deletion.request import DEFAULT_REASON, IDLE_MS
        from kgm.text.durations import typed_duration

        request = self._request
        if request.idle_ms != IDLE_MS:
            yield f"--idle-for {typed_duration(request.idle_ms)}"
        if request.assume_idle:
            yield "--assume-idle"
        if request.window_ms is not None:
            yield f"--guard-window {typed_duration(request.window_ms)}"
        if request.reason != DEFAULT_REASON:
            yield f"--reason={shell_word(request.reason)}"
        if request.ignore_missing:
            yield "--ignore-missing"
        if not self._audit:
            yield "--no-audit"

    def _lines(self, prepared: PreparedDeletion) -> list[str]:
        lines = []
        for target in prepared.targets:
            if not target.is_there:
                lines.append(f"  {target.id}: absent")
                continue
            idle = prepared.idleness[target]
            lines.append(f"  {target.id}  committed {partitions_text(target.partitions) or 'nothing'}")
            lines.append(f"    {idle.verdict}: {idle.why}")
        return lines

    def _report(self, prepared: PreparedDeletion, results: Sequence[DeletionResult], warnings: Sequence[str]) -> Report:
        from kgm.cli.output.contracts.changes import deletion_json

        rows = [deletion_json(one) for one in results]
        shown = [{**row, "note": _note(one)} for row, one in zip(rows, results, strict=True)]
        return Report(
            schema=SCHEMA,
            data={
                "dry_run": self._dry_run,
                "reason": prepared.request.reason,
                "idle_for_ms": prepared.request.idle_ms,
                "results": rows,
                "warnings": list(warnings),
            },
            tables=[object_table(_COLUMNS, shown)],
            keys=[*_COLUMNS],
            names=[one.target.id for one in results],
            items=rows,
            rows=shown,
            cluster=cluster_json(self._cluster),
        )


def _note(one: DeletionResult) -> str | None:
    """The note, unless it only repeats the verdict columns."""
    return None if one.note == f"{one.idleness.verdict}: {one.idleness.why}" else one.note

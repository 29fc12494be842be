"""`kgm remove-members`: parse the options, call the operation, show its verdicts, and ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli import invocation
from kgm.cli.change_run import ChangeRun, refuse_without_terminal
from kgm.cli.options.group_names import GroupOption, named_group
from kgm.cli.options.plan_options import plan_option
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.options.words import listed_ids
from kgm.cli.output.report import Column, Report, cluster_json, object_table
from kgm.cli.stop_signal import interrupted_by_signals
from kgm.text.wording import group_command, many

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.operations.audit.audit_log import AuditTrail
    from kgm.operations.change.carrying_out import StaleVerdictError
    from kgm.operations.change.report import ChangeReport
    from kgm.operations.removal.outcome import MemberResult
    from kgm.operations.removal.removal import PreparedRemoval
    from kgm.operations.removal.request import RemovalRequest

SCHEMA = "kgm.remove-members/v1"


@cluster_options
def remove_members(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")] = None,
    *,
    group_option: GroupOption = None,
    instance_ids: Annotated[
        list[str] | None,
        typer.Option("--instance-ids", "-i", metavar="ID[,ID...]",
                     help="Group instance ids; repeatable; braces expand: app-{1..3}."),
    ] = None,
    member_ids: Annotated[
        list[str] | None,
        typer.Option("--member-ids", "-m", metavar="ID[,ID...]", help="Member ids, of dynamic members; repeatable."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option("--unit", metavar="PROCESS", help="All threads of a Kafka Streams process, by id or thread."),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="FILE",
                     help="One id per line, as -o name prints it; '# ' begins a comment. - is stdin."),
    ] = None,
    match_members: Annotated[
        list[str] | None,
        typer.Option("--match-members", "--match", metavar="GLOB", help="Members whose id matches; repeatable."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="For the broker's log; up to 255 characters.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Do not ask for confirmation. The guard still applies.")
    ] = False,
    allow_live: Annotated[
        bool, typer.Option("--allow-live", help="Remove members that are alive, or have taken over instance ids.")
    ] = False,
    assume_stopped: Annotated[
        bool, typer.Option("--assume-stopped", help="Remove members whose liveness is unknown.")
    ] = False,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Treat absent ids as success.")
    ] = False,
    guard_window: Annotated[
        str | None,
        typer.Option("--guard-window", metavar="DURATION",
                     help="How long to look for signs of life, up to the session timeout. Default: 6s, up to 30s."),
    ] = None,
    assignor: Annotated[str | None, plan_option("assignor")] = None,
    library: Annotated[str | None, plan_option("library")] = None,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Remove even if the audit log cannot be written; do not write to it.")
    ] = False,
    options: RunOptions,
) -> None:  # fmt: skip
    """Remove members from a group with one LeaveGroup request.

    The group rebalances once. For each member kgm shows whether it is alive, stopped or unknown, and why. Members that
    are alive are removed only with --allow-live, and unknown ones only with --assume-stopped: first make sure that the
    process is not running (systemctl is-active, kubectl get pod). One member that kgm refuses to remove stops the whole
    batch.

    With --guard-window as long as the session timeout, even an idle member can be shown to be alive: if it is still in
    the group after its session timeout, it has sent heartbeats. The window does not count toward --timeout, and a short
    one does not shorten the check afterwards whether a removed member joins again."""
    from kgm.cli.options import removal_ids as ids
    from kgm.operations.removal.request import RemovalRequest
    from kgm.text.durations import parse_duration

    request = RemovalRequest(
        group_id=named_group(group, group_option, hint="kgm remove-members GROUP --instance-ids ID"),
        instance_ids=listed_ids(instance_ids, "--instance-ids"),
        member_ids=listed_ids(member_ids, "--member-ids"),
        identities=() if from_file is None else ids.read_ids(from_file),
        patterns=tuple(match_members or ()),
        processes=tuple(unit or ()),
        reason=ids.reason(reason),
        allow_live=allow_live,
        assume_stopped=assume_stopped,
        ignore_missing=ignore_missing,
        assignor=assignor,
        library=library,
        guard_window_ms=None if guard_window is None else parse_duration(guard_window, "--guard-window"),
    )
    refuse_without_terminal(_nothing(request), dry_run=dry_run, yes=yes, group_id=request.group_id)
    with interrupted_by_signals(), options.cluster(reads_only=dry_run) as connected:
        _Run(connected, request, options, dry_run=dry_run, yes=yes, audit=not no_audit).run()


def _moves_line(prepared: PreparedRemoval) -> list[str]:
    """The moves on one line, as certain as they are; none if there are none, or they are not known."""
    from kgm.text.wording import moves_text

    moves = prepared.moves.moves
    will = "may" if prepared.moves.notes else "will"
    return [f"{many(len(moves), 'partition')} {will} move: {moves_text(moves)}"] if moves else []


def _nothing(request: RemovalRequest) -> str:
    return f"nothing was removed from group {request.group_id!r}"


class _Run(ChangeRun["PreparedRemoval", "MemberResult"]):
    """One removal."""

    def __init__(self, connected: AdminClient, request: RemovalRequest, options: RunOptions, **how: bool) -> None:
        super().__init__(connected, options, group_ids=[request.group_id], **how)
        self._request = request

    @property
    def _where(self) -> str:
        return f"group {self._request.group_id!r} of {self._place}"

    @property
    def _nothing(self) -> str:
        return _nothing(self._request)

    @property
    def _changed(self) -> str:
        return f"members of {self._where} were removed"

    def _doing(self, number: int) -> str:
        return f"removing {many(number, 'member')} from {self._where}"

    def _question(self, number: int) -> str:
        return f"Remove {many(number, 'member')}?"

    @property
    def _look(self) -> str:
        return group_command("describe", self._request.group_id)

    def _prepare(self) -> PreparedRemoval:
        from kgm.operations.removal import removal

        return removal.prepare(self._cluster, self._request, phase=self._phase())

    def _notes(self, prepared: PreparedRemoval) -> Sequence[str]:
        return prepared.moves.notes

    def _as_sent(self, prepared: PreparedRemoval, report: ChangeReport[MemberResult]) -> PreparedRemoval:
        from kgm.operations.removal.removal import PreparedRemoval

        return report.prepared if isinstance(report.prepared, PreparedRemoval) else prepared

    def _number(self, prepared: PreparedRemoval) -> int:
        return len(prepared.plan.present)

    def _execute(self, prepared: PreparedRemoval, audit: AuditTrail | None) -> ChangeReport[MemberResult]:
        from kgm.operations.change.operator import current_operator
        from kgm.operations.removal import removal

        return removal.execute(
            self._cluster, prepared, operator=current_operator(), audit=audit, phase=self._phase()
        )  # fmt: skip

    def _outdated(self, prepared: PreparedRemoval, error: StaleVerdictError) -> PreparedRemoval:
        from kgm.operations.removal.verification.second_look import StaleLivenessError

        assert isinstance(error, StaleLivenessError)
        return prepared.with_verdicts(error.report, error)

    def _hint(self, prepared: PreparedRemoval) -> str:
        from kgm.operations.removal.guard import missing_flags, proof_window_ms
        from kgm.text.durations import show_duration

        flags = missing_flags(self._request, prepared.plan, prepared.guard)
        read = self._read_words(prepared)
        command = invocation.again_with(*flags, read=read)
        if flags == ("--allow-live",):
            return f"stop the process first; to remove it although it is alive: {command}"
        window_ms = proof_window_ms(prepared.plan, prepared.guard)
        surer = (
            ""
            if window_ms is None or window_ms <= (self._request.guard_window_ms or 0)
            else f", or watch longer: {invocation.again_with('--guard-window', show_duration(window_ms), read=read)}"
        )
        return (
            "make sure that the process does not run (systemctl is-active, kubectl get pod); "
            f"if you know that it has stopped: {command}{surer}"
        )

    def _read_words(self, prepared: PreparedRemoval) -> list[str]:
        """The options that name the ids of `--from-file`."""
        from kgm.text.braces import as_list

        read = [one for one in prepared.plan.targets if one.id in self._request.identities]
        static = [one.instance_id for one in read if one.instance_id is not None]
        dynamic = [one.id for one in read if one.instance_id is None]
        return [
            *(["--instance-ids", as_list(static)] if static else []),
            *(["--member-ids", as_list(dynamic)] if dynamic else []),
        ]

    def _lines(self, prepared: PreparedRemoval) -> list[str]:
        from kgm.text.wording import partitions_text

        lines = []
        for target in prepared.plan.targets:
            if target.member is None:
                lines.append(f"  {target.id}: absent")
                continue
            one, liveness = target.member, prepared.liveness.get(target.member.member_id)
            owns = partitions_text(one.assignment) or "nothing"
            lines.append(f"  {one.identity}  member {one.member_id}  at {one.client_host}  owns {owns}")
            if liveness is not None:
                lines.append(f"    {liveness.verdict}: {liveness.why}")
        return [*lines, *_moves_line(prepared)]

    def _report(self, prepared: PreparedRemoval, results: Sequence[MemberResult], warnings: Sequence[str]) -> Report:
        from kgm.cli.output.contracts.changes import removal_json

        rows = [removal_json(one) for one in results]
        moves = prepared.moves.moves
        data = {
            "group_id": self._request.group_id,
            "dry_run": self._dry_run,
            "reason": self._request.reason,
            "results": rows,
            "moves_expected": None if moves is None else [move.to_json() for move in moves],
            "warnings": [*warnings, *prepared.moves.notes],
        }
        shown = [{**row, "note": _note(one)} for row, one in zip(rows, results, strict=True)]
        notes = _moves_line(prepared)
        # Columns are left out in this order; an instance id identifies a member as well as a member id does.
        is_static = all(one.target.instance_id for one in results)
        columns = {
            "group_instance_id": Column(title="INSTANCE-ID"),
            "member_id": Column(title="MEMBER-ID", left_out=0 if is_static else None),
            "result": Column(title="RESULT"),
            "liveness=liveness.verdict": Column(title="LIVENESS"),
            "error": Column(title="ERROR", left_out=2),
            "partitions_freed": Column(title="FREED", left_out=1),
            "note": Column(title="NOTE"),
            "evidence=liveness.evidence": Column(title="EVIDENCE"),
        }
        return Report(
            schema=SCHEMA,
            data=data,
            tables=[object_table(columns, shown, notes=notes)],
            keys=[*columns],
            names=[one.target.id for one in results],
            items=rows,
            rows=shown,
            cluster=cluster_json(self._cluster),
        )


def _note(one: MemberResult) -> str | None:
    """The note, unless it only repeats the verdict columns."""
    return None if one.note == f"{one.liveness.verdict}: {one.liveness.why}" else one.note

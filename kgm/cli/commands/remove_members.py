"""`kgm remove-members`: plan, look, ask, send one LeaveGroup, and say what became of each member."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.errors import KgmError, NotFoundError, PartialError, RefusedError, UsageError, error_name

if TYPE_CHECKING:
    from kgm.assignors import MemberSpec
    from kgm.client import AdminClient
    from kgm.model.assignment import Assignment, Move
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.removal.liveness import Sign
    from kgm.operations.removal.preview import Lead
    from kgm.operations.removal.removal import MemberResult, RemovalPlan
    from kgm.simulation.plan.client_library import Library

SCHEMA = "kgm.remove-members/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for, checked."""

    group_id: str
    instance_ids: tuple[str, ...]
    member_ids: tuple[str, ...]
    identities: tuple[str, ...]
    patterns: tuple[str, ...]
    reason: str
    dry_run: bool
    yes: bool
    allow_live: bool
    ignore_missing: bool
    audit: bool
    guard_window_ms: int


@cluster_options
def remove_members(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")] = None,
    *,
    group_option: Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The group.")] = None,
    instance_ids: Annotated[
        list[str] | None,
        typer.Option("--instance-ids", "-i", metavar="ID[,ID...]",
                     help="Group instance ids; repeatable; braces expand: app-{1..3}."),
    ] = None,
    member_ids: Annotated[
        list[str] | None,
        typer.Option("--member-ids", "-m", metavar="ID[,ID...]", help="Member ids, of dynamic members; repeatable."),
    ] = None,
    from_file: Annotated[
        str | None, typer.Option("--from-file", metavar="FILE", help="One id a line, # for comments; - is stdin.")
    ] = None,
    match: Annotated[
        list[str] | None, typer.Option("--match", metavar="GLOB", help="Members whose id matches; repeatable.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="For the broker's log; up to 255 characters.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    allow_live: Annotated[
        bool, typer.Option("--allow-live", help="Remove members that are seen to be alive, and whoever came after.")
    ] = False,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="An id that no member has is no failure.")
    ] = False,
    guard_window: Annotated[
        str, typer.Option("--guard-window", metavar="DURATION", help="How long to look for signs of life.")
    ] = "6s",
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Remove even if the audit log cannot be written; write nothing there.")
    ] = False,
    common: RunOptions,
) -> None:  # fmt: skip
    """Remove members from a group with one LeaveGroup request.

    Members that are seen to be alive are left alone unless --allow-live is given. The group rebalances once."""
    from kgm.cli.options import removal_ids as ids
    from kgm.text.durations import parse_duration

    wanted = Wanted(
        group_id=ids.group(group, group_option),
        instance_ids=ids.listed(instance_ids, "--instance-ids"),
        member_ids=ids.listed(member_ids, "--member-ids"),
        identities=() if from_file is None else ids.read_ids(from_file),
        patterns=ids.patterns(match),
        reason=ids.reason(reason),
        dry_run=dry_run,
        yes=yes,
        allow_live=allow_live,
        ignore_missing=ignore_missing,
        audit=not no_audit,
        guard_window_ms=parse_duration(guard_window, "--guard-window"),
    )
    if not (wanted.instance_ids or wanted.member_ids or wanted.identities or wanted.patterns):
        hint = "give --instance-ids, --member-ids, --from-file or --match; an empty list never means all members"
        raise UsageError("no members are named", hint=hint)
    if not dry_run and not yes and not sys.stdin.isatty():
        raise RefusedError(
            f"nothing was removed from group {wanted.group_id!r}: there is no terminal to ask at",
            hint="add --yes to remove without being asked, or --dry-run to look first", group_id=wanted.group_id,
        )  # fmt: skip
    with common.cluster(reads_only=dry_run) as connected:
        _Removal(connected, wanted, common).run()


class _Removal:
    """One run against a cluster."""

    def __init__(self, connected: AdminClient, wanted: Wanted, common: RunOptions) -> None:
        self.cluster, self.wanted, self.common = connected, wanted, common
        self.voice = Notices()
        self.errors: list[KgmError] = []
        self.moves: tuple[Move, ...] | None = None

    def run(self) -> None:
        """Ends in typer.Exit unless everything went well."""
        from kgm.operations.removal import audit_record, removal
        from kgm.operations.removal.audit_log import AuditLog, default_path
        from kgm.text.wording import typed

        plan = self._plan()
        removal.check_possible(self.cluster, plan)
        signs = self._signs(plan)
        live = {member_id: sign for member_id, sign in signs.items() if sign.liveness == "alive"}
        if plan.group is not None and plan.found:
            from kgm.operations.removal.preview import expected_moves

            lead = lead_of(plan.group, plan.member_ids)
            self.moves = expected_moves(plan.group, plan.member_ids, lead=lead, tell=self._tell_no_moves)
            self._tell_who_is_taken_to_lead(plan.group, plan.member_ids)
        if live.keys() & plan.member_ids:
            self._refuse_live(plan, live)
        if self.wanted.dry_run or not plan.found:
            self._warn(plan, signs)
            self._finish(removal.planned(plan))
        self._warn(plan, signs)
        by = audit_record.operator()
        record = audit_record.Record(AuditLog(default_path(os.environ)) if self.wanted.audit else None, self.voice, by)
        record.prepare()
        if not self.wanted.yes:
            self._ask(plan)
            self.cluster.renew()  # the time to think is not the cluster's
        reason, evict = audit_record.signed(self.wanted.reason, by), self.wanted.allow_live
        try:
            results = record.around(
                self.cluster, plan, reason, lambda: removal.execute(self.cluster, plan, reason=reason, evict=evict)
            )
        except KeyboardInterrupt:
            self.voice.note(
                f"interrupted: the removal may have been carried out; kgm describe {typed(self.wanted.group_id)} tells"
            )
            raise
        self._finish(results)

    def _tell_who_is_taken_to_lead(self, group: GroupSnapshot, removed_member_ids: Collection[str]) -> None:
        """No API tells who leads; it is said where the moves hang on it."""
        from kgm.operations.removal.preview import expected_moves

        other = other_lead_of(group, removed_member_ids) if self.moves is not None else None
        if other is not None and expected_moves(group, removed_member_ids, lead=other) != self.moves:
            self.voice.note(
                "which partitions will move is told as if a Java consumer led the group; "
                "one of librdkafka, which may lead it as well, hands them out differently"
            )

    def _tell_no_moves(self, why: str) -> None:
        self.voice.note(f"which partitions will move is not known: {why}")

    def _plan(self) -> RemovalPlan:
        from kgm.client import fresh_describe
        from kgm.operations.removal import removal

        group: GroupSnapshot | None
        names = (*self.wanted.instance_ids, *self.wanted.identities)
        try:
            if names:
                group = fresh_describe.described(self.cluster, self.wanted.group_id, names)
            else:
                group = fresh_describe.seen_twice(self.cluster, self.wanted.group_id)
        except NotFoundError as error:
            group = None
            if not self.wanted.ignore_missing:
                self.errors.append(error)  # says all there is to say of its members too
        plan = removal.plan(
            self.wanted.group_id,
            group,
            instance_ids=self.wanted.instance_ids,
            member_ids=self.wanted.member_ids,
            identities=self.wanted.identities,
            patterns=self.wanted.patterns,
        )
        for name in plan.collapsed:
            self.voice.warn(f"{name} is named more than once; it is removed once")
        if not plan.targets and group is not None and not self.wanted.ignore_missing:
            patterns = ", ".join(self.wanted.patterns)
            self.errors.append(
                NotFoundError(f"no member of group {group.group_id!r} matches {patterns}", group_id=group.group_id)
            )
        return plan

    def _signs(self, plan: RemovalPlan) -> dict[str, Sign]:
        """Signs of life of the members to be removed, and of static members that stay, who could hold everybody up."""
        from kgm.cli.output.progress import progress
        from kgm.operations.removal.liveness import watch

        if plan.group is None or not plan.found or self.wanted.allow_live:
            return {}
        also = [one.member_id for one in plan.group.members if one.group_instance_id is not None]
        # Half of the budget is kept for the removal itself.
        window_ms = min(self.wanted.guard_window_ms, round(self.cluster.deadline.remaining() * 500))
        try:
            with progress(self.common, "looking for signs of life"):
                return watch(self.cluster, plan.group, plan.member_ids, also=also, window_ms=window_ms)
        except KgmError as error:
            self.voice.warn(f"whether the members are alive cannot be seen: {error.message}")
            return {}

    def _refuse_live(self, plan: RemovalPlan, live: dict[str, Sign]) -> NoReturn:
        """One live member stops the whole batch: to send the rest would cost a second rebalance later."""
        from dataclasses import replace

        from kgm.operations.removal import removal

        results = []
        for one in removal.planned(plan):
            sign = live.get(one.target.member.member_id) if one.target.member is not None else None
            if sign is not None:
                one = replace(one, result=removal.Result.REFUSED, note=f"it is alive: {sign.why}")  # noqa: PLW2901
            results.append(one)
        names = [one.target.id for one in results if one.result is removal.Result.REFUSED]
        self.errors.append(
            RefusedError(
                f"nothing was removed from group {self.wanted.group_id!r}: {', '.join(names)} "
                f"{'is' if len(names) == 1 else 'are'} alive",
                facts=[f"{one.target.id}: {one.note}" for one in results if one.note and one.target.id in names],
                hint="stop the process first, or add --allow-live", group_id=self.wanted.group_id,
            )
        )  # fmt: skip
        self._report(results)
        self._leave(RefusedError.exit_code)

    def _warn(self, plan: RemovalPlan, signs: dict[str, Sign]) -> None:
        from kgm.operations.removal import preview

        if plan.group is None:
            return
        for target in plan.found:
            sign = signs.get(target.member.member_id) if target.member is not None else None
            if sign is not None and sign.liveness == "unknown":
                self.voice.note(f"{target.id}: alive or not cannot be seen: {sign.why}")
        settings: Mapping[str, str] = {}
        if preview.becomes_classic(plan.group, plan.member_ids):
            names = [preview.MIGRATION_POLICY, preview.CLASSIC_MAX_SIZE]
            settings = self.cluster.broker_settings(plan.group_id, names)
        for text in (
            preview.downgrade_warning(plan.group, plan.member_ids, settings),
            preview.stall_warning(plan.group, plan.member_ids, signs),
        ):
            if text is not None:
                self.voice.warn(text)

    def _ask(self, plan: RemovalPlan) -> None:
        """Show what will happen and ask. Raises RefusedError unless the answer is yes."""
        from kgm.cli.output.streams import write_stderr
        from kgm.text.sanitize import clean
        from kgm.text.wording import many, moves_text, partitions_text

        lines = [f"group {self.wanted.group_id} at {self.cluster.bootstrap}, cluster {self.cluster.cluster_id}"]
        for target in plan.targets:
            if target.member is None:
                lines.append(f"  {target.id}: not there")
            else:
                one = target.member
                owns = partitions_text(one.assignment) or "nothing"
                lines.append(f"  {one.identity}  member {one.member_id}  at {one.client_host}  owns {owns}")
        if self.moves:
            lines.append(f"{many(len(self.moves), 'partition')} to change hands: {moves_text(self.moves)}")
        for line in lines:
            write_stderr(clean(line) + "\n")
        count = len(plan.found)
        write_stderr(f"Remove {many(count, 'member')}? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RefusedError(
                f"declined: nothing was removed from group {self.wanted.group_id!r}", group_id=self.wanted.group_id
            )

    def _finish(self, results: list[MemberResult]) -> NoReturn:
        from kgm.operations.removal import removal

        code = removal.exit_code(results, ignore_missing=self.wanted.ignore_missing)
        if not code and self.errors:
            code = self.errors[0].exit_code
        if results and code and not self.errors:
            self.errors.append(self._summary(results, code))
        if not self.wanted.dry_run and any(one.result is removal.Result.REMOVED for one in results):
            self._check_reason()
        self._report(results)
        self._leave(code)

    def _summary(self, results: Sequence[MemberResult], code: int) -> KgmError:
        """One error for the run; its facts are the members that are not as they were wanted."""
        from kgm.operations.removal.removal import Result
        from kgm.text.wording import typed

        removed = sum(one.result is Result.REMOVED for one in results)
        open_ones = [one for one in results if one.result not in (Result.REMOVED, Result.PLANNED)]
        facts = [f"{one.target.id}: {one.result}{f', {one.note}' if one.note else ''}" for one in open_ones]
        group_id = self.wanted.group_id
        kind = {3: NotFoundError, 6: RefusedError, 7: PartialError}.get(code, KgmError)
        if self.wanted.dry_run:
            message = f"{len(open_ones)} of {len(results)} members of group {group_id!r} would not be removed"
        elif removed:
            message = f"{removed} of {len(results)} members of group {group_id!r} were removed"
        elif code == PartialError.exit_code:
            message = f"the outcome is unknown for members of group {group_id!r}"
        else:
            message = f"nothing was removed from group {group_id!r}"
        return kind(message, facts=facts, group_id=group_id, hint=f"kgm describe {typed(group_id)}")

    def _check_reason(self) -> None:
        from kgm.operations.removal.removal import REASON_VERSION

        if self.cluster.leave_version(self.wanted.group_id, self.cluster.deadline) < REASON_VERSION:
            self.voice.warn("this broker takes no reason (LeaveGroup v5, Kafka 3.2); it was left out")

    def _report(self, results: Sequence[MemberResult]) -> None:
        rows = [result_json(one) for one in results]
        data = {
            "group_id": self.wanted.group_id,
            "dry_run": self.wanted.dry_run,
            "reason": self.wanted.reason,
            "results": rows,
            "moves_expected": None if self.moves is None else [move_json(move) for move in self.moves],
        }
        emit(
            Report(
                schema=SCHEMA,
                data=data,
                tables=[_table(results, self.moves)],
                names=[one.target.id for one in results],
                items=rows,
                cluster=cluster_json(self.cluster),
                errors=self.errors,
            ),
            self.common,
        )

    def _leave(self, code: int) -> NoReturn:
        from kgm.cli.output.failures import print_error

        for error in self.errors:
            print_error(error)
        raise typer.Exit(code)


def lead_of(group: GroupSnapshot, removed_member_ids: Collection[str]) -> Lead | None:
    """How the leader assigns, when everybody who stays runs on librdkafka; otherwise Java is assumed."""
    from kgm.simulation.plan.client_library import Library

    return _librdkafka_leads(group) if _libraries(group, removed_member_ids) == {Library.LIBRDKAFKA} else None


def other_lead_of(group: GroupSnapshot, removed_member_ids: Collection[str]) -> Lead | None:
    """How a leader of librdkafka would assign, where Java is assumed although some of those who stay run on librdkafka,
    which gives itself away."""
    from kgm.assignors.client.librdkafka import ASSIGNORS
    from kgm.simulation.plan.client_library import Library

    libraries = _libraries(group, removed_member_ids)
    mixed = Library.LIBRDKAFKA in libraries and len(libraries) > 1
    return _librdkafka_leads(group) if mixed and group.type == "classic" and group.assignor in ASSIGNORS else None


def _libraries(group: GroupSnapshot, removed_member_ids: Collection[str]) -> set[Library | None]:
    from kgm.simulation.plan.client_library import guess_library

    staying = [member for member in group.members if member.member_id not in removed_member_ids]
    return {guess_library(one.client_library, one.client_id, one.member_id) for one in staying}


def _librdkafka_leads(group: GroupSnapshot) -> Lead:
    from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
    from kgm.protocol.subscription import decode_assignment
    from kgm.simulation.plan.client_library import Library
    from kgm.simulation.play.leader import assignments

    capacity = map_capacity([member.member_id for member in group.in_listed_order().members]) or DEFAULT_CAPACITY

    def lead(assignor: str, members: Sequence[MemberSpec], topics: Mapping[str, int]) -> Assignment:
        blobs = assignments(assignor, members, topics, Library.LIBRDKAFKA, capacity)
        return {member_id: decode_assignment(blob).partitions for member_id, blob in blobs.items()}

    return lead


def result_json(one: MemberResult) -> dict[str, Any]:
    """One of `data.results`."""
    from kgm.operations.removal.removal import Kind

    target = one.target
    instance_id: str | None = target.id if target.kind is Kind.INSTANCE else None
    member_id: str | None = target.id if target.kind is Kind.MEMBER else None
    if target.member is not None:
        instance_id, member_id = target.member.group_instance_id, target.member.member_id
    freed = one.partitions_freed
    return {
        "group_instance_id": instance_id,
        "member_id": member_id,
        "result": str(one.result),
        "error": error_name(one.error),
        "partitions_freed": {topic: sorted(freed[topic]) for topic in sorted(freed)},
        "note": one.note,
    }


def move_json(move: Move) -> dict[str, Any]:
    """One of `data.moves_expected`."""
    return {
        "topic": move.topic,
        "partition": move.partition,
        "from": move.owner_before,
        "to": move.owner_after,
    }


def _table(results: Sequence[MemberResult], moves: tuple[Move, ...] | None) -> Table:
    from kgm.text.wording import many, moves_text, partitions_text

    columns = [
        Column(title="INSTANCE-ID"),
        Column(title="MEMBER-ID"),
        Column(title="RESULT"),
        Column(title="ERROR"),
        Column(title="FREED"),
        Column(title="NOTE"),
    ]
    rows: list[list[Cell]] = []
    for one in results:
        row = result_json(one)
        freed = partitions_text(one.partitions_freed) or None
        rows.append([row["group_instance_id"], row["member_id"], row["result"], row["error"], freed, row["note"]])
    notes = [f"{many(len(moves), 'partition')} to change hands: {moves_text(moves)}"] if moves else []
    return Table(columns=columns, rows=rows, notes=notes)

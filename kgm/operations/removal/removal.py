"""Removing members from a group: predict what will happen, send one LeaveGroup, report the result for each member.

`prepare` only reads: it describes the group, resolves the ids, watches the members for signs of life, and computes who
gets the partitions and which members the rebalance would wait for. `execute` runs a prepared removal: it writes the
intent to the audit log, sends, describes the group again, and writes the outcome. Between the two, the operator can be
asked for confirmation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kgm.assignors import is_known
from kgm.client import fresh_describe
from kgm.client.admin_client import AdminClient
from kgm.coordinator.contract.settings import listed_assignors
from kgm.model.errors import KgmError, NotFoundError, PartialError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.audit.audit_log import REMOVAL, AuditTrail
from kgm.operations.change.carrying_out import (
    INTERRUPTED_LOOK_MS,
    LOOK_MS,
    RETURN_POLL_S,
    Phase,
    carried_out,
    no_phase,
)
from kgm.operations.change.operator import HumanOperator, signed
from kgm.operations.change.record import ChangeRecord
from kgm.operations.change.report import ChangeReport, PreparedChange, summary_of
from kgm.operations.change.result import Result
from kgm.operations.groups.refused_sessions import MAX_SESSION, MIN_SESSION
from kgm.operations.removal import consequences, guard
from kgm.operations.removal.guard import GuardReport, GuardWatch
from kgm.operations.removal.liveness import Liveness, LivenessVerdict
from kgm.operations.removal.outcome import MemberResult, nothing_changed, planned_results, results_of_run
from kgm.operations.removal.plan import RemovalPlan, Target, check_supported, resolve, threads_of
from kgm.operations.removal.preview import ExpectedMoves, preview_moves, unknown_moves
from kgm.operations.removal.request import RemovalRequest
from kgm.operations.removal.returns import longest_return_ms
from kgm.operations.removal.send import REASON_VERSION, LeaveGroupSender
from kgm.operations.removal.verification import second_look
from kgm.operations.removal.verification.later_descriptions import LaterDescriptions
from kgm.operations.removal.verification.second_look import StaleLivenessError
from kgm.simulation.plan.server_assignors import OFFERED, SERVER_ASSIGNORS
from kgm.simulation.plan.starting_group import with_stated_library
from kgm.text.wording import group_command

_REFUSED: Final = unknown_moves("members will be refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRemoval(PreparedChange[MemberResult]):
    """What a removal would do, and whether it is allowed.

    moves: who gets which partitions, as far as that is known. described: the group as of then; None if it could not be
    described again. watch: the watch that gave the verdicts and looks again
    before a request is sent; None if there is no member to remove."""

    request: RemovalRequest
    plan: RemovalPlan
    guard: GuardReport
    moves: ExpectedMoves
    watch: GuardWatch | None = field(default=None, repr=False, compare=False)
    described: GroupSnapshot | None = field(default=None, repr=False, compare=False)

    def with_verdicts(self, report: GuardReport, refusal: RefusedError | None) -> PreparedRemoval:
        """The same removal with later verdicts, which may refuse it."""
        return replace(self, guard=report, refusal=refusal)

    @property
    def liveness(self) -> Mapping[str, Liveness]:
        return self.guard.liveness

    @property
    def results(self) -> list[MemberResult]:
        rows = planned_results(self.plan, self.liveness)
        if self.refusal is None:
            return rows
        forbidden = {member_id for member_id in self.plan.member_ids if self.is_forbidden(member_id)}
        return [
            replace(one, result=Result.REFUSED, note=f"{one.liveness.verdict}: {one.liveness.why}")
            if one.target.member is not None and one.target.member.member_id in forbidden
            else one
            for one in rows
        ]

    def is_forbidden(self, member_id: str) -> bool:
        """Whether the operator did not allow the removal of a member with this verdict."""
        match self.guard.verdict_of(member_id):
            case LivenessVerdict.ALIVE:
                return not self.request.allow_live
            case LivenessVerdict.UNKNOWN:
                return not self.request.assume_stopped
            case LivenessVerdict.STOPPED:
                return False

    def summary(self, results: Sequence[MemberResult], code: int, *, is_dry_run: bool) -> KgmError:
        removed = sum(one.result is Result.REMOVED for one in results)
        rest = [one for one in results if one.result not in (Result.REMOVED, Result.PLANNED)]
        group_id = self.request.group_id
        kept = sum(one.is_kept for one in results)
        returned = sum(one.result is Result.RETURNED for one in results) - kept
        if is_dry_run and not rest:
            message = f"not all that was named is in group {group_id!r}"
        elif is_dry_run:
            message = f"{len(rest)} of {len(results)} members of group {group_id!r} would not be removed"
        elif returned:
            message = f"{returned} of {len(results)} members of group {group_id!r} came back"
        elif kept:
            message = (
                f"{kept} of {len(results)} members of group {group_id!r} are still there: the coordinator moved before "
                "their removal was complete"
            )
        elif removed:
            message = f"{removed} of {len(results)} members of group {group_id!r} were removed"
        elif code == PartialError.exit_code:
            message = f"the outcome is unknown for members of group {group_id!r}"
        else:
            message = f"nothing was removed from group {group_id!r}"
        error = summary_of(message, code, rest, self.errors, group_id)
        if kept:
            error.hint = "run the command again: the new coordinator does not know of the removal"
        return error


# -- before ------------------------------------------------------------------------------------------------------------


def prepare(
    cluster: AdminClient,
    request: RemovalRequest,
    *,
    phase: Phase = no_phase,
    clock: Callable[[], float] = time.monotonic,
) -> PreparedRemoval:  # fmt: skip
    """What the removal would do. Reads only. Watching for signs of life can take up to 30 s, or as long as the
    request says; that does not count against the cluster client's budget.

    Raises KgmError if the group cannot be described, or if its type or broker does not support such a removal;
    OtherClusterError if a connection leads to another cluster, now or until the removal is done."""
    cluster.bind_to_cluster()
    group, errors = _describe(cluster, request)
    plan = resolve(request, group)
    if group is not None and not request.ignore_missing:
        errors += _without_threads(request.processes, group)
    if not plan.targets and group is not None and not request.ignore_missing and request.patterns:
        patterns = ", ".join(request.patterns)
        errors.append(
            NotFoundError(f"no member of group {group.group_id!r} matches {patterns}", group_id=group.group_id)
        )
    check_supported(cluster, plan)
    report, moves = GuardReport(liveness={}), ExpectedMoves(moves=None)
    warnings = [f"{name} is given more than once; it is removed once" for name in plan.repeated]
    refusal = watch = None
    if group is not None and plan.present:
        _as_stated(group, request)  # what kgm does not know is refused before it watches
        watch = _watch_of(cluster, group, plan, request, clock)
        with phase("looking for signs of life"):
            report = watch.run()
        cluster.go_on()
        plan = plan.without(report.left)
        refusal = guard.decide(request, plan, report)
        outage = _refusal_warning(cluster, group, plan, report)
        moves = _moves(cluster, watch.latest, plan, request) if outage is None else _REFUSED
        warnings += [*([] if outage is None else [outage]), *_warnings(cluster, group, plan, report)]
    return PreparedRemoval(
        request=request, plan=plan, guard=report, moves=moves, warnings=tuple(warnings),
        errors=tuple(errors), refusal=refusal, watch=watch, described=None if watch is None else watch.latest,
    )  # fmt: skip


def _as_stated(group: GroupSnapshot, request: RemovalRequest) -> GroupSnapshot:
    """The group with what the operator states about it. Raises UsageError for a library or an assignor that kgm does
    not know."""
    are_known = request.assignor is None or is_known(request.assignor)
    if not are_known and (group.type != "consumer" or request.assignor not in SERVER_ASSIGNORS):
        raise UsageError(f"--assignor: kgm does not know {request.assignor!r}")
    # What the group had before says nothing about the lists that the operator states.
    named = replace(group, assignor=request.assignor, earlier_assignors=()) if request.assignor is not None else group
    return with_stated_library(named, request.library)


def _moves(
    cluster: AdminClient, group: GroupSnapshot | None, plan: RemovalPlan, request: RemovalRequest
) -> ExpectedMoves:  # fmt: skip
    """group: as it was described after the watch, because it may have changed meanwhile; None if it was not."""
    if not plan.present:
        return ExpectedMoves(moves=())
    if group is None:
        return unknown_moves("the group could not be described again after the watch")
    try:
        (stated,) = cluster.offsets.with_similar_topics([_as_stated(group, request)], cluster.deadline)
    except KgmError as error:
        return unknown_moves(error.message)
    return preview_moves(
        stated, plan.member_ids, undescribed_topics=cluster.offsets.undescribed_topics,
        default_assignor=_default_assignor(cluster, stated), stated_assignor=request.assignor,
    )  # fmt: skip


def _rests_on(group: GroupSnapshot | None) -> object:
    """What the preview of the moves rests on and what may change before a request is sent."""
    if group is None:
        return None
    members = [(one.member_id, one.topics, one.regex, one.assignment, one.target_assignment) for one in group.members]
    return group.state, group.assignor, group.topics, group.deleted_topics, group.earlier_assignors, members


def _refusal_warning(
    cluster: AdminClient, group: GroupSnapshot, plan: RemovalPlan, report: GuardReport
) -> str | None:  # fmt: skip
    """A warning if the broker refuses members that stay when they rejoin, as far as it reports its limits."""
    if group.type != "classic" or not plan.present:
        return None
    settings = cluster.broker_settings(group.group_id, [MIN_SESSION, MAX_SESSION])
    return consequences.refusal_warning(group, plan.member_ids, report, settings)


def _default_assignor(cluster: AdminClient, group: GroupSnapshot) -> str:
    """The one that the broker gives a consumer group for which no member asks, the class of a custom one; Kafka's
    default if that cannot be read."""
    setting = cluster.broker_settings(group.group_id, [OFFERED]).get(OFFERED, "") if group.type == "consumer" else ""
    return (listed_assignors(setting) or SERVER_ASSIGNORS)[0]


def _without_threads(processes: Iterable[str], group: GroupSnapshot) -> list[NotFoundError]:
    """An error for each process of which no member is known to be a thread."""
    is_seen = group.state == "Stable"
    why = (
        "a process that it does not have is no member any more"
        if is_seen
        else "processes are visible only while it is Stable"
    )
    return [
        NotFoundError(
            f"no member of group {group.group_id!r} is known to be a thread of a Kafka Streams process {process!r}",
            facts=[f"the group is {group.state}; {why}"],
            hint=group_command("describe", group.group_id),
            group_id=group.group_id,
        )
        for process in processes
        if not threads_of(process, group.members)
    ]


def _describe(cluster: AdminClient, request: RemovalRequest) -> tuple[GroupSnapshot | None, list[KgmError]]:
    names = (*request.instance_ids, *request.identities)
    try:
        if names:
            return fresh_describe.describe_fresh(cluster, request.group_id, names), []
        return fresh_describe.describe_twice(cluster, request.group_id), []
    except NotFoundError as error:
        cluster.name_similar_groups([error])
        return None, [error]  # --ignore-missing is about members only


def _watch_of(
    cluster: AdminClient, group: GroupSnapshot, plan: RemovalPlan, request: RemovalRequest, clock: Callable[[], float]
) -> GuardWatch:
    also = [one.member_id for one in consequences.static_members_that_stay(group, plan.member_ids)]
    return GuardWatch(
        cluster, group, plan.member_ids, also=also, window_ms=request.guard_window_ms,
        stop_when_alive=not request.allow_live, clock=clock,
    )  # fmt: skip


def _warnings(cluster: AdminClient, group: GroupSnapshot, plan: RemovalPlan, report: GuardReport) -> list[str]:
    warnings = consequences.stall_warnings(group, plan.member_ids, report) if plan.present else []
    warnings += consequences.task_warnings(group, [one.identity for one in plan.members])
    if consequences.stay_only_classic(group, plan.member_ids):
        names = [consequences.MIGRATION_POLICY, consequences.CLASSIC_MAX_SIZE]
        settings = cluster.broker_settings(group.group_id, names)
        warning = consequences.classic_only_warning(group, plan.member_ids, settings)
        warnings += [warning] if warning is not None else []
    return warnings


# -- doing it ----------------------------------------------------------------------------------------------------------


def execute(
    cluster: AdminClient, prepared: PreparedRemoval, *, operator: HumanOperator, audit: AuditTrail | None,
    phase: Phase = no_phase, sleep: Callable[[float], None] | None = None, clock: Callable[[], float] = time.monotonic,
) -> ChangeReport[MemberResult]:  # fmt: skip
    """Check again, run the removal, check its effect, and return the result for each id. audit: None to write no
    record.

    Raises KgmError only if nothing can have changed: RefusedError if a guard forbids it or the intent cannot be
    recorded (StaleLivenessError if members are no longer known to have stopped), others if no request was sent, or if
    one was answered with an error and every member is still in the group. After a request was sent, Ctrl-C leads to a
    report as well, or to a PartialError if there is no report yet."""
    group_id = prepared.request.group_id
    if prepared.refusal is not None:
        raise prepared.refusal
    if not prepared.plan.present:
        return prepared.report(prepared.results)
    reason = signed(prepared.request.reason, operator)
    record = ChangeRecord(
        audit, operator, cluster, action=REMOVAL, nothing=f"nothing was removed from group {group_id!r}", reason=reason,
        rows=[_recorded(one, prepared) for one in prepared.plan.members],
    )  # fmt: skip
    run = _Execution(cluster, prepared, record, reason, phase, sleep, clock)
    return carried_out(
        run.run, lambda: run.was_sent, record, unknown=f"which members of group {group_id!r} were removed",
        hint=group_command("describe", group_id), group_id=group_id,
    )  # fmt: skip


def _recorded(member: MemberSnapshot, prepared: PreparedRemoval) -> dict[str, Any]:
    """What the audit log records about a member to be removed."""
    liveness = prepared.liveness.get(member.member_id)
    return {
        "group_id": prepared.request.group_id, "group_instance_id": member.group_instance_id,
        "member_id": member.member_id, "client_id": member.client_id, "client_host": member.client_host,
        "verdict": None if liveness is None else str(liveness.verdict),
        "evidence": [] if liveness is None else [*liveness.evidence],
    }  # fmt: skip


def _longest_return_ms(group: GroupSnapshot, rows: Iterable[MemberResult]) -> int:
    """For how long any of these members may still come back; 0 if it is known of all what became of them."""
    awaited = [one.target.member for one in rows if one.result is Result.REMOVED]
    return max((longest_return_ms(group, one) for one in awaited if one is not None), default=0)


class _Execution:
    """Runs a removal, from the first request to the outcome in the audit log."""

    def __init__(
        self, cluster: AdminClient, prepared: PreparedRemoval, record: ChangeRecord, reason: str, phase: Phase,
        sleep: Callable[[float], None] | None, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._sleep, self._now_s = sleep or time.sleep, clock
        self._cluster, self._prepared, self._record, self._phase = cluster, prepared, record, phase
        self._plan = prepared.plan
        self._interrupted = False
        self._sender = LeaveGroupSender(
            cluster, self._plan.group_id, reason=reason, evict=prepared.request.allow_live, sleep=sleep,
            before_retry=self._look_before_retry,
        )  # fmt: skip
        self._later = LaterDescriptions(cluster, self._plan, self._sender)

    @property
    def was_sent(self) -> bool:
        return self._sender.was_sent

    def run(self) -> ChangeReport[MemberResult]:
        left = self._look_again()
        try:
            self._sender.send([one for one in self._plan.present if one.member_id not in left])
        except KeyboardInterrupt:
            if not self._sender.was_sent:
                raise
            self._interrupted = True
        results = self._results(INTERRUPTED_LOOK_MS if self._interrupted else self._look_ms())
        error = nothing_changed(results, self._sender)
        if error is not None and not self._interrupted:
            raise error
        results = self._wait_for_returns(results)
        present = [one for one in results if one.target.member is not None]
        self._record.write_results([(one.result, one.error, one.note) for one in present])
        return self._prepared.report(
            results, self._warnings(), interrupted=self._interrupted, unrecorded_because=self._record.unwritten_because
        )

    def _look_again(self) -> frozenset[str]:
        """The ids of members that have left since. Raises KgmError if nothing may be sent."""
        watch = self._prepared.watch
        if watch is None:
            return frozenset()
        with self._phase("looking again"):
            report = second_look.look_again(
                self._cluster, self._prepared.request, self._plan, watch, clock=self._now_s
            )  # fmt: skip
        before, latest = self._prepared.described, watch.latest
        self._prepared = self._prepared.with_verdicts(report, None)
        if _rests_on(before) != _rests_on(latest) and self._prepared.moves != _REFUSED:
            moves = _moves(self._cluster, latest, self._plan.without(report.left), self._prepared.request)
            self._prepared = replace(self._prepared, moves=moves, described=latest)
        return report.left

    def _look_before_retry(self, batch: list[Target]) -> list[Target]:
        """Members for which the request may be sent again. Raises StaleLivenessError if the verdicts no longer allow
        it; other KgmErrors if the group cannot be described."""
        watch = self._prepared.watch
        if watch is None:
            return batch
        if not self._sender.lost.isdisjoint(batch):
            return self._look_after_loss(batch, watch)
        stale: StaleLivenessError | None = None
        try:
            left = self._look_again()
        except StaleLivenessError as error:
            self._prepared = self._prepared.with_verdicts(error.report, None)
            left, stale = error.report.left, error
        there = [one for one in batch if one.member_id not in left]
        self._sender.see_not_carried_out(one for one in there if one.member_id not in self._prepared.guard.replaced)
        if stale is not None:
            raise stale
        return there

    def _look_after_loss(self, batch: list[Target], watch: GuardWatch) -> list[Target]:
        """Members for which a request whose answer was lost may be sent again: those that are still there, and whose
        verdicts still allow it. What became of the others is judged by a later description.

        A member that was removed and is back has a new member id in a classic group, so the broker notices; in a
        consumer group it has the same id, but has shown signs of life since."""
        report = watch.look_again()
        there = [one for one in batch if one.member_id not in report.left]
        before = self._prepared.guard
        # The partitions of members that are gone may have other owners, whose commits say nothing about them.
        liveness = {one.member_id: report.liveness[one.member_id] for one in there if one.member_id is not None}
        self._prepared = replace(self._prepared, guard=replace(before, liveness={**before.liveness, **liveness}))
        is_consumer = self._plan.group is not None and self._plan.group.type == "consumer"
        return [
            one
            for one in there
            if one.member_id is not None
            and not self._prepared.is_forbidden(one.member_id)
            and not (is_consumer and report.verdict_of(one.member_id) is LivenessVerdict.ALIVE)
        ]

    def _look_ms(self) -> float:
        """How long the look after a request may take: what is left of `--timeout`, and no less than `LOOK_MS`."""
        return max(self._cluster.deadline.remaining() * 1000, LOOK_MS)

    def _results(self, budget_ms: float) -> list[MemberResult]:
        """The result for each id, from the responses and the group's current description."""
        self._cluster.go_on(budget_ms)
        after: GroupSnapshot | KgmError
        try:
            after = self._later.describe()
        except KeyboardInterrupt:
            after, self._interrupted = KgmError("interrupted"), True  # what is known is still reported
        return results_of_run(self._plan, self._sender, after, self._prepared.guard)

    def _wait_for_returns(self, results: list[MemberResult]) -> list[MemberResult]:
        """Members that may be alive rejoin with their next heartbeat, or as late as their library does, so wait that
        long. A member that left with the intention to return is known to be silent; every other verdict is inferred,
        and can be wrong."""
        group = self._plan.group
        if group is None or self._interrupted:
            return results
        suspects = [one for one in results if one.result is Result.REMOVED and not one.liveness.was_seen]
        if not suspects:
            return results
        group, sent_s = with_stated_library(group, self._prepared.request.library), self._now_s()
        try:
            with self._phase("waiting for members that rejoin"):
                while (left_s := sent_s + _longest_return_ms(group, suspects) / 1000 - self._now_s()) > 0:
                    self._sleep(min(RETURN_POLL_S, left_s))
                    results = self._results(LOOK_MS)
                    targets = {one.target for one in suspects}
                    suspects = [one for one in results if one.target in targets]
        except KeyboardInterrupt:
            self._interrupted = True
        return results

    def _warnings(self) -> tuple[str, ...]:
        if self._sender.version is not None and self._sender.version < REASON_VERSION:
            return ("this broker takes no reason (LeaveGroup v5, Kafka 3.2); it was left out",)
        return ()

"""A prepared removal, checked again immediately before it is sent.

A verdict is about the past. The preview, the operator's answer, and the audit log come between it and the request: a
member that was away may have subscribed again, and a paused process may have resumed. So the watch that gave the
verdict looks once more, and if more time has passed than it watched for, the watch is repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from kgm.client import fresh_describe
from kgm.client.admin_client import AdminClient
from kgm.model.errors import NotFoundError, RefusedError
from kgm.operations.change.carrying_out import StaleVerdictError
from kgm.operations.removal import guard
from kgm.operations.removal.guard import GuardReport, GuardWatch
from kgm.operations.removal.liveness import Liveness, LivenessVerdict
from kgm.operations.removal.plan import RemovalPlan
from kgm.operations.removal.request import RemovalRequest


class StaleLivenessError(StaleVerdictError):
    """Members are no longer known to have stopped. report: the current verdicts."""

    def __init__(self, refusal: RefusedError, report: GuardReport) -> None:
        super().__init__(refusal)
        self.report = report


def look_again(
    cluster: AdminClient, request: RemovalRequest, plan: RemovalPlan, watch: GuardWatch, *,
    clock: Callable[[], float] = time.monotonic,
) -> GuardReport:  # fmt: skip
    """The current verdicts for a plan; `watch` gave the earlier ones. Raises StaleLivenessError if they forbid the
    removal, RefusedError if the group has a different type, another KgmError if it cannot be described: in each case
    nothing may be sent."""
    is_outdated = watch.is_outdated
    report = watch.look_again()
    if is_outdated and not _living(report, plan):
        repeated = _watch_again(cluster, request, plan.without(report.left), clock)
        watch.note_repeated()
        report = _with_life_from(watch.look_again(), repeated, plan)
    refusal = guard.decide(request, plan.without(report.left), report)
    if refusal is not None:
        raise StaleLivenessError(refusal, report)
    return report


def _watch_again(
    cluster: AdminClient, request: RemovalRequest, plan: RemovalPlan, clock: Callable[[], float]
) -> GuardReport:
    """Describe and watch the group again, as `prepare` did. Raises KgmError."""
    names = [one.group_instance_id for one in plan.members if one.group_instance_id is not None]
    try:
        group = fresh_describe.describe_fresh(cluster, plan.group_id, names)
    except NotFoundError:
        return GuardReport(liveness={}, left=plan.member_ids)
    watch = GuardWatch(
        cluster, group, plan.member_ids, window_ms=request.guard_window_ms, stop_when_alive=not request.allow_live,
        clock=clock,
    )  # fmt: skip
    return watch.run()


def _living(report: GuardReport, plan: RemovalPlan) -> dict[str, Liveness]:
    """Members to be removed that are alive, by member id."""
    return {
        member_id: report.liveness[member_id]
        for member_id in plan.member_ids
        if report.verdict_of(member_id) is LivenessVerdict.ALIVE
    }


def _with_life_from(last: GuardReport, repeated: GuardReport, plan: RemovalPlan) -> GuardReport:
    """The verdicts of the repeated watch, except for members that have shown signs of life since the first one."""
    return replace(
        repeated, liveness={**repeated.liveness, **_living(last, plan)}, left=repeated.left | last.left,
        replaced=repeated.replaced | last.replaced, seen=repeated.seen | last.seen,
    )  # fmt: skip

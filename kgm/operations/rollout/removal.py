"""The LeaveGroup of a step that removes members: the same plan, guard and audit log as `kgm remove-members`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kgm.client.admin_client import AdminClient
from kgm.model.errors import KgmError, PartialError
from kgm.operations.audit.audit_log import AuditTrail
from kgm.operations.change.carrying_out import InterruptedChangeError
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.report import ChangeReport
from kgm.operations.removal import guard, removal
from kgm.operations.removal.liveness import SESSION_MARGIN_MS
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.removal import PreparedRemoval
from kgm.operations.removal.request import RemovalRequest
from kgm.text.names import in_order
from kgm.text.wording import some

SCALE_IN = "scale-in by kgm rollout"
RESTART = "restart by kgm rollout"
#: How often to watch, at most: what happens in the group during a watch, such as a rebalance, can make it worthless.
_MOST_WATCHES = 3


class InterruptedRemoval(KeyboardInterrupt):
    """kgm was interrupted after a LeaveGroup was sent. error: which members may not be gone, and why."""

    def __init__(self, error: KgmError) -> None:
        super().__init__(error.message)
        self.error = error


def prepare_removal(
    cluster: AdminClient, group_id: str, identities: Sequence[str], *, reason: str, assume_stopped: bool,
    session_timeout_ms: int | None, on_wait: Callable[[int], None],
) -> PreparedRemoval:  # fmt: skip
    """What one LeaveGroup would remove, after the members' commands have stopped them. If the guard does not yet know
    whether they have stopped, it watches for as long as it takes to know.

    session_timeout_ms: the members', used if the guard cannot read it; None: not known. on_wait: called before such a
    watch, with its length in ms. Raises KgmError if the group cannot be described, RefusedError if a member may be
    alive."""
    request = RemovalRequest(
        group_id=group_id, identities=tuple(identities), reason=reason, assume_stopped=assume_stopped,
        ignore_missing=True,
    )  # fmt: skip
    prepared = removal.prepare(cluster, request)
    for _ in range(_MOST_WATCHES):
        window_ms = _missing_window_ms(prepared, session_timeout_ms)
        if window_ms is None:
            break
        on_wait(window_ms)
        prepared = removal.prepare(cluster, replace(request, guard_window_ms=window_ms))
    if prepared.refusal is not None:
        raise prepared.refusal
    return prepared


def refuse_returned(prepared: PreparedRemoval, stopped: Mapping[str, str]) -> None:
    """A command that has stopped a process says nothing about one that has joined since with its instance id. stopped:
    the member ids of the processes that were stopped, by identity. Raises PartialError if a member has another one."""
    returned = [one for one in prepared.plan.members if stopped.get(one.identity) != one.member_id]
    if returned:
        names = in_order(one.identity for one in returned)
        raise PartialError(
            f"nothing was removed: {some(names)} joined again after being stopped",
            facts=[f"{one.identity} is now member {one.member_id}" for one in returned],
            group_id=prepared.request.group_id,
        )


def _missing_window_ms(prepared: PreparedRemoval, session_timeout_ms: int | None) -> int | None:
    """How long the guard has to watch, in ms, if that is all that is missing for the removal; None if watching does not
    help."""
    request, plan, report = prepared.request, prepared.plan, prepared.guard
    if prepared.refusal is None or guard.missing_flags(request, plan, report) != (guard.ASSUME_STOPPED,):
        return None
    window_ms = guard.proof_window_ms(plan, report)
    if window_ms is not None or session_timeout_ms is None:
        return window_ms
    return session_timeout_ms + 2 * SESSION_MARGIN_MS


def execute_removal(
    cluster: AdminClient, prepared: PreparedRemoval, operator: HumanOperator, audit: AuditTrail | None
) -> ChangeReport[MemberResult]:
    """Remove the members. Raises PartialError unless all are gone, InterruptedRemoval if kgm was interrupted before
    they were known to be."""
    try:
        report = removal.execute(cluster, prepared, operator=operator, audit=audit)
    except InterruptedChangeError as error:
        raise InterruptedRemoval(error) from error
    except KgmError as error:
        raise PartialError(
            f"members were stopped but not removed: {error.message}", facts=error.facts, hint=error.hint,
            group_id=prepared.request.group_id,
        ) from error  # fmt: skip
    if report.error is not None and report.interrupted:
        raise InterruptedRemoval(report.error)
    if report.error is not None:
        raise PartialError(
            report.error.message, facts=report.error.facts, hint=report.error.hint, group_id=prepared.request.group_id
        )
    return report

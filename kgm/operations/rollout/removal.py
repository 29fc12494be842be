"""The LeaveGroup of a step that removes members: the same plan, guard and audit log as `kgm remove-members`."""

from __future__ import annotations

from collections.abc import Sequence

from kgm.client.admin_client import AdminClient
from kgm.model.errors import KgmError, PartialError
from kgm.operations.removal import removal
from kgm.operations.removal.audit_log import AuditTrail
from kgm.operations.removal.operator import HumanOperator
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.removal import PreparedRemoval
from kgm.operations.removal.request import RemovalRequest

SCALE_IN = "scale-in by kgm rollout"
RESTART = "restart by kgm rollout"


def prepare_removal(
    cluster: AdminClient, group_id: str, identities: Sequence[str], *, reason: str, assume_stopped: bool
) -> PreparedRemoval:
    """What one LeaveGroup would remove, after the members' commands have stopped them. Raises KgmError if the group
    cannot be described, RefusedError if a member may be alive."""
    request = RemovalRequest(
        group_id=group_id, identities=tuple(identities), reason=reason, assume_stopped=assume_stopped,
        ignore_missing=True,
    )  # fmt: skip
    prepared = removal.prepare(cluster, request)
    if prepared.refusal is not None:
        raise prepared.refusal
    return prepared


def execute_removal(
    cluster: AdminClient, prepared: PreparedRemoval, operator: HumanOperator, audit: AuditTrail | None
) -> tuple[MemberResult, ...]:
    """The result of each member. Raises PartialError unless all are gone."""
    try:
        report = removal.execute(cluster, prepared, operator=operator, audit=audit)
    except KgmError as error:
        raise PartialError(
            f"members were stopped and not removed: {error.message}", facts=error.facts, hint=error.hint,
            group_id=prepared.request.group_id,
        ) from error  # fmt: skip
    if report.error is not None:
        raise PartialError(
            report.error.message, facts=report.error.facts, hint=report.error.hint, group_id=prepared.request.group_id
        )
    return report.results

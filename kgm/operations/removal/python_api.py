"""`kgm.plan_removal` and `kgm.execute_removal`: what `kgm remove-members` does, for Python."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kgm.client.admin_client import AdminClient
from kgm.operations.audit.audit_log import AuditLog, default_path
from kgm.operations.change.operator import current_operator
from kgm.operations.change.report import ChangeReport
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.removal import PreparedRemoval
from kgm.operations.removal.request import DEFAULT_REASON, RemovalRequest


def plan_removal(
    cluster: AdminClient, group_id: str, *, instance_ids: Iterable[str] = (), member_ids: Iterable[str] = (),
    patterns: Iterable[str] = (), reason: str = DEFAULT_REASON, allow_live: bool = False, assume_stopped: bool = False,
    guard_window_ms: int | None = None,
) -> PreparedRemoval:  # fmt: skip
    """What a removal would do, and whether a guard forbids it. Only reads. It watches the members for signs of life for
    `guard_window_ms`; by default for 6 s, and up to 30 s if that can prove more.

    patterns: globs on instance ids, and on member ids of dynamic members. allow_live: members that are alive may be
    removed; assume_stopped: the caller knows that members whose verdict is unknown have stopped. A member without the
    flag that its verdict requires is refused, and the whole batch with it: see `refusal` and `liveness` in the result.

    Raises UsageError if no member is named, and KgmError if the cluster does not answer. A group that does not exist is
    reported in `errors` of the result."""
    request = RemovalRequest(
        group_id=group_id, instance_ids=tuple(instance_ids), member_ids=tuple(member_ids), patterns=tuple(patterns),
        reason=reason, allow_live=allow_live, assume_stopped=assume_stopped, guard_window_ms=guard_window_ms,
    )  # fmt: skip
    return removal.prepare(cluster, request)


def execute_removal(
    cluster: AdminClient, prepared: PreparedRemoval, *, audit: bool = True
) -> ChangeReport[MemberResult]:
    """Remove the members with one LeaveGroup (KIP-345), describe the group again, and report the result for each.

    audit: record the removal in the audit log of `kgm audit`, before it is sent and afterwards.

    Raises KgmError only if nothing has changed: RefusedError if a guard forbids the removal, or it cannot be recorded.
    A lost answer is not an error: a member's result is `unknown` if the group does not show the outcome."""
    log = AuditLog(default_path(os.environ)) if audit else None
    if log is not None and prepared.plan.present and prepared.refusal is None:
        log.prepare()
    return removal.execute(cluster, prepared, operator=current_operator(), audit=log)

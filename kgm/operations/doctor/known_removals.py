"""Removals recorded in this machine's audit log: a member that kgm removed did not leave on its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from kgm.model.errors import KgmError
from kgm.operations.audit.audit_log import REMOVAL, AuditLog, default_path

#: Results for members that stayed, or were not there.
_NOT_REMOVED = frozenset({"planned", "absent", "refused", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRemoval:
    """A static member that kgm removed, or may have removed. at_ms: when the request was sent, by this machine's
    clock."""

    cluster_id: str | None
    group_id: str
    group_instance_id: str
    at_ms: int

    def is_of(self, cluster_id: str | None, group_id: str) -> bool:
        """Whether the removal belongs to this group; a cluster id that is not known matches any."""
        return self.group_id == group_id and (None in (cluster_id, self.cluster_id) or cluster_id == self.cluster_id)


def known_removals(environment: Mapping[str, str]) -> tuple[KnownRemoval, ...]:
    """The removals in the audit log; empty if there is no readable log."""
    try:
        removals = AuditLog(default_path(environment)).read().removals
    except (KgmError, OSError):
        return ()
    known = []
    for one in removals:
        if one.action != REMOVAL:
            continue  # a member restarted by a rollout
        group_id, name, at_ms = one.group_id, one.group_instance_id, _milliseconds(one.time)
        if group_id is None or name is None or at_ms is None or one.result in _NOT_REMOVED:
            continue
        known.append(KnownRemoval(cluster_id=one.cluster_id, group_id=group_id, group_instance_id=name, at_ms=at_ms))
    return tuple(known)


def _milliseconds(text: str) -> int | None:
    """An RFC 3339 time, as ms since the epoch."""
    try:
        return round(dt.datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None

"""The cluster, the journal, the audit log, and what else a rollout works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kgm.client.admin_client import AdminClient
from kgm.operations.audit.audit_log import AuditTrail
from kgm.operations.change.operator import HumanOperator
from kgm.operations.rollout.events import RolloutObserver
from kgm.operations.rollout.journal import RolloutJournal
from kgm.operations.rollout.observation import GroupObservation
from kgm.operations.watch.timekeeper import Timekeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTools:
    """timeout_ms: how long a description or a removal may take. environment: what commands inherit.
    interrupted_code: returns what kgm exits with after an interruption."""

    cluster: AdminClient
    observation: GroupObservation
    journal: RolloutJournal
    observer: RolloutObserver
    timekeeper: Timekeeper
    operator: HumanOperator
    audit: AuditTrail | None
    timeout_ms: int
    environment: Mapping[str, str]
    interrupted_code: Callable[[], int]

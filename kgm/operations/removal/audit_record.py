"""The record of one removal in the audit log: an intent before it is sent, an outcome after it.

A removal that cannot be recorded is not sent. After it was sent, the results are reported whether or not they can be
recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kgm.client.admin_client import AdminClient
from kgm.model.errors import KgmError, RefusedError, error_name
from kgm.operations.removal.audit_log import UNKNOWN, AuditTrail, intents, outcomes
from kgm.operations.removal.liveness import Liveness
from kgm.operations.removal.operator import HumanOperator
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.plan import RemovalPlan


class RemovalRecord:
    """The record of one run. Without a log (`--no-audit`) nothing is written."""

    def __init__(
        self, log: AuditTrail | None, operator: HumanOperator, cluster: AdminClient, plan: RemovalPlan,
        liveness: Mapping[str, Liveness], reason: str,
    ) -> None:  # fmt: skip
        self._log, self._plan = log, plan
        self._run = os.urandom(8).hex()
        self._common = {
            "operator": operator.name, "uid": operator.uid, "host": operator.host, "pid": os.getpid(),
            "cluster_id": cluster.cluster_id, "bootstrap": cluster.bootstrap, "group_id": plan.group_id,
            "reason": reason,
        }  # fmt: skip
        self._members = [
            {
                "group_instance_id": member.group_instance_id, "member_id": member.member_id,
                "client_id": member.client_id, "client_host": member.client_host,
                **_liveness(liveness.get(member.member_id)),
            }
            for member in plan.members
        ]  # fmt: skip
        #: Why the outcome is not in the log; None if it is, or nothing was written yet.
        self.unwritten_because: str | None = None

    def write_intent(self) -> None:
        """Raises RefusedError: then nothing may be sent."""
        if self._log is None:
            return
        try:
            self._log.append(intents(self._run, self._members, self._common))
        except KgmError as error:
            error.message += f": nothing was removed from group {self._plan.group_id!r}"
            error.group_id = self._plan.group_id
            raise

    def write_results(self, results: Sequence[MemberResult]) -> None:
        """The result of each member; ids that no member had are not recorded."""
        present = [one for one in results if one.target.member is not None]
        self._write([_outcome(str(one.result), error_name(one.error), one.note) for one in present])

    def write_failure(self, error: KgmError) -> None:
        """Nothing was changed."""
        outcome = _outcome("failed", error.json_code, f"nothing was changed: {error.message}")
        self._write([outcome] * len(self._members))

    def write_refusal(self, error: RefusedError) -> None:
        """The guard has refused it after all, and nothing was sent."""
        self._write([_outcome("refused", None, "; ".join((error.message, *error.facts)))] * len(self._members))

    def write_unknown(self, why: str) -> None:
        """Kgm ends without knowing the results."""
        self._write([_outcome(UNKNOWN, None, why)] * len(self._members))

    def _write(self, member_outcomes: Sequence[Mapping[str, Any]]) -> None:
        if self._log is None:
            return
        lines = [{**member, **outcome} for member, outcome in zip(self._members, member_outcomes, strict=True)]
        try:
            self._log.append(outcomes(self._run, lines, self._common))
        except KgmError as error:
            self.unwritten_because = "; ".join(error.facts)


def _liveness(liveness: Liveness | None) -> dict[str, Any]:
    if liveness is None:
        return {"verdict": None, "evidence": []}
    return {"verdict": str(liveness.verdict), "evidence": list(liveness.evidence)}


def _outcome(result: str, error: str | None, note: str | None) -> dict[str, Any]:
    return {"result": result, "error": error, "note": note}

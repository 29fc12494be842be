"""The record of one change in the audit log: an intent before it is sent, an outcome after it.

A change that cannot be recorded is not sent. Once it is sent, its results are reported even if they cannot be
recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kgm.client.admin_client import AdminClient
from kgm.model.errors import KgmError, RefusedError, error_name
from kgm.operations.audit.audit_log import UNKNOWN, AuditTrail, intents, outcomes
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.result import Result


class ChangeRecord:
    """The record of one run. Without a log (`--no-audit`) nothing is written.

    action: what was done, as `kgm audit` names it. rows: the ids of each target, and why it may be changed. nothing: a
    clause for the error message that says what was not done if the intent cannot be written."""

    def __init__(
        self, log: AuditTrail | None, operator: HumanOperator, cluster: AdminClient, *, action: str, nothing: str,
        reason: str, rows: Sequence[Mapping[str, Any]],
    ) -> None:  # fmt: skip
        self._log, self._nothing, self._rows = log, nothing, rows
        self._run = os.urandom(8).hex()
        self._common = {
            "action": action, "operator": operator.name, "uid": operator.uid, "host": operator.host, "pid": os.getpid(),
            "cluster_id": cluster.cluster_id, "bootstrap": cluster.bootstrap, "reason": reason,
        }  # fmt: skip
        #: Why the outcome is not in the log; None if it is, or nothing was written yet.
        self.unwritten_because: str | None = None

    def write_intent(self) -> None:
        """Raises RefusedError if the log cannot be written: nothing may be sent then."""
        if self._log is None:
            return
        try:
            self._log.append(intents(self._run, self._rows, self._common))
        except KgmError as error:
            self._log = None  # what was not recorded needs no outcome
            error.message += f": {self._nothing}"
            error.group_id = self._rows[0].get("group_id")
            raise

    def write_results(self, results: Sequence[tuple[Result, int, str | None]]) -> None:
        """results: (result, Kafka's error code, note) for each row."""
        self._write([_outcome(str(result), error_name(code), note) for result, code, note in results])

    def write_failure(self, error: KgmError) -> None:
        """Record that the run failed and nothing was changed."""
        outcome = _outcome("failed", error.json_code, f"nothing was changed: {error.message}")
        self._write([outcome] * len(self._rows))

    def write_refusal(self, error: RefusedError) -> None:
        """Record that the guard refused the change after all, and nothing was sent."""
        self._write([_outcome("refused", None, "; ".join((error.message, *error.facts)))] * len(self._rows))

    def write_unknown(self, why: str) -> None:
        """Record that kgm ended without knowing the results."""
        self._write([_outcome(UNKNOWN, None, why)] * len(self._rows))

    def _write(self, row_outcomes: Sequence[Mapping[str, Any]]) -> None:
        if self._log is None:
            return
        lines = [{**row, **outcome} for row, outcome in zip(self._rows, row_outcomes, strict=True)]
        try:
            self._log.append(outcomes(self._run, lines, self._common))
        except KgmError as error:
            self.unwritten_because = "; ".join(error.facts)


def _outcome(result: str, error: str | None, note: str | None) -> dict[str, Any]:
    return {"result": result, "error": error, "note": note}

"""The entries of the audit log: each command with its member, before it runs and after it has ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kgm.client.admin_client import AdminClient
from kgm.model.errors import KgmError, RefusedError
from kgm.operations.audit.audit_log import AuditTrail, intents, outcomes
from kgm.operations.change.operator import HumanOperator
from kgm.operations.rollout.commands.running import CommandResult
from kgm.operations.rollout.commands.template import CommandTarget
from kgm.text.shell import shell_line

#: What `kgm audit` calls a command of a rollout.
ACTION = "rollout"
#: What to do if the log of a rollout that has begun cannot be written. Another state folder would not help: it lacks
#: the mark of the first run, without which the rollout is not resumed.
UNWRITABLE_HINT: Final = "free some space, or make it writable; --no-audit runs the commands without a record"


@dataclass(frozen=True, slots=True)
class RolloutTrail:
    """The audit log, for everything that a rollout records once it has begun."""

    log: AuditTrail

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append all of these records, or none. Raises RefusedError."""
        try:
            self.log.append(lines)
        except RefusedError as error:
            error.hint = UNWRITABLE_HINT
            raise


class CommandRecord:
    """The record of one command. Without a log (`--no-audit`) nothing is written."""

    def __init__(
        self, log: AuditTrail | None, operator: HumanOperator, cluster: AdminClient, target: CommandTarget,
        argv: Sequence[str],
    ) -> None:  # fmt: skip
        self._log = log
        self._run = os.urandom(8).hex()
        self._common = {
            "action": ACTION, "operator": operator.name, "uid": operator.uid, "host": operator.host, "pid": os.getpid(),
            "cluster_id": cluster.cluster_id, "bootstrap": cluster.bootstrap, "group_id": target.group_id,
            "reason": f"rollout, step {target.step}: {shell_line(argv)}",
        }  # fmt: skip
        self._member: dict[str, Any] = {
            "group_instance_id": target.group_instance_id, "member_id": target.member_id,
            "client_id": target.client_id, "client_host": target.host, "verdict": None, "evidence": [],
        }  # fmt: skip

    def write_intent(self) -> None:
        """Raises RefusedError if the log cannot be written: the command may not run then."""
        if self._log is not None:
            self._log.append(intents(self._run, [self._member], self._common))

    def write_result(self, result: CommandResult) -> str | None:
        """Write the result. Returns why it could not be written; None if it was."""
        if self._log is None:
            return None
        outcome = {
            "result": "done" if result.is_success else "failed",
            "error": None,
            "note": None if result.is_success else f"the command {result.text}",
        }
        try:
            self._log.append(outcomes(self._run, [{**self._member, **outcome}], self._common))
        except KgmError as error:
            return "; ".join([error.message, *error.facts])
        return None

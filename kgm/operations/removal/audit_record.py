"""Who removes, and the record of one removal: an intent before it is sent, an outcome after it.

A removal that cannot be recorded is not sent. Once it was sent, what came of it is told whether or not it can be
written down."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgm.model.errors import KgmError, error_name
from kgm.text.sanitize import clean

if TYPE_CHECKING:
    from kgm.cli.output.notices import Notices
    from kgm.client import AdminClient
    from kgm.operations.removal.audit_log import AuditLog
    from kgm.operations.removal.removal import MemberResult, RemovalPlan

#: What a name may take of the reason, which is short.
_NAME_CHARACTERS, _HOST_CHARACTERS = 40, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Whoever runs kgm: the name behind sudo, the user id that the process has, and the machine.

    A name comes from the environment and is no proof; the user id is the kernel's."""

    name: str
    uid: int
    host: str

    def __str__(self) -> str:
        return f"{clean(self.name)[:_NAME_CHARACTERS]}@{clean(self.host)[:_HOST_CHARACTERS]}"


def operator(environment: Mapping[str, str] | None = None) -> Operator:
    """SUDO_USER, else USER, else LOGNAME, else the user database."""
    environment = os.environ if environment is None else environment
    names = (environment.get(key, "").strip() for key in ("SUDO_USER", "USER", "LOGNAME"))
    name = next(filter(None, names), None) or _name_of(os.getuid())
    return Operator(name=name, uid=os.getuid(), host=os.uname().nodename or "?")


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def signed(reason: str, by: Operator) -> str:
    """The reason that the broker is told, and logs (KIP-800): whoever asked is named, and the whole is short enough."""
    from kgm.operations.removal.removal import MAX_REASON_CHARACTERS

    tail = f" (by {by})"
    room = MAX_REASON_CHARACTERS - len(tail)
    return (reason if len(reason) <= room else f"{reason[: room - 3]}...") + tail


class Record:
    """The record of one run. Without a log (--no-audit) nothing is written."""

    def __init__(self, log: AuditLog | None, voice: Notices, by: Operator) -> None:
        self._log, self._voice, self._by = log, voice, by

    def prepare(self) -> None:
        """Before anybody is asked: whether there is a log to write to. Raises RefusedError."""
        if self._log is not None:
            self._log.prepare()

    def around(
        self, cluster: AdminClient, plan: RemovalPlan, reason: str, send: Callable[[], list[MemberResult]]
    ) -> list[MemberResult]:
        """Write the intent, send, write the outcome. Raises RefusedError when nothing was sent; else as `send` does."""
        if self._log is None:
            return send()
        from kgm.operations.removal import audit_log

        run = os.urandom(8).hex()
        common = {
            "operator": self._by.name, "uid": self._by.uid, "host": self._by.host, "pid": os.getpid(),
            "cluster_id": cluster.cluster_id, "bootstrap": cluster.bootstrap, "group_id": plan.group_id,
            "reason": reason,
        }  # fmt: skip
        members = _members(plan)
        try:
            self._log.append(audit_log.intents(run, members, common))
        except KgmError as error:
            error.message += f": nothing was removed from group {plan.group_id!r}"
            error.group_id = plan.group_id
            raise

        def settle(outcomes: Sequence[Mapping[str, Any]]) -> None:
            lines = [{**member, **outcome} for member, outcome in zip(members, outcomes, strict=True)]
            self._settle(audit_log.outcomes(run, lines, common))

        try:
            results = send()
        except KgmError as error:
            settle([_outcome("failed", error.json_code, f"nothing was changed: {error.message}")] * len(members))
            raise
        except BaseException as error:
            settle([_outcome(audit_log.UNKNOWN, None, f"kgm was ended by {type(error).__name__}")] * len(members))
            raise
        found = [one for one in results if one.target.member is not None]
        settle([_outcome(str(one.result), error_name(one.error), one.note) for one in found])
        return results

    def _settle(self, lines: Sequence[Mapping[str, Any]]) -> None:
        assert self._log is not None
        try:
            self._log.append(lines)
        except KgmError as error:
            self._voice.warn(f"what came of it is not in the audit log: {'; '.join(error.facts)}")


def _members(plan: RemovalPlan) -> list[dict[str, Any]]:
    """Those that are there: the others are in no request."""
    return [
        {
            "group_instance_id": member.group_instance_id, "member_id": member.member_id,
            "client_id": member.client_id, "client_host": member.client_host,
        }
        for member in (target.member for target in plan.found)
        if member is not None
    ]  # fmt: skip


def _outcome(result: str, error: str | None, note: str | None) -> dict[str, Any]:
    return {"result": result, "error": error, "note": note}

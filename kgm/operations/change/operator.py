"""Who runs kgm: recorded in the audit log, and sent in the reason of a LeaveGroup, which the broker logs (KIP-800)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kgm.operations.change.reason import MAX_REASON_CHARACTERS
from kgm.text.sanitize import clean

#: The maximum lengths of the user name and the host name in the reason, in characters.
_NAME_CHARACTERS, _HOST_CHARACTERS = 40, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanOperator:
    """Whoever runs kgm: the user name (behind sudo, if it is used), the user id of the process, and the machine.

    The name comes from the environment and can be set by the user; the user id comes from the kernel."""

    name: str
    uid: int
    host: str

    def __str__(self) -> str:
        return f"{clean(self.name)[:_NAME_CHARACTERS]}@{clean(self.host)[:_HOST_CHARACTERS]}"


def current_operator(environment: Mapping[str, str] | None = None) -> HumanOperator:
    """The name comes from SUDO_USER, else USER, else LOGNAME, else the user database."""
    environment = os.environ if environment is None else environment
    names = (environment.get(key, "").strip() for key in ("SUDO_USER", "USER", "LOGNAME"))
    name = next(filter(None, names), None) or _name_of(os.getuid())
    return HumanOperator(name=name, uid=os.getuid(), host=os.uname().nodename or "?")


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def signed(reason: str, operator: HumanOperator) -> str:
    """The reason followed by the operator's name, cut to Kafka's limit."""
    tail = f" (by {operator})"
    room = MAX_REASON_CHARACTERS - len(tail)
    return (reason if len(reason) <= room else f"{reason[: room - 3]}...") + tail

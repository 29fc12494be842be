"""Doctor findings that are known and accepted: `[[ignore]]` in config.toml, for all clusters or in a profile.

[[ignore]]
check = "classic-protocol"
reason = "we migrate in spring"

[[profiles.prod.ignore]]
check = "mixed-membership"
group = "batch-*"
reason = "the batch jobs are dynamic on purpose"
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any, Final

from kgm.model.errors import UsageError
from kgm.operations.settings.profiles import read_toml

_KEYS: Final = ("check", "group", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredCheck:
    """One `[[ignore]]` table. group: a pattern for group ids; where: the file and the table, for messages."""

    check: str
    group: str
    reason: str
    where: str


def read_ignored_checks(file: pathlib.Path, profile: str | None) -> tuple[IgnoredCheck, ...]:
    """The tables of the profile, followed by those for all clusters; empty without a file. Raises UsageError."""
    if not file.exists():
        return ()
    document = read_toml(file)
    own = document.get("profiles", {}).get(profile, {}) if profile is not None else {}
    return (
        *_tables(own.get("ignore", []), f"{file}, [[profiles.{profile}.ignore]]"),
        *_tables(document.get("ignore", []), f"{file}, [[ignore]]"),
    )


def _tables(tables: Any, where: str) -> list[IgnoredCheck]:
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise UsageError(
            f"{where}: not a list of tables", hint='write [[ignore]], with two brackets, and check = "NAME"'
        )
    return [_ignored(table, f"{where} {number}") for number, table in enumerate(tables, 1)]


def _ignored(table: dict[str, Any], where: str) -> IgnoredCheck:
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: there is no setting {key}", hint=f"known: {', '.join(_KEYS)}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{where}: {key} is not a text")
    for key in ("check", "reason"):
        if key not in table:
            raise UsageError(f"{where}: {key} is missing", hint="each [[ignore]] needs a check and a reason")
    return IgnoredCheck(check=table["check"], group=table.get("group", "*"), reason=table["reason"], where=where)

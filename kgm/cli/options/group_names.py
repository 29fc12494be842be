"""Names of groups on the command line: an empty one comes from an unset variable of the shell, and means no group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgm.model.errors import UsageError

#: Parameters of commands that name groups, or select them.
_NAMES = ("group", "groups", "group_option")
_PATTERNS = ("match",)


def check_group_names(values: Mapping[str, Any]) -> None:
    """Raises UsageError for an empty name or pattern. values: the parameters of a command."""
    for name in (*_NAMES, *_PATTERNS):
        value = values.get(name)
        for text in [value] if isinstance(value, str) else value or ():
            if name in _PATTERNS and not text.strip():
                raise UsageError(
                    "--match: the pattern is empty", hint="an empty pattern never means all; --match '*' does"
                )
            check_group_name(text)


def check_group_name(text: str) -> None:
    """Raises UsageError for an empty name."""
    if not text.strip():
        hint = "is a variable of the shell not set? A group whose id is blank is named by a pattern: --match '[ ]'"
        raise UsageError("the name of a group is empty", hint=hint)

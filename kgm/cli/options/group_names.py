"""Names and patterns on the command line: an empty one comes from an unset shell variable, and is refused. So is a
blank name of a group, unless it is given with -g, because Kafka allows groups with blank ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kgm.model.errors import UsageError
from kgm.text.names import check_name

#: For a command about one group, which has an argument for it too.
GroupOption = Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The group.")]
#: For a command about several groups, which has an argument for them too.
GroupsOption = Annotated[list[str] | None, typer.Option("-g", "--group", metavar="GROUP", help="A group; repeatable.")]
#: For a command that shows all groups of its source otherwise, and has no argument for them.
OnlyGroupsOption = Annotated[
    list[str] | None, typer.Option("-g", "--group", metavar="GROUP", help="Only this group; repeatable.")
]
#: Command parameters that name or select groups. `group` is an option if there is `groups`, otherwise an argument.
_NAMES = ("group", "groups", "group_option")
#: {command parameter with what values must match: its option}.
_MATCHED = {
    "match": "--match", "patterns": "--match-members", "match_members": "--match-members", "client_id": "--client-id",
}  # fmt: skip


def check_group_names(values: Mapping[str, Any]) -> None:
    """Raises UsageError for a name that is empty or cannot be sent, and for an empty pattern. values: the parameters of
    a command."""
    for name in (*_NAMES, *_MATCHED):
        value = values.get(name)
        for text in [value] if isinstance(value, str) else value or ():
            if name in _MATCHED and not text.strip():
                option = _MATCHED[name]
                hint = f"an empty pattern never means all; {option} '*' does"
                raise UsageError(f"{option}: the pattern is empty", hint=hint)
            is_argument = name == "groups" or (name == "group" and "group_option" in values)
            if not (text.strip() if is_argument else text):
                hint = "is a shell variable unset? A group whose id is blank is named by an option: -g ' '"
                raise UsageError("the name of a group is empty", hint=hint)
            if name in _NAMES:
                check_name(text, "the name of a group")


def maybe_group(group: str | None, option: str | None) -> str | None:
    """The group that is named as an argument or with -g; None if there is none. Raises UsageError for two."""
    if group is not None and option is not None and group != option:
        raise UsageError(f"two groups are given: {group} and {option}")
    return group if group is not None else option


def named_group(group: str | None, option: str | None, *, hint: str) -> str:
    """The group that is named as an argument or with -g. Raises UsageError if there is none, or two."""
    named = maybe_group(group, option)
    if named is None:
        raise UsageError("no group is given", hint=hint)
    return named

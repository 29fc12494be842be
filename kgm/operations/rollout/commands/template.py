"""`--exec`: from a text and a member to the words, the environment and the input of a command.

The text is split into words once, as a shell would do it, and placeholders are filled in afterwards, so whatever a
client id contains stays within its word. No shell is involved. With `--shell`, the text goes to `/bin/sh` unchanged,
and values reach it only as environment variables.

Anyone who can join a group chooses its instance ids and client ids. A value stays one word here, but the program that
is called may parse it again: `ssh` joins its words for a remote shell, `ansible` reads host patterns, `sh -c` is a
shell. So a value must consist of `[A-Za-z0-9._:@-]` and must not begin with `-`, unless the operator allows any value.
Even then, control characters are refused, because they could deceive whoever reads the output, and so is a word that
would be taken for an option."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kgm.model.assignment import Partitions
from kgm.model.errors import RefusedError, UsageError

SHELL: Final = "/bin/sh"
#: The environment variable of each placeholder.
VARIABLES: Final[Mapping[str, str]] = {
    "instance_id": "KGM_INSTANCE_ID",
    "member_id": "KGM_MEMBER_ID",
    "client_id": "KGM_CLIENT_ID",
    "host": "KGM_HOST",
    "pod": "KGM_POD",
    "index": "KGM_INDEX",
}
_GROUP_VARIABLE, _STEP_VARIABLE = "KGM_GROUP_ID", "KGM_STEP"
#: Matches any character except those that shells, host patterns and globs take literally.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._:@-]")
ALLOW_ANY_VALUE: Final = "--allow-any-value"
_PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_HINT: Final = "the placeholders are " + " ".join(f"{{{name}}}" for name in VARIABLES) + "; {{ and }} stand for braces"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTarget:
    """The member for which a command runs. index: its place among the members of the plan, from 0. step: from 1.

    host: the address from which the member is connected. pod: None unless members were resolved to pods. unit: the
    first member of its process, for which the command runs; None: the member is its own process."""

    group_id: str
    step: int
    index: int
    group_instance_id: str | None
    member_id: str
    client_id: str
    host: str
    pod: str | None
    partitions: Partitions
    unit: str | None = None

    @property
    def identity(self) -> str:
        return self.member_id if self.group_instance_id is None else self.group_instance_id

    @property
    def values(self) -> dict[str, str | None]:
        """Values by placeholder name; None if the member has no such value."""
        return {
            "instance_id": self.group_instance_id,
            "member_id": self.member_id,
            "client_id": self.client_id or None,
            "host": self.host or None,
            "pod": self.pod,
            "index": str(self.index),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTemplate:
    """A command with placeholders. Use `parse` to get one.

    uses: the placeholders in it; for a shell command, those whose variables it names.
    allows_any_value: whether values may contain characters that a shell would interpret."""

    words: tuple[str, ...]
    uses: frozenset[str]
    is_shell: bool = False
    allows_any_value: bool = False

    @classmethod
    def parse(
        cls, text: str, option: str, *, is_shell: bool = False, allows_any_value: bool = False
    ) -> CommandTemplate:
        """The template of a text. Raises UsageError, which names the option."""
        if not text.strip():
            raise UsageError(f"{option}: the command is empty")
        if is_shell:
            _refuse_placeholders(text, option)
            uses = {name for name, variable in VARIABLES.items() if re.search(rf"{variable}\b", text)}
            return cls(
                words=(SHELL, "-c", text), uses=frozenset(uses), is_shell=True,
                allows_any_value=allows_any_value,
            )  # fmt: skip
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{option}: {text!r} cannot be split into words: {error}") from None
        uses = {match[1] for word in words for match in _PIECE.finditer(word) if match[1] is not None}
        if unknown := sorted(uses - VARIABLES.keys()):
            raise UsageError(f"{option}: {{{unknown[0]}}} is not a placeholder", hint=_HINT)
        if not words or not words[0] or _PIECE.search(words[0]):
            raise UsageError(f"{option}: the name of the program has a placeholder, or is empty")
        return cls(words=tuple(words), uses=frozenset(uses), allows_any_value=allows_any_value)

    def argv(self, target: CommandTarget) -> list[str]:
        """The words of the command. Raises RefusedError for a value that is missing or unsafe."""
        values = target.values
        for name in sorted(self.uses):
            _check(name, values[name], target, allows_any=self.allows_any_value)
        if self.is_shell:
            return [*self.words]
        return [self._filled(word, target) for word in self.words]

    def _filled(self, word: str, target: CommandTarget) -> str:
        values = target.values

        def piece(match: re.Match[str]) -> str:
            return match[0][0] if match[1] is None else str(values[match[1]])

        filled = _PIECE.sub(piece, word)
        first = _PIECE.match(word)
        if filled.startswith("-") and first is not None and first[1] is not None:
            raise RefusedError(
                f"no command was run: {{{first[1]}}} of member {target.identity!r} is {filled!r}, "
                "which a command would take for an option",
                group_id=target.group_id,
            )
        return filled


def environment(target: CommandTarget, inherited: Mapping[str, str]) -> dict[str, str]:
    """The inherited environment, with the member's values. Raises RefusedError for a value that an environment variable
    cannot have."""
    values = target.values
    variables = {variable: values[name] for name, variable in VARIABLES.items()}
    variables |= {_GROUP_VARIABLE: target.group_id, _STEP_VARIABLE: str(target.step)}
    for variable, value in variables.items():
        if value is not None and "\0" in value:
            raise RefusedError(f"no command was run: {variable} would be {value!r}", group_id=target.group_id)
    rest = {name: value for name, value in inherited.items() if name not in variables}
    return rest | {name: value for name, value in variables.items() if value is not None}


def input_line(target: CommandTarget) -> bytes:
    """The line of JSON that a command can read from stdin."""
    line = {
        "group_id": target.group_id,
        "step": target.step,
        **target.values,
        "index": target.index,
        "partitions": {topic: list(numbers) for topic, numbers in sorted(target.partitions.items()) if numbers},
    }
    return json.dumps(line).encode("ascii") + b"\n"


def refuse_shared_commands(template: CommandTemplate, steps: Sequence[Sequence[CommandTarget]]) -> None:
    """Raises RefusedError if members of different steps have the same command, which could not stop one without the
    other. A command without placeholders gets its member from the environment."""
    if template.is_shell or not template.uses:
        return
    first: dict[tuple[str, ...], CommandTarget] = {}
    for targets in steps:
        for target in targets:
            other = first.setdefault(tuple(template.argv(target)), target)
            if other.step != target.step:
                raise RefusedError(
                    f"nothing was done: the command is the same for {other.identity} (step {other.step}) and "
                    f"{target.identity} (step {target.step})",
                    hint="tell them apart with {instance_id}, {member_id} or {index}, or put them into one step",
                    group_id=target.group_id,
                )


def one_of_each_process(targets: Sequence[CommandTarget]) -> list[CommandTarget]:
    """The first member of each process."""
    return list({target.unit or target.identity: target for target in reversed(targets)}.values())[::-1]


def by_command(template: CommandTemplate, targets: Sequence[CommandTarget]) -> list[list[CommandTarget]]:
    """The members of each distinct command, of which the first is the one it is run for: a process is restarted once,
    and one `ssh {host} ...` restarts two members on the same host."""
    processes: dict[str, list[CommandTarget]] = {}
    for target in targets:
        processes.setdefault(target.unit or target.identity, []).append(target)
    if template.is_shell or not template.uses:
        return list(processes.values())
    commands: dict[tuple[str, ...], list[CommandTarget]] = {}
    for members in processes.values():
        commands.setdefault(tuple(template.argv(members[0])), []).extend(members)
    return list(commands.values())


def _refuse_placeholders(text: str, option: str) -> None:
    for match in _PIECE.finditer(text):
        if match[1] in VARIABLES:
            raise UsageError(
                f"{option}: {match[0]} is not filled in with --shell, where a quote in a value could end a word",
                hint=f'write "${VARIABLES[match[1]]}"',
            )


def _check(name: str, value: str | None, target: CommandTarget, *, allows_any: bool) -> None:
    """Raises RefusedError, which names the member, the placeholder and the character, if the value may not be used."""
    if value is None:
        what = (
            "no member was resolved to a pod (--kubernetes)" if name == "pod" else f"member {target.identity} has none"
        )
        raise RefusedError(f"no command was run: {{{name}}} is not known: {what}", group_id=target.group_id)
    if not value.isprintable():
        raise RefusedError(
            f"no command was run: {{{name}}} of member {target.identity!r} has control characters: {value!r}",
            group_id=target.group_id,
        )
    if allows_any:
        return
    if value.startswith("-"):
        problem = "begins with '-', which a program would take for an option"
    elif unsafe := _UNSAFE.search(value):
        problem = f"has the character {unsafe[0]!r}, which the program that is called may interpret"
    else:
        return
    raise RefusedError(
        f"no command was run: {{{name}}} of member {target.identity!r} {problem}: {value!r}",
        facts=("a value may have A-Z a-z 0-9 . _ : @ - only: ssh, ansible and sh -c parse their arguments again",),
        hint=f"{ALLOW_ANY_VALUE}, if the command takes its arguments as they are",
        group_id=target.group_id,
    )

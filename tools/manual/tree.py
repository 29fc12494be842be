"""The command tree as plain data, for manual pages and shell completions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import click

#: How the value of an option is completed; see `kgm __complete`. `,`: a list with commas.
_BY_NAME = {
    "group": "groups",
    "group_option": "groups",
    "groups": "groups",
    "instance_ids": "instance-ids,",
    "pre_registered": "instance-ids,",
    "member_ids": "member-ids,",
    "scale_in": "identities,",
    "remove": "identities,",
    "profile": "profiles",
}
_BY_METAVAR = {"FILE": "file", "SNAPSHOT": "file", "FILE.html": "file", "A": "file", "B": "file", "DIR": "folder"}
_WORDS = {
    "type": ("classic", "consumer", "share", "streams"),
    "kind": ("classic", "consumer", "share", "streams"),
    "state": ("stable", "empty", "dead", "preparingrebalance", "completingrebalance", "assigning", "reconciling"),
    "assignor": ("range", "roundrobin", "sticky", "cooperative-sticky", "consumer-uniform", "consumer-range"),
    "library": ("java", "librdkafka"),
    "conditions": ("stable", "settled", "empty"),
}
#: The values that a help text lists, unless the last one is only the beginning of a value (`segments:DIR`).
_ALTERNATIVES = re.compile(r"[\w-]+(?:\.[\w-]+)*(?: \| [\w-]+(?:\.[\w-]+)*)+(?![\w=<-]|:\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An option, or an argument (then without names). kind: how the value is completed; "" when it is free.

    words: the possible values, when kind is `words`."""

    names: tuple[str, ...] = ()
    metavar: str = ""
    help: str = ""
    takes_value: bool = False
    is_repeatable: bool = False
    is_required: bool = False
    environment: str | None = None
    default: str | None = None
    kind: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command or a group of commands. words: without `kgm`."""

    words: tuple[str, ...]
    purpose: str
    paragraphs: tuple[str, ...] = ()
    options: tuple[Parameter, ...] = ()
    arguments: tuple[Parameter, ...] = ()
    children: tuple[Command, ...] = field(default=())

    @property
    def name(self) -> str:
        return " ".join(("kgm", *self.words))

    @property
    def is_of_cluster(self) -> bool:
        return any("--bootstrap-server" in option.names for option in self.options)

    @property
    def names_before_a_value(self) -> list[str]:
        """The names of options whose value is the next word."""
        return [name for option in self.options if option.takes_value for name in option.names]

    def walk(self) -> Iterator[Command]:
        yield self
        for child in self.children:
            yield from child.walk()


@cache
def click_tree() -> click.Group:
    """The commands of kgm, all of them imported. One tree for all who ask: it takes a second, and nobody changes it."""
    import typer

    from kgm.cli import tree as typer_tree
    from kgm.cli.overview import COMMANDS

    typer_tree.app.registered_commands.clear()
    typer_tree.app.registered_groups.clear()
    for name in COMMANDS:
        typer_tree.register(name)
    tree = typer.main.get_command(typer_tree.app)
    assert isinstance(tree, click.Group)
    return tree


def leaves(command: click.Command | None = None, words: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    """{words: command} for every command that can be run."""
    command = command or click_tree()
    if not isinstance(command, click.Group):
        return {words: command}
    return {
        path: leaf for name, child in command.commands.items() for path, leaf in leaves(child, (*words, name)).items()
    }


def command_tree() -> Command:
    """The tree below `kgm`. Options of every command can stand before the command too."""
    from kgm.cli.options.shared_options import takes_value

    tree = _command(click_tree(), ())
    (one,) = (child for child in tree.children if child.words == ("list",))
    shared = tuple(option for option in one.options if takes_value(option.names[0]) is not None)
    return replace(tree, options=(*tree.options, *shared))


def _command(command: click.Command, words: tuple[str, ...]) -> Command:
    text = " ".join((command.help or "").split("\f")[0].split(" ")).strip()
    first, *rest = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()] or [""]
    children = ()
    if isinstance(command, click.Group):
        children = tuple(_command(child, (*words, name)) for name, child in command.commands.items())
    purpose, dot, more = first.partition(". ")
    paragraphs = (*((more,) if more else ()), *rest)
    given = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    return Command(
        words=words,
        purpose=purpose if dot else first.removesuffix("."),
        paragraphs=paragraphs,
        options=(*(_option(each) for each in given if isinstance(each, click.Option)), _HELP),
        arguments=tuple(_argument(each) for each in given if isinstance(each, click.Argument)),
        children=children,
    )


_HELP = Parameter(names=("-h", "--help"), help="Show help and exit.")


def _option(option: click.Option) -> Parameter:
    from kgm.cli.tree import shown_names

    takes_value = not option.is_flag and not option.count
    help_text = " ".join((option.help or "").split())
    kind, words = _kind(option, help_text) if takes_value else ("", ())
    metavar = option.metavar or (option.type.name.upper() if option.type.name != "text" else "TEXT")
    shows = takes_value and option.show_default is not False
    default = option.default if shows and isinstance(option.default, str | int | float) else None
    return Parameter(
        names=tuple(sorted(shown_names(option), key=lambda name: name.startswith("--"))),
        metavar=metavar if takes_value else "",
        help=help_text,
        takes_value=takes_value,
        is_repeatable=bool(option.multiple),
        is_required=bool(option.required),
        environment=option.envvar if isinstance(option.envvar, str) else None,
        default=None if default is None else str(default),
        kind=kind,
        words=words,
    )


def _argument(argument: click.Argument) -> Parameter:
    metavar = argument.metavar or (argument.name or "").upper()
    kind, words = _kind(argument, "")
    return Parameter(
        metavar=metavar,
        help=" ".join((getattr(argument, "help", None) or "").split()),
        takes_value=True,
        is_repeatable=argument.nargs == -1,
        is_required=bool(argument.required),
        kind=kind,
        words=words,
    )


def _kind(parameter: click.Parameter, help_text: str) -> tuple[str, tuple[str, ...]]:
    """(kind, words) of a value."""
    from kgm.history.causes.verdict import Cause
    from kgm.operations.doctor.check_names import CHECK_NAMES

    name, metavar = parameter.name or "", (parameter.metavar or "").strip("[].")
    if isinstance(parameter.type, click.Choice):
        return "words", tuple(map(str, parameter.type.choices))
    if name in ("check", "cause"):
        return "words", CHECK_NAMES if name == "check" else tuple(Cause)
    alternatives = _ALTERNATIVES.search(help_text)
    if alternatives:
        return "words", tuple(alternatives[0].split(" | "))
    if metavar in _BY_METAVAR:
        return _BY_METAVAR[metavar], ()
    if metavar == "GROUP":
        return "groups", ()
    if name in _BY_NAME:
        return _BY_NAME[name], ()
    return ("words", _WORDS[name]) if name in _WORDS else ("", ())

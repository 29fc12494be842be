"""The options that every command takes (`@output_options`), and those of every command that talks to a cluster
(`@cluster_options`).

The decorators add the options to the command's signature, where typer looks for them, and hand the command one
`RunOptions` instead of a dozen parameters. The command marks the parameter for it with that annotation."""

from __future__ import annotations

from kgm.cli.invocation import Ended
from kgm.cli.options.declarations import Annotated, Command, Option
from kgm.cli.output.output_options import FORMATS

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _print_schema(value: str) -> str:
    """Print the JSON Schema and exit, before any other option is checked, so that none is needed.

    `-o=json` is what other tools accept; the parser takes the = for a part of the format."""
    value = value.removeprefix("=")
    if value == "schema":
        import click

        from kgm.cli.output.schema import print_schema

        context = click.get_current_context()
        if not context.resilient_parsing:
            print_schema(context.command_path)
            raise Ended(0)
    return value


Output = Annotated[
    str,
    Option("-o", "--output", envvar="KGM_OUTPUT", metavar="FORMAT", help=" | ".join(FORMATS),
                 is_eager=True, callback=_print_schema,
           plain=frozenset(FORMATS) - {"schema"}),
]  # fmt: skip
NoHeaders = Annotated[bool, Option("--no-headers", envvar="KGM_NO_HEADERS", help="Omit the header line.")]
Color = Annotated[str, Option("--color", envvar="KGM_COLOR", metavar="WHEN", help="auto | always | never")]
Debug = Annotated[bool, Option("--debug", envvar="KGM_DEBUG", help="Show tracebacks.")]
Bootstrap = Annotated[
    str | None,
    Option("-b", "--bootstrap-server", "--bootstrap-servers", metavar="HOST:PORT[,...]",
                 help="Brokers to connect to first. "
                 "[env: KGM_BOOTSTRAP_SERVER; for reads also KAFKA_BOOTSTRAP_SERVERS]"),
]  # fmt: skip
Brokers = Annotated[str | None, Option("--brokers", hidden=True)]
CommandConfig = Annotated[
    str | None,
    Option("--command-config", envvar="KGM_COMMAND_CONFIG", metavar="FILE", help="A Java client.properties."),
]
Profile = Annotated[
    str | None,
    Option("--profile", envvar="KGM_PROFILE", metavar="NAME", help="A profile of kgm/config.toml."),
]
Extra = Annotated[
    list[str] | None, Option("-X", metavar="KEY=VALUE", help="A setting of client.properties; repeatable.")
]
Timeout = Annotated[
    str,
    Option(
        "--timeout", envvar="KGM_TIMEOUT", metavar="DURATION", help="Time limit of the whole command: 500ms, 5s, 2m."
    ),
]

_OUTPUT: dict[str, tuple[Any, Any]] = {
    "output": (Output, "table"),
    "no_headers": (NoHeaders, False),
    "color": (Color, "auto"),
    "debug": (Debug, False),
}
_CLUSTER: dict[str, tuple[Any, Any]] = {
    "bootstrap_server": (Bootstrap, None),
    "brokers": (Brokers, None),
    "command_config": (CommandConfig, None),
    "extra": (Extra, None),
    "profile": (Profile, None),
    "timeout": (Timeout, "30s"),
}


def takes_value(word: str) -> bool | None:
    """Whether the value of this option is the next word; None for a word that is not an option of every command."""
    name, equals, _ = word.partition("=")
    for annotation, default in {**_CLUSTER, **_OUTPUT}.values():
        (option,) = annotation.__metadata__
        if name in option.names and name.startswith("--"):
            return not equals and default is not False
        if any(len(short) == 2 and word.startswith(short) for short in option.names):
            return len(word) == 2
    return None


def output_options(command: Callable[..., None]) -> Command:
    """Add the output options."""
    return Command(command, _OUTPUT)


def output_options_with(output: str) -> Callable[[Callable[..., None]], Command]:
    """Add the output options, with this default of `-o`."""

    def decorate(command: Callable[..., None]) -> Command:
        return Command(command, {**_OUTPUT, "output": (Output, output)})

    return decorate


def cluster_options(command: Callable[..., None]) -> Command:
    """Add the cluster options and the output options."""
    return Command(command, {**_CLUSTER, **_OUTPUT})

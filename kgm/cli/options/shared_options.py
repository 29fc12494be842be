"""The options that every command takes (`@output_options`), and the options of every command that talks to a cluster
(`@cluster_options`).

The decorators add the options to the command's signature, where typer looks for them, and pass the command one
`RunOptions` instead of a dozen parameters. The command annotates the parameter that takes it with that type."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import click
import typer
from click.core import ParameterSource

from kgm.cli.invocation import Ended
from kgm.cli.options.group_names import check_group_names
from kgm.cli.options.run_options import RunOptions, refuse_empty, run_options
from kgm.cli.output.output_options import FORMATS
from kgm.cli.output.schema import print_schema


def _print_schema(value: str) -> str:
    """Print the JSON Schema and exit, before any other option is checked, so that none is needed.

    `-o=json` is what other tools accept, but the parser takes the = as part of the format."""
    value = value.removeprefix("=")
    if value == "schema":
        context = click.get_current_context()
        if not context.resilient_parsing:
            print_schema(context.command_path)
            raise Ended(0)
    return value


Output = Annotated[
    str,
    typer.Option("-o", "--output", envvar="KGM_OUTPUT", metavar="FORMAT", help=" | ".join(FORMATS),
                 is_eager=True, callback=_print_schema),
]  # fmt: skip
NoHeaders = Annotated[bool, typer.Option("--no-headers", envvar="KGM_NO_HEADERS", help="Omit the header line.")]
Color = Annotated[str, typer.Option("--color", envvar="KGM_COLOR", metavar="WHEN", help="auto | always | never")]
Debug = Annotated[bool, typer.Option("--debug", envvar="KGM_DEBUG", help="Show tracebacks.")]
Bootstrap = Annotated[
    str | None,
    typer.Option("-b", "--bootstrap-server", "--bootstrap-servers", metavar="HOST:PORT[,...]",
                 help="Brokers to connect to first. "
                 "[env: KGM_BOOTSTRAP_SERVER; for reads also KAFKA_BOOTSTRAP_SERVERS]"),
]  # fmt: skip
Brokers = Annotated[str | None, typer.Option("--brokers", hidden=True)]
CommandConfig = Annotated[
    str | None,
    typer.Option("--command-config", envvar="KGM_COMMAND_CONFIG", metavar="FILE", help="Java client.properties file."),
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", envvar="KGM_PROFILE", metavar="NAME", help="A profile in kgm/config.toml."),
]
Extra = Annotated[
    list[str] | None, typer.Option("-X", metavar="KEY=VALUE", help="A client.properties setting; repeatable.")
]


def _timeout(text: str, *, show_default: bool) -> Any:
    return Annotated[
        str,
        typer.Option("--timeout", envvar="KGM_TIMEOUT", metavar="DURATION", help=text, show_default=show_default),
    ]


Timeout = _timeout("Time limit for the whole command: 500ms, 5s, 2m.", show_default=True)

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
        names = (option.default, *option.param_decls)  # until it reads a command, typer's default is the first name
        if name in names and name.startswith("--"):
            return not equals and default is not False
        if any(len(short) == 2 and word.startswith(short) for short in names):
            return len(word) == 2
    return None


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the output options."""
    return _with_run_options(command, _OUTPUT)


def output_options_with(output: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the output options, with this default of `-o`."""
    return functools.partial(_with_run_options, added={**_OUTPUT, "output": (Output, output)})


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the cluster options and the output options."""
    return _with_run_options(command, {**_CLUSTER, **_OUTPUT})


def cluster_options_with(timeout: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the cluster options and the output options. timeout: what `--timeout` limits in this command, if it is not
    the whole command, and its defaults."""
    added = {**_CLUSTER, "timeout": (_timeout(timeout, show_default=False), _CLUSTER["timeout"][1]), **_OUTPUT}
    return functools.partial(_with_run_options, added=added)


def _with_run_options(command: Callable[..., None], added: Mapping[str, tuple[Any, Any]]) -> Callable[..., None]:
    return with_options(command, RunOptions, added, lambda taken: run_options(taken, _sources(added)))


def with_options(
    command: Callable[..., None], kind: type, added: Mapping[str, tuple[Any, Any]],
    checked: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:  # fmt: skip
    """The command, with options instead of its parameter of type `kind`; that parameter gets the result of `checked`
    for their values. added: {name: (annotation, default)}."""
    (taker,) = (name for name, each in command.__annotations__.items() if each in (kind, kind.__name__))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        taken = {name: values.pop(name) for name in added}
        check_group_names(values)
        refuse_empty(values, "rack")
        command(**values, **{taker: checked(taken)})

    parameters: list[inspect.Parameter] = []
    for name, each in inspect.signature(command, eval_str=True).parameters.items():
        parameters += (
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
            if name != taker
            else [
                inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for one, (annotation, default) in added.items()
            ]
        )
    # typer looks in both places
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _sources(names: Iterable[str]) -> dict[str, str]:
    """`flag` or `environment` for each parameter of the running command that was given."""
    kinds = {ParameterSource.COMMANDLINE: "flag", ParameterSource.ENVIRONMENT: "environment"}
    context = click.get_current_context()
    sources = ((name, context.get_parameter_source(name)) for name in names)
    return {name: kinds[source] for name, source in sources if source in kinds}

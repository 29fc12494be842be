"""What every command takes (`@common`), and what every command that talks to a cluster takes (`@cluster`).

The decorators add the options to the command's signature, where typer looks for them, and hand the command one
`Common` instead of a dozen parameters."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.model.errors import RefusedError, UsageError
from kgm.text.durations import parse_duration

if TYPE_CHECKING:
    from kgm.client import AdminClient, Security

FORMATS = ("table", "wide", "json", "yaml", "csv", "tsv", "name", "ndjson", "markdown", "schema")
COLORS = ("auto", "always", "never")


def _schema_if_asked(context: typer.Context, value: str) -> str:
    """Print the JSON Schema and leave: before anything else is looked at, so that no other option is needed."""
    if value == "schema" and not context.resilient_parsing:
        from kgm.cli.output.schema import print_schema

        print_schema(context.command_path)
        raise typer.Exit
    return value


Output = Annotated[
    str,
    typer.Option("-o", "--output", envvar="KGM_OUTPUT", metavar="FORMAT", help=" | ".join(FORMATS),
                 is_eager=True, callback=_schema_if_asked),
]  # fmt: skip
NoHeaders = Annotated[bool, typer.Option("--no-headers", envvar="KGM_NO_HEADERS", help="Leave out the header line.")]
Color = Annotated[str, typer.Option("--color", envvar="KGM_COLOR", metavar="WHEN", help="auto | always | never")]
Debug = Annotated[bool, typer.Option("--debug", envvar="KGM_DEBUG", help="Show tracebacks.")]
Bootstrap = Annotated[
    str | None,
    typer.Option("-b", "--bootstrap-server", "--bootstrap-servers", metavar="HOST:PORT[,...]",
                 help="Brokers to ask first. [env: KGM_BOOTSTRAP_SERVER; for reads also KAFKA_BOOTSTRAP_SERVERS]"),
]  # fmt: skip
Brokers = Annotated[str | None, typer.Option("--brokers", hidden=True)]
CommandConfig = Annotated[
    str | None,
    typer.Option("--command-config", envvar="KGM_COMMAND_CONFIG", metavar="FILE", help="A Java client.properties."),
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", envvar="KGM_PROFILE", metavar="NAME", help="A profile of kgm/config.toml."),
]
Extra = Annotated[
    list[str] | None, typer.Option("-X", metavar="KEY=VALUE", help="One setting of client.properties; repeatable.")
]
Timeout = Annotated[
    str,
    typer.Option("--timeout", envvar="KGM_TIMEOUT", metavar="DURATION", help="Budget of the command: 500ms, 5s, 2m."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The common options of one run, checked."""

    output: str = "table"
    headers: bool = True
    color: str = "auto"
    debug: bool = False
    timeout_ms: int = 30_000
    bootstrap: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    expect_cluster_id: str | None = None
    #: Things to say before a cluster is asked.
    warnings: tuple[str, ...] = ()
    #: Where the options came from, by name.
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_data(self) -> bool:
        """Whether stdout is for a program rather than for a person."""
        return self.output not in ("table", "wide")

    def bootstrap_for(self, *, reads_only: bool) -> str:
        """The bootstrap list. What is exported for other tools is good enough to read, not to change anything.

        Raises UsageError when there is none."""
        bootstrap = self.bootstrap or (os.environ.get("KAFKA_BOOTSTRAP_SERVERS") if reads_only else None)
        if not bootstrap:
            hint = "name one: --bootstrap-server HOST:PORT, or export KGM_BOOTSTRAP_SERVER=HOST:PORT"
            raise UsageError("no bootstrap server is given", hint=hint)
        return bootstrap

    def security(self) -> Security:
        """How to protect connections. Says on stderr what is odd about the settings. Raises UsageError."""
        from kgm.cli.output.report import Voice
        from kgm.client.security import make_security

        voice = Voice(self)
        for warning in self.warnings:
            voice.warn(warning)
        security, warnings = make_security(self.settings)
        for warning in warnings:
            voice.warn(warning)
        return security

    def cluster(self, *, reads_only: bool) -> AdminClient:
        """A client of the cluster (a context manager). Raises UsageError without a bootstrap server, RefusedError when
        it is not the cluster that is expected."""
        from kgm.client import connect

        bootstrap = self.bootstrap_for(reads_only=reads_only)
        connected = connect(bootstrap, timeout_ms=self.timeout_ms, security=self.security())
        try:
            self.check_cluster(connected.cluster_id)
        except BaseException:
            connected.close()
            raise
        return connected

    def check_cluster(self, cluster_id: str | None) -> None:
        """Raises RefusedError unless this is the cluster that is expected."""
        if self.expect_cluster_id and cluster_id != self.expect_cluster_id:
            raise RefusedError(
                f"this is cluster {cluster_id}, not {self.expect_cluster_id}: nothing was done",
                facts=(f"expect_cluster_id is from: {self.origins.get('expect_cluster_id', 'the settings')}",),
                hint="check --bootstrap-server and --profile",
            )


def _common(values: dict[str, Any], sources: Mapping[str, str] | None = None) -> Common:
    """Check and merge. values: the parameters; sources: `flag` or `environment` for those that were given."""
    if "bootstrap_server" not in values and "extra" not in values and "command_config" not in values:
        return _checked(values)
    from kgm.cli.options.settings import bootstrap_of, gather

    sources = dict(sources or {})
    found = gather(
        extra=values.get("extra") or (), command_config=values.get("command_config"), profile=values.get("profile")
    )
    values = dict(values)
    for name in ("output", "color", "timeout", "no_headers"):
        if name in found.options and name not in sources:
            text = found.options[name].value
            values[name] = text == "true" if name == "no_headers" else text
            sources[name] = found.options[name].origin
    flag = values.get("bootstrap_server") or values.get("brokers")
    bootstrap, sources["bootstrap_server"] = bootstrap_of(flag, found)
    expected = os.environ.get("KGM_EXPECT_CLUSTER_ID")
    sources["expect_cluster_id"] = "environment (KGM_EXPECT_CLUSTER_ID)"
    if not expected and "expect_cluster_id" in found.options:
        expected, sources["expect_cluster_id"] = (
            getattr(found.options["expect_cluster_id"], k) for k in ("value", "origin")
        )
    return replace(
        _checked(values), bootstrap=bootstrap, settings=found.settings, profile=found.profile,
        expect_cluster_id=expected or None, warnings=found.warnings, origins=sources,
    )  # fmt: skip


def _checked(values: dict[str, Any]) -> Common:
    output, color = values["output"], values["color"]
    if output not in FORMATS:
        raise UsageError(f"--output: {output!r} is not one of {', '.join(FORMATS)}")
    if color not in COLORS:
        raise UsageError(f"--color: {color!r} is not one of {', '.join(COLORS)}")
    return Common(
        output=output,
        headers=not values["no_headers"],
        color=color,
        debug=values["debug"],
        timeout_ms=parse_duration(values.get("timeout", "30s"), "--timeout"),
    )


_PLAIN: dict[str, tuple[Any, Any]] = {
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


def common(command: Callable[..., None]) -> Callable[..., None]:
    """Add output options; the command takes `common: Common` by keyword."""
    return _with_options(command, _PLAIN)


def common_as(output: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `common`, for a command whose output is not a table unless one is asked for."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        return _with_options(command, {**_PLAIN, "output": (Output, output)})

    return decorate


def cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add cluster and output options; the command takes `common: Common` by keyword."""
    return _with_options(command, {**_CLUSTER, **_PLAIN})


def _sources(names: Iterable[str]) -> dict[str, str]:
    """`flag` or `environment` for each parameter of the running command that was given."""
    import click
    from click.core import ParameterSource

    kinds = {ParameterSource.COMMANDLINE: "flag", ParameterSource.ENVIRONMENT: "environment"}
    context = click.get_current_context()
    found = {name: kinds.get(source) for name in names if (source := context.get_parameter_source(name)) is not None}
    return {name: kind for name, kind in found.items() if kind is not None}


def _with_options(command: Callable[..., None], added: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "common"]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        taken = {name: values.pop(name) for name in added}
        command(**values, common=_common(taken, _sources(added)))

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run

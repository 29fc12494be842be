"""What every command takes (`@common`), and what every command that talks to a cluster takes (`@cluster`).

The decorators add the options to the command's signature, where typer looks for them, and hand the command one
`Common` instead of a dozen parameters."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.durations import parse_duration
from kgm.model.errors import UsageError

if TYPE_CHECKING:
    from kgm.client import Cluster

FORMATS = ("table", "wide", "json", "yaml", "csv", "tsv", "name", "ndjson", "markdown")
COLORS = ("auto", "always", "never")

Output = Annotated[
    str, typer.Option("-o", "--output", envvar="KGM_OUTPUT", metavar="FORMAT", help=" | ".join(FORMATS))
]
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

    @property
    def is_data(self) -> bool:
        """Whether stdout is for a program rather than for a person."""
        return self.output not in ("table", "wide")

    def cluster(self, *, reads_only: bool) -> Cluster:
        """A client of the cluster (a context manager). Raises UsageError without a bootstrap server."""
        bootstrap = self.bootstrap or (os.environ.get("KAFKA_BOOTSTRAP_SERVERS") if reads_only else None)
        if not bootstrap:
            hint = "name one: --bootstrap-server HOST:PORT, or export KGM_BOOTSTRAP_SERVER=HOST:PORT"
            raise UsageError("no bootstrap server is given", hint=hint)
        protocol = self.settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol != "PLAINTEXT":
            raise UsageError(f"security.protocol={protocol} is not supported by this version of kgm, only PLAINTEXT")
        from kgm.client import connect

        return connect(bootstrap, timeout_ms=self.timeout_ms)


def _settings(command_config: str | None, extra: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if command_config:
        from kgm.cli.properties import read_properties

        settings.update(read_properties(command_config))
    for item in extra or ():
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"-X {item}: write KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings


def _common(values: dict[str, Any]) -> Common:
    output, color = values["output"], values["color"]
    if output not in FORMATS:
        raise UsageError(f"--output: {output!r} is not one of {', '.join(FORMATS)}")
    if color not in COLORS:
        raise UsageError(f"--color: {color!r} is not one of {', '.join(COLORS)}")
    settings = _settings(values.get("command_config"), values.get("extra"))
    extra_keys = {item.partition("=")[0].strip() for item in values.get("extra") or ()}
    # Order: flag, -X, environment, command-config.
    bootstrap = (
        values.get("bootstrap_server")
        or values.get("brokers")
        or (settings.get("bootstrap.servers") if "bootstrap.servers" in extra_keys else None)
        or os.environ.get("KGM_BOOTSTRAP_SERVER")
        or settings.get("bootstrap.servers")
    )
    return Common(
        output=output,
        headers=not values["no_headers"],
        color=color,
        debug=values["debug"],
        timeout_ms=parse_duration(values.get("timeout", "30s"), "--timeout"),
        bootstrap=bootstrap,
        settings=settings,
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


def _with_options(command: Callable[..., None], added: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "common"]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        taken = {name: values.pop(name) for name in added}
        command(**values, common=_common(taken))

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run

"""`kgm config`: where every setting came from, and whether one gets in with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Cell, Column, Report, Table, Voice, emit

if TYPE_CHECKING:
    from kgm.client.connection_test import Check

app = typer.Typer(
    help="Show where settings come from; try to connect and log in.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("view")
@cluster
def view(
    *,
    show_origin: Annotated[bool, typer.Option("--show-origin", help="Show where each value comes from.")] = False,
    common: Common,
) -> None:
    """Show the settings that hold: flag, -X, environment, --command-config, profile, default, in this order.

    Secrets are hidden. Nothing is asked of a cluster."""
    voice = Voice(common)
    for warning in common.warnings:
        voice.warn(warning)
    items = _items(common)
    columns = [Column(title="KEY"), Column(title="VALUE"), Column(title="ORIGIN", data=not show_origin)]
    rows: list[list[Cell]] = [[item["key"], item["shown"], item["origin"]] for item in items]
    for item in items:
        del item["shown"]
    emit(
        Report(
            schema="kgm.config-view/v1",
            data={"profile": common.profile, "settings": items},
            tables=[Table(columns=columns, rows=rows)],
            names=[str(item["key"]) for item in items],
            items=items,
        ),
        common,
    )


def _items(common: Common) -> list[dict[str, Any]]:
    """Options first, then the client's settings by name. A secret's value is null; `shown` is for the table."""
    from kgm.cli.options.settings import Setting, Settings, is_hidden, shown
    from kgm.text.durations import show_duration

    options: dict[str, str | None] = {
        "bootstrap_server": common.bootstrap,
        "expect_cluster_id": common.expect_cluster_id,
        "timeout": f"{common.timeout_ms}ms",
        "output": common.output,
        "color": common.color,
    }
    items = []
    for key, value in options.items():
        origin = common.origins.get(key, "default") if value is not None else "default"
        text = show_duration(common.timeout_ms) if key == "timeout" else value
        items.append({"key": key, "value": value, "shown": text, "secret": False, "origin": origin})
    settings = common.settings
    assert isinstance(settings, Settings)
    for key in sorted(settings):
        if key == "bootstrap.servers":
            continue
        text = shown(Setting(key=key, value=settings[key], origin=""))
        secret = is_hidden(key)
        value = None if secret else text
        items.append({"key": key, "value": value, "shown": text, "secret": secret, "origin": settings.origin(key)})
    return items


@app.command("test")
@cluster
def check(
    *,
    group: Annotated[str | None, typer.Option("-g", "--group", help="Also: what may be done with this group.")] = None,
    common: Common,
) -> None:
    """Try to connect and log in, step by step: name, connect, tls, versions, sasl, broker, authorisation.

    Says which step failed, and what to try next. Changes nothing."""
    from kgm.cli.output.failures import tell
    from kgm.client.connection_test import check_up
    from kgm.client.transport.bootstrap import parse_bootstrap
    from kgm.client.transport.deadline import Deadline

    bootstrap = common.bootstrap_for(reads_only=True)
    security = common.security()
    found = check_up(parse_bootstrap(bootstrap), security, Deadline.after(common.timeout_ms), group_id=group)
    errors = list(found.errors)
    items = [_check_json(check) for check in found.checks]
    columns = [
        Column(title="STEP"),
        Column(title="WHERE"),
        Column(title="RESULT"),
        Column(title="MS", right=True),
        Column(title="DETAIL"),
    ]
    rows: list[list[Cell]] = [[c.step, c.where, c.result, c.took_ms, c.detail or None] for c in found.checks]
    emit(
        Report(
            schema="kgm.config-test/v1",
            data={"security_protocol": security.name, "checks": items},
            tables=[Table(columns=columns, rows=rows)],
            names=[check.step for check in found.checks if check.error is not None],
            items=items,
            cluster={"id": found.cluster_id, "bootstrap": bootstrap},
            errors=errors,
        ),
        common,
    )
    for error in errors:
        tell(error)
    if errors:
        raise typer.Exit(errors[0].exit_code)
    common.check_cluster(found.cluster_id)


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "step": check.step,
        "where": check.where,
        "result": check.result,
        "detail": check.detail or None,
        "took_ms": check.took_ms,
        "code": None if check.error is None else check.error.json_code,
    }

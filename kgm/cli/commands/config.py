"""`kgm config`: the profiles, where every setting comes from, and whether they let kgm connect and log in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options, output_options
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Column, Columns, Report, emit, object_table

if TYPE_CHECKING:
    from kgm.cli.output.redaction import ShownSetting

app = typer.Typer(
    help="Show profiles and where settings come from; test the connection and the login.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("view")
@cluster_options
def view(
    *,
    show_origin: Annotated[bool, typer.Option("--show-origin", help="Show where each value comes from.")] = False,
    options: RunOptions,
) -> None:
    """Show the settings that apply, by precedence: flag, -X, environment, --command-config, profile, default.

    Secrets are hidden. The command does not connect to a cluster."""
    from kgm.cli.output.contracts.config import SETTING
    from kgm.model.forms.json_form import as_json

    notices = Notices()
    for warning in options.warnings:
        notices.warn(warning)
    if options.other_cluster is not None:
        notices.warn(f"{options.other_cluster}; {options.bootstrap} is used")
    settings = [*_own_options(options), *_client_settings(options)]
    columns = {"key": "KEY", "value": "VALUE", **({"origin": "ORIGIN"} if show_origin else {})}
    rows = [{"key": one.key, "value": one.text, "origin": one.origin} for one in settings]
    items = [as_json(one, SETTING, {"secret": one.is_secret}) for one in settings]
    emit(
        Report(
            schema="kgm.config-view/v1",
            data={"profile": options.profile, "settings": items},
            tables=[object_table(columns, rows)],
            keys=("key", "value", "origin"),
            names=[one.key for one in settings],
            items=items,
            rows=rows,
        ),
        options,
    )


def _own_options(options: RunOptions) -> list[ShownSetting]:
    """The settings of kgm itself."""
    from kgm.cli.output.redaction import ShownSetting
    from kgm.text.durations import show_duration

    values = {
        "bootstrap_server": options.bootstrap,
        "expect_cluster_id": options.expect_cluster_id,
        "timeout": f"{options.timeout_ms}ms",
        "output": options.output,
        "color": options.color,
    }
    return [
        ShownSetting(
            key=key,
            value=value,
            text=show_duration(options.timeout_ms) if key == "timeout" else value,
            is_secret=False,
            origin=options.origins.get(key, "default") if value is not None else "default",
        )
        for key, value in values.items()
    ]


def _client_settings(options: RunOptions) -> list[ShownSetting]:
    """The Kafka client's settings, sorted by name."""
    from kgm.cli.output.redaction import redacted
    from kgm.operations.settings.loading import ClientSettings

    settings = options.settings
    assert isinstance(settings, ClientSettings)
    return [redacted(settings.setting(key)) for key in sorted(settings) if key != "bootstrap.servers"]


@app.command("list")
@output_options
def list_profiles(*, options: RunOptions) -> None:
    """List the profiles of kgm/config.toml: brokers, expected cluster, properties file, and which is the default.

    Shows what each profile itself says. No secrets are shown, and the command does not connect to a cluster."""
    import os

    from kgm.cli.output.redaction import redacted_text
    from kgm.operations.settings.loading import bootstrap_of, config_file
    from kgm.operations.settings.profiles import profile_names, read_profile

    file = config_file(os.environ)
    names, default = profile_names(file)
    items = []
    for name in names:
        profile = read_profile(name, file)
        assert profile is not None
        servers = bootstrap_of(profile)
        items.append(
            {
                "name": name,
                "bootstrap_server": None if servers is None else redacted_text(servers),
                "expect_cluster_id": profile.options.get("expect_cluster_id"),
                "command_config": profile.options.get("command_config"),
                "default": name == default,
            }
        )
    columns = {
        "name": "NAME", "bootstrap_server": "BOOTSTRAP-SERVER", "expect_cluster_id": "EXPECT-CLUSTER-ID",
        "command_config": "COMMAND-CONFIG", "default": "DEFAULT",
    }  # fmt: skip
    emit(
        Report(
            schema="kgm.config-list/v1",
            data={"file": str(file), "profiles": items},
            tables=[object_table(columns, items)],
            keys=[*columns],
            names=names,
            items=items,
        ),
        options,
    )


@app.command("test")
@cluster_options
def check(
    *,
    group: Annotated[
        str | None, typer.Option("-g", "--group", help="Also test what the principal is allowed to do with this group.")
    ] = None,
    options: RunOptions,
) -> None:
    """Test the connection and the login, step by step: name, connect, tls, versions, sasl, broker, authorisation.

    Shows which step failed and what to try next. Changes nothing."""
    from kgm.cli.output.contracts.config import check_json
    from kgm.cli.output.failures import print_error
    from kgm.client.connection_test import run_connection_test
    from kgm.client.transport.bootstrap import parse_bootstrap
    from kgm.client.transport.deadline import Deadline

    bootstrap = options.bootstrap_for(reads_only=True)
    security = options.security()
    tested = run_connection_test(
        parse_bootstrap(bootstrap), security, Deadline.after(options.timeout_ms), group_id=group
    )
    errors = list(tested.errors)
    items = [check_json(check) for check in tested.checks]
    ms = Column(title="MS", right=True)
    columns: Columns = {"step": "STEP", "where": "WHERE", "result": "RESULT", "took_ms": ms, "detail": "DETAIL"}
    emit(
        Report(
            schema="kgm.config-test/v1",
            data={"security_protocol": security.name, "checks": items},
            tables=[object_table(columns, items)],
            keys=[*columns],
            names=[check.step for check in tested.checks if check.error is not None],
            items=items,
            cluster={"id": tested.cluster_id, "bootstrap": bootstrap},
            errors=errors,
        ),
        options,
    )
    for error in errors:
        print_error(error)
    if errors:
        raise typer.Exit(errors[0].exit_code)
    options.check_cluster(tested.cluster_id)

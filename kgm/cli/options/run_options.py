"""The options of one run, checked: from the command line, the environment, --command-config and a profile."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kgm.cli.output.output_options import COLORS, FORMATS, OutputOptions
from kgm.model.errors import RefusedError, UsageError
from kgm.text.durations import parse_duration

if TYPE_CHECKING:
    from kgm.client import AdminClient, Security
    from kgm.operations.settings.loading import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(OutputOptions):
    """What every command takes, and where the cluster is."""

    timeout_ms: int = 30_000
    bootstrap: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    expect_cluster_id: str | None = None
    #: To be printed before a cluster is asked.
    warnings: tuple[str, ...] = ()
    #: Where the options came from, by name.
    origins: Mapping[str, str] = field(default_factory=dict)

    def bootstrap_for(self, *, reads_only: bool) -> str:
        """The bootstrap list. What is exported for other tools is good enough to read, not to change anything.

        Raises UsageError when there is none."""
        bootstrap = self.bootstrap or (os.environ.get("KAFKA_BOOTSTRAP_SERVERS") if reads_only else None)
        if not bootstrap:
            hint = "add --bootstrap-server HOST:PORT, or export KGM_BOOTSTRAP_SERVER=HOST:PORT"
            raise UsageError("no bootstrap server is given", hint=hint)
        return bootstrap

    def security(self) -> Security:
        """How to protect connections. Prints warnings about the settings. Raises UsageError."""
        from kgm.cli.output.notices import Notices
        from kgm.client.security import make_security

        notices = Notices()
        for warning in self.warnings:
            notices.warn(warning)
        security, warnings = make_security(self.settings)
        for warning in warnings:
            notices.warn(warning)
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
                facts=(f"expect_cluster_id comes from: {self.origins.get('expect_cluster_id', 'the settings')}",),
                hint="check --bootstrap-server and --profile",
            )


def run_options(values: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> RunOptions:
    """Check and merge. values: the parameters; sources: `flag` or `environment` for those that were given.

    Raises UsageError or NotFoundError."""
    if "bootstrap_server" not in values and "extra" not in values and "command_config" not in values:
        return _checked(values)
    from kgm.operations.settings.loading import load_settings

    values, origins = dict(values), dict(sources or {})
    loaded = load_settings(
        overrides=_overrides(values.get("extra")),
        properties_file=values.get("command_config"),
        profile=values.get("profile"),
    )
    for name in ("output", "color", "timeout", "no_headers"):
        if name in loaded.profile_options and name not in origins:
            option = loaded.profile_options[name]
            values[name] = option.value == "true" if name == "no_headers" else option.value
            origins[name] = option.origin
    servers = loaded.bootstrap()
    bootstrap, origins["bootstrap_server"] = (servers.value, servers.origin) if servers else (None, "default")
    flag = values.get("bootstrap_server") or values.get("brokers")
    if flag:
        bootstrap, origins["bootstrap_server"] = flag, "flag"
    expected = os.environ.get("KGM_EXPECT_CLUSTER_ID")
    origins["expect_cluster_id"] = "environment (KGM_EXPECT_CLUSTER_ID)"
    if not expected and "expect_cluster_id" in loaded.profile_options:
        option = loaded.profile_options["expect_cluster_id"]
        expected, origins["expect_cluster_id"] = option.value, option.origin
    return replace(
        _checked(values), bootstrap=bootstrap, settings=loaded.client, profile=loaded.profile,
        expect_cluster_id=expected or None, warnings=loaded.warnings, origins=origins,
    )  # fmt: skip


def _overrides(extra: Sequence[str] | None) -> list[Setting]:
    if not extra:
        return []
    from kgm.cli.options.client_overrides import parse_overrides

    return parse_overrides(extra)


def _checked(values: Mapping[str, Any]) -> RunOptions:
    output, color = values["output"], values["color"]
    if output not in FORMATS:
        raise UsageError(f"--output: {output!r} is not one of {', '.join(FORMATS)}")
    if color not in COLORS:
        raise UsageError(f"--color: {color!r} is not one of {', '.join(COLORS)}")
    return RunOptions(
        output=output,
        headers=not values["no_headers"],
        color=color,
        debug=values["debug"],
        timeout_ms=parse_duration(values.get("timeout", "30s"), "--timeout"),
    )

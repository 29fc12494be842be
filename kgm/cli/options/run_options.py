"""The checked options of one run: from the command line, the environment, --command-config and a profile."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgm.cli import invocation
from kgm.cli.output.output_options import COLORS, FORMATS, OutputOptions
from kgm.client import AdminClient, Security
from kgm.model.errors import RefusedError, UsageError
from kgm.operations.settings.loading import LoadedSettings, Setting
from kgm.text.durations import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(OutputOptions):
    """The options that every command takes, and where the cluster is."""

    timeout_ms: int = 30_000
    bootstrap: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    expect_cluster_id: str | None = None
    #: Why the exported bootstrap servers may belong to another cluster than intended; None if nothing suggests that.
    other_cluster: str | None = None
    #: To be printed before kgm connects to a cluster.
    warnings: tuple[str, ...] = ()
    #: Where the options came from, by name.
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def given_timeout_ms(self) -> int | None:
        """The time limit of a screen and of a simulation of many groups or plans: without --timeout there is none, as a
        fleet may take long, and the same seed must give the same result everywhere. Prediction of a single plan always
        has a limit: a plan may last for years, and a note says if there were fewer draws."""
        return self.timeout_ms if self.origins.get("timeout") == "flag" else None

    def bootstrap_for(self, *, reads_only: bool) -> str:
        """The bootstrap list. A list that is exported for other tools is good enough for reads, not for changes.

        Raises UsageError if there is none. If the file or profile on the command line has other servers, raises
        RefusedError for a command that changes something, and warns for a command that only reads."""
        if self.other_cluster is not None:
            if not reads_only:
                raise RefusedError(
                    f"nothing was changed: {self.other_cluster}",
                    hint="name the cluster with -b HOST:PORT, or unset KGM_BOOTSTRAP_SERVER",
                )
            from kgm.cli.output.failures import print_warning

            print_warning(f"{self.other_cluster}; {self.bootstrap} is used")
        if self.bootstrap:
            return self.bootstrap
        # Other tools use this variable too: it counts only if nothing else names a cluster.
        bootstrap = os.environ.get("KAFKA_BOOTSTRAP_SERVERS") if reads_only else None
        if not bootstrap:
            hint = "add --bootstrap-server HOST:PORT, or export KGM_BOOTSTRAP_SERVER=HOST:PORT"
            raise UsageError("no bootstrap server is given", hint=hint)
        check_no_login(bootstrap)
        invocation.infer_cluster(bootstrap)
        return bootstrap

    def security(self) -> Security:
        """How to protect connections. Prints warnings about the settings. Raises UsageError."""
        if not self.settings and not self.warnings:
            from kgm.client.transport.connection import Plaintext

            return Plaintext()
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
        """A client of the cluster (a context manager), which talks to no other cluster until it is closed. Raises
        UsageError without a bootstrap server, RefusedError if it is not the expected cluster."""
        from kgm.cli.output.report import cluster_json
        from kgm.client import connect

        bootstrap = self.bootstrap_for(reads_only=reads_only)
        connected = connect(bootstrap, timeout_ms=self.timeout_ms, security=self.security())
        invocation.note_cluster(cluster_json(connected))
        try:
            self.check_cluster(connected.cluster_id)
            connected.bind_to_cluster()
        except BaseException:
            connected.close()
            raise
        return connected

    def check_cluster(self, cluster_id: str | None) -> None:
        """Raises RefusedError unless this is the expected cluster."""
        if self.expect_cluster_id and cluster_id != self.expect_cluster_id:
            raise RefusedError(
                f"this is cluster {cluster_id}, not {self.expect_cluster_id}: nothing was done",
                facts=(f"expect_cluster_id comes from: {self.origins.get('expect_cluster_id', 'the settings')}",),
                hint="check --bootstrap-server and --profile",
            )


def run_options(values: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> RunOptions:
    """Check and merge the options. values: the parameters; sources: `flag` or `environment` for those that were given.

    Raises UsageError or NotFoundError."""
    if "bootstrap_server" not in values and "extra" not in values and "command_config" not in values:
        return _checked(values)
    from kgm.operations.settings.loading import load_settings

    refuse_empty(values, "bootstrap_server", "brokers", "profile")
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
    for text in (bootstrap, loaded.in_files.value if loaded.in_files else None):
        check_no_login(text or "")
    expected = os.environ.get("KGM_EXPECT_CLUSTER_ID")
    origins["expect_cluster_id"] = "environment (KGM_EXPECT_CLUSTER_ID)"
    if not expected and "expect_cluster_id" in loaded.profile_options:
        option = loaded.profile_options["expect_cluster_id"]
        expected, origins["expect_cluster_id"] = option.value, option.origin
        if not expected.strip():
            raise UsageError(
                f"expect_cluster_id ({option.origin}) is empty",
                hint="kgm config test -b HOST:PORT shows the cluster's id",
            )
    return replace(
        _checked(values), bootstrap=bootstrap, settings=loaded.client, profile=loaded.profile,
        expect_cluster_id=expected or None, warnings=loaded.warnings, origins=origins,
        other_cluster=None if bootstrap is None else _other_cluster(loaded, values, bootstrap, origins),
    )  # fmt: skip


def refuse_empty(values: Mapping[str, Any], *names: str) -> None:
    """Raises UsageError for an option that was given without a value: taken for not given, it would let a command loose
    on the cluster of another source, without the profile's `expect_cluster_id`; a file would be the folder `.`."""
    for name in names:
        value = values.get(name)
        if any(not text.strip() for text in ([value] if isinstance(value, str) else value or ())):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: the value is empty", hint="is a shell variable unset?")


def _other_cluster(
    loaded: LoadedSettings, values: Mapping[str, Any], bootstrap: str, origins: Mapping[str, str]
) -> str | None:
    """Why an exported list may be wrong: a file or profile named on the command line has other servers; else None."""
    named = loaded.in_files
    if named is None or not origins["bootstrap_server"].startswith("environment"):
        return None
    if origins.get("profile") == "flag":
        what = f"--profile {values['profile']}"
    elif origins.get("command_config") == "flag" and named.origin == values["command_config"]:
        what = f"--command-config {values['command_config']}"
    else:
        return None
    if _addresses(named.value) & _addresses(bootstrap):
        return None
    return f"{what} names the brokers {named.value}, but KGM_BOOTSTRAP_SERVER names others: {bootstrap}"


def _addresses(text: str) -> set[str]:
    """The addresses in a list, or the text itself if it cannot be parsed."""
    from kgm.client.transport.bootstrap import parse_bootstrap

    try:
        return set(map(str, parse_bootstrap(text.lower())))
    except UsageError:
        return {text}


def check_no_login(bootstrap: str) -> None:
    """Raises UsageError for a list with a user or a password (`user:SECRET@host`), without showing the secret."""
    if "@" in bootstrap:
        from kgm.client.transport.bootstrap import parse_bootstrap

        parse_bootstrap(bootstrap)


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

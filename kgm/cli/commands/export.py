"""`kgm export`: groups as OpenMetrics, once, as a file for node_exporter, or for Prometheus to scrape."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kgm.cli.options.group_names import GroupsOption
from kgm.cli.options.listen_address import address_text, is_loopback, parse_listen
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.output.report import Column, Columns, MadeRows, Report, cluster_json, emit, object_table
from kgm.cli.output.streams import write_stdout
from kgm.cli.stop_signal import interrupted_by_signals
from kgm.model.distribution import install_command
from kgm.model.errors import AuthenticationError, KgmError, UnreachableError, UsageError
from kgm.text.durations import parse_duration, show_duration

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from kgm.operations.export.collector import Collection, ExportRequest, GroupCollector
    from kgm.operations.export.listener import MetricsListener

SCHEMA = "kgm.export/v1"
_SHORTEST_INTERVAL_MS = 1_000
_DEFAULT_INTERVAL_MS = 15_000


@cluster_options_with("Time limit for connecting and for each collection (30s).")
def export(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups to export.")] = None,
    *,
    group: GroupsOption = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Serve /metrics until SIGTERM or Ctrl-C; port 0 picks a free port."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="With --listen: also answer requests for this host, such as the name of a service; repeatable.",
        ),
    ] = None,
    textfile: Annotated[
        str | None,
        typer.Option("--textfile", metavar="FILE", help="Write FILE, whose name must end in .prom, for node_exporter."),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option("--interval", metavar="DURATION", help="How often to poll the cluster; 15s with --listen."),
    ] = None,
    findings_every: Annotated[
        str,
        typer.Option(
            "--findings-every", metavar="DURATION", help="How often kgm doctor examines the groups; 0s: never."
        ),
    ] = "5m",
    lag_time: Annotated[
        bool, typer.Option("--lag-time", help="Export lag in seconds too; reads records of topics (READ).")
    ] = False,
    max_series: Annotated[
        int, typer.Option("--max-series", metavar="N", min=100, help="Leave out details if there are more series.")
    ] = 50_000,
    options: RunOptions,
) -> None:
    """Export lag, members, rebalances and findings of groups as OpenMetrics. All groups by default.

    Prints one collection, or writes it to --textfile. With --listen, or with --textfile and --interval, it runs until
    SIGTERM or Ctrl-C and counts rebalances and handovers; a scrape shows the last collection and sends nothing to the
    cluster. While the cluster does not answer, kgm_up is 0 and there are no series for groups.

    Lag has the labels group, topic, partition, group_instance_id and client_id. With --listen, kgm prints one line of
    JSON once it accepts requests: {"listening":"HOST:PORT"}. The port has no login and no TLS, and is reachable only
    from this host unless HOST says otherwise. Requests must name localhost, HOST, the local address that they were sent
    to, or an --allow-host name; this refuses web pages whose name was made to resolve to this host (DNS rebinding).
    Only /metrics is served, to at most 16 connections at a time."""
    interval_ms = _interval_ms(interval, listen=listen, textfile=textfile)
    address = None if listen is None else parse_listen(listen)
    if listen is not None and textfile is not None:
        raise UsageError("--listen and --textfile exclude each other")
    if allow_host and listen is None:
        raise UsageError("--allow-host needs --listen", hint="kgm export --listen 127.0.0.1:9797")
    if options.is_data and (listen is not None or textfile is not None):
        raise UsageError("-o cannot be combined with --listen or --textfile, which have their own format")
    _check_extra()
    from kgm.operations.export.collector import ExportRequest, GroupCollector
    from kgm.operations.export.listener import MetricsListener

    every_ms = parse_duration(findings_every, "--findings-every")
    request = ExportRequest(
        names=list(dict.fromkeys([*(groups or ()), *(group or ())])),
        pattern=match,
        budget_ms=options.timeout_ms,
        findings_every_ms=every_ms or None,
        with_times=lag_time,
        max_series=max_series,
        is_once=listen is None and interval is None,
    )
    with ExitStack() as stack:
        if not request.is_once:
            # At once, even if a broker hangs: a supervisor that stops kgm does not wait for --timeout.
            stack.enter_context(interrupted_by_signals(sigterm_code=0))
        listener = (
            None if address is None else stack.enter_context(MetricsListener(*address, allowed_hosts=allow_host or ()))
        )
        try:
            cluster = stack.enter_context(options.cluster(reads_only=True))
        except (UnreachableError, AuthenticationError) as error:
            if textfile is not None:  # what an earlier run wrote is not the present any more
                _write_down(Path(textfile), request, error)
            raise
        collector = GroupCollector(cluster=cluster, request=request)
        if listener is not None:
            _serve(collector, listener, interval_ms or _DEFAULT_INTERVAL_MS)
        elif textfile is not None:
            _write(collector, Path(textfile), interval_ms)
        else:
            _print(collector, options)


def _interval_ms(interval: str | None, *, listen: str | None, textfile: str | None) -> int | None:
    """The time between polls, in ms; None to collect once. Raises UsageError."""
    if interval is None:
        return None
    if listen is None and textfile is None:
        raise UsageError("--interval needs --listen or --textfile", hint="kgm export --listen 127.0.0.1:9797")
    interval_ms = parse_duration(interval, "--interval")
    if interval_ms < _SHORTEST_INTERVAL_MS:
        raise UsageError(f"--interval: {interval} is shorter than {show_duration(_SHORTEST_INTERVAL_MS)}")
    return interval_ms


def _check_extra() -> None:
    """Raises UsageError if the extra is not installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("kgm export needs prometheus-client, which is not installed", hint=install_command("export"))


def _print(collector: GroupCollector, options: RunOptions) -> None:
    from kgm.cli.output.failures import exit_with, warn_of_unknown_offsets, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.operations.export.families import openmetrics_text

    with progress(options, "reading groups"):
        collection = collector.collect()
    if not collection.is_up:
        raise collection.errors[-1]
    warn_of_unseen_groups(collection.unseen)
    warn_of_unknown_offsets(collector.cluster, shows_lag=True)
    if not options.is_data:
        for piece in openmetrics_text(collection):
            if not write_stdout(piece.decode()):
                break
        exit_with(collection.errors, done=len(collection.series.group_ids))
        return
    emit(report(collection, cluster_json(collector.cluster)), options)
    exit_with(collection.errors, done=len(collection.series.group_ids))


def report(collection: Collection, where: dict[str, str | None]) -> Report:
    """The report of one collection, whose samples are made as they are printed."""
    from kgm.cli.output.contracts.export import collection_json, family_json
    from kgm.operations.export.families import families

    shown = families(collection)
    rows = MadeRows(lambda: _rows(shown))
    columns: Columns = {"name": "METRIC", "labels": "LABELS", "value": Column(title="VALUE", right=True)}
    return Report(
        schema=SCHEMA,
        data=collection_json(collection, shown),
        tables=[object_table(columns, rows)],
        keys=[*columns],
        names=collection.series.group_ids,
        items=map(family_json, shown),
        rows=rows,
        cluster=where,
        errors=collection.errors,
    )


def _rows(families: Sequence[Metric]) -> Iterator[dict[str, str]]:
    """A row for each sample."""
    for family in families:
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in one.labels.items())
            yield {"name": one.name, "labels": labels, "value": f"{one.value:.15g}"}


def _serve(collector: GroupCollector, listener: MetricsListener, interval_ms: int) -> None:
    from kgm.cli.output.failures import print_warning, warn_of_unseen_groups

    host, port = listener.address
    if not is_loopback(host):
        print_warning(f"listening on {host}: anyone who can reach this port sees groups, members and lag")
    first = listener.latest = collector.collect()
    warn_of_unseen_groups(first.unseen)
    if first.log_unread_because is not None:
        why = first.log_unread_because
        print_warning(f"{why}: rebalances and handovers between two collections may be missed")
    write_stdout(json.dumps({"listening": address_text(host, port)}, separators=(",", ":")) + "\n")

    def show(collection: Collection) -> None:
        listener.latest = collection

    _go_on(collector, interval_ms, show)


def _write(collector: GroupCollector, path: Path, interval_ms: int | None) -> None:
    """Write the file once, or every interval_ms. A cluster that does not answer is an error when writing once; else the
    file says that kgm_up is 0."""
    from kgm.cli.output.failures import exit_with, warn_of_unseen_groups
    from kgm.operations.export.families import prometheus_text
    from kgm.operations.export.textfile import write_textfile

    def write(collection: Collection) -> None:
        write_textfile(path, prometheus_text(collection))

    first = collector.collect()
    warn_of_unseen_groups(first.unseen)
    write(first)
    if interval_ms is not None:
        _go_on(collector, interval_ms, write)
    if not first.is_up:
        raise first.errors[-1]
    exit_with(first.errors, done=len(first.series.group_ids))


def _write_down(path: Path, request: ExportRequest, error: KgmError) -> None:
    """Write that the cluster does not answer."""
    from kgm.operations.export.collector import no_collection
    from kgm.operations.export.families import prometheus_text
    from kgm.operations.export.textfile import write_textfile

    write_textfile(path, prometheus_text(no_collection(request, error)))


def _go_on(collector: GroupCollector, interval_ms: int, use: Callable[[Collection], None]) -> NoReturn:
    """Collect every interval_ms until a signal interrupts it."""
    while True:
        time.sleep(interval_ms / 1000)
        use(collector.collect())

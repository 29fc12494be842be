"""`kgm serve`: the embedded coordinator, for real Kafka clients."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kgm.cli.options.broker_settings import parse_settings
from kgm.cli.output.streams import say
from kgm.model.errors import UsageError
from kgm.text.sanitize import clean

_HIGHEST_PORT = 65_535
#: More would be a mistake: they share one process.
MOST_BROKERS = 32


def serve(
    *,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", envvar="KGM_LISTEN", metavar="HOST:PORT", help="Port 0 picks free ones; the first broker's."
        ),
    ] = "127.0.0.1:9092",
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME:PARTITIONS", help="A topic to have; repeatable.")
    ] = None,
    brokers: Annotated[
        int, typer.Option("--brokers", metavar="N", min=1, max=MOST_BROKERS, help="Brokers, at ports PORT to PORT+N-1.")
    ] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="BROKER.KEY=VALUE", help="A broker setting of Kafka's, or of kgm's own; repeatable."
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            help="Keep groups, offsets, topics and records here, over restarts and crashes.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", envvar="KGM_DEBUG", help="Show tracebacks.")] = False,  # noqa: ARG001
) -> None:
    """Run a group coordinator that real Kafka clients can join.

    It has the topics given with --topic, with small logs of records, and coordinates groups by partition of
    __consumer_offsets as Kafka does. With --brokers each coordinates some; kafka-reassign-partitions.sh moves them.

    Without --data-dir everything is in memory. With it nothing is acknowledged that would not survive a power failure.
    DIR/__consumer_offsets-N are Kafka's own log format; topics keep their newest records within the same bounds as in
    memory.

    Of kgm's own, and off by default, because Apache Kafka has no such thing: --set kgm.group.target.size.GROUP=N holds
    new members back until there are N, so that they cost one rebalance, and keeps more as spares that take the place of
    members that go; --set kgm.group.pre.registered.instance.ids.GROUP=ID,ID does so until these ids are there. Nobody
    waits longer than its rebalance timeout, or kgm.group.newcomer.max.wait.ms. GROUP may be a glob.

    Once it accepts connections it prints one line of JSON, {"listening":"HOST:PORT"}, with "brokers" when there are
    several. SIGTERM ends it.
    """
    host, port = parse_listen(listen)
    topics = parse_topics(topic or ())
    overrides = parse_settings(settings or ())

    import signal
    from pathlib import Path

    from kgm.server import ServerOptions, serve_forever, settings_from_overrides

    broker_settings, limits = settings_from_overrides(overrides)
    options = ServerOptions(
        topics=topics,
        settings=broker_settings,
        limits=limits,
        brokers=brokers,
        data_dir=None if data_dir is None else Path(data_dir),
        host=host,
        port=port,
        warn=_warn,
    )
    if serve_forever(options, on_listening=_print_listening) is signal.SIGINT:
        raise KeyboardInterrupt


def parse_listen(text: str) -> tuple[str, int]:
    """HOST:PORT, [IPV6]:PORT or :PORT (loopback). Raises UsageError."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _HIGHEST_PORT:
        raise UsageError(f"--listen {text}: write HOST:PORT, with a port from 0 to {_HIGHEST_PORT}")
    if ":" in bare and bare == host:
        raise UsageError(f"--listen {text}: write an IPv6 address in brackets, [::1]:9092")
    return bare or "127.0.0.1", int(port)


def parse_topics(items: list[str] | tuple[()]) -> dict[str, int]:
    """NAME:PARTITIONS, each name once. Raises UsageError."""
    topics: dict[str, int] = {}
    for item in items:
        name, colon, count = item.rpartition(":")
        if not colon or not count.isascii() or not count.isdigit():
            raise UsageError(f"--topic {item}: write NAME:PARTITIONS", hint="for example --topic orders:12")
        if name in topics:
            raise UsageError(f"--topic {item}: the topic is given twice")
        topics[name] = int(count)
    return topics


def _print_listening(addresses: Mapping[int, tuple[str, int]]) -> None:
    import ipaddress

    host, _ = addresses[1]
    if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        _warn(f"listening on {host}: there is no authentication, whoever reaches this port can change every group")
    where = {
        node_id: f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for node_id, (host, port) in addresses.items()
    }
    line: dict[str, Any] = {"listening": where[1]}
    if len(where) > 1:
        line["brokers"] = [{"id": node_id, "listening": address} for node_id, address in where.items()]
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _warn(text: str) -> None:
    say(f"warning: {clean(text)}\n")

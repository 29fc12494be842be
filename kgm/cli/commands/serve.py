"""`kgm serve`: the embedded coordinator, for real Kafka clients."""

import json
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kgm.cli.options.broker_settings import parse_settings
from kgm.cli.options.listen_address import address_text, is_loopback, parse_listen
from kgm.cli.options.plan_options import plan_option
from kgm.cli.output.streams import write_stderr, write_stdout
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import UsageError
from kgm.text.sanitize import clean

#: More are probably a mistake: all brokers share one process.
MOST_BROKERS = 32


def serve(
    *,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            envvar="KGM_LISTEN",
            metavar="HOST:PORT",
            help="Address of the first broker; port 0 picks a free port.",
        ),
    ] = "127.0.0.1:9092",
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME:PARTITIONS", help="Topic to create; repeatable.")
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            metavar="N",
            min=1,
            max=MOST_BROKERS,
            help="Number of brokers; they listen on PORT to PORT+N-1.",
        ),
    ] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="BROKER.KEY=VALUE", help="A Kafka broker setting, or one that only kgm has; repeatable."
        ),
    ] = None,
    kafka_version: Annotated[str | None, plan_option("kafka_version")] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            help="Keep groups, offsets, topics and records in DIR, so that they survive restarts and crashes.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", envvar="KGM_DEBUG", help="Show tracebacks.")] = False,  # noqa: ARG001
) -> None:
    """Run a group coordinator that real Kafka clients can join.

    It serves the topics given with --topic, with small logs of records. As in Kafka, the broker that leads a partition
    of __consumer_offsets coordinates its groups; with several --brokers, kafka-reassign-partitions.sh can move them.

    Without --data-dir everything is in memory. With --data-dir, whatever is acknowledged survives a power failure.
    DIR/__consumer_offsets-N use Kafka's own log format. Topics keep only their newest records, as they do in memory.

    Two settings are off by default, because Apache Kafka does not have them. --set kgm.group.target.size.GROUP=N makes
    new members wait until the group has N members, so that a scale-out costs one rebalance; further members are spares,
    which replace members that leave. --set kgm.group.pre.registered.instance.ids.GROUP=ID,ID makes new members wait
    until all these ids are there. No member waits longer than its rebalance timeout or kgm.group.newcomer.max.wait.ms.
    GROUP can be a glob.

    When it accepts connections it prints one line of JSON: {"listening":"HOST:PORT"}, with "brokers" if there are
    several. It runs until SIGTERM or Ctrl-C.
    """
    host, port = parse_listen(listen)
    topics = parse_topics(topic or ())
    overrides = parse_settings(settings or ())
    version = None if kafka_version is None else BrokerVersion.parse(kafka_version)

    from kgm.server import ServerOptions, serve_forever, settings_from_overrides

    broker_settings, limits = settings_from_overrides(overrides)
    if version is not None:
        broker_settings = replace(broker_settings, kafka_version=version)
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


def parse_topics(items: list[str] | tuple[()]) -> dict[str, int]:
    """{topic: number of partitions} of NAME:PARTITIONS items, each name once. Raises UsageError."""
    topics: dict[str, int] = {}
    for item in items:
        name, colon, count = item.rpartition(":")
        if not colon or not count.isascii() or not count.isdigit() or len(count) > 9:
            raise UsageError(f"--topic {item} is not NAME:PARTITIONS", hint="for example --topic orders:12")
        if name in topics:
            raise UsageError(f"--topic {item}: the topic is given twice")
        topics[name] = int(count)
    return topics


def _print_listening(addresses: Mapping[int, tuple[str, int]]) -> None:
    host, _ = addresses[1]
    if not is_loopback(host):
        _warn(
            f"listening on {host}: without authentication, every client that can reach this port can change every group"
        )
    where = {node_id: address_text(*address) for node_id, address in addresses.items()}
    line: dict[str, Any] = {"listening": where[1]}
    if len(where) > 1:
        line["brokers"] = [{"id": node_id, "listening": address} for node_id, address in where.items()]
    write_stdout(json.dumps(line, separators=(",", ":")) + "\n")


def _warn(text: str) -> None:
    write_stderr(f"warning: {clean(text)}\n")

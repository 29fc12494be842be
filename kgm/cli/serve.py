"""`kgm serve`: the embedded coordinator, for real Kafka clients."""

import json
import sys
from typing import Annotated

import typer

from kgm.cli.sanitize import clean
from kgm.model.errors import UsageError

_HIGHEST_PORT = 65_535


def serve(
    *,
    listen: Annotated[
        str, typer.Option("--listen", envvar="KGM_LISTEN", metavar="HOST:PORT", help="Port 0 picks a free one.")
    ] = "127.0.0.1:9092",
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME:PARTITIONS", help="A topic to have; repeatable.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="BROKER.KEY=VALUE", help="A broker setting of Kafka's; repeatable."),
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="DIR", help="Not supported yet: groups live in memory.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", envvar="KGM_DEBUG", help="Show tracebacks.")] = False,  # noqa: ARG001
) -> None:
    """Run a group coordinator that real Kafka clients can join.

    It is one broker that keeps everything in memory: topics given with --topic, small logs of records, groups and their
    offsets. Once it accepts connections it prints one line of JSON, {"listening":"HOST:PORT"}. SIGTERM ends it.
    """
    host, port = parse_listen(listen)
    topics = parse_topics(topic or ())
    if data_dir is not None:
        raise UsageError(
            "--data-dir is not supported yet: kgm serve keeps groups and offsets in memory only",
            hint="leave --data-dir out; everything is gone when the server ends",
        )
    overrides = dict(_pair(item, "--set", "BROKER.KEY=VALUE") for item in settings or ())

    import signal

    from kgm.server import serve_forever, settings_from_overrides

    broker_settings, limits = settings_from_overrides(overrides)
    ended_by = serve_forever(
        topics=topics,
        settings=broker_settings,
        limits=limits,
        host=host,
        port=port,
        on_listening=_say_listening,
        warn=_warn,
    )
    if ended_by is signal.SIGINT:
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


def _pair(item: str, option: str, form: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} {item}: write {form}")
    return key.strip(), value.strip()


def _say_listening(host: str, port: int) -> None:
    import ipaddress

    if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        _warn(f"listening on {host}: there is no authentication, whoever reaches this port can change every group")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    sys.stdout.write(json.dumps({"listening": address}, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _warn(text: str) -> None:
    sys.stderr.write(f"warning: {clean(text)}\n")
    sys.stderr.flush()

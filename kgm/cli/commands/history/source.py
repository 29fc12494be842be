"""Where a history is taken from, and how much of it: the options that every `kgm history` command has.

`@of_history` adds them, and hands the command one `Where`. Tables are asked through `kgm.history.store.store`, which
needs numpy and pyarrow; who lacks them is told which command installs them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import pathlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.extras import extra_needed
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.text.durations import parse_duration

if TYPE_CHECKING:
    from kgm.history.causes.broker_log import Said
    from kgm.history.store.store import Asked, Tables

KINDS = ("kafka", "segments", "parquet", "delta")
#: Of files that one process reads without being asked to build.
MOST_IN_PROCESS = 512 << 20
_DAYS = re.compile(r"(\d+(?:\.\d+)?)d")

Source = Annotated[
    str | None,
    typer.Option("--source", envvar="KGM_HISTORY_SOURCE", metavar="SOURCE",
                 help="kafka | segments:DIR | parquet:DIR | delta:DIR, of records of __consumer_offsets."),
]  # fmt: skip
Store = Annotated[
    str | None,
    typer.Option("--store", "--out", envvar="KGM_HISTORY_STORE", metavar="DIR", help="The tables that were built."),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="From then on: 2026-11-21T03:00Z, or 2h, 7d (ago).")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="What was before then.")]
BrokerLog = Annotated[
    list[str] | None,
    typer.Option("--broker-log", metavar="FILE", help="A broker's server.log: it knows why; repeatable."),
]
Master = Annotated[
    str | None, typer.Option("--master", envvar="KGM_SPARK_MASTER", metavar="URL", help="Of Spark. [local[*]]")
]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
]
Jars = Annotated[
    str | None,
    typer.Option("--jars", envvar="KGM_SPARK_JARS", metavar="DIR", help="Jars, if Maven is out of reach."),
]

_OPTIONS: dict[str, Any] = {
    "source": Source, "store": Store, "since": Since, "until": Until, "broker_log": BrokerLog, "master": Master,
    "spark_conf": SparkConf, "jars": Jars,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The options of one run, checked. kind: one of KINDS, None without a source; path: of all but kafka."""

    kind: str | None = None
    path: pathlib.Path | None = None
    store: pathlib.Path | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    broker_logs: tuple[pathlib.Path, ...] = ()
    master: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()
    jars: pathlib.Path | None = None

    @property
    def text(self) -> str:
        """What was given, as an option that can be given again."""
        if self.kind is None:
            return f"--store {shlex.quote(str(self.store))}"
        return "--source " + shlex.quote(self.kind if self.path is None else f"{self.kind}:{self.path}")

    def asked(self, *group_ids: str | None) -> Asked:
        """Rows of these groups (of every group, if it is None) within the time."""
        from kgm.history.store.store import Asked

        named = tuple(group for group in group_ids if group is not None)
        return Asked(group_ids=named or None, since_ms=self.since_ms, until_ms=self.until_ms)

    def broker_says(self) -> Iterator[Said]:
        """What the brokers' logs say of rebalances. Raises NotFoundError, UsageError for a file that cannot be read."""
        from kgm.history.causes.broker_log import parse

        for path in self.broker_logs:
            with _text_of(path) as lines:
                yield from parse(lines)

    @contextlib.contextmanager
    def tables(self) -> Iterator[Tables]:
        """The tables to ask. Raises UsageError, NotFoundError; RefusedError for a source that one process should not
        read."""
        with extra_needed():
            yield self._opened()

    def _opened(self) -> Tables:
        if self.kind is None:
            if self.store is None:
                raise no_history()
            from kgm.history.store.store import open_store

            return open_store(self.store)
        if self.kind == "kafka":
            raise refuse_kafka()
        assert self.path is not None
        from kgm.history.in_process import derived

        return derived(self.kind, self.path, most_bytes=MOST_IN_PROCESS)


@contextlib.contextmanager
def _text_of(path: pathlib.Path) -> Iterator[Iterable[str]]:
    """The lines of a log, which may be gzipped as rotated ones are."""
    import gzip

    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="backslashreplace") as lines:
            yield lines
    except FileNotFoundError:
        raise NotFoundError(f"file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"file {path} cannot be read: {error.strerror or error}") from error


def refuse_kafka() -> RefusedError:
    """A question to the topic itself."""
    return RefusedError(
        "a question is not put to the live topic: it would be read from its beginning each time",
        hint="kgm history build --source kafka -b HOST:PORT --out DIR, then ask with --store DIR",
    )


def no_history() -> UsageError:
    """Neither a store nor a source is given."""
    return UsageError(
        "no history is given",
        hint="name a copy of a broker's folders: --source segments:DIR; or what was built: --store DIR",
    )


def of_history(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; the command takes `where: Where` by keyword."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "where"]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        taken = {name: values.pop(name) for name in _OPTIONS}
        command(**values, where=_where(**taken))

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _where(
    *, source: str | None, store: str | None, since: str | None, until: str | None, broker_log: Sequence[str] | None,
    master: str | None, spark_conf: Sequence[str] | None, jars: str | None,
) -> Where:  # fmt: skip
    kind, path = (None, None) if source is None else _source(source)
    return Where(
        kind=kind, path=path, store=None if store is None else pathlib.Path(store),
        since_ms=None if since is None else parse_time(since, "--since"),
        until_ms=None if until is None else parse_time(until, "--until"),
        broker_logs=tuple(map(pathlib.Path, broker_log or ())), master=master,
        spark_conf=tuple(_setting(text) for text in spark_conf or ()),
        jars=None if jars is None else pathlib.Path(jars),
    )  # fmt: skip


def _source(text: str) -> tuple[str, pathlib.Path | None]:
    kind, colon, path = text.partition(":")
    if kind not in KINDS:
        raise UsageError(f"--source: {text!r} is none of {', '.join(KINDS)}", hint="--source segments:DIR")
    if kind == "kafka":
        if colon:
            raise UsageError(f"--source: {text!r}: kafka takes no directory", hint="--source kafka -b HOST:PORT")
        return kind, None
    if not path:
        raise UsageError(f"--source: {text!r} names no directory", hint=f"--source {kind}:DIR")
    return kind, pathlib.Path(path)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--spark-conf: {text!r} is not KEY=VALUE")
    return key, value


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970 of a time (RFC 3339; UTC unless it says otherwise), or of so long ago. Raises
    UsageError."""
    from datetime import UTC, datetime

    words = text.strip()
    days = _DAYS.fullmatch(words.lower())
    if days is not None or (words and words[-1] in "smhSMH"):
        ago_ms = round(float(days[1]) * 86_400_000) if days is not None else parse_duration(words, option)
        return round(datetime.now(UTC).timestamp() * 1000) - ago_ms
    try:
        found = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(
            f"{option}: {text!r} is no time", hint="write 2026-11-21T03:00:00Z, 2026-11-21, or 2h, 7d for so long ago"
        ) from None
    return round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)

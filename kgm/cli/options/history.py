"""The options of `kgm history`: where a history is read from, how much of it, and how to start Spark.

`@history_options` adds them to a command, and passes it one `HistoryOptions`. `kgm.operations.history` defines what a
history is and opens it; it is imported when a command runs."""

from __future__ import annotations

import contextlib
import pathlib
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.group_names import named_group
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import with_options
from kgm.history.places.remote_path import Place, place
from kgm.model.errors import RefusedError, UsageError
from kgm.text.durations import parse_duration

if TYPE_CHECKING:
    from kgm.history.causes.session_timeouts import GivenSessions
    from kgm.operations.history.live import LiveHistory
    from kgm.operations.history.source import History, HistorySource
    from kgm.pipeline import SparkOptions

LIVE = "kafka"
KINDS = (LIVE, "segments", "parquet", "delta")
_DAYS = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)d")

Group = Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only this group.")]
TheGroup = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")]
Match = Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Only groups whose id matches.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", metavar="FILE.html", help="Also write a self-contained page.")
]
Source = Annotated[
    str | None,
    typer.Option("--source", envvar="KGM_HISTORY_SOURCE", metavar="SOURCE",
                 help="Records of __consumer_offsets: kafka | segments:DIR | parquet:DIR | delta:DIR."),
]  # fmt: skip
Store = Annotated[
    str | None,
    typer.Option("--store", "--out", envvar="KGM_HISTORY_STORE", metavar="DIR",
                 help="Directory of a history store, or its URI: s3://BUCKET/PATH, gs://, abfs://, hdfs://, webhdfs://."),
]  # fmt: skip
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only records from this time on: 2026-11-21T03:00Z, 2h, 7d (ago)."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only records before this time.")]
BrokerLog = Annotated[
    list[str] | None,
    typer.Option("--broker-log", metavar="PATH",
                 help="Broker log, or a directory of rotated logs, to read rebalance reasons from; also gzip, "
                 "and journalctl -o json, export or short; repeatable."),
]  # fmt: skip
SessionTimeouts = Annotated[
    list[str] | None,
    typer.Option("--session-timeout", metavar="[GROUP=]TIME",
                 help="Session timeout of consumer groups, which no record contains: 10s, or orders=10s; repeatable. "
                 "[read from a live cluster, else inferred]"),
]  # fmt: skip
Master = Annotated[
    str | None, typer.Option("--master", envvar="KGM_SPARK_MASTER", metavar="URL", help="Spark master. [local[*]]")
]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark setting; repeatable.")
]
Jars = Annotated[
    str | None,
    typer.Option("--jars", envvar="KGM_SPARK_JARS", metavar="DIR", help="Jars for Spark, instead of Maven Central."),
]

_OPTIONS: dict[str, Any] = {
    "source": Source, "store": Store, "since": Since, "until": Until, "broker_log": BrokerLog,
    "session_timeout": SessionTimeouts, "master": Master, "spark_conf": SparkConf, "jars": Jars,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options of one run, checked. kind: one of KINDS, None without a source; path: for all kinds but LIVE.
    session_ms, session_ms_by_group: the given session timeouts, in ms, for all consumer groups and for single ones."""

    kind: str | None = None
    path: Place | None = None
    store: Place | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    broker_logs: tuple[pathlib.Path, ...] = ()
    session_ms: int | None = None
    session_ms_by_group: tuple[tuple[str, int], ...] = ()
    master: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()
    jars: pathlib.Path | None = None

    @property
    def _session_words(self) -> list[str]:
        """The session timeout options to repeat in suggested commands on the same history."""
        all_groups = [] if self.session_ms is None else [f"{self.session_ms}ms"]
        values = [*all_groups, *(f"{group}={ms}ms" for group, ms in self.session_ms_by_group)]
        return [word for value in values for word in ("--session-timeout", value)]

    @property
    def source_text(self) -> str:
        """The value of --source."""
        return shlex.quote(str(self.kind) if self.path is None else f"{self.kind}:{self.path}")

    def source(self) -> HistorySource:
        """The source or store to read. Raises UsageError if neither is given, RefusedError for the live topic."""
        from kgm.operations.history.source import HistorySource
        from kgm.pipeline.options import SourceKind

        if self.kind == LIVE:
            raise RefusedError(
                "this command does not read the live topic",
                hint="kgm history capture --source kafka -b HOST:PORT --once --out DIR, then use --store DIR",
            )
        if self.kind is not None and self.path is not None:
            return HistorySource(path=self.path, kind=SourceKind(self.kind), more=shlex.join(self._session_words))
        if self.store is None:
            raise UsageError(
                "no history is given",
                hint="-b HOST:PORT for the live topic, --source segments:DIR for a copy of a broker's folders, "
                "or --store DIR for a built history",
            )
        return HistorySource(path=self.store)

    def is_live(self, run: RunOptions) -> bool:
        """Whether to read the live topic: it is named, or a cluster is named and no history."""
        return self.kind == LIVE or (self.kind is None and self.store is None and run.bootstrap is not None)

    def open(self, run: RunOptions, group_id: str | None = None, match: str | None = None) -> History:
        """The history to query; warns about what could not be read, and of groups with gaps. group_id: the only group
        of interest; None for all, or for those whose id matches the pattern.

        Raises UsageError, NotFoundError, RefusedError for a source that is too large for one process, and any KgmError
        for the live topic."""
        from kgm.cli.output.history.damages import warn_of, warn_of_gaps

        if self.is_live(run):
            with self.live(run, group_id) as live:
                history = live.read()
            warn_of_gaps(history, group_id, match)
            return history
        from kgm.operations.history.source import open_history

        history = open_history(
            self.source(), since_ms=self.since_ms, until_ms=self.until_ms, broker_logs=self.broker_logs,
            sessions=self.sessions(),
        )  # fmt: skip
        # Before any question is asked: an answer may be that the history does not have what could not be read.
        warn_of(history.tables.origin.damages)
        warn_of_gaps(history, group_id, match)
        return history

    def sessions(self) -> GivenSessions | None:
        """The session timeouts that are given; None if there are none."""
        if self.session_ms is None and not self.session_ms_by_group:
            return None
        from kgm.history.causes.session_timeouts import GivenSessions

        return GivenSessions(default_ms=self.session_ms, by_group=dict(self.session_ms_by_group))

    @contextlib.contextmanager
    def live(
        self, run: RunOptions, group_id: str | None = None, text: str = "reading __consumer_offsets"
    ) -> Iterator[LiveHistory]:
        """The live topic, with a progress line while it is read; notes on stderr say what was not read."""
        from kgm.cli import invocation
        from kgm.cli.output.notices import Notices
        from kgm.cli.output.progress import progress
        from kgm.history.causes.session_timeouts import no_session
        from kgm.operations.history.live import LiveHistory, LiveRequest
        from kgm.text.shell import shell_line

        with run.cluster(reads_only=True) as cluster, progress(run, text) as line:
            words = list(invocation.cluster_words()) or ["-b", cluster.bootstrap]
            request = LiveRequest(
                group_id=group_id, since_ms=self.since_ms, until_ms=self.until_ms, broker_logs=self.broker_logs,
                connection=shell_line([*words, *self._session_words]), sessions=self.sessions() or no_session,
            )  # fmt: skip
            live = LiveHistory(cluster, request, line.count)
            yield live
        notices = Notices()
        for note in live.notes:
            notices.note(note)

    def spark_options(self) -> SparkOptions:
        """How to start Spark."""
        from kgm.pipeline import SparkOptions

        return SparkOptions(master=self.master, conf=dict(self.spark_conf), jars=self.jars)


def history_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; the command takes one `HistoryOptions` by keyword."""
    added = {name: (annotation, None) for name, annotation in _OPTIONS.items()}
    return with_options(command, HistoryOptions, added, lambda taken: _checked(**taken))


def one_group(group: str | None, option: str | None) -> str:
    """The group that is named. Raises UsageError."""
    return named_group(group, option, hint="name one; `kgm history churn` lists the groups that rebalance most")


def _checked(
    *, source: str | None, store: str | None, since: str | None, until: str | None, broker_log: Sequence[str] | None,
    session_timeout: Sequence[str] | None, master: str | None, spark_conf: Sequence[str] | None, jars: str | None,
) -> HistoryOptions:  # fmt: skip
    kind, path = (None, None) if source is None else _source(source)
    sessions = [_session(text) for text in session_timeout or ()]
    since_ms = None if since is None else parse_time(since, "--since")
    until_ms = None if until is None else parse_time(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UsageError(f"--since {since} is not before --until {until}")
    return HistoryOptions(
        kind=kind, path=path, store=None if store is None else place(store),
        since_ms=since_ms, until_ms=until_ms,
        broker_logs=tuple(map(pathlib.Path, broker_log or ())),
        session_ms=next((ms for group, ms in reversed(sessions) if group is None), None),
        session_ms_by_group=tuple((group, ms) for group, ms in sessions if group is not None), master=master,
        spark_conf=tuple(_setting(text) for text in spark_conf or ()),
        jars=None if jars is None else pathlib.Path(jars),
    )  # fmt: skip


def _source(text: str) -> tuple[str, Place | None]:
    kind, colon, path = text.partition(":")
    if kind not in KINDS:
        raise UsageError(f"--source: {text!r} is not one of {', '.join(KINDS)}", hint="--source segments:DIR")
    if kind == LIVE:
        if colon:
            raise UsageError(f"--source: {text!r}: {kind} takes no directory", hint=f"--source {kind} -b HOST:PORT")
        return kind, None
    if not path:
        raise UsageError(f"--source: {text!r} has no directory", hint=f"--source {kind}:DIR")
    return kind, place(path)


def _session(text: str) -> tuple[str | None, int]:
    """(group or None for all, ms). Raises UsageError."""
    group, equals, duration = text.rpartition("=")
    ms = parse_duration(duration, "--session-timeout")
    if not ms or (equals and not group):
        raise UsageError(f"--session-timeout: {text!r} is not [GROUP=]TIME", hint="write 10s, or orders=10s")
    return group or None, ms


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--spark-conf: {text!r} is not KEY=VALUE")
    return key, value


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970, from a time (RFC 3339; UTC unless it has an offset) or a duration (that long ago).
    Raises UsageError."""
    words = text.strip()
    days = _DAYS.fullmatch(words.lower())
    if days is not None or (words and words[-1] in "smhSMH"):
        ago_ms = round(float(days[1]) * 86_400_000) if days is not None else parse_duration(words, option)
        return round(datetime.now(UTC).timestamp() * 1000) - ago_ms
    try:
        time = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(
            f"{option}: {text[:60]!r} is not a valid time",
            hint="write 2026-11-21T03:00:00Z or 2026-11-21, or 2h or 7d (ago)",
        ) from None
    return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)

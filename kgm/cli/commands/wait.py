"""`kgm wait`: block until a group is what it should be."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Column, Report, Table, cluster_json, emit
from kgm.model.errors import ConditionNotMet, KgmError, NotFoundError, UsageError
from kgm.text.durations import parse_duration, show_duration
from kgm.text.wording import typed

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.watch.conditions import Answer, Condition

SCHEMA = "kgm.wait/v1"
#: One look may take this long: then it counts as unreachable for the moment, and the next one tries again.
_LOOK_MS = 5_000


@cluster
def wait(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")] = None,
    *,
    group_option: Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The group.")] = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="CONDITION", help="stable | empty | members=N | lag<=N; several: all of them."),
    ] = None,
    settle: Annotated[
        str, typer.Option("--settle", metavar="DURATION", help="How long it has to stay so before it counts.")
    ] = "0s",
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="From one look to the next.")
    ] = "500ms",
    must_exist: Annotated[
        bool, typer.Option("--must-exist", help="Exit 3 at once if there is no such group, instead of waiting for it.")
    ] = False,
    common: Common,
) -> None:
    """Wait until a group is stable, empty, has N members, or lags by no more than N records.

    stable: the state is Stable, and no member is reconciling or away. empty: it has had no members for a second.
    members=N, members>=N, members<=N. lag<=N: over all its partitions; while the lag of one of them is not known it is
    not met. Several --for have to hold at the same look, and through all of --settle.

    Exits 0 when it is met; 8 when --timeout (30s) is over before, with what was seen last; 5 when the cluster cannot
    be reached to begin with (brokers that go away later are waited for). A group that is not there is waited for, since
    it comes into being with its first member; one that was there and is gone is empty."""
    name = _name(group, group_option)
    from kgm.operations.watch.conditions import parse_condition

    wanted = [parse_condition(text) for text in conditions or ()]
    if not wanted:
        raise UsageError("nothing to wait for is given", hint=f"kgm wait {typed(name)} --for stable")
    run = _Wait(
        group_id=name,
        conditions=wanted,
        settle_ms=parse_duration(settle, "--settle"),
        interval_ms=max(parse_duration(interval, "--interval"), 50),
        limit_ms=common.timeout_ms,
        must_exist=must_exist,
    )
    with common.cluster(reads_only=True) as connected:
        met = run.wait(connected)
        where = cluster_json(connected)
    error = None if met else run.not_met()
    _emit(run, met, error, where, common)
    if error is not None:
        from kgm.cli.output.failures import tell

        tell(error)
        raise typer.Exit(error.exit_code)


def _name(positional: str | None, option: str | None) -> str:
    if positional is not None and option is not None and positional != option:
        raise UsageError(f"two groups are given: {positional} and {option}")
    name = positional if positional is not None else option
    if not name:
        raise UsageError("no group is given", hint="kgm wait GROUP --for stable")
    return name


@dataclass(slots=True, kw_only=True)
class _Wait:
    """A wait that is going on. Times are on the monotonic clock, in seconds."""

    group_id: str
    conditions: Sequence[Condition]
    settle_ms: int
    interval_ms: int
    limit_ms: int
    must_exist: bool
    begun: float = field(default_factory=time.monotonic)
    met_since: float | None = None
    answers: list[Answer] = field(default_factory=list)
    seen: GroupSnapshot | None = None
    error: KgmError | None = None

    @property
    def waited_ms(self) -> int:
        return round((time.monotonic() - self.begun) * 1000)

    def wait(self, connected: AdminClient) -> bool:
        """Whether it was met in time. Raises KgmError for what waiting does not change."""
        offsets = any(condition.takes_offsets for condition in self.conditions)
        while True:
            left_ms = self.limit_ms - self.waited_ms
            connected.renew(max(min(_LOOK_MS, left_ms), 100))
            self._take(_look(connected, self.group_id, offsets=offsets))
            if self._is_met():
                return True
            if self.waited_ms + self.interval_ms > self.limit_ms:
                return False
            time.sleep(self.interval_ms / 1000)

    def _take(self, answer: GroupSnapshot | KgmError) -> None:
        from kgm.model.errors import AuthenticationError, AuthorizationError
        from kgm.operations.watch.conditions import Answer

        if not isinstance(answer, KgmError):
            self.seen, self.error = answer, None
            self.answers = [condition.ask(answer) for condition in self.conditions]
            return
        if isinstance(answer, AuthenticationError | AuthorizationError):
            raise answer
        if not isinstance(answer, NotFoundError):
            self.error = answer
            self.answers = [Answer(met=False, seen=answer.message) for _ in self.conditions]
            return
        if self.must_exist and self.seen is None:
            raise answer
        self.error = answer
        was_there = self.seen is not None
        self.answers = [
            Answer(met=was_there and condition.is_met_by_nothing, seen="the group does not exist")
            for condition in self.conditions
        ]

    @property
    def _least_ms(self) -> int:
        """For how long it has to be so. A coordinator that has just taken over may describe a group as it was before
        anybody joined, so that one without members has to stay so for a while."""
        from kgm.client.transport.brokers import TAKEOVER_S

        if self.seen is not None and self.error is None and self.seen.members:
            return self.settle_ms
        return max(self.settle_ms, min(round(TAKEOVER_S * 1000), self.limit_ms // 2))

    def _is_met(self) -> bool:
        now = time.monotonic()
        if not all(answer.met for answer in self.answers):
            self.met_since = None
            return False
        self.met_since = now if self.met_since is None else self.met_since
        return (now - self.met_since) * 1000 >= self._least_ms

    def not_met(self) -> ConditionNotMet:
        """What was seen last."""
        texts = [
            condition.text for condition, answer in zip(self.conditions, self.answers, strict=True) if not answer.met
        ]
        facts = [
            f"{condition.text}: {answer.seen}"
            for condition, answer in zip(self.conditions, self.answers, strict=True)
            if not answer.met
        ]
        if not texts:
            texts, facts = ["all of it"], [f"it has not been so for {show_duration(self._least_ms)} yet"]
        if self.error is not None:
            facts += self.error.facts
        return ConditionNotMet(
            f"group {self.group_id!r}: not met within {show_duration(self.limit_ms)}: {', '.join(texts)}",
            facts=facts,
            hint=f"kgm describe {typed(self.group_id)}",
            group_id=self.group_id,
        )


def _look(connected: AdminClient, group_id: str, *, offsets: bool) -> GroupSnapshot | KgmError:
    try:
        return connected.describe_group(group_id, offsets=offsets)
    except KgmError as error:
        return error


def _emit(
    run: _Wait, met: bool, error: KgmError | None, where: dict[str, str | None], common: Common  # noqa: FBT001
) -> None:  # fmt: skip
    items: list[dict[str, Any]] = [
        {"condition": condition.text, "met": answer.met, "seen": answer.seen}
        for condition, answer in zip(run.conditions, run.answers, strict=True)
    ]
    columns = [Column(title=title) for title in ("GROUP", "CONDITION", "MET", "SEEN")]
    seen = run.seen
    emit(
        Report(
            schema=SCHEMA,
            data={
                "group_id": run.group_id,
                "met": met,
                "waited_ms": run.waited_ms,
                "conditions": items,
                "state": None if seen is None else seen.state,
                "members": None if seen is None else len(seen.members),
                "lag": None if seen is None else seen.lag,
            },
            tables=[
                Table(
                    columns=columns,
                    rows=[
                        [run.group_id, item["condition"], "yes" if item["met"] else "no", item["seen"]]
                        for item in items
                    ],
                )
            ],
            names=[run.group_id] if met else [],
            items=items,
            cluster=where,
            errors=[error] if error is not None else [],
        ),
        common,
    )

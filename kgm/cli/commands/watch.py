"""`kgm watch`: groups as they change, and whether a rolling restart does what was expected of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.cli.output.streams import reader_has_gone
from kgm.model.errors import ConditionNotMet, KgmError, NotFoundError, UsageError
from kgm.operations.watch.story import Event, Goal, Story, story_json, summary
from kgm.text.durations import parse_duration, show_duration
from kgm.text.wording import typed

if TYPE_CHECKING:
    from kgm.cli.output.watch.screen import Screen
    from kgm.client.poller import Lookout
    from kgm.model.snapshot import GroupSnapshot

SCHEMA = "kgm.watch/v1"
UNTIL = ("stable", "bounced")
#: A look may take this long; a broker that needs longer counts as unreachable for the moment.
_LOOK_MS = 5_000
_SHORTEST_INTERVAL_MS = 100
_TERMINATED = 143


@cluster
def watch(
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP...", help="Groups to watch.")] = None,
    *,
    group: Annotated[list[str] | None, typer.Option("-g", "--group", help="A group; repeatable.")] = None,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="From one look to the next.")] = "2s",
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHAT", help="End with 0 once it is: stable | bounced.")
    ] = None,
    settle: Annotated[
        str, typer.Option("--settle", metavar="DURATION", help="How long nothing may happen until it counts as stable.")
    ] = "5s",
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="SNAPSHOT", help="Compare with this `kgm describe -o json`, not with now."),
    ] = None,
    expect_no_moves: Annotated[
        bool, typer.Option("--expect-no-moves", help="Exit 8 as soon as a partition has another owner than before.")
    ] = False,
    max_rebalances: Annotated[
        int | None, typer.Option("--max-rebalances", metavar="K", help="Exit 8 as soon as there were more than K.")
    ] = None,
    expect_members: Annotated[
        int | None,
        typer.Option("--expect-members", metavar="N", help="Stable is with N members; else with those from before."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="End after N looks: with 0, or 8 if --until was not reached."),
    ] = None,
    common: Common,
) -> None:
    """Watch groups: members come, go and are replaced, rebalances, moved partitions, lag, coordinators.

    Redraws at a terminal, and writes a line for each event in a pipe (-o ndjson: an object). Ends with Ctrl-C (130),
    when --timeout is over, when --until is reached (0), or when an expectation is broken (8); what is compared is who
    owned what at the first look at which the group was stable, or in --baseline.

    --until stable: the state is Stable, every static member that was there before is there and none is away, as many
    members as before (or --expect-members) are there, every partition that had an owner has one, and none of it has
    changed for the --settle time. A static member of a classic group that has stopped stays in the group until its
    session ends, and nobody can see that it is away: so begin to watch, restart the fleet, and use --until bounced,
    which is stable, and every member from before has been started anew.

    Rebalances are counted by generation (from __consumer_offsets, which takes READ on it) or by assignment epoch, so
    none goes unseen between two looks; without that right they are counted as far as two looks show them, and kgm says
    so. --timeout is how long to watch (no end by default, and 8 if --until is not reached by then); from the
    environment or a profile it does not end a watch."""
    wanted = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    if not wanted:
        raise UsageError("no group is given", hint="kgm watch GROUP; `kgm list` shows them")
    if until is not None and until not in UNTIL:
        raise UsageError(f"--until: {until!r} is not one of {', '.join(UNTIL)}")
    interval_ms = parse_duration(interval, "--interval")
    if interval_ms < _SHORTEST_INTERVAL_MS:
        raise UsageError(f"--interval: {interval} is shorter than {show_duration(_SHORTEST_INTERVAL_MS)}")
    for option, number, least in (
        ("--max-rebalances", max_rebalances, 0), ("--expect-members", expect_members, 1), ("--count", count, 1)
    ):  # fmt: skip
        if number is not None and number < least:
            raise UsageError(f"{option} is {number}, the lowest is {least}")
    goal = Goal(
        settle_ms=parse_duration(settle, "--settle"),
        bounced=until == "bounced",
        members=expect_members,
        expect_no_moves=expect_no_moves,
        max_rebalances=max_rebalances,
    )
    before = _baseline(baseline, wanted)
    stories = [Story(name, goal=goal, baseline=before.get(name)) for name in wanted]
    is_limited = common.origins.get("timeout") == "flag"
    from kgm.client.poller import Lookout

    with common.cluster(reads_only=True) as connected, _sigterm_as_exit():
        connected.renew()
        run = _Run(
            stories=stories,
            lookout=Lookout(connected, wanted, budget_ms=min(_LOOK_MS, common.timeout_ms)),
            common=common,
            interval_ms=interval_ms,
            until=until,
            limit_ms=common.timeout_ms if is_limited else None,
            count=count,
        )
        run.first()
        try:
            run.watch()
        finally:
            run.report(cluster_json(connected))
    run.leave()


def _baseline(path: str | None, wanted: Sequence[str]) -> dict[str, GroupSnapshot]:
    """By group id. Raises NotFoundError if one of the groups is not in the file."""
    if path is None:
        return {}
    from kgm.cli.options.snapshots import read_snapshots

    found = {snapshot.group_id: snapshot for snapshot in read_snapshots(path)}
    for name in wanted:
        if name not in found:
            raise NotFoundError(f"the snapshot in file {path} has no group {name}", group_id=name)
    return found


@dataclass(slots=True, kw_only=True)
class _Run:
    """A watch that is going on."""

    stories: list[Story]
    lookout: Lookout
    common: Common
    interval_ms: int
    until: str | None
    limit_ms: int | None
    count: int | None
    #: All events of the run, with what they are in JSON, for formats that are written at the end.
    events: list[tuple[Event, dict[str, Any]]] = field(default_factory=list)
    error: KgmError | None = None
    pending: list[Event] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    begun_ms: int = field(default_factory=lambda: round(time.time() * 1000))

    def first(self) -> None:
        """The first look: what cannot be seen at all is an error. Raises KgmError."""
        self.pending = self._look()
        errors = [story.error for story in self.stories if story.error is not None]
        if errors:
            raise errors[0]

    def watch(self) -> None:
        """Until it is over."""
        with self._screen() as screen:
            self._tell(screen, self.pending)
            while not self._is_over(screen):
                self._rest()
                self._tell(screen, self._look())

    @property
    def now_ms(self) -> int:
        """Of the wall clock at the start, and monotonic from there on."""
        return self.begun_ms + round((time.monotonic() - self.begun) * 1000)

    def _look(self) -> list[Event]:
        looks = self.lookout.look()
        return [event for story in self.stories for event in story.see(looks[story.group_id], self.now_ms)]

    def _rest(self) -> None:
        pause = self.interval_ms
        if self.limit_ms is not None:
            pause = min(pause, max(0, self.limit_ms - (self.now_ms - self.begun_ms)))
        time.sleep(pause / 1000)

    def _is_over(self, screen: Screen | None) -> bool:
        broken = [(story, reason) for story in self.stories if (reason := story.breach()) is not None]
        if broken:
            story, reason = broken[0]
            self.error = ConditionNotMet(
                f"group {story.group_id!r}: {reason}",
                hint=f"kgm describe {typed(story.group_id)}",
                group_id=story.group_id,
            )
            self._tell(screen, [self._final(each, "breach", why) for each, why in broken])
            return True
        if self.until is not None and all(story.settled() for story in self.stories):
            self._tell(screen, [self._final(story, "stable", self._reached(story)) for story in self.stories])
            return True
        if not screen and reader_has_gone(sys.stdout):
            return True
        is_late = self.limit_ms is not None and self.now_ms - self.begun_ms >= self.limit_ms
        if not is_late and (self.count is None or self.stories[0].looks < self.count):
            return False
        if self.until is not None:
            self.error = self._too_late()
        self._tell(screen, [self._final(story, "ended", summary(story)) for story in self.stories])
        return True

    def _reached(self, story: Story) -> str:
        return f"for {show_duration(story.goal.settle_ms)}: {summary(story)}"

    def _too_late(self) -> ConditionNotMet:
        facts = [
            f"{story.group_id}: {reason}"
            for story in self.stories
            for reason in (story.unsettled_because() or ([] if story.settled() else ["it has not been quiet for long"]))
        ]
        late = [story.group_id for story in self.stories if not story.settled()]
        name, hint = ", ".join(map(repr, late)), " ".join(["kgm describe", *map(typed, late)])
        waited = show_duration((self.now_ms - self.begun_ms) // 1000 * 1000)
        return ConditionNotMet(f"group {name}: not {self.until} within {waited}", facts=facts[:20], hint=hint)

    def _final(self, story: Story, kind: str, text: str) -> Event:
        return Event(at_ms=self.now_ms, group_id=story.group_id, kind=kind, text=text)

    # -- telling

    def _screen(self) -> AbstractContextManager[Screen | None]:
        is_terminal = (
            self.common.output in ("table", "wide") and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        )
        if not is_terminal:
            return nullcontext()
        from kgm.cli.output.watch.screen import Screen

        return Screen(self.common, self.stories, interval_ms=self.interval_ms, waiting_for=self.until)

    def _tell(self, screen: Screen | None, events: Sequence[Event]) -> None:
        from kgm.cli.output.watch.event_lines import event_json, line, write, write_json

        by_group = {story.group_id: story for story in self.stories}
        if screen is not None:
            screen.draw(events, self.now_ms)
            return
        for event in events:
            match self.common.output:
                case "table" | "wide":
                    write(line(event))
                case "ndjson":
                    write_json(event_json(event, by_group[event.group_id]))
                case _:
                    self.events.append((event, event_json(event, by_group[event.group_id])))

    def report(self, where: dict[str, str | None]) -> None:
        """What the formats that are one document say, also of a watch that was ended by Ctrl-C."""
        if self.common.output in ("table", "wide", "ndjson"):
            return
        columns = [Column(title=title) for title in ("AT", "GROUP", "EVENT", "DETAIL")]
        rows: list[list[Cell]] = [[item["at"], one.group_id, one.kind, one.text] for one, item in self.events]
        items = [item for _, item in self.events]
        errors = [self.error] if self.error is not None else []
        emit(
            Report(
                schema=SCHEMA,
                data={"groups": [story_json(story, reached=self._has_reached(story)) for story in self.stories],
                      "events": items},
                tables=[Table(columns=columns, rows=rows)],
                names=[story.group_id for story in self.stories],
                items=items,
                cluster=where,
                errors=errors,
            ),
            self.common,
        )  # fmt: skip

    def _has_reached(self, story: Story) -> bool | None:
        return None if self.until is None else story.settled() and story.breach() is None

    def leave(self) -> None:
        """Exit 8 with the reason, if there is one."""
        if self.error is not None:
            from kgm.cli.output.failures import tell

            tell(self.error)
            raise typer.Exit(self.error.exit_code)


class _sigterm_as_exit:  # noqa: N801  (used as a function)
    """While it is entered SIGTERM ends kgm in order, so that a terminal gets its cursor and its screen back."""

    def __enter__(self) -> None:
        import signal

        def leave(_number: int, _frame: object) -> None:
            raise SystemExit(_TERMINATED)

        self._before: Any = None
        self._restore: Callable[[], object] = lambda: None
        try:
            self._before = signal.signal(signal.SIGTERM, leave)
        except ValueError:  # not in the main thread: nobody sends signals there
            return
        self._restore = lambda: signal.signal(signal.SIGTERM, self._before)

    def __exit__(self, *_: object) -> None:
        self._restore()

"""Reads a fleet in a separate thread, so that the screen stays responsive."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from kgm.client.poller import GroupPoller
from kgm.model.errors import KgmError
from kgm.operations.top.fleet import Fleet
from kgm.operations.watch.events import GroupEvent
from kgm.operations.watch.watched_group import WatchedGroup

#: The maximum number of events of the open group that wait to be shown.
_MOST_EVENTS: Final = 200
#: How long reading may continue after it was told to stop, in seconds; the thread does not keep the process alive.
_END_S: Final = 0.5


@dataclass(slots=True, kw_only=True)
class OpenGroup:
    """The open group, and the events that were not shown yet."""

    watched: WatchedGroup
    poller: GroupPoller
    events: deque[GroupEvent] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))
    is_read: bool = False

    def new_events(self) -> list[GroupEvent]:
        """Events not returned before. Called from another thread than the one that reads."""
        return [self.events.popleft() for _ in range(len(self.events))]


class FleetReader:
    """Reads round after round until the context manager exits.

    budget_ms: the time limit of a round. notify: called from the thread after each round."""

    def __init__(self, fleet: Fleet, *, round_ms: int, budget_ms: int, notify: Callable[[], None]) -> None:
        self.fleet = fleet
        #: Why the last round failed, and since when rounds have been failing, in ms since the epoch.
        self.error: KgmError | None = None
        self.failing_since_ms: int | None = None
        #: The group that is open.
        self.opened: OpenGroup | None = None
        #: A bug in kgm, to be raised in the screen's thread.
        self.mistake: Exception | None = None
        #: The number of completed rounds.
        self.rounds = 0
        self._round_ms, self._budget_ms, self._notify = round_ms, budget_ms, notify
        self._wanted: Sequence[str] = ()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(_END_S)

    def want(self, group_ids: Sequence[str]) -> None:
        """Read these groups in every round: those on the screen."""
        self._wanted = group_ids

    def open(self, group_id: str) -> None:
        """Switch to one group, and read it immediately."""
        poller = GroupPoller(self.fleet.cluster, [group_id], budget_ms=self._budget_ms)
        self.opened = OpenGroup(watched=WatchedGroup(group_id), poller=poller)
        self._wake.set()

    def close(self) -> None:
        """Switch back to the fleet."""
        self.opened = None

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began_s = time.monotonic()
                self._round()
                self.rounds += 1
                if not self._stop.is_set():
                    self._notify()
                # A refusal takes no time: without a pause it would be asked for as fast as the processor allows.
                is_filling = self.fleet.is_filling and self.error is None
                left_s = 0.0 if is_filling else self._round_ms / 1000 - (time.monotonic() - began_s)
                self._wake.wait(max(left_s, 0.0))
                self._wake.clear()
        except Exception as error:  # noqa: BLE001  (raised by the thread of the screen)
            self.mistake = error
            self._notify()

    def _round(self) -> None:
        try:
            self._look_at(self.opened)
            self.fleet.read_round(self._wanted, budget_ms=self._budget_ms)
        except KgmError as error:
            self.error = error
            self.failing_since_ms = self.failing_since_ms or _now_ms()
        else:
            self.error = self.failing_since_ms = None

    def _look_at(self, opened: OpenGroup | None) -> None:
        if opened is None:
            return
        polled = opened.poller.poll()[opened.watched.group_id]
        opened.events.extend(opened.watched.observe(polled, _now_ms()))
        opened.is_read = True


def _now_ms() -> int:
    return round(time.time() * 1000)

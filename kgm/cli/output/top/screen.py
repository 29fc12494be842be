"""`kgm top` at a terminal: drawn after each round, key and change of size; a shell can stop and continue it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final

from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.terminal_keys import TerminalKeys
from kgm.cli.output.top.view import Line, TopView
from kgm.cli.output.watch.screen import Screen, screen_console
from kgm.model.errors import KgmError
from kgm.operations.top.reader import FleetReader
from kgm.text.durations import short_duration
from kgm.text.sanitize import clean

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Without a round, a key or a signal, the screen is drawn after this time, in seconds.
_IDLE_S: Final = 5.0
_GROUP_KEYS: Final = "esc back"
_MOST_STOPS: Final = 100


class TopScreen:
    """Shows the screen until it is left. interval_ms: between rounds. duration_ms: None to end only with a key."""

    def __init__(
        self, options: OutputOptions, view: TopView, make_reader: Callable[[Callable[[], None]], FleetReader], *,
        interval_ms: int, duration_ms: int | None,
    ) -> None:  # fmt: skip
        self._options, self._view, self._interval_ms = options, view, interval_ms
        self._make_reader = make_reader
        self._console = screen_console(options)
        self._keys = TerminalKeys()
        #: The screen of the group that is open, if one is.
        self._group: Screen | None = None
        self._shown_rounds = -1
        self._is_suspended = False
        self._end_s = None if duration_ms is None else time.monotonic() + duration_ms / 1000

    def run(self) -> None:
        """Run until a key or duration_ms ends it. Raises KgmError if the first round fails."""
        with ExitStack() as stack:
            wake, waker = os.pipe()
            stack.callback(os.close, wake)
            stack.callback(os.close, waker)
            os.set_blocking(wake, False)
            os.set_blocking(waker, False)
            stack.enter_context(_signals(waker, self._suspend_soon))
            reader = stack.enter_context(self._make_reader(lambda: _poke(waker)))
            self._wait_for_first_round(reader, wake)
            try:
                while self._turn(reader, wake):
                    pass
            finally:
                width, height = self._console.size
                self._console.print(_text(self._view.last_lines(width=width, height=height, now_ms=_now_ms())))

    def _wait_for_first_round(self, reader: FleetReader, wake: int) -> None:
        """Raise the error of the first round, so that a cluster that cannot be reached is an error, not a screen."""
        while not reader.rounds and reader.mistake is None:
            self._keys.wait(_IDLE_S, wake)  # the keys are not entered yet, so this only waits
            _drain(wake)
        if reader.mistake is not None:
            raise reader.mistake
        if reader.error is not None:
            raise reader.error

    def _turn(self, reader: FleetReader, wake: int) -> bool:
        """Show the screen until the shell stops it or it is left. Returns whether to continue."""
        from rich.live import Live

        _wait_for_foreground()
        live = Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop")
        with self._keys, live:
            while not self._is_suspended:
                live.update(self._picture(reader), refresh=True)
                for key in self._keys.wait(self._patience_s(), wake):
                    if not self._press(key, reader):
                        return False
                _drain(wake)
                if reader.mistake is not None:
                    raise reader.mistake
                if self._end_s is not None and time.monotonic() >= self._end_s:
                    return False
        self._is_suspended = False
        _stop_process()
        return True

    def _patience_s(self) -> float:
        return _IDLE_S if self._end_s is None else max(min(_IDLE_S, self._end_s - time.monotonic()), 0)

    def _suspend_soon(self) -> None:
        self._is_suspended = True

    def _press(self, key: str, reader: FleetReader) -> bool:
        """Handle a key. Returns whether to continue."""
        if self._group is not None:
            if key in ("esc", "q", "Q"):
                self._group = None
                reader.close()
            return True
        found = self._view.press(key, self._console.size.height)
        if found:
            reader.open(found)
            assert reader.opened is not None
            watched = [reader.opened.watched]
            self._group = Screen(self._options, watched, interval_ms=self._interval_ms, waiting_for=None)
        return found != ""

    def _picture(self, reader: FleetReader) -> RenderableType:
        width, height = self._console.size
        opened = reader.opened
        if self._group is not None and opened is not None:
            return self._group_picture(self._group, reader, height)
        if reader.rounds != self._shown_rounds:
            self._shown_rounds = reader.rounds
            self._view.update([*reader.fleet.rows.values()])
        silent = [error.message for error in reader.fleet.listing.errors]  # their brokers' groups are outdated
        self._view.problem = _problem(reader.error, reader.failing_since_ms) or next(iter(silent), None)
        unseen = reader.fleet.unseen
        self._view.note = reader.fleet.log_unreadable_because if unseen is None else unseen.message
        reader.want([row.group_id for row in self._view.visible(height)])
        return _text(self._view.lines(width=width, height=height, now_ms=_now_ms()))

    def _group_picture(self, group: Screen, reader: FleetReader, height: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        opened = reader.opened
        assert opened is not None
        watched = opened.watched
        if watched.latest is None and (not opened.is_read or watched.error is not None):
            said = f"reading {watched.group_id}" if watched.error is None else watched.error.message
            return Text(f"{clean(said)}\n{_GROUP_KEYS}", no_wrap=True, overflow="crop")
        picture = group.picture(opened.new_events(), _now_ms(), height=height - 1)
        return Group(picture, Text(_GROUP_KEYS, style="dim"))


def _problem(error: KgmError | None, since_ms: int | None) -> str | None:
    if error is None or since_ms is None:
        return None
    return f"for {short_duration(_now_ms() - since_ms)}: {error.message}"


def _text(lines: list[Line]) -> RenderableType:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="crop", end="")
    for number, line in enumerate(lines):
        for piece, style in line:
            text.append(piece, style or None)
        text.append("\n" if number < len(lines) - 1 else "")
    return text


@contextmanager
def _signals(waker: int, suspend: Callable[[], None]) -> Iterator[None]:
    """Make a change of size, or Ctrl-Z, end a wait for keys."""

    def on_stop(_number: int, _frame: FrameType | None) -> None:
        suspend()

    handlers = {signal.SIGWINCH: lambda *_: None, signal.SIGTSTP: on_stop}
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        del handlers[signal.SIGTSTP]
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    woken = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_process() -> None:
    """Stop the process as Ctrl-Z does without a handler; returns when the shell continues it."""
    sys.stdout.flush()
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)


def _wait_for_foreground() -> None:
    """Stop while another job has the terminal, as programs do that change its settings. If no shell would continue the
    process, the kernel does not stop it, and this returns."""
    for _ in range(_MOST_STOPS):
        with suppress(OSError, ValueError):  # stdin is not a terminal
            if os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
                os.kill(os.getpid(), signal.SIGTTOU)
                continue
        break


def _poke(waker: int) -> None:
    with suppress(OSError):  # the pipe is full
        os.write(waker, b"\0")


def _drain(wake: int) -> None:
    with suppress(BlockingIOError):
        while os.read(wake, 4096):
            pass


def _now_ms() -> int:
    return round(time.time() * 1000)

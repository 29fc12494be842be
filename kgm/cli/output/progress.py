"""One line on stderr that shows what is taking time: only at a terminal, after a moment, and wiped at the end. Longer
work with a known end also gets a bar, its rate and the remaining time.

with progress(options, "describing groups"):
...
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time
from typing import Self

from kgm.cli.output.output_options import OutputOptions
from kgm.text.durations import show_duration
from kgm.text.sanitize import clean

#: Work that takes less than this, in seconds, shows no line.
PATIENCE_S = 0.7
_EVERY_S = 0.25
#: Work that takes less than this, in seconds, shows no bar; and the columns of a bar.
BAR_AFTER_S = 2.0
_BAR_COLUMNS = 24
_WIPE = "\r\x1b[K"
_open_lines: list[ProgressLine] = []


class ProgressLine:
    """The line, redrawn by its own thread. `count` can be called at any rate."""

    def __init__(self, text: str, *, is_shown: bool = True) -> None:
        self.text, self.note, self.started = clean(text), "", time.monotonic()
        self._is_shown = is_shown
        self._done: tuple[int, int] | None = None
        self._drawn, self._lock, self._over = False, threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def count(self, done: int, total: int | None = None) -> None:
        self.note = f" {done}" if total is None else f" {done} of {total}"
        self._done = None if total is None else (done, total)

    def hide(self) -> None:
        """Wipe the line, because something else is about to be written."""
        with self._lock:
            if self._drawn:
                self._write(_WIPE)
                self._drawn = False

    def __enter__(self) -> Self:
        if self._is_shown:
            _open_lines.append(self)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_shown:
            return
        self._over.set()
        self._thread.join()
        self.hide()
        _open_lines.remove(self)

    def _run(self) -> None:
        pause = PATIENCE_S
        while not self._over.wait(pause):
            pause = _EVERY_S
            with self._lock:
                if not self._over.is_set():
                    self._draw()

    def _draw(self) -> None:
        took_s = time.monotonic() - self.started
        rate = _rate(*self._done, took_s) if self._done is not None and took_s >= BAR_AFTER_S else ""
        text = f"{self.text}{self.note}{rate} ... {took_s:.0f}s"[: _columns() - 1]
        has_room = len(text) + 1 + _BAR_COLUMNS < _columns()
        bar = _bar(*self._done) if self._done is not None and took_s >= BAR_AFTER_S and has_room else ""
        self._write(_WIPE + bar + text)
        self._drawn = True

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            pass


def progress(options: OutputOptions, text: str) -> ProgressLine:
    """A line while the block runs; no line if stderr is not a terminal, or is a dumb one."""
    at_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return ProgressLine(text, is_shown=at_terminal and not options.debug)


def hide() -> None:
    """Wipe the line that is shown, if any, before something else is written to the terminal."""
    for line in _open_lines:
        line.hide()


def _rate(done: int, total: int, took_s: float) -> str:
    """The rate per second, and the remaining time at that rate."""
    if not done:
        return ""
    left_s = math.ceil((total - done) * took_s / done)
    return f", {done / took_s:.3g}/s, {show_duration(left_s * 1000)} left"


def _bar(done: int, total: int) -> str:
    """A bar and a space, in the colors and characters that the terminal supports."""
    from rich.console import Console
    from rich.progress_bar import ProgressBar

    console = Console(stderr=True)
    with console.capture() as captured:
        console.print(ProgressBar(total=max(total, 1), completed=done, width=_BAR_COLUMNS))
    return captured.get().replace("\n", "") + " "


def _columns() -> int:
    return shutil.get_terminal_size().columns

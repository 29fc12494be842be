"""The key that ends `kgm watch` at a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any, Self

from kgm.operations.watch.timekeeper import SystemTimekeeper


class LeaveKey(SystemTimekeeper):
    """The wall clock, whose waits end when `q` is pressed. Keys are read one by one, and are not echoed, meanwhile.

    Where stdin is no terminal, or belongs to another job of the shell, no key is read."""

    def __init__(self) -> None:
        super().__init__()
        self._pressed = False
        self._stdin: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        try:
            number = sys.stdin.fileno()
            if os.tcgetpgrp(number) == os.getpgrp():  # to change a terminal from the background stops the process
                self._before = termios.tcgetattr(number)
                tty.setcbreak(number, termios.TCSANOW)
                self._stdin = number
        except (OSError, ValueError, termios.error):
            pass
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if self._stdin is not None:
            termios.tcsetattr(self._stdin, termios.TCSANOW, self._before)
            self._stdin = None

    def is_pressed(self) -> bool:
        return self._pressed

    def sleep_ms(self, span_ms: int) -> None:
        end = time.monotonic() + span_ms / 1000
        while not self._pressed and (left_s := end - time.monotonic()) > 0:
            if self._stdin is None:
                time.sleep(left_s)
            elif select.select([self._stdin], [], [], left_s)[0]:
                self._read(self._stdin)

    def _read(self, stdin: int) -> None:
        try:
            keys = os.read(stdin, 1024)
        except OSError:
            keys = b""
        if not keys:  # the terminal has gone
            self._stdin = None
        self._pressed = b"q" in keys.lower()

"""The key that ends `kgm watch` at a terminal."""

from __future__ import annotations

import time

from kgm.cli.output.terminal_keys import TerminalKeys
from kgm.operations.watch.timekeeper import SystemTimekeeper


class LeaveKey(TerminalKeys, SystemTimekeeper):
    """A wall clock whose waits end when `q` is pressed."""

    def __init__(self) -> None:
        TerminalKeys.__init__(self)
        SystemTimekeeper.__init__(self)
        self._pressed = False

    def is_pressed(self) -> bool:
        return self._pressed

    def sleep_ms(self, span_ms: int) -> None:
        end = time.monotonic() + span_ms / 1000
        while not self._pressed and (left_s := end - time.monotonic()) > 0:
            self._pressed = any(key in ("q", "Q") for key in self.wait(left_s))

"""Kills a process before or after a step: a call of one of several methods, counted over all of them."""

from __future__ import annotations

import os
import signal
from typing import Any


class Killer:
    """step: the number of the step at which to kill; each call has one step before it and one after it."""

    def __init__(self, step: int) -> None:
        self._left = step

    def counts(self, owner: Any, name: str) -> None:
        """From now on each call of this method counts as two steps."""
        method = getattr(owner, name)

        def run(*given: Any, **named: Any) -> Any:
            self._step()
            done = method(*given, **named)
            self._step()
            return done

        setattr(owner, name, run)

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

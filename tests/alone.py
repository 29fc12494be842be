"""Tests that run alone on the machine, although several processes share the suite (pytest-xdist).

Tests marked `alone` hold real clients to a clock: clients start, stop and expire as planned only when nothing else uses the
processors. The other tests wait until they have ended, and their timeouts do not run meanwhile."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


class Turns:
    """A lock over processes: any number of other tests may run, or one that is alone.

    A test that waits to be alone holds the gate, so that no other test begins."""

    def __init__(self, run_id: str) -> None:
        folder = Path(tempfile.gettempdir())
        self._paths = [folder / f"kgm-tests-{run_id}.{name}" for name in ("gate", "room")]
        self._gate, self._room = (path.open("w") for path in self._paths)
        self._alone = False

    def begin(self, *, alone: bool) -> None:
        if self._alone:
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        self._alone = alone

    def end(self, *, next_alone: bool) -> None:
        """Two tests in a row that are alone are one turn: what their module has started goes on between them."""
        if not (self._alone and next_alone):
            fcntl.flock(self._room, fcntl.LOCK_UN)
            self._alone = False

    def close(self) -> None:
        for file, path in zip((self._gate, self._room), self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)


class TakingTurns:
    """The pytest plugin."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        self._turns.begin(alone=is_alone(item))
        try:
            return (yield)
        finally:
            self._turns.end(next_alone=nextitem is not None and is_alone(nextitem))

    def pytest_unconfigure(self) -> None:
        self._turns.close()


def is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def register(config: pytest.Config) -> None:
    """Take turns where several processes run the tests."""
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run_id is not None:
        config.pluginmanager.register(TakingTurns(Turns(run_id)), "kgm-turns")

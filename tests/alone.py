"""Tests that run apart from the others, although several processes share the suite (pytest-xdist).

Tests marked `alone` hold real clients to a clock: clients start, stop and expire as planned only when nothing uses the
processors for long. They wait most of the time themselves, so two may run beside each other, but none beside a test without
the mark; timeouts do not run while a test waits for its turn. Files with such tests are the last ones of a run, and they
begin when every process has got to them: one that began earlier would hold up all that are not yet there."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

#: So many processes run tests that are alone at a time: more would begin so many JVMs at once that nothing keeps time.
PLACES = 2
_IN_ALONE_FILE = pytest.StashKey[bool]()


class Turns:
    """A lock over processes: several tests of one kind may run, and none of the other kind meanwhile. Of those that are alone
    only one in each place does; a process has the same place all the time.

    A test that waits for the other kind to end holds the gate, so that no further test begins."""

    def __init__(self, run_id: str, place: int) -> None:
        folder = Path(tempfile.gettempdir())
        names = ("gate", "others", "alone", f"place-{place}")
        self._paths = [folder / f"kgm-tests-{run_id}.{name}" for name in names]
        self._files = [path.open("w") for path in self._paths]
        self._gate, self._others, self._alone, self._place = self._files
        self._is_alone: bool | None = None

    def begin(self, *, alone: bool) -> None:
        if self._is_alone is alone:
            return
        if alone:
            fcntl.flock(self._place, fcntl.LOCK_EX)
        mine, theirs = (self._alone, self._others) if alone else (self._others, self._alone)
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(theirs, fcntl.LOCK_EX)
        fcntl.flock(mine, fcntl.LOCK_SH)
        fcntl.flock(theirs, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        self._is_alone = alone

    def end(self, *, next_alone: bool | None) -> None:
        """Tests of one kind in a row are one turn, `next_alone` is None after the last test: what a module has started goes on
        between its tests, and tests that are alone do not begin in the moment between two others."""
        if self._is_alone is not next_alone:
            fcntl.flock(self._alone if self._is_alone else self._others, fcntl.LOCK_UN)
            fcntl.flock(self._place, fcntl.LOCK_UN)
            self._is_alone = None

    def close(self) -> None:
        for file, path in zip(self._files, self._paths, strict=True):
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
            self._turns.end(next_alone=None if nextitem is None else is_alone(nextitem))

    def pytest_unconfigure(self) -> None:
        self._turns.close()


def is_alone(item: pytest.Item) -> bool:
    """Whether it is marked, or shares its file with one that is: a file that went to and fro would make all others wait."""
    return item.stash.get(_IN_ALONE_FILE, False) or _is_marked(item)


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def register(config: pytest.Config) -> None:
    """Take turns where several processes run the tests, and begin files in the order in which they are collected."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run_id is not None:
        place = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % PLACES
        config.pluginmanager.register(TakingTurns(Turns(run_id, place)), "kgm-turns")


def in_order(items: list[pytest.Item]) -> None:
    """Quick tests first, so that a simple mistake shows in seconds; then files on Spark, which take longest, so that none of
    them begins when the others end; and files with tests that are alone last, those with the most of them before the others.
    Within each part the order stays as it is, random."""
    alone = Counter(item.path for item in items if _is_marked(item))
    for item in items:
        item.stash[_IN_ALONE_FILE] = item.path in alone

    on_spark = {item.path for item in items if item.get_closest_marker("spark")}

    def place(item: pytest.Item) -> tuple[bool, int, bool, bool]:
        is_slow = item.path in on_spark or any(item.get_closest_marker(name) for name in ("kafka", "slow"))
        return item.path in alone, -alone[item.path], is_slow, item.path not in on_spark

    items.sort(key=place)

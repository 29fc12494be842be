"""Programs, packages and downloads that a machine may lack: whatever needs one asks here.

A test that needs a missing one is skipped with a reason of a fixed form, and the summary at the end of the run names
what was missing. With `--require-tools` it fails instead. `tests/test_needs.py` finds programs that are started without
asking here.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

#: The reason of a skip, as `missing` words it.
_REASON = re.compile(r"needs (\S+): (.*)", re.DOTALL)
#: Where to look after PATH: this environment's programs, and the folders of daemons, which are not on everyone's PATH.
_ELSEWHERE = (str(Path(sys.executable).parent), "/usr/local/sbin", "/usr/sbin", "/sbin")
#: The same program under other names.
_OTHER_NAMES = {"chromium": ("chromium-browser", "google-chrome")}


class UnavailableError(RuntimeError):
    """Something that this machine lacks, raised by code that benchmarks use too. In a test it becomes a skip, as with
    needs()."""

    def __init__(self, what: str, why: str) -> None:
        """what: one word, by which the summary counts."""
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"needs {self.what}: {self.why}"


_are_required = False


def require_tools() -> None:
    """From now on, a missing tool is a failure."""
    global _are_required  # noqa: PLW0603 (helpers of tests ask, where there is no fixture)
    _are_required = True


def tools_are_required() -> bool:
    """Whether a missing tool is a failure."""
    return _are_required


def missing(what: str, why: str) -> NoReturn:
    """Skip this test, or fail where tools are required.

    what: one word, by which the summary counts; why: what was looked for, or what happened.
    """
    reason = f"needs {what}: {why}"
    if tools_are_required():
        pytest.fail(f"{reason} (--require-tools)", pytrace=False)
    # Without allow_module_level, pytest treats a skip at the top of a module as an error.
    pytest.skip(reason, allow_module_level=True)


def find(program: str) -> str | None:
    """The path of a program, or None. PATH first."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ELSEWHERE])
    return next(
        filter(None, (shutil.which(name, path=path) for name in (program, *_OTHER_NAMES.get(program, ())))), None
    )


def needs(program: str) -> str:
    """The path of a program; a test on a machine that lacks it is skipped."""
    return find(program) or missing(program, "not installed")


def needs_package(module: str) -> ModuleType:
    """A Python module; a test in an environment that lacks it is skipped. A module that fails to import is not a
    skip."""
    top = module.partition(".")[0]
    if importlib.util.find_spec(top) is None:
        missing(top, "the Python package is not installed")
    return importlib.import_module(module)


# -- hooks of pytest, which tests/conftest.py imports ---------------------------------------------------------------


@contextmanager
def _unavailable_is_a_skip() -> Iterator[None]:
    try:
        yield
    except UnavailableError as error:
        if tools_are_required():
            raise
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with _unavailable_is_a_skip():
        if item.get_closest_marker("kafka") or item.get_closest_marker("spark"):
            from tests.kafka.runtime import use_for_children

            use_for_children()
        if item.get_closest_marker("spark"):
            from tests.kafka.runtime import require_spark

            needs("bash")  # which Spark's launcher is written in
            require_spark()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with _unavailable_is_a_skip():
        return (yield)


def counted(skips: list[str]) -> Counter[tuple[str, str]]:
    """How many of these reasons name each missing thing, by (what, why). Other reasons are left out."""
    found = (_REASON.search(reason) for reason in skips)
    return Counter((match[1], match[2].strip()) for match in found if match)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name everything that was missing, and how many tests (or whole files) were skipped for it."""
    skips = [
        report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()) if isinstance(report.longrepr, tuple)
    ]
    lacking = counted(skips)
    if not lacking:
        return
    terminalreporter.section("missing on this machine")
    for (what, why), number in sorted(lacking.items()):
        terminalreporter.write_line(f"{what}: {number} skipped ({why.splitlines()[0]})")
    terminalreporter.write_line("--require-tools makes each a failure")

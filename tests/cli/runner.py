"""Runs kgm as a shell would."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests import KGM
from tests.cli.environment import bare
from tests.cli.forked import can_fork, run_forked

_SHOWN = 20_000  # characters of each stream that are shown when a test fails


@dataclass(frozen=True, slots=True)
class Run:
    """How a run ended."""

    code: int
    out: str
    err: str
    seconds: float


def kgm(
    *arguments: str, stdin: str | None = None, env: dict[str, str] | None = None, timeout_s: float = 90,
    is_fork: bool = True,
) -> Run:  # fmt: skip
    """Run kgm in a process of its own, without the caller's settings.

    is_fork: whether the process may be a fork of one that has imported kgm, which is much faster; all forks have the
    same hashes of strings.

    Its output is also printed, so that pytest shows it in full when a test fails."""
    clean = bare()
    clean["XDG_CACHE_HOME"] = f"{tempfile.gettempdir()}/kgm-tests-{os.getuid()}"  # names for completion
    environment = {**clean, **(env or {})}
    start = time.monotonic()
    if is_fork and can_fork(environment):
        done = run_forked(arguments, stdin=stdin or "", environment=environment, timeout_s=timeout_s)
    else:
        done = subprocess.run(
            [*KGM, *arguments], input=stdin if stdin is not None else "",
            capture_output=True, text=True, check=False, env=environment, timeout=timeout_s,
        )  # fmt: skip
    seconds = time.monotonic() - start
    print(f"$ kgm {shlex.join(arguments)}  # {done.returncode} after {seconds:.1f} s")
    for said in (done.stdout, done.stderr):
        print(said if len(said) <= _SHOWN else f"{said[:_SHOWN]} … {len(said) - _SHOWN} characters more")
    return Run(done.returncode, done.stdout, done.stderr, seconds)


def kgm_in_time(accept: Callable[[Run], object], *arguments: str) -> Run:
    """Run a command that ends with its --timeout, with longer and longer ones until the run is accepted: on a busy
    machine a second is too short to see anything, or for a broker to answer in. Returns the last run."""
    for timeout_s in (1, 3, 9):
        run = kgm(*arguments, "--timeout", f"{timeout_s}s")
        if accept(run) and "within the time allowed" not in run.err:
            return run
    return kgm(*arguments, "--timeout", "27s")

"""Runs kgm as a shell would."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass

from tests import KGM
from tests.cli.environment import bare


@dataclass(frozen=True, slots=True)
class Run:
    """How a run ended."""

    code: int
    out: str
    err: str
    seconds: float


def kgm(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None, timeout_s: float = 90) -> Run:
    """Run kgm in a process of its own, with nothing of the caller's settings."""
    clean = bare()
    clean["XDG_CACHE_HOME"] = f"{tempfile.gettempdir()}/kgm-tests-{os.getuid()}"  # names for completion
    start = time.monotonic()
    done = subprocess.run(
        [*KGM, *arguments], input=stdin if stdin is not None else "",
        capture_output=True, text=True, check=False, env={**clean, **(env or {})}, timeout=timeout_s,
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr, time.monotonic() - start)

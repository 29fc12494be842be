"""Whole processes measured side by side: CPU seconds, wall seconds and memory, the median of several runs taken in
turn."""

import os
import shutil
import statistics
import subprocess
import sys
import time


def once(command):
    """(CPU seconds, wall seconds, peak MB) of one run; output is read and discarded.

    Python may cache its bytecode, as it does wherever kgm is installed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(command, stdout=null, stderr=null, stdin=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:12]))} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024


def side_by_side(commands, runs, *, warm=True):
    """{name: medians of what `once` returns}; the commands take turns, so that noise affects all of them equally. warm:
    run each once before, to fill the file cache."""
    if warm:
        for command in commands.values():
            once(command)
    found = [{name: once(command) for name, command in commands.items()} for _ in range(runs)]
    return {name: medians([row[name] for row in found]) for name in commands}


def medians(rows):
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def kgm(root, *words):
    """A kgm command, run from a checkout."""
    entry = f"import sys; sys.path.insert(0, {str(root)!r}); from kgm.cli.entry import main; main()"
    return [sys.executable, "-c", entry, *words]


def kcl():
    """The path of kcl (franz-go, a tool in Go), the peer for read-only commands."""
    path = shutil.which("kcl")
    if path is None:
        raise SystemExit("kcl is not in PATH: go install github.com/twmb/kcl@latest")
    return path

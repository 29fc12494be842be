"""Whole processes measured side by side: CPU and wall seconds, the median of several runs taken in turn."""

import os
import statistics
import subprocess
import time


def once(command):
    """(cpu seconds, wall seconds, exit code) of one run; output is read and thrown away.

    Python may cache its bytecode, as it does wherever kgm is installed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(command, stdout=null, stderr=null, stdin=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, process.returncode


def side_by_side(commands, runs):
    """{name: (median cpu, median wall)}; the commands in turn, so that noise hits all of them alike."""
    found = {name: [] for name in commands}
    for name, command in commands.items():
        _, _, code = once(command)  # warm the file cache
        if code != 0:
            raise SystemExit(f"{name} ended with {code}: {' '.join(map(str, command))}")
    for _ in range(runs):
        for name, command in commands.items():
            cpu, wall, _ = once(command)
            found[name].append((cpu, wall))
    return {
        name: (statistics.median(cpu for cpu, _ in rows), statistics.median(wall for _, wall in rows))
        for name, rows in found.items()
    }

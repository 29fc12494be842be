#!/usr/bin/env python3
"""Runs all benches, and writes docs/figures.json, docs/figures.md, and the README's figures.

usage: python bench/all.py [--only NAME...] [--quick] [--limit SECONDS] [--minutes N]
       (needs the extras `dev` and `bench`, Java 17+, Maven for the jars, and kcl in PATH: go install github.com/twmb/kcl@latest)

Benches run one after the other, each in its own process. The page records the machine, the date, and the load average
before and after each. If a bench fails or takes too long, the page says so and shows the rows that it had by then.
--only: the other benches keep their previous results. --quick: small sizes, to check that everything works. --limit:
seconds for each bench. --minutes: for all of them together; benches that no time is left for keep their previous
results. `kills` takes an hour, and runs only if it is named."""

import argparse
import ast
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench.figures import RESULTS, ROWS, write
from tests.kafka.jars import KAFKA_VERSION


@dataclass(frozen=True)
class Bench:
    """A bench. usual, quick: its options. takes_long: it runs only if it is named."""

    title: str
    usual: str
    quick: str
    takes_long: bool = False


BENCHES = {
    "startup": Bench("Start-up", "--groups 1000 --runs 5", "--groups 50 --runs 1"),
    "fleet_memory": Bench("Listing and describing a fleet", "--groups 100000", "--groups 500"),
    "top": Bench("kgm top", "--groups 10000 --seconds 20", "--groups 200 --seconds 3"),
    "simulation": Bench(
        "Predictions", "--groups 2000 --kinds mixed --runs 1",
        "--sizes 30 --dynamic-sizes 30 --draws 3 --groups 20 --kinds mixed --runs 1",
    ),
    "rounds": Bench(
        "Predictions in bulk and event by event", "--sizes 100 --large 1000 --runs 1", "--sizes 20 --large 50 --runs 1"
    ),
    "removal": Bench("Members removed", "--members 500 --runs 5", "--members 20 --runs 1"),
    "codec": Bench("Codec", "--rounds 60", "--members 20 --rounds 3"),
    "engine": Bench("The coordinator", "--rounds 3 --span 200", "--members 1,20 --rounds 1 --span 50"),
    "consumer_groups": Bench(
        "The coordinator of consumer groups (KIP-848)", "--rounds 2",
        "--members 100 --partitions 1000 --rounds 1 --span 50",
    ),
    "server": Bench(
        "kgm serve", "--seconds 9 --warm-up 5 --forming 200",
        "--members 200 --seconds 3 --warm-up 1 --forming 20 --runs 1",
    ),
    "reload": Bench("Reloading a coordinator", "--rounds 4", "--groups 20 --rounds 2"),
    "assignors": Bench(
        "Assignors", "--rounds 1 --limit 20 --only '10,000 members'",
        "--rounds 1 --only '10,000 members x 50, 100 topics, range'",
    ),
    "history": Bench(
        "Decoding a history", "--commits 500000 --changes 50000 --rounds 1",
        "--commits 20000 --snapshots 500 --changes 2000 --rounds 1",
    ),
    "captures": Bench("Captures", "--rounds 1", "--commits 20000 --rounds 1"),
    "builds": Bench("Builds on a cluster", "--rounds 1", "--snapshots 5000 --rounds 1"),
    "spark_fleets": Bench("Fleets on Spark", "--groups 100 --rounds 1", "--groups 16 --rounds 1"),
    "kills": Bench("Captures and builds that are killed", "", "--every 40", takes_long=True),
    "libraries": Bench("Libraries compared", "--runs 9", "--runs 1"),
    "ranges": Bench("How often ranges of predictions hold", "--plans 100 --seed 11", "--plans 3"),
    "causes": Bench(
        "How often the history is right", "--versions 4.3.0 --groups 24 --seconds 60",
        "--versions 4.3.0 --groups 4 --seconds 15",
    ),
    "rollouts": Bench("How often a rollout goes as predicted", "--plans 6 --threads 3", "--plans 1"),
    "stopped": Bench("How near the typical time without a consumer is", "--times 1", "--times 1 --only removed"),
}  # fmt: skip


def machine():
    names = [
        line.partition(":")[2]
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "cores": len(os.sched_getaffinity(0)), "cpu": names[0].strip() if names else platform.machine(),
        "python": platform.python_version(), "kafka": KAFKA_VERSION,
    }  # fmt: skip


def about(name):
    """A bench's description of itself, without its usage."""
    text = ast.get_docstring(ast.parse((ROOT / "bench" / f"{name}.py").read_text()))
    return "\n\n".join(part for part in text.split("\n\n") if not part.startswith("usage:"))


def unmeasured(name, options):
    """The entry in docs/figures.json for a bench that never ran."""
    return {
        "title": BENCHES[name].title, "about": about(name), "command": f"python bench/{name}.py {options}".strip(),
        "began": None, "error": None, "rows": [],
    }  # fmt: skip


def measured(name, quick, limit_s):
    """Run a bench. Returns its entry in docs/figures.json."""
    options = BENCHES[name].quick if quick else BENCHES[name].usual
    result = unmeasured(name, options) | {
        "quick": quick, "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": machine(),
        "load": [os.getloadavg()[0]],
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kgm-bench-") as folder:
        rows, log = pathlib.Path(folder, "rows"), pathlib.Path(folder, "log")
        rows.touch()
        with log.open("wb") as errors:
            command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), *shlex.split(options)]
            process = subprocess.Popen(
                command, stderr=errors, stdin=subprocess.DEVNULL, cwd=ROOT, env=os.environ | {ROWS: str(rows)},
                start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                result["error"] = f"it took longer than {limit_s:.0f} s"
            else:
                result["error"] = f"exit code {code}: {why(log.read_text(errors='replace'))}" if code else None
            end(process)
        result["rows"] = [json.loads(line) for line in rows.read_text().splitlines()]
    result["load"].append(os.getloadavg()[0])
    return result


def why(text):
    """The last error that a bench raised, else its last line, without the folders of this machine."""
    lines = [line for line in text.splitlines() if line.strip()] or ["it said nothing"]
    raised = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception|Expired|Interrupt)\b", line)]
    return re.sub(r"(?<!\w)/\S+/", "", (raised or lines)[-1])[:200]


def end(process):
    """Stop the bench, which stops whatever it started, and then the rest of its process group."""
    for number, wait_s in ((signal.SIGINT, 60), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHES, metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limit", type=float, default=400, help="seconds")
    parser.add_argument("--minutes", type=float, default=25)
    arguments = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells start background jobs with SIGINT ignored, and the benches would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    until = time.monotonic() + 60 * arguments.minutes
    failed = []
    for name in arguments.only or [name for name, bench in BENCHES.items() if not bench.takes_long]:
        began = time.monotonic()
        print(f"\n{name}", flush=True)
        if began >= until:
            print(f"{name}: no time is left for it", flush=True)
            failed.append(name)
            continue
        result = measured(name, arguments.quick, min(arguments.limit, until - began))
        print(f"{name}: {time.monotonic() - began:.0f} s {result['error'] or ''}", flush=True)
        failed += [name] if result["error"] else []
        # Written after each bench, so that interrupting the run loses nothing measured so far.
        known = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | {name: result}
        write({each: known.get(each) or unmeasured(each, bench.usual) for each, bench in BENCHES.items()})
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()

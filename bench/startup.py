#!/usr/bin/env python3
"""What kgm costs from start to end: `--help`, one group, and many groups in each form; compared with kcl (franz-go, a
tool in Go).

usage: python bench/startup.py [--groups N] [--runs N] [--before DIR]      (needs kcl in PATH)
       (--before: another checkout of kgm, whose commands are run in turn with this one's)

Groups have one static member with 20 partitions and are served by a `kgm serve`, whose own cost is not counted. CPU is
user and system time, medians of --runs."""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import BlockingConnection, form, server
from figures import figure
from processes import kcl, kgm, side_by_side


def forms(at):
    """{name: words of the kgm command}."""
    return {
        "--help": ["--help"],
        "describe one": ["describe", "group-000000", *at],
        "describe one -o json": ["describe", "group-000000", *at, "-o", "json"],
        "list": ["list", *at],
        "list -o json": ["list", *at, "-o", "json"],
        "describe all": ["describe", "--all-groups", *at],
        "describe all --offsets": ["describe", "--all-groups", "--offsets", *at],
        "describe all -o json": ["describe", "--all-groups", *at, "-o", "json"],
        "describe all --offsets -o json": ["describe", "--all-groups", "--offsets", *at, "-o", "json"],
    }


def of_kcl(path, bootstrap, groups):
    to = [path, "--no-config-file", "-B", bootstrap]
    every = [f"group-{number:06d}" for number in range(groups)]
    return {
        "--help": [path, "--help"],
        "describe one": [*to, "group", "describe", every[0]],
        "describe one -o json": [*to, "--format", "json", "group", "describe", every[0]],
        "list": [*to, "group", "list"],
        "list -o json": [*to, "--format", "json", "group", "list"],
        "describe all": [*to, "group", "describe", *every],
        "describe all --offsets": [*to, "group", "describe", *every],
        "describe all -o json": [*to, "--format", "json", "group", "describe", *every],
        "describe all --offsets -o json": [*to, "--format", "json", "group", "describe", *every],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--before")
    arguments = parser.parse_args()
    with server() as bootstrap:
        host, port = bootstrap.rsplit(":", 1)
        connection = BlockingConnection((host, int(port)))
        for number in range(arguments.groups):
            form(connection, f"group-{number:06d}")
        bare = side_by_side({"bare": [sys.executable, "-c", "pass"]}, arguments.runs)["bare"]
        figure("a bare Python", "CPU ms", bare[0] * 1e3)
        theirs = of_kcl(kcl(), bootstrap, arguments.groups)
        for name, words in forms(["-b", bootstrap]).items():
            commands = {"kgm": kgm(ROOT, *words), "kcl": theirs[name]}
            if arguments.before:
                commands["before"] = kgm(arguments.before, *words)
            found = {who: cpu * 1e3 for who, (cpu, *_) in side_by_side(commands, arguments.runs).items()}
            figure(name, "CPU ms", found.pop("kgm"), found)


if __name__ == "__main__":
    main()

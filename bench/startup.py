#!/usr/bin/env python3
"""What kgm costs from its start to its end: `--help`, one group, and many groups in each form; beside a bare Python, and
beside kcl (franz-go, a tool in Go) where it is given.

usage: python bench/startup.py [--groups N] [--runs N] [--kcl PATH] [--before DIR]

Groups have one static member and lie on a `kgm serve`, whose own cost is not counted. kcl is built with `go build` from
https://github.com/twmb/kcl. --before: another checkout of kgm, whose commands are run in turn with this one's. CPU is
user and system time, medians of --runs; on a busy machine trust the ratios."""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import BlockingConnection
from growth import form, server
from processes import side_by_side

ENTRY = "import sys; sys.path.insert(0, {!r}); from kgm.cli.entry import main; main()"


def forms(at):
    """{name: words of kgm}."""
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
    parser.add_argument("--kcl")
    parser.add_argument("--before")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with server() as bootstrap:
        host, port = bootstrap.rsplit(":", 1)
        connection = BlockingConnection((host, int(port)))
        for number in range(arguments.groups):
            form(connection, f"group-{number:06d}")
        print(f"{arguments.groups:,} groups, CPU ms, medians of {arguments.runs}")
        print("| command | kgm | before | kgm / before | kcl | kcl / kgm | kgm wall | kcl wall |")
        print("|---|---|---|---|---|---|---|---|")
        theirs = of_kcl(arguments.kcl, bootstrap, arguments.groups) if arguments.kcl else {}
        bare = side_by_side({"bare": [sys.executable, "-c", "pass"]}, arguments.runs)["bare"]
        print(f"| a bare Python | {bare[0] * 1e3:.0f} | | | | | {bare[1] * 1e3:.0f} | |")
        for name, words in forms(["-b", bootstrap]).items():
            commands = {"kgm": [sys.executable, "-c", ENTRY.format(str(ROOT)), *words]}
            if arguments.before:
                commands["before"] = [sys.executable, "-c", ENTRY.format(arguments.before), *words]
            if name in theirs:
                commands["kcl"] = theirs[name]
            print(row(name, side_by_side(commands, arguments.runs)), flush=True)


def row(name, found):
    ours, wall = found["kgm"]
    cells = [name, f"{ours * 1e3:.0f}"]
    cells += [f"{found['before'][0] * 1e3:.0f}", f"{ours / found['before'][0]:.2f}"] if "before" in found else ["", ""]
    cells += [f"{found['kcl'][0] * 1e3:.0f}", f"{found['kcl'][0] / ours:.2f}"] if "kcl" in found else ["", ""]
    cells += [f"{wall * 1e3:.0f}", f"{found['kcl'][1] * 1e3:.0f}" if "kcl" in found else ""]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

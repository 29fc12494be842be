#!/usr/bin/env python3
"""What kgm implements itself, compared with the library it could have used instead: CPU time of the import, or of the
work.

usage: python bench/libraries.py [--runs N]      (needs the extras `dev` and `bench`)

Imports are measured without the start of Python; the cheapest of --runs counts.

- SCRAM is a short module of kgm. scramp 1.5 applies SASLprep to the password, which Kafka does not (KIP-84), so a password
  with, say, a soft hyphen is refused; it cannot send `tokenauth=true`, which delegation tokens need (KIP-48); and it
  accepts ten million iterations from a server that asks for them, kgm one million.
- A token endpoint is called with the standard library: one POST whose redirects are not followed, because the secret is
  for that address only. `requests` would use its own certificates instead of the system's.
- PyYAML does not escape characters that a terminal interprets unless everything beyond ASCII is escaped. Tests use it
  to read back what kgm writes.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import google_crc32c
import yaml
from figures import figure

from kgm.cli.output.yaml_text import yaml_lines
from kgm.records.batch import checksum

#: What a login imports from the standard library, and the library it could use instead.
IMPORTS = {
    "SCRAM": {"kgm": "import hashlib, hmac, base64, re", "scramp": "import scramp"},
    "a token endpoint": {"kgm": "import urllib.request, ssl", "requests": "import requests"},
}
MEMBERS = 2_000
BATCHES = {"a commit of one offset": 200, "a group of 50 members": 20_000, "a batch of 1 MiB": 1 << 20}


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def import_ms(code, runs):
    """The CPU time of the cheapest run, in ms."""
    least = float("inf")
    for _ in range(runs):
        start = cpu_of_children()
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        least = min(least, cpu_of_children() - start)
    return least * 1000


def best_us(function, rounds, runs):
    """The CPU time of one call in the cheapest of several runs, in microseconds."""
    least = float("inf")
    for _ in range(runs):
        start = time.process_time()
        for _ in range(rounds):
            function()
        least = min(least, time.process_time() - start)
    return least / rounds * 1e6


def document():
    """A group as `kgm describe -o yaml` prints it."""
    members = [
        {"group_instance_id": f"payments-{i}", "member_id": f"payments-{i}-id", "client_host": "/127.0.0.1",
         "assignment": {"orders": [2 * i, 2 * i + 1]}, "lag": i, "rack": None}
        for i in range(MEMBERS)
    ]  # fmt: skip
    return {"data": {"groups": [{"group_id": "payments", "members": members}]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    nothing = import_ms("pass", runs)
    for what, names in IMPORTS.items():
        ours, (library, theirs) = names["kgm"], next((k, v) for k, v in names.items() if k != "kgm")
        cost = {code: import_ms(code, runs) - nothing for code in (ours, theirs)}
        figure(f"{what}: imports", "CPU ms", cost[ours], {library: cost[theirs]})
    data = document()
    emitters = {
        "kgm": lambda: "\n".join(yaml_lines(data)),
        "PyYAML with libyaml": lambda: yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False),
        "PyYAML": lambda: yaml.safe_dump(data, sort_keys=False),
    }
    cost = {name: best_us(emit, 1, min(runs, 3)) / 1000 for name, emit in emitters.items()}
    figure(f"YAML of {MEMBERS:,} members", "CPU ms", cost.pop("kgm"), cost)
    for name, size in BATCHES.items():
        content = os.urandom(size)
        rounds = max(20, 20_000_000 // size // 10)
        ours = best_us(lambda content=content: checksum(content), rounds, runs)
        peer = best_us(lambda content=content: google_crc32c.value(content), rounds, runs)
        figure(f"CRC32C of {name}, by fastcrc", "CPU us", ours, {"google-crc32c": peer})


if __name__ == "__main__":
    main()

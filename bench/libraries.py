#!/usr/bin/env python3
"""What kgm has of its own beside the library that was weighed for it: CPU time of the import, or of the work.

usage: python bench/libraries.py [--runs N]      (needs the extras `dev` and `bench`)
"""

import argparse
import os
import resource
import subprocess
import sys
import time

import yaml

from kgm.cli.output.yaml_text import yaml_lines
from kgm.records.batch import checksum

#: What a login imports of the standard library, and the library in its place.
IMPORTS = {
    "SCRAM: hashlib, hmac, base64, re": "import hashlib, hmac, base64, re",
    "SCRAM: scramp": "import scramp",
    "token endpoint: urllib.request, ssl": "import urllib.request, ssl",
    "token endpoint: requests": "import requests",
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
    print("| import | CPU ms |\n|---|---|")
    for name, code in IMPORTS.items():
        print(f"| {name} | {import_ms(code, runs) - nothing:.0f} |")
    data = document()
    emitters = {
        "kgm": lambda: "\n".join(yaml_lines(data)),
        "PyYAML with libyaml": lambda: yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False),
        "PyYAML": lambda: yaml.safe_dump(data, sort_keys=False),
    }
    print(f"\n| YAML of {MEMBERS:,} members | CPU ms |\n|---|---|")
    for name, emit in emitters.items():
        print(f"| {name} | {best_us(emit, 1, min(runs, 3)) / 1000:.0f} |")
    import google_crc32c

    print("\n| CRC32C | bytes | fastcrc us | google-crc32c us |\n|---|---|---|---|")
    for name, size in BATCHES.items():
        content = os.urandom(size)
        rounds = max(20, 20_000_000 // size // 10)
        ours = best_us(lambda content=content: checksum(content), rounds, runs)
        peer = best_us(lambda content=content: google_crc32c.value(content), rounds, runs)
        print(f"| {name} | {size} | {ours:.2f} | {peer:.2f} |")


if __name__ == "__main__":
    main()

"""Writes jars.json: the jars that each set consists of today, according to its artifacts, and the digest of each jar.

    python -m tests.kafka.lock_jars [SET...]

Resolves the named sets again, or all sets if none is named; the others stay as they are.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import get_ident

from tests.kafka.ivy import Artifact, fetch
from tests.kafka.jars import LOCK, SETS, cache_dir, locked_jars, sha256

_AT_ONCE = 6
#: PySpark contains these.
_OF_SPARK = {"org.apache.hadoop", "org.scala-lang", "org.scala-lang.modules", "org.slf4j"}


def resolved(name: str, kept: Path) -> dict[Artifact, str]:
    """The jars of a set, and the digest of each."""
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".locking-") as scratch:
        found = fetch(SETS[name], Path(scratch), transitive=True, kept=kept)
        if name.startswith("spark-"):
            found = {one: path for one, path in found.items() if one.group not in _OF_SPARK}
        return {one: sha256(path) for one, path in sorted(found.items(), key=lambda each: str(each[0]))}


def main(names: list[str]) -> None:
    sets = locked_jars() if LOCK.exists() else {}
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".locking-") as kept, ThreadPoolExecutor(_AT_ONCE) as pool:
        # Ivy mostly waits, and a folder of kept jars can be used by only one at a time.
        waiting = {
            pool.submit(lambda name: resolved(name, Path(kept) / str(get_ident())), name): name
            for name in names or SETS
        }
        for done in as_completed(waiting):
            name = waiting[done]
            sets[name] = done.result()
            print(f"{name}: {len(sets[name])} jars", flush=True)
            _write({one: sets[one] for one in SETS if one in sets})


def _write(sets: dict[str, dict[Artifact, str]]) -> None:
    digests: dict[str, str] = {}
    for found in sets.values():
        for one, digest in found.items():
            if digests.setdefault(str(one), digest) != digest:
                raise SystemExit(f"{one} has two digests: {digest} and {digests[str(one)]}")
    content = {
        "jars": dict(sorted(digests.items())),
        "sets": {name: [str(one) for one in found] for name, found in sets.items()},
    }
    LOCK.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

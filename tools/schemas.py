#!/usr/bin/env python3
"""Keep what the JSON of each command has promised: tests/data/schemas_v1.json.

usage: python tools/schemas.py [--check]      (--check writes nothing, and fails where the file lacks something)

Version 1 of a command's JSON grows only. A key, or a kind of value, that was promised and is no more is an error: then
it is kgm/cli/output/contracts*.py that is wrong, not the file."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FILE = ROOT / "tests/data/schemas_v1.json"


def present() -> dict[str, Any]:
    """{name: schema} of every command."""
    from kgm.cli.output.schema import contracts, schema_of

    return {name: schema_of(name) for name in sorted(contracts())}


def promised() -> dict[str, Any]:
    """What the file says."""
    found: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def broken(old: Any, new: Any, where: str) -> Iterator[str]:
    """What a reader who relies on `old` misses in `new`."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield f"{where} was {old}, and is {new}"
        return
    for key, value in old.items():
        place = f"{where}.{key}" if key not in ("properties", "items", "anyOf") else where
        if key not in new:
            yield f"{place} is gone"
        elif key == "enum":  # a reader has to cope with words that are new
            yield from (f"{place} has no {word!r} any more" for word in value if word not in new[key])
        elif key == "required":
            yield from (f"{where}.{name} is not always there any more" for name in value if name not in new[key])
        elif key == "anyOf":
            if len(new[key]) < len(value):
                yield f"{place} has fewer forms"
            for one, other in zip(value, new[key], strict=False):
                yield from broken(one, other, place)
        else:
            yield from broken(value, new[key], place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    old, new = promised(), present()
    found = list(broken(old, new, ""))
    if check:
        found += [f"{name} is not in {FILE.name} as it is" for name in new if new[name] != old.get(name)]
    for each in found:
        print(each)
    if found:
        return 1
    if not check:
        FILE.write_text(json.dumps(new, separators=(",", ":")).replace('},"', '},\n"') + "\n")
        print(f"{len(new)} schemas, {len(new.keys() - old.keys())} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Write completions/ and man/ from the command tree.

usage: python tools/generate_manual.py [--check]      (--check writes nothing and fails if a file is not as it would be)

The text about an option comes from its help, so that there is one place to change it. Examples are in tools/manual/man.py,
the values that a shell offers in tools/manual/tree.py, where the command tree does not have them."""

from __future__ import annotations

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.manual import bash, fish, man, zsh  # noqa: E402
from tools.manual.tree import command_tree  # noqa: E402


def files() -> dict[str, str]:
    """{path in the repository: content} of every generated file."""
    tree = command_tree()
    return {
        "completions/kgm.bash": bash.script(tree),
        "completions/_kgm": zsh.script(tree),
        "completions/kgm.fish": fish.script(tree),
        **{f"man/{name}": page for name, page in man.pages(tree).items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wanted = files()
    there = {str(path.relative_to(ROOT)) for folder in ("completions", "man") for path in (ROOT / folder).glob("*")}
    stale = [name for name, text in wanted.items() if name not in there or (ROOT / name).read_text() != text]
    extra = sorted(there - wanted.keys())
    if check:
        for name in stale:
            print(f"{name} is out of date")
        for name in extra:
            print(f"{name} belongs to no command")
        return 1 if stale or extra else 0
    for name in stale:
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(wanted[name])
    for name in extra:
        (ROOT / name).unlink()
    print(f"{len(wanted)} files, {len(stale)} written, {len(extra)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

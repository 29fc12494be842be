"""Release notes, from the changelog and the commits: `python -m tools.release.notes [FROM..TO]`.

Without a range: what came after the newest tag; all commits if there is none. The part of CHANGELOG.md that is not
released yet says what somebody who upgrades has to know; below it is every commit since, by the part of kgm that it
changes most. Commits that change only tests, tools or documents are counted.

git-cliff and towncrier were weighed: the former sorts by prefixes of conventional commits, which these subjects are
not, and the latter needs a file for each change, which the changelog has in one."""

from __future__ import annotations

import argparse
import collections
import pathlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from kgm.cli.output.report import markdown_text
from kgm.text.wording import many
from kgm.version import __version__

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Title by the beginning of a path; the first that fits counts.
AREAS = {
    "kgm/cli/": "Command line", "kgm/operations/": "Commands", "kgm/client/": "Talking to clusters",
    "kgm/simulation/": "Simulation", "kgm/coordinator/": "Coordinator and assignors",
    "kgm/assignors/": "Coordinator and assignors", "kgm/java/": "Coordinator and assignors",
    "kgm/server/": "Embedded coordinator", "kgm/testing/": "Embedded coordinator", "kgm/history/": "History",
    "kgm/pipeline/": "History", "kgm/records/": "History", "kgm/": "Everywhere", "pyproject.toml": "Installation",
    "Containerfile": "Installation", "tools/zipapp/": "Installation",
}  # fmt: skip
_COMMIT = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that is no merge. area: the title of the part that it changes most; None if it changes none."""

    subject: str
    area: str | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("range", nargs="?", help="as git log takes it; since the newest tag by default")
    arguments = parser.parse_args()
    print(notes(since_the_newest_tag() if arguments.range is None else arguments.range), end="")


def notes(commits: str) -> str:
    """The notes on these commits, as Markdown."""
    by_area = collections.defaultdict(list)
    for commit in read_commits(commits):
        by_area[commit.area].append(commit.subject)
    others = len(by_area.pop(None, ()))
    lines = [f"# kgm {__version__}", "", unreleased(), "", "## Commits", ""]
    for area in dict.fromkeys(AREAS.values()):
        if by_area[area]:
            lines += [f"### {area}", "", *(f"- {markdown_text(subject)}" for subject in by_area[area]), ""]
    lines += [f"And {many(others, 'commit')} to tests, tools and documents."] if others else []
    return "\n".join(lines).rstrip() + "\n"


def unreleased() -> str:
    """What CHANGELOG.md says of the version that comes next."""
    found = re.search(
        r"^## [^\n]*not released yet\n+(.*?)(?=^## |\Z)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise SystemExit("CHANGELOG.md: no part says 'not released yet'")
    return found[1].strip()


def since_the_newest_tag() -> str:
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return f"{tag.stdout.strip()}..HEAD" if tag.returncode == 0 else "HEAD"


def read_commits(commits: str) -> Iterator[Commit]:
    """The newest first."""
    command = ["git", "log", "--no-merges", "--numstat", f"--format={_COMMIT}%s", commits, "--"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for part in text.split(_COMMIT)[1:]:
        subject, *changes = part.strip().split("\n")
        changed: collections.Counter[str] = collections.Counter()
        for change in filter(None, changes):
            added, removed, path = change.split("\t")
            area = next((AREAS[start] for start in AREAS if path.startswith(start)), None)
            if area is not None and added != "-":
                changed[area] += int(added) + int(removed)
        yield Commit(subject=subject, area=changed.most_common(1)[0][0] if changed else None)


if __name__ == "__main__":
    main()

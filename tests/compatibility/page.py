"""docs/compatibility.md: read, changed by what was seen, and written again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests import ROOT

PAGE: Final[Path] = ROOT / "docs" / "compatibility.md"
_NOTE: Final = re.compile(r"^(\d+)\. (.*)$")
_CELL: Final = re.compile(r"^(yes|no)(?: \[([\d, ]+)\])?$")
HEAD: Final = """# Which versions of Kafka kgm works with

Made by `tests/compatibility`: each row was played on a real broker of each version, with real consumers. `3.9.1+new` is
3.9.1 with the new group coordinator, which 3.7 to 3.9 have as an option. `KGM_WRITE_DOCS=1` writes the page; the test
fails when what it sees is not what the page says:

```sh
.venv/bin/python -m pytest --long tests/compatibility     # one version: -k 3.6.2
```

Numbers in brackets are what a version cannot tell; see below the table.

"""
TAIL: Final = """
## Which version a broker has

Kafka reports no version. kgm infers it from the API versions and features that a broker reports, by a table that was made
from real brokers of every minor version (`tools/generate_released_apis.py`). `kgm config test` shows the result for each
broker, `kgm describe -o json` saves it with a group, and `kgm simulate-bounce` plays the version of the group's
coordinator; `--kafka-version` says another. Patch versions are not told apart, nor are the two coordinators of 3.7 to
3.9 without DESCRIBE_CONFIGS on the cluster: then both are played, and a prediction is exact only if they agree. A broker
whose APIs are those of no release of Apache Kafka is played as Kafka 4.3, with a note that says so.
"""


@dataclass
class Page:
    """versions: the columns. notes: of each row and version, what the version cannot tell; (None, reason): the version does
    not have what the row is about."""

    versions: list[str] = field(default_factory=list)
    cells: dict[tuple[str, str], tuple[bool, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Self:
        page = cls()
        if not PAGE.exists():
            return page
        lines = PAGE.read_text().splitlines()
        notes = {match[1]: match[2] for line in lines if (match := _NOTE.match(line))}
        table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        page.versions = table[0][1:] if table else []
        for title, *cells in table[2:]:
            for version, text in zip(page.versions, cells, strict=True):
                if match := _CELL.match(text):
                    numbers = match[2].split(", ") if match[2] else []
                    page.cells[title, version] = match[1] == "yes", tuple(notes[number] for number in numbers)
        return page

    def text(self, titles: Sequence[str], versions: Sequence[str]) -> str:
        """The page. titles, versions: the rows and columns, in order."""
        numbers: dict[str, int] = {}
        rows = []
        for title in titles:
            cells = []
            for version in versions:
                works, lacks = self.cells.get((title, version), (None, ()))
                for lack in lacks:
                    numbers.setdefault(lack, len(numbers) + 1)
                cited = f" [{', '.join(str(numbers[lack]) for lack in lacks)}]" if lacks else ""
                cells.append("?" if works is None else ("yes" if works else "no") + cited)
            rows.append(f"| {title} | {' | '.join(cells)} |\n")
        notes = "".join(f"{number}. {note}\n" for note, number in numbers.items())
        head = f"| | {' | '.join(versions)} |\n|---|{'---|' * len(versions)}\n"
        return HEAD + head + "".join(rows) + ("\n" + notes if notes else "") + TAIL


def merged(page: Page, seen: Mapping[tuple[str, str], tuple[bool, tuple[str, ...]]]) -> Page:
    """The page with what was seen."""
    return Page(versions=page.versions, cells={**page.cells, **seen})

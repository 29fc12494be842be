"""Every command on every version, with `--long`; without it some commands run on old ones, each on one of two."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tests.compatibility.cells import ROWS, NotHere
from tests.compatibility.page import PAGE, Page, merged
from tests.compatibility.scene import Scene
from tests.kafka.versions import VERSIONS
from tests.selection import sized
from tools.manual.tree import leaves

pytestmark = [pytest.mark.scenes, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

QUICK = [row for row in ROWS if row.is_quick]
#: Which commands run on which versions.
PLAYED = sized({"2.4.1": QUICK[::2], "3.6.2": QUICK[1::2]}, dict.fromkeys(VERSIONS, ROWS))
TITLES = [row.title for row in ROWS]
#: `config view` connects to nothing; `export` and `top` ask what `list`, `describe` and `doctor` ask; `delete-groups` is
#: held to the oldest and the newest Kafka in tests/operations/deletion; the others read the same records as
#: `history rebalances`, or start Spark.
ELSEWHERE = {"config view", "delete-groups", "export", "top", "history capture", "history build"} | {
    f"history {name}" for name in ("churn", "movement", "offsets", "simulate-fleet", "timeline", "timeouts", "zombies")
}


@cache
def played(version):
    """{title: what came of it}: whether it works and what the version cannot tell, or an exception."""
    results = {}
    with Scene(version) as scene:
        for row in PLAYED[version]:
            try:
                results[row.title] = True, tuple(row.play(scene))
            except NotHere as reason:
                results[row.title] = False, (str(reason),)
            except Exception as error:  # noqa: BLE001  (the test of the row raises it)
                results[row.title] = error
    return results


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("version", "row"),
    [
        pytest.param(version, row, id=f"{version}-{row.play.__name__}")
        for version, rows in PLAYED.items()
        for row in rows
    ],
)
def test_a_command_works_and_the_page_says_what_the_version_cannot_tell(version, row):
    seen = played(version)[row.title]
    if isinstance(seen, Exception):
        raise seen
    page = Page.read()
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        page = merged(page, {(row.title, version): seen})
        PAGE.write_text(page.text(TITLES, VERSIONS))
    assert page.cells.get((row.title, version)) == seen, "KGM_WRITE_DOCS=1 writes the page again"


def test_the_page_is_complete():
    page = Page.read()
    assert PAGE.read_text() == page.text(TITLES, VERSIONS)
    missing = [(title, version) for title in TITLES for version in VERSIONS if (title, version) not in page.cells]
    assert missing == []


def test_every_command_that_asks_a_cluster_has_a_row():
    asking = {
        " ".join(words)
        for words, leaf in leaves().items()
        if any("--bootstrap-server" in param.opts for param in leaf.params)
    }
    rows = " ".join(TITLES)
    assert {name for name in asking - ELSEWHERE if f"`{name}" not in rows} == set()

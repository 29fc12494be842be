"""Every figure of the pages is one that a bench has measured: they are made of docs/figures.json."""

from __future__ import annotations

import json
import re

import pytest

from bench.all import BENCHES
from bench.figures import PAGE, README, RESULTS, SENTENCE, page, ratio, sentence, shown
from tests import ROOT
from tests.docs.book import DOCS

RESULT = json.loads(RESULTS.read_text())
PROSE = {
    path: re.sub(r"(?ms)^```.*?^```", "", path.read_text()) for path in [README, *DOCS.glob("*.md")] if path != PAGE
}


def test_the_page_says_what_was_measured_last():
    assert list(RESULT) == list(BENCHES)
    assert PAGE.read_text() == page(RESULT)


def test_the_readme_says_what_was_measured_last():
    (said,) = SENTENCE.findall(README.read_text())
    assert said == sentence(RESULT)
    assert not RESULT["startup"]["quick"]
    rest = PROSE[README].replace(said, "")
    assert re.findall(r"\d[\d.,]* (?:us|ms|[kMG]B|%|times|minutes|seconds)\b|\d%|\bCPU\b", rest) == []


def test_no_other_page_has_figures():
    found = {path.name: re.findall(r"[^\n]*(?:\d s of CPU|\d ms of CPU|times as fast|CPU s\b)[^\n]*", text)
             for path, text in PROSE.items() if path != README}  # fmt: skip
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_pages_name_benches_that_exist():
    named = {name for text in PROSE.values() for name in re.findall(r"bench/(\w+\.py)", text)}
    assert {name for name in named if not (ROOT / "bench" / name).exists()} == set()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.04567, "0.046"),
        (7.955, "7.96"),
        (53.91, "53.9"),
        (125738.4, "125,738"),
        (12, "12"),
        ("> 60", "> 60"),
        (None, ""),
    ],
)
def test_figures_have_three_digits(value, text):
    assert shown(value) == text


def test_a_ratio_is_the_peers_figure_by_ours():
    assert ratio(14.0, 7.0) == "2"
    assert ratio("> 60", 7.0) == ratio(14.0, 0) == ""

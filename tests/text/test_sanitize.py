"""The one door for foreign names: terminals, CSV, and documents that must stay equal."""

import json
import math
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kgm.cli.output.yaml_text import yaml_text
from kgm.text.sanitize import clean, clean_lines, csv_cell, is_clean, json_text
from tests.cli.completion.shells import ROOT
from tests.cli.hostile import HOSTILE, hidden, is_formula


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_active_is_left(text):
    assert hidden(clean(text), but="") == []
    assert not is_formula(csv_cell(text))
    assert is_clean(clean(text))
    assert is_clean(text) == (hidden(text, but="") == [])


@pytest.mark.parametrize("text", ["plain-id_1.2", "größe", "日本", "a b", "🚀-1", "[red]", "x=1"])
def test_honest_names_stay(text):
    assert clean(text) == text
    assert is_clean(text)
    assert csv_cell(text) == text
    assert json_text(json.dumps(text, ensure_ascii=False)) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\u202f"])
def test_only_the_space_looks_like_one(space):
    assert " " not in clean(f"a{space}b")
    assert space not in clean(f"a{space}b")


def test_our_own_lines_stay_lines():
    assert clean_lines("Traceback\n  a\x1b[2J\n") == "Traceback\n  a\\x1b[2J\n"


def test_a_formula_behind_spaces_is_one_too():
    assert csv_cell("  =1+1") == "'  =1+1"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(HOSTILE), inner),
)


@given(st.text() | st.sampled_from(HOSTILE))
def test_clean_text_shows_itself(text):
    assert hidden(clean(text), but="") == []
    assert "\n" not in clean(text)


@given(values)
def test_json_says_the_same_without_anything_hidden(value):
    text = json_text(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(text) == value
    assert hidden(text) == []


@given(values)
def test_yaml_says_the_same_without_anything_hidden(value):
    text = yaml_text(value)
    assert _same(yaml.safe_load(text), value)
    assert hidden(text) == []


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "No",
        "on",
        "NULL",
        "~",
        "1e3",
        "0x10",
        "1_000",
        "12:30",
        ".5",
        "2026-01-01",
        "a: b",
        "a #b",
        "",
        "-",
        "?",
        "<<",
        "=",
    ],
)
def test_words_that_yaml_takes_for_something_else_stay_words(word):
    assert yaml.safe_load(yaml_text({"a": word, word: ["x", word]})) == {"a": word, word: ["x", word]}


def test_a_key_that_is_longer_than_yaml_likes():
    value = {"x" * 5000: {"y" * 2000: [1, {"z" * 1500: "\n"}]}}
    assert yaml.safe_load(yaml_text(value)) == value


def _same(found, wanted):
    if isinstance(wanted, float):
        # YAML 1.1 has no 1e+16: it wants a dot, and takes this for a text.
        return math.isclose(float(found), wanted)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    return type(found) is type(wanted) and found == wanted


#: One line of JSON, the version, and events that are cleaned where they are made.
_MAY_WRITE = {"output/streams.py", "output/progress.py", "main.py", "commands/serve.py", "output/watch/event_lines.py"}


def test_nobody_writes_to_the_terminal_past_the_door():
    folder = ROOT / "kgm/cli"
    calls = re.compile(r"sys\.(stdout|stderr)\.write|\bprint\(|\becho\(")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if calls.search(path.read_text())}
    assert found - {"output/watch/screen.py"} <= _MAY_WRITE  # screen.py prints texts of rich, which interpret nothing

"""Foreign strings in terminals, in CSV, and in documents that must keep their value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.text.sanitize import clean, clean_lines, csv_cell, is_clean, json_text, name_line, name_of
from tests.text.hostile import HOSTILE, VALUES, WIRE, hidden, is_formula


@pytest.mark.parametrize("text", HOSTILE)
def test_no_active_character_is_left(text):
    assert hidden(clean(text), but="") == []
    assert not is_formula(csv_cell(text))
    assert is_clean(clean(text))
    assert is_clean(text) == (hidden(text, but="") == [])


@pytest.mark.parametrize("text", ["plain-id_1.2", "größe", "日本", "a b", "🚀-1", "[red]", "x=1"])
def test_harmless_names_are_unchanged(text):
    assert clean(text) == text
    assert is_clean(text)
    assert csv_cell(text) == text
    assert json_text(json.dumps(text, ensure_ascii=False)) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\u202f"])
def test_other_spaces_are_escaped(space):
    assert " " not in clean(f"a{space}b")
    assert space not in clean(f"a{space}b")


def test_line_breaks_of_our_own_text_are_kept():
    assert clean_lines("Traceback\n  a\x1b[2J\n") == "Traceback\n  a\\x1b[2J\n"


def test_a_formula_after_spaces_is_quoted_too():
    assert csv_cell("  =1+1") == "'  =1+1"


@given(st.text() | st.sampled_from(HOSTILE))
def test_clean_text_shows_itself(text):
    assert hidden(clean(text), but="") == []
    assert "\n" not in clean(text)


@given(VALUES)
def test_json_has_the_same_value_and_nothing_hidden(value):
    text = json_text(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(text) == value
    assert hidden(text) == []


#: Names that differ in what a list of names could lose.
NAMES = [
    *WIRE, "#", "# x", "#x", "#\tx", " #x", " ", "  ", "\t", "a ", " a", "a", "a\r", "a\x85b", "\\", "\\\\", "a\\b", "\\x1b", "\x1b",
    "\\x5c", "\\\x1b", "\\x23 x", "\\x1", "\\x41", "\\u2028", "\\ud800", "\\U0010ffff", "\\U00110000", "\\\\x20", "CORP\\name",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_comes_back_from_its_line(name):
    line = name_line(name)
    assert hidden(line, but="") == []
    assert name_of(line) == name


@given(st.text(st.characters(codec="utf-8"), min_size=1) | st.text("\\xuU015bcd# \t\x1b", min_size=1))
def test_any_name_comes_back_from_its_line(name):
    assert name_of(name_line(name)) == name


@pytest.mark.parametrize("name", ["#x", "##", "a\\b", "\\#", "größe", "\\x41", "{a,b}", "\\ a"])
def test_the_line_of_an_ordinary_name_is_the_name(name):
    assert name_line(name) == name


@pytest.mark.parametrize("line", ["", " ", "\t", "\u00a0", "#", "# x", "#\tx"])
def test_blank_lines_and_comments_are_no_names(line):
    assert name_of(line) is None

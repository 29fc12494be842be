"""Foreign strings in terminals, in CSV, and in documents that must keep their value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.text.sanitize import clean, clean_lines, csv_cell, is_clean, json_text
from tests.text.hostile import HOSTILE, VALUES, hidden, is_formula


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

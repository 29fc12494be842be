"""Indented JSON is what Python's own encoder writes, to the letter."""

from __future__ import annotations

import enum
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.text.indented_json import indented_json


class Word(enum.StrEnum):
    ONE = "one"


class Number(enum.IntEnum):
    TWO = 2


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from([Word.ONE, Number.TWO, "\n", '"', "%s", "\\", "\x1b", "\u2028", -0.0, 10**30]),
)
KEYS = st.one_of(st.text(max_size=4), st.sampled_from(["%", "%s", "{", "\n", Word.ONE, Number.TWO, 1, None, True]))


def rows(values):
    """Lists of objects with the same keys."""
    return st.lists(st.text(max_size=3), max_size=5, unique=True).flatmap(
        lambda keys: st.lists(st.fixed_dictionaries(dict.fromkeys(keys, values)), max_size=8)
    )


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.lists(inner, max_size=6).map(tuple),
        st.dictionaries(KEYS, inner, max_size=6),
        rows(inner),
        st.lists(st.one_of(st.integers(), st.booleans()), min_size=4),
    ),
    max_leaves=40,
)


@given(VALUES)
def test_it_is_what_python_writes(value):
    assert indented_json(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def test_objects_whose_keys_differ_in_order():
    value = [{"a": 1, "b": 2}, {"b": 2, "a": 1}] * 4
    assert indented_json(value) == json.dumps(value, indent=2) + "\n"


def test_numbers_that_are_none():
    assert indented_json([math.nan, math.inf]) == json.dumps([math.nan, math.inf], indent=2) + "\n"


@pytest.mark.parametrize("value", [{"a": object()}, [b"bytes"], {1: {2}}, {(1, 2): 3}])
def test_other_types_are_refused(value):
    with pytest.raises(TypeError):
        indented_json(value)


@pytest.mark.parametrize("count", [499, 500, 501, 1_203])
def test_more_than_are_written_at_once(count):
    value = [
        {
            "name": f"n{at}",
            "rows": [{"at": each, "owner": "o"} for each in range(at % 7)],
            "odd": [[], [at], (at, None)],
        }
        for at in range(count)
    ]
    assert indented_json(value) == json.dumps(value, indent=2) + "\n"
    assert (
        indented_json([each["rows"] for each in value]) == json.dumps([each["rows"] for each in value], indent=2) + "\n"
    )


def test_texts_that_are_repeated():
    value = ["a", '"', "\n", "\x1b"] * 5 + ["a"] * 5
    assert indented_json(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"

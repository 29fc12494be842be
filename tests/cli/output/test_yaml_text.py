"""YAML with the same value as the JSON, whatever a string contains."""

import math

import pytest
import yaml
from hypothesis import given

from kgm.cli.output.yaml_text import yaml_lines
from tests.text.hostile import VALUES, hidden


def yaml_text(value):
    return "\n".join(yaml_lines(value)) + "\n"


@given(VALUES)
def test_yaml_has_the_same_value_and_nothing_hidden(value):
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
def test_words_with_a_meaning_in_yaml_stay_words(word):
    assert yaml.safe_load(yaml_text({"a": word, word: ["x", word]})) == {"a": word, word: ["x", word]}


def test_a_key_longer_than_yaml_allows():
    value = {"x" * 5000: {"y" * 2000: [1, {"z" * 1500: "\n"}]}}
    assert yaml.safe_load(yaml_text(value)) == value


def test_an_iterator_is_a_list():
    value = {"a": [1, {"b": [2]}], "none": [], "c": "d"}
    lazy = {"a": iter(value["a"]), "none": iter(()), "c": "d"}
    assert yaml_text({"data": lazy}) == yaml_text({"data": value})


def _same(found, wanted):
    if isinstance(wanted, float):
        # YAML 1.1 requires a dot in 1e+16, and reads it as text without.
        return math.isclose(float(found), wanted)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    return type(found) is type(wanted) and found == wanted

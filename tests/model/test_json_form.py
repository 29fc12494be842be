"""JSON objects made by forms."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kgm.model.forms.json_form import as_json, json_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    name: str
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    b: tuple[int, ...] = ()
    a: int | None = None
    inner: Inner | None = None
    rows: tuple[Inner, ...] = ()
    by_topic: dict[str, tuple[int, ...]]


INNER = {"name": "str"}
FORM = {"a": "int?", "b": ["int"], "inner": (INNER, None), "rows": [INNER], "by_topic": {"*": ["int"]}, "more": "str"}


def test_an_object_has_the_keys_of_its_form_in_their_order():
    row = Outer(b=(1, 2), inner=Inner(name="x"), rows=(Inner(name="y"),), by_topic={"t": (3,)})
    found = as_json(row, FORM, {"more": "z"})
    assert [*found.items()] == [
        ("a", None), ("b", [1, 2]), ("inner", {"name": "x"}), ("rows", [{"name": "y"}]), ("by_topic", {"t": [3]}),
        ("more", "z"),
    ]  # fmt: skip


def test_what_the_row_lacks_must_be_given():
    with pytest.raises(AttributeError):
        as_json(Inner(name="x"), {"name": "str", "more": "str"})


def test_a_given_value_counts_instead_of_the_attribute():
    assert as_json(Inner(name="x"), INNER, {"name": "y"}) == {"name": "y"}


def test_null_is_null_in_every_form():
    assert json_value(None, [INNER]) is json_value(None, (INNER, None)) is json_value(None, {"*": "str"}) is None

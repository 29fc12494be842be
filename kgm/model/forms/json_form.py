"""JSON objects from typed values, by a *form*, which is the one place where the keys of an object are listed.

In a form, a dict is an object with these keys, always present unless the key ends in `?`; {"*": X} is an object that
maps any name to X; [X] is an array; a tuple is one of several; "str", "int", "float", "bool", "any" are types, nullable
if followed by `?`; "=a|b" is one of these words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def as_json(row: object, form: Mapping[str, Any], own: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """The object of a form, its keys in the form's order: each is in `own`, or is the row's attribute of that name."""
    return {
        key: own[key] if key in own
        # Most values are shown as they are, so they are spared a call.
        else getattr(row, key) if isinstance(inner, str)
        else json_value(getattr(row, key), inner)
        for key, inner in form.items()
    }  # fmt: skip


def json_value(value: Any, form: Any) -> Any:
    """A value of a form: tuples become lists, and rows objects. None stays None."""
    if value is None:
        return None
    if isinstance(form, tuple):  # of a value that can be null
        form = form[0]
    if isinstance(form, dict):
        return (
            {name: json_value(one, form["*"]) for name, one in value.items()} if "*" in form else as_json(value, form)
        )
    if isinstance(form, list):
        (inner,) = form
        return [*value] if isinstance(inner, str) else [json_value(one, inner) for one in value]
    return value

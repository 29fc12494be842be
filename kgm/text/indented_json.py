"""JSON with an indentation of 2, as `json.dumps(value, indent=2, ensure_ascii=False)` writes it, four times as fast:
Python's own encoder yields each number, comma and bracket by itself as soon as there is an indentation."""

from __future__ import annotations

from _operator import itemgetter  # as `operator` has it
from itertools import chain, islice, repeat

try:
    from _json import encode_basestring as _quoted  # without the decoder, which nobody needs to write
except ImportError:  # another Python
    from json.encoder import encode_basestring as _quoted

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

_INDENT = "  "
#: From so many on it pays to write objects column by column, and what is in lists as if it were in one.
_MANY = 4
#: So many objects are written at once: their columns are texts that are held beside the result.
_AT_ONCE = 500


def indented_json(value: Any) -> str:
    """The value (dict, list, tuple, str, int, float, bool, None) as JSON, and a line break. Raises TypeError for other
    types."""
    pieces: list[str] = []
    _add(pieces, value, "\n")
    pieces.append("\n")
    return "".join(pieces)


def _add(pieces: list[str], value: Any, margin: str) -> None:
    """Add the text of a value to the pieces, those of an object one by one: long texts are not copied at each level."""
    if type(value) is not dict or not value or {*map(type, value)} != {str}:
        pieces.append(_text(value, margin))
        return
    inner = margin + _INDENT
    before = "{" + inner
    for key, each in value.items():
        pieces.append(f"{before}{_quoted(key)}: ")
        _add(pieces, each, inner)
        before = "," + inner
    pieces.append(margin + "}")


def _text(value: Any, margin: str) -> str:
    """margin: a line break, and the indentation of the line on which the value begins."""
    kind = type(value)
    if kind is dict:
        return _object(value, margin) if value else "{}"
    if kind is list or kind is tuple:
        return _array(value, margin) if value else "[]"
    write = _SCALARS.get(kind)
    return write(value) if write is not None else _unusual(value, margin)


def _object(value: dict[str, Any], margin: str) -> str:
    inner = margin + _INDENT
    entries = []
    for key, each in value.items():
        if type(key) is not str:
            return _unusual(value, margin)
        write = _SCALARS.get(type(each))
        entries.append(f"{_quoted(key)}: {_text(each, inner) if write is None else write(each)}")
    return f"{{{inner}{f',{inner}'.join(entries)}{margin}}}"


def _array(value: Sequence[Any], margin: str) -> str:
    inner = margin + _INDENT
    return f"[{inner}{f',{inner}'.join(_texts(value, inner))}{margin}]"


def _texts(values: Sequence[Any], margin: str) -> Iterable[str]:
    """The text of each; without a loop in Python where all have one type."""
    kinds = {*map(type, values)}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is type(None):
        return repeat("null", len(values))
    if kind is str:
        return _quoted_texts(values)
    write = _SCALARS.get(kind)
    if write is not None:
        return map(write, values)
    if len(values) >= _MANY:
        if kind is dict and len({*map(tuple, values)}) == 1 and {*map(type, values[0])} == {str}:
            return chain.from_iterable(_rows(some, margin) for some in _portions(values))
        if kind is list or kind is tuple:
            return chain.from_iterable(_arrays(some, margin) for some in _portions(values))
    return map(_text, values, repeat(margin))


def _quoted_texts(values: Sequence[str]) -> Iterable[str]:
    """The text of each; quoted once where they are few: the partitions of a member repeat its id."""
    different = {*values}
    if len(different) * 4 > len(values):
        return map(_quoted, values)
    return map(dict(zip(different, map(_quoted, different), strict=True)).__getitem__, values)


def _portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _arrays(values: Sequence[Sequence[Any]], margin: str) -> Iterator[str]:
    """The text of each of these lists: what is in them is written as if it were one list."""
    inner = margin + _INDENT
    texts = iter(_texts([*chain.from_iterable(values)], inner))
    before, between, after = "[" + inner, "," + inner, margin + "]"
    return (f"{before}{between.join(islice(texts, len(each)))}{after}" if each else "[]" for each in values)


def _rows(value: Sequence[dict[str, Any]], margin: str) -> Iterable[str]:
    """The text of each of these objects, which have the same keys, all of them texts: made column by column."""
    keys, inner = [*value[0]], margin + _INDENT
    pieces: list[Iterable[str]] = []
    before = "{" + inner
    for key in keys:
        pieces += [repeat(f"{before}{_quoted(key)}: "), _texts([*map(itemgetter(key), value)], inner)]
        before = "," + inner
    return map("".join, zip(*pieces, repeat(margin + "}")))


def _unusual(value: Any, margin: str) -> str:
    """Subclasses (an enum that is a text), keys that are numbers, floats that are none: as Python's encoder has it."""
    import json

    return json.dumps(value, indent=len(_INDENT), ensure_ascii=False).replace("\n", margin)


#: Of these types exactly: what is only derived from them may be written differently.
_SCALARS: dict[type | None, Any] = {
    str: _quoted,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}

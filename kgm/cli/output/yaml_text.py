"""JSON values as YAML, without characters that a terminal acts on, and faster than PyYAML (docs/figures.md). Only tests
depend on PyYAML: they use it to read back what is written here.

A string is bare only if no YAML 1.1 or 1.2 reader can take it for anything else; others are quoted and escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kgm.text.sanitize import is_hidden

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_UNUSUAL = re.compile(r"[^\x20-\x7e]")
#: YAML requires `? ` before a key that is longer than 1024 characters.
_LONG_KEY = 1000


def yaml_lines(value: Any) -> Iterator[str]:
    """The value (dict, list, str, int, float, bool, None; an iterator is a list) as the lines of a YAML document; some
    items contain several lines."""
    return _lines(value, "")


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _entry(_key(str(key), indent), each, indent)
    elif isinstance(value, list | tuple) and value:
        for each in value:
            yield from _item(each, indent)
    else:
        yield indent + _scalar(value)


def _key(key: str, indent: str) -> str:
    text = _text(key)
    return f"{indent}{text}:" if len(text) <= _LONG_KEY else f"{indent}? {text}\n{indent}:"


def _entry(start: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Iterator):
        lines = (line for each in value for line in _item(each, indent + "  "))
        first = next(lines, None)
        yield f"{start} []" if first is None else f"{start}\n{first}"
        yield from lines
    elif isinstance(value, dict | list | tuple) and value:
        yield start
        yield from _lines(value, indent + "  ")
    else:
        yield f"{start} {_scalar(value)}"


def _item(value: Any, indent: str) -> Iterator[str]:
    """A block within a list starts on the line of its dash."""
    if isinstance(value, dict | list | tuple) and value:
        lines = _lines(value, indent + "  ")
        yield f"{indent}- {next(lines).removeprefix(indent + '  ')}"
        yield from lines
    else:
        yield f"{indent}- {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    return json.dumps(value)  # numbers, true, false, null: the same in YAML


def _text(text: str) -> str:
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() and quoted.isprintable() else _UNUSUAL.sub(_escape, quoted)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if not is_hidden(char):
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

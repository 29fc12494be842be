"""Untrusted strings made safe to print. Group, instance and client ids are whatever a client sent, unchecked by the
broker: an id may contain escape sequences, line breaks, bidi marks or a spreadsheet formula (CWE-150, CWE-1236).

`clean` is for terminals, prompts, logs and error messages, `csv_cell` for CSV and TSV. `json_text` removes characters
that a terminal acts on from a JSON document without changing its value. `name_line` and `name_of` do so for a list of
names, one per line."""

from __future__ import annotations

import re
import unicodedata

#: Categories of invisible characters that change what a terminal shows: controls, formats (bidi marks, zero width),
#: surrogates, private use, unassigned, line and paragraph separators, and every space but U+0020.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
#: Invisible letters, marks and symbols: fillers, joiners, variation selectors (Unicode's Default_Ignorable_Code_Point,
#: without the categories above), and the empty Braille pattern.
_BLANK = frozenset(
    map(
        chr,
        (
            0x034F,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            0x2800,
            0x3164,
            0xFFA0,
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
#: Whether a character is hidden: a cache of the latest lookups.
_seen: dict[str, bool] = {}
_MOST_SEEN = 4096
#: First characters of a formula in spreadsheets; the full-width ones count in Japanese input.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Escapes as `clean` writes them.
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))")
#: What begins a comment.
_COMMENT = re.compile(r"\A#(?=[ \t]|\Z)")
#: What of a name would be lost or misread on a line: the # of a comment, and white space at its ends.
_MISREAD = re.compile(rf"{_COMMENT.pattern}|\A\s|\s\Z")
_UNUSUAL, _UNUSUAL_IN_JSON = re.compile(r"[^\x20-\x7e]"), re.compile(r"[^\x20-\x7e\n]")


def is_hidden(char: str) -> bool:
    """Whether a character is invisible, or looks like a space but is not one."""
    seen = _seen.get(char)
    if seen is not None:
        return seen

    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    hidden = char != " " and (unicodedata.category(char) in _HIDDEN or char in _BLANK)
    _seen[char] = hidden
    return hidden


def is_clean(text: str) -> bool:
    """Whether `clean` returns the text unchanged."""
    return (text.isascii() and text.isprintable()) or not any(map(is_hidden, text))


def clean(text: str) -> str:
    """The text with invisible and active characters written as escapes, for terminals, prompts and logs."""
    if text.isascii() and text.isprintable():
        return text

    return _UNUSUAL.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    return _escaped(match) if is_hidden(match[0]) else match[0]


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean_lines(text: str) -> str:
    """A text with several lines (a traceback, a usage message), each line cleaned."""
    return "\n".join(clean(line) for line in text.split("\n"))


def name_line(name: str) -> str:
    """The line for a name in a list of names: cleaned, and such that `name_of` returns exactly this name."""
    text = _ESCAPE.sub(lambda match: match[0] if _meant(match) == match[0] else "\\x5c" + match[0][1:], name)
    return clean(_MISREAD.sub(_escaped, text))


def name_of(line: str) -> str | None:
    """The name on a line without its line end; None for a blank line and for a comment: a # that is alone or before a
    space. All other lines are names as they are, but for the escapes that `name_line` writes."""
    return None if not line.strip() or _COMMENT.match(line) else _ESCAPE.sub(_meant, line)


def _meant(match: re.Match[str]) -> str:
    """The character of an escape that `name_line` may have written; any other text is itself."""
    char = chr(int(match[1] or match[2] or match[3], 16))
    is_surrogate = "\ud800" <= char <= "\udfff"  # no name on a broker has one
    return char if char in "\\#" or char.isspace() or (is_hidden(char) and not is_surrogate) else match[0]


def csv_cell(text: str) -> str:
    """The text for a CSV or TSV cell: cleaned, and never a formula in a spreadsheet."""
    text = clean(text)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text


def json_text(text: str) -> str:
    """The same JSON document, with hidden characters in strings written as JSON escapes."""
    if text.isascii() and "\x7f" not in text:
        return text

    return _UNUSUAL_IN_JSON.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    if not is_hidden(char):
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

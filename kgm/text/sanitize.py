"""Foreign strings made safe to show. Group, instance and client ids are whatever a client sent: the broker checks
nothing, so an id can hold escape sequences, line breaks, bidi marks or a spreadsheet formula (CWE-150, CWE-1236).

`clean` is for terminals, prompts, logs and error messages, `csv_cell` for CSV and TSV; `json_text` leaves a JSON
document equal, and free of characters that a terminal would act on."""

from __future__ import annotations

import functools
import re
import unicodedata

#: Categories that change what a terminal shows without being seen: controls, formats (bidi marks, zero width),
#: surrogates, private use, unassigned, separators of lines and paragraphs, spaces that are not the space.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
#: Letters, marks and symbols that show nothing: fillers, joiners, variation selectors (Unicode's
#: Default_Ignorable_Code_Point, as far as the categories above do not have them), the empty Braille pattern.
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
#: What a spreadsheet takes for the start of a formula; the wide ones count where input is Japanese.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_UNUSUAL = re.compile(r"[^\x20-\x7e]")
_UNUSUAL_IN_JSON = re.compile(r"[^\x20-\x7e\n]")


@functools.lru_cache(maxsize=4096)
def is_hidden(char: str) -> bool:
    """Whether a character is not seen for what it is."""
    return char != " " and (unicodedata.category(char) in _HIDDEN or char in _BLANK)


def is_clean(text: str) -> bool:
    """Whether `clean` would leave the text as it is."""
    return (text.isascii() and text.isprintable()) or not any(map(is_hidden, text))


def clean(text: str) -> str:
    """The text with everything invisible or active written out as an escape, for terminals, prompts and logs."""
    if text.isascii() and text.isprintable():
        return text
    return _UNUSUAL.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    if not is_hidden(char):
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean_lines(text: str) -> str:
    """A text of several lines of our own (a traceback, a usage message), each of them cleaned."""
    return "\n".join(clean(line) for line in text.split("\n"))


def csv_cell(text: str) -> str:
    """The text for a CSV or TSV cell: cleaned, and never a formula when a spreadsheet opens it."""
    text = clean(text)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text


def json_text(text: str) -> str:
    """A JSON document that says the same, with everything hidden in its strings written as JSON's own escapes."""
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

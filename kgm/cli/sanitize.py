"""Foreign strings made safe to show. Group, instance and client ids are whatever a client sent: the broker checks
nothing, so an id can hold escape sequences, line breaks, bidi marks or a spreadsheet formula (CWE-150, CWE-1236)."""

import unicodedata

#: Categories that change what a terminal shows without being seen: controls, formats (bidi marks, zero width),
#: surrogates, private use, unassigned, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")


def clean(text: str) -> str:
    """The text with everything invisible or active written out as an escape, for terminals, prompts and logs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def csv_cell(text: str) -> str:
    """The text for a CSV or TSV cell: cleaned, and never a formula when a spreadsheet opens it."""
    text = clean(text)
    return "'" + text if text.startswith(_FORMULA) else text

"""A manual page as plain text, for machines without man. It knows the macros that tools/manual/man.py writes."""

from __future__ import annotations

import re
import shlex
import textwrap

_WIDTH = 80
_INDENT, _DEEPER = " " * 7, " " * 14
_ESCAPE = re.compile(r"\\(?:f[BIR]|&|e|-|\((?:ti|ha))")
_CHARACTERS = {"\\e": "\\", "\\-": "-", "\\(ti": "~", "\\(ha": "^"}


def plain_text(page: str) -> str:
    """The page, 80 characters wide."""
    lines: list[str] = []
    words: list[str] = []
    head, indent = False, _INDENT

    def end_paragraph() -> None:
        if words:
            lines.extend(textwrap.wrap(" ".join(words), _WIDTH, initial_indent=indent, subsequent_indent=indent,
                                       break_long_words=False, break_on_hyphens=False))  # fmt: skip
            words.clear()

    for line in page.splitlines():
        macro, _, rest = line.partition(" ") if line.startswith(".") else ("", "", line)
        if macro in ("", ".B"):
            if head:  # the line after .TP is a heading of its own
                lines.append(_INDENT + _plain(rest))
                head = False
            else:
                words.append(_plain(rest))
            continue
        end_paragraph()
        match macro:
            case ".TH":
                lines.append(_title(rest))
            case ".SH":
                lines += ["", _plain(rest)]
                indent = _INDENT
            case ".SS":
                lines.append("   " + _plain(rest))
                indent = _INDENT
            case ".PP":
                lines.append("")
                indent = _INDENT
            case ".TP":
                head, indent = True, _DEEPER
            case _:
                pass  # a comment
    end_paragraph()
    return "\n".join(lines) + "\n"


def _title(rest: str) -> str:
    name, section, *_ = shlex.split(rest)
    title = f"{_plain(name)}({section})"
    return f"{title}{'kgm manual':^{_WIDTH - 2 * len(title)}}{title}"


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda match: _CHARACTERS.get(match[0], ""), text)

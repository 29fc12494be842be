"""Words as a shell reads them: everything printed as a command goes through here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def shell_word(text: str) -> str:
    """One word, quoted if a shell would split or expand it.

    Characters that a terminal would interpret or not show are written as `$'...'`, which bash, zsh and ksh read."""
    if text.isprintable():
        return shlex.quote(text)
    pieces = []
    for char in text:
        if char in "\\'":
            pieces.append(f"\\{char}")
        elif char.isprintable():
            pieces.append(char)
        else:
            pieces.extend(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
    return f"$'{''.join(pieces)}'"


def shell_line(words: Iterable[str]) -> str:
    """A command line made of these words."""
    return " ".join(map(shell_word, words))

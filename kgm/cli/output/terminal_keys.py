"""Keys from a terminal, read one by one and not echoed."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

#: {what follows an escape character: the key that sends it}.
_SEQUENCES: Final = {
    "[A": "up", "[B": "down", "OA": "up", "OB": "down", "[5~": "pgup", "[6~": "pgdn",
    "[H": "home", "[1~": "home", "OH": "home", "[F": "end", "[4~": "end", "OF": "end",
}  # fmt: skip
_CHARACTERS: Final = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace"}
#: How long the rest of a sequence can take, in seconds: Escape alone also begins one.
_REST_S: Final = 0.05
_LONGEST: Final = 8


class TerminalKeys:
    """Reads keys from stdin while the context is entered. If stdin is not a terminal, or belongs to another job of the
    shell, no key is read."""

    def __init__(self) -> None:
        self._stdin: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        try:
            number = sys.stdin.fileno()
            if os.tcgetpgrp(number) == os.getpgrp():  # changing a terminal from the background would stop the process
                self._before = termios.tcgetattr(number)
                tty.setcbreak(number, termios.TCSANOW)
                self._stdin = number
        except (OSError, ValueError, termios.error):
            pass
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if self._stdin is not None:
            with contextlib.suppress(termios.error):  # the terminal has gone, with its settings
                termios.tcsetattr(self._stdin, termios.TCSANOW, self._before)
            self._stdin = None

    @property
    def is_read(self) -> bool:
        return self._stdin is not None

    def wait(self, seconds: float, *others: int) -> list[str]:
        """The keys pressed within this time: characters, and names such as `up`, `enter` and `esc`. Returns early when
        one of the other descriptors can be read."""
        watched = [*others, *([] if self._stdin is None else [self._stdin])]
        ready = select.select(watched, [], [], seconds)[0]
        return self._read() if self._stdin in ready else []

    def _read(self) -> list[str]:
        text = self._some()
        while _is_unfinished(text) and self._has_more():
            text += self._some()
        return list(_keys(text))

    def _has_more(self) -> bool:
        return self._stdin is not None and bool(select.select([self._stdin], [], [], _REST_S)[0])

    def _some(self) -> str:
        assert self._stdin is not None
        try:
            data = os.read(self._stdin, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal has gone
            self._stdin = None
        return data.decode("utf-8", "ignore")


def _is_unfinished(text: str) -> bool:
    """Whether the text ends with a possible beginning of a sequence."""
    _, escape, rest = text.rpartition("\x1b")
    return bool(escape) and not rest[-1:].isalpha() and not rest.endswith("~") and len(rest) < _LONGEST


def _keys(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        if text[at] != "\x1b":
            yield _CHARACTERS.get(text[at], text[at])
            at += 1
            continue
        found = _sequence(text, at + 1, [*_SEQUENCES])
        yield _SEQUENCES[found] if found else "esc"
        at += 1 + (len(found) if found else _unknown(text, at + 1))


def _sequence(text: str, at: int, known: Sequence[str]) -> str | None:
    return next((one for one in known if text.startswith(one, at)), None)


def _unknown(text: str, at: int) -> int:
    """The length of an unknown sequence, such as a function key's."""
    if text[at : at + 1] not in ("[", "O"):
        return 0
    end = at + 1
    while end < len(text) and not (text[end].isalpha() or text[end] == "~"):
        end += 1
    return end + 1 - at

"""Regular expressions in the syntax of RE2/J, with which Kafka's brokers resolve subscriptions, matched in linear time.

They are matched with RE2, the C++ counterpart of RE2/J. Expressions that RE2 accepts and RE2/J refuses are refused here
too (`_is_foreign`). Conversely, RE2 refuses a few expressions that RE2/J accepts: those that take too much memory, such
as a thousand letters of any script, and escapes of characters beyond ASCII, which topic names cannot contain."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Final, Protocol

from kgm.model.errors import UsageError

#: A quoted part, an escape, a class of characters, or a number of repetitions.
_PART: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z) | \\. | \(\?P?<[^>]*> | \[\^?\]?(?:\\.|\[:[^\[\]]*:\]|[^\]\\])*\] | \{[0-9]+(?:,[0-9]*)?\} | .",
    re.VERBOSE | re.DOTALL,
)
_REPETITION: Final = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")


class TopicPattern(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str) -> object | None:
        """None unless the whole text matches."""
        ...


@cache
def is_installed() -> bool:
    """Whether RE2 is installed. pip installs it with kgm; where there is no wheel, kgm can be installed without it."""
    return importlib.util.find_spec("re2") is not None


@lru_cache(maxsize=1024)
def compiled(regex: str) -> TopicPattern | None:
    """The compiled expression; None if Kafka's brokers do not accept it. Raises UsageError if RE2 is not installed."""
    if not is_installed():
        raise UsageError(
            f"a member subscribes to {regex!r}; kgm matches expressions with google-re2, which is not installed",
            hint="pip install google-re2; where there is no wheel of it, it needs a C++ compiler and RE2's headers",
        )
    import re2  # type: ignore[import-untyped]

    if _is_foreign(regex):
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Any = re2.compile(regex, options)
    except (re2.error, UnicodeError):
        return None
    checked: TopicPattern = pattern
    return checked


def matching(regex: str, names: Iterable[str]) -> set[str] | None:
    """The names that match an expression; None if kgm cannot tell: RE2 is not installed, or does not accept it."""
    pattern = compiled(regex) if is_installed() else None
    return None if pattern is None else {name for name in names if pattern.fullmatch(name)}


def _is_foreign(regex: str) -> bool:
    """Whether RE2/J refuses an expression that RE2 accepts: any byte (`C`, escaped), repetition of a literal brace, or
    two groups with the same name."""
    before, names = "", set[str]()
    for match in _PART.finditer(regex):
        part = match[0]
        if part == "\\C" or (before == "{" and _REPETITION.fullmatch(part)):
            return True
        if part.startswith("(?"):
            name = part.removeprefix("(?").removeprefix("P")
            if name in names:
                return True
            names.add(name)
        before = part
    return False

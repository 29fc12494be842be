"""Names of groups, members and topics: their order, and the one that was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Final, TypeAlias

from kgm.model.errors import UsageError

#: The key that names are compared by.
NaturalKey: TypeAlias = tuple[list[tuple[bool, int, str]], str]
#: The longest string of Kafka's protocol, in bytes.
_MOST_BYTES: Final = 32767


def check_name(name: str, what: str) -> None:
    """A check of a name that somebody typed before it is sent. what: the option, or what the name is of. Raises
    UsageError for a name that Kafka's protocol cannot carry."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # Python keeps such bytes of the command line as halves of surrogate pairs
        raise UsageError(f"{what}: {name[:99]!r} is not UTF-8", hint="names in Kafka are UTF-8") from None
    if size > _MOST_BYTES:
        raise UsageError(f"{what}: {name[:33]!r}... has {size} bytes; Kafka's protocol allows {_MOST_BYTES}")


def natural(name: str) -> NaturalKey:
    """A sort key that compares numbers in names as numbers: svc-2 comes before svc-10."""
    parts = []
    for is_number, chars in groupby(name, str.isdecimal):
        text = "".join(chars)
        # The number with more digits is larger. (`int` refuses to parse very long numbers.)
        digits = text.lstrip("0")
        parts.append((False, len(digits), digits) if is_number else (True, 0, text))
    return parts, name


def in_order(names: Iterable[str]) -> list[str]:
    """The names in natural order."""
    return sorted(names, key=natural)


def places_of(names: Iterable[str]) -> dict[str, int]:
    """The position of each name in natural order. Comparing positions is cheaper than keeping the keys of names, which
    are large."""
    return {name: place for place, name in enumerate(in_order(set(names)))}


def visible(name: str) -> str:
    """The name; in quotation marks if it ends in white space, which would not show."""
    return repr(name) if name[-1:].isspace() else name


def closest(name: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant, ignoring case; None if none is similar. cutoff: how similar it must be,
    from 0 to 1."""
    import difflib

    if name in known:
        return name
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    """`did you mean orders?`; None if no known name is similar."""
    meant = closest(name, known)
    return None if meant is None else f"did you mean {meant}?"

"""Lists of ids as people type them, with commas, and with braces that the shell did not expand because they were quoted
or attached to an option.

`app-{1..3}-{1..2}` are the instance ids of the threads of three Kafka Streams processes. As in bash: `{a,b}`, `{1..9}`,
`{01..10}` (padded), `{1..9..2}`, `{a..e}`, nested. Braces that are not a list are literal (`{x}`), and so is a
character after a backslash."""

import re
from collections.abc import Iterable

from kgm.model.errors import UsageError

#: More ids than this in one list count as a mistake.
MAX_IDS = 100_000
#: Lists within lists, or one after another, in one word. This many lists of two items make more than MAX_IDS ids.
_MAX_LISTS = 64
_NUMBERS = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,18}))?")


def expand_list(text: str, option: str) -> list[str]:
    """The ids in a list with commas and braces, in order. Raises UsageError for an empty id or more than MAX_IDS."""
    ids: list[str] = []
    for part in _split(text):
        if not part.strip():
            raise UsageError(f"{option}: an id is empty in {text[:99]!r}", hint="an empty list never means all members")
        ids += expand(part.strip(), option)
        if len(ids) > MAX_IDS:
            raise _too_many(option)
    return ids


def as_list(ids: Iterable[str]) -> str:
    """The list that `expand_list` reads as exactly these ids: `a,b`. It may need quoting in a shell."""
    return ",".join(re.sub(r"([{},\\])", r"\\\1", one) for one in ids)


def expand(text: str, option: str, *, depth: int = 0) -> list[str]:
    """One word with its braces expanded. depth: how deep the recursion is. Raises UsageError for more than MAX_IDS."""
    if depth > _MAX_LISTS:
        raise UsageError(f"{option}: there are more than {_MAX_LISTS} lists in braces in one id")
    for start, stop in _groups(text):
        options = _alternatives(text[start + 1 : stop], option)
        if options is None:
            continue
        heads = [text[:start] + choice for choice in options]
        # The text before the first list is literal, and lists nest: each choice and the rest are expanded separately.
        middles = [word for head in heads for word in _expanded(head, start, option, depth)]
        if len(middles) > MAX_IDS:
            raise _too_many(option)
        tails = expand(text[stop + 1 :], option, depth=depth + 1)
        if len(middles) * len(tails) > MAX_IDS:
            raise _too_many(option)
        return [_plain(middle) + tail for middle in middles for tail in tails]
    return [_plain(text)]


def _expanded(head: str, start: int, option: str, depth: int) -> list[str]:
    return expand(head, option, depth=depth + 1) if "{" in head[start:] else [head]


def _split(text: str) -> list[str]:
    """The parts between commas outside braces."""
    parts, depth, start = [], 0, 0
    for at, char in _unescaped(text):
        if char == "{":
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
        elif char == "," and (depth == 0 or "}" not in text[at:]):
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _unescaped(text: str) -> list[tuple[int, str]]:
    """(position, character) of braces and commas without a backslash before them."""
    marks, skip = [], False
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif char == "\\":
            skip = True
        elif char in "{},":
            marks.append((at, char))
    return marks


def _groups(text: str) -> list[tuple[int, int]]:
    """(open, close) of every outermost pair of braces, from left to right."""
    pairs, opened = [], []
    for at, char in _unescaped(text):
        if char == "{":
            opened.append(at)
        elif char == "}" and opened:
            start = opened.pop()
            pairs.append((start, at))
    outer: list[tuple[int, int]] = []
    for start, stop in sorted(pairs):
        if not outer or start > outer[-1][1]:
            outer.append((start, stop))
    return outer


def _alternatives(inner: str, option: str) -> list[str] | None:
    """The items that a pair of braces expands to; None when it is not a list."""
    if numbers := _NUMBERS.fullmatch(inner):
        first, last, step = numbers.groups()
        width = max(len(first), len(last)) if _is_padded(first) or _is_padded(last) else 0
        return [f"{number:0{width}d}" for number in _steps(int(first), int(last), step, option)]
    if letters := _LETTERS.fullmatch(inner):
        first, last, step = letters.groups()
        return [chr(code) for code in _steps(ord(first), ord(last), step, option)]
    parts = _split(inner)
    return parts if len(parts) > 1 else None


def _steps(first: int, last: int, step: str | None, option: str) -> range:
    size = abs(int(step)) if step else 1
    if abs(last - first) // max(size, 1) >= MAX_IDS:
        raise _too_many(option)
    return range(first, last + 1, max(size, 1)) if first <= last else range(first, last - 1, -max(size, 1))


def _is_padded(number: str) -> bool:
    digits = number.lstrip("-")
    return len(digits) > 1 and digits.startswith("0")


def _plain(text: str) -> str:
    return re.sub(r"\\([{},\\])", r"\1", text)


def _too_many(option: str) -> UsageError:
    return UsageError(f"{option}: the list is longer than {MAX_IDS} ids")

r"""Lists of ids as people type them, with commas, and with braces that the shell did not expand because they were
quoted or attached to an option.

`app-{1..3}-{1..2}` are the instance ids of the threads of three Kafka Streams processes. As in bash: `{a,b}`, `{1..9}`,
`{01..10}` (padded), `{1..9..2}`, `{a..e}`, nested. Braces that are not a list are literal (`{x}`), and so is a
brace, comma, white space or backslash after a backslash.

Kafka allows ids that begin or end with white space, next to ids that differ in nothing else. So white space at either
end of an id is never dropped: it needs a backslash (`\ app-1`), and without one the list is an error, because people
write a space after a comma, too."""

import re
from collections.abc import Iterable

from kgm.model.errors import UsageError

#: More ids than this in one list count as a mistake.
MAX_IDS = 100_000
#: Lists within lists, or one after another, in one word. This many lists of two items make more than MAX_IDS ids.
_MAX_LISTS = 64
_NUMBERS = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?")
#: What needs a backslash in a list; a white space only at the ends of an id.
_SPECIAL = re.compile(r"[{},\\]|\A\s|\s\Z")
#: White space without a backslash at the end of a word.
_OPEN_END = re.compile(r"(?<!\\)(?:\\\\)*\s\Z")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,18}))?")


def expand_list(text: str, option: str) -> list[str]:
    """The ids in a list with commas and braces, in order. Raises UsageError for an empty id, one that begins or ends
    with white space without a backslash, or more than MAX_IDS."""
    ids: list[str] = []
    for part in _split(text):
        for word in _expand(part, option):
            _check(word, text, option)
            ids.append(_plain(word))
        if len(ids) > MAX_IDS:
            raise _too_many(option)
    return ids


def as_list(ids: Iterable[str]) -> str:
    """The list that `expand_list` reads as exactly these ids: `a,b`. It may need quoting in a shell."""
    return ",".join(_SPECIAL.sub(r"\\\g<0>", one) for one in ids)


def _check(word: str, text: str, option: str) -> None:
    """Raises UsageError for a word (with its backslashes) of the list `text` that does not say which id is meant."""
    if not word.strip():
        raise UsageError(f"{option}: an id is empty in {text[:99]!r}", hint="an empty list never means all members")
    if word[0].isspace() or _OPEN_END.search(word):
        raise UsageError(
            f"{option}: {word[:99]!r} begins or ends with white space",
            hint="write a,b without spaces; a backslash before a space makes it a part of the id: 'a,\\ b'",
        )


def _expand(text: str, option: str, *, depth: int = 0) -> list[str]:
    """One word with its braces expanded, and the backslashes left in. depth: how deep the recursion is. Raises
    UsageError for more than MAX_IDS."""
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
        tails = _expand(text[stop + 1 :], option, depth=depth + 1)
        if len(middles) * len(tails) > MAX_IDS:
            raise _too_many(option)
        return [middle + tail for middle in middles for tail in tails]
    return [text]


def _expanded(head: str, start: int, option: str, depth: int) -> list[str]:
    return _expand(head, option, depth=depth + 1) if "{" in head[start:] else [head]


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
    """The items that a pair of braces expands to, as typed; None when it is not a list."""
    if numbers := _NUMBERS.fullmatch(inner):
        first, last, step = numbers.groups()
        width = max(len(first), len(last)) if _is_padded(first) or _is_padded(last) else 0
        return [f"{number:0{width}d}" for number in _steps(int(first), int(last), step, option)]
    if letters := _LETTERS.fullmatch(inner):
        first, last, step = letters.groups()
        return [as_list([chr(code)]) for code in _steps(ord(first), ord(last), step, option)]
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
    return re.sub(r"\\([{},\\\s])", r"\1", text)


def _too_many(option: str) -> UsageError:
    return UsageError(f"{option}: the list is longer than {MAX_IDS} ids")

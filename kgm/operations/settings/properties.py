r"""A Java client.properties, as the Apache scripts take it with --command-config.

Read as `java.util.Properties.load(InputStream)` does, which is what Kafka uses: in Latin-1, so that the same file gives
the same credentials. Characters outside Latin-1 are written \uXXXX."""

import pathlib
import re
from collections.abc import Iterator

from kgm.model.errors import NotFoundError, UsageError

_BLANK = " \t\f"
#: Key, separator (blanks around at most one = or :), value.
_LINE = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """Keys and values of a .properties file. Raises NotFoundError or UsageError; neither shows a value."""
    try:
        text = pathlib.Path(path).read_bytes().decode("latin-1")
    except FileNotFoundError:
        raise NotFoundError(f"properties file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"properties file {path} cannot be read: {error.strerror}") from None
    properties = {}
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        assert match is not None  # every backslash has its character
        try:
            properties[_unescaped(match[1])] = _unescaped(match[2])
        except ValueError:
            raise UsageError(f"properties file {path}, line {number}: \\u needs four hexadecimal digits") from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first line, line) without comments and blank lines, continued lines joined.

    A line continues when it ends in an odd number of backslashes; comments never do."""
    joined: str | None = None
    first_number = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_BLANK)
        if joined is None:
            if not line or line[0] in "#!":
                continue
            joined, first_number = "", number
        joined += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = joined[:-1] or None  # still empty: the next line may be a comment
            continue
        yield first_number, joined
        joined = None
    if joined is not None:
        yield first_number, joined


def _unescaped(text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text):
        raise ValueError
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]), text)

r"""A Java client.properties, as passed to the Apache scripts with --command-config.

Read the way `java.util.Properties.load(InputStream)` reads it, which is what Kafka uses: as Latin-1, so that the same
file gives the same credentials. Characters outside Latin-1 are written \uXXXX. Two things differ from Java. A byte
order mark does not become part of the first key. And if a backslash at the end of a line makes the next line, which
sets a secret, part of the value before it, that is an error, because values of other settings are shown."""

import re
from collections.abc import Iterator

from kgm.model.client_settings import USED, is_named, is_secret
from kgm.model.errors import MissingFileError, UsageError
from kgm.text.input_files import MOST_SETTINGS_BYTES, read_input, without_mark

_BLANK = " \t\f"
#: Key, separator (blanks around at most one = or :), value.
_LINE = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
#: The beginning of a line that sets an unescaped key.
_SETTING = re.compile(r"([\w.-]+)(?:[ \t\f]*[=:]|[ \t\f]+\S)")
#: Text in a list of brokers that looks like one.
_SERVERS = re.compile(r"(?:[\w.\[\]:-]+:\d+[ \t\f]*,?[ \t\f]*)+")
_PEM = ("certificates", "certificate.chain", ".pem")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """Keys and values of a .properties file. Raises MissingFileError or UsageError; neither shows a key or a value."""
    return {key: value for key, (value, _) in read_numbered_properties(path).items()}


def read_numbered_properties(path: str) -> dict[str, tuple[str, range]]:
    """(value, line numbers) by key. Raises what `read_properties` raises."""
    try:
        data = read_input(path, MOST_SETTINGS_BYTES)
    except FileNotFoundError:
        raise MissingFileError(f"properties file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"properties file {path} cannot be read: {error.strerror}") from None
    properties = {}
    for number, parts in _logical_lines(without_mark(data, f"properties file {path}").decode("latin-1")):
        match = _LINE.fullmatch("".join(parts))
        assert match is not None  # every backslash is followed by a character
        try:
            key, value = _unescaped(match[1]), _unescaped(match[2])
        except ValueError:
            raise UsageError(f"properties file {path}, line {number}: \\u needs four hexadecimal digits") from None
        for at, part in enumerate(parts[1:], number + 1):
            _check_part(path, key, number, at, part)
        properties[key] = value, range(number, number + len(parts))
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, that line and its continuation lines), without comments and blank lines.

    A line continues if it ends in an odd number of backslashes; comments never do."""
    parts: list[str] = []
    first_number = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_BLANK)
        if not any(parts):
            if not line or line[0] in "#!":
                continue
            parts, first_number = [], number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])  # while all parts are empty, the next line may be a comment
            continue
        yield first_number, [*parts, line]
        parts = []
    if any(parts):
        yield first_number, parts


def _check_part(path: str, key: str, first: int, number: int, part: str) -> None:
    """Raises UsageError for a continuation line that looks like a setting of its own: if a backslash was left behind by
    mistake, a secret would become part of a value that is shown."""
    match = _SETTING.match(part)
    if match is None:
        return
    is_of_a_secret = is_named(match[1]) and is_secret(match[1])
    # Errors do not show the values of other settings, and `config view` hides those that span several lines.
    is_shown = key in USED and not is_secret(key) and not key.endswith(_PEM)
    if is_of_a_secret or (is_shown and not _SERVERS.fullmatch(part)):
        raise UsageError(
            f"properties file {path}, line {number}: the line is a part of the value of line {first}, and looks like "
            "a setting",
            hint=f"remove the backslash at the end of line {number - 1}",
        )


def _unescaped(text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text):
        raise ValueError
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]), text)

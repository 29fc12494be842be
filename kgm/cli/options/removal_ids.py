"""The ids and the reason of `remove-members` and `delete-groups`, checked: an empty list never means all."""

from __future__ import annotations

from kgm.model.errors import MissingFileError, UsageError


def reason(text: str | None) -> str:
    from kgm.operations.change.reason import check_reason
    from kgm.operations.removal.request import DEFAULT_REASON

    if text is None:
        return DEFAULT_REASON
    check_reason(text)
    return text


def read_ids(name: str) -> tuple[str, ...]:
    r"""The ids in a file, one per line, as `-o name` prints them. Only a line feed, or a carriage return and a line
    feed, ends a line. White space at the ends of an id is written as an escape (`\x20`): without one it may be a part
    of the id, or a mistake, and is an error, as in a list (`kgm.text.braces`).

    Raises MissingFileError if the file does not exist, UsageError if it cannot be read or has no ids, RefusedError if
    other users can write to it."""
    from kgm.text.input_files import MOST_SETTINGS_BYTES, read_input_or_stdin, refuse_foreign, without_mark
    from kgm.text.names import check_name
    from kgm.text.sanitize import name_of

    what = f"--from-file {name}"
    if name != "-":
        refuse_foreign(name, "who is removed")
    try:
        data = read_input_or_stdin(name, MOST_SETTINGS_BYTES)
        text = without_mark(data, f"{what}: the file").decode("utf-8")
    except FileNotFoundError as error:
        raise MissingFileError(f"{what}: {error.strerror or error}") from error
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{what}: the file is not UTF-8 text") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            raise UsageError(
                f"{what}, line {number}: a carriage return is within the line",
                hint=r"end lines with a line feed; a carriage return that is a part of an id is written \x0d",
            )
        check_name(line, f"{what}, line {number}")
        if name_of(line) is not None and line != line.strip():
            raise UsageError(
                f"{what}, line {number}: {line[:99]!r} begins or ends with white space",
                hint=r"a space that is a part of the id is written \x20, as -o name prints it",
            )
    ids = tuple(one for one in map(name_of, lines) if one is not None)
    if not ids:
        raise UsageError(f"{what}: the file contains no id", hint="an empty list never means all")
    return ids

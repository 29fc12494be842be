"""The ids and the reason of `remove-members`, checked: an empty list never means all members."""

from __future__ import annotations

import sys

from kgm.model.errors import MissingFileError, UsageError


def patterns(values: list[str] | None) -> tuple[str, ...]:
    for value in values or ():
        if not value.strip():
            raise UsageError(
                "--match-members: the pattern is empty",
                hint="an empty pattern never means all members; --match-members '*' does",
            )
    return tuple(values or ())


def reason(text: str | None) -> str:
    from kgm.operations.change.reason import check_reason
    from kgm.operations.removal.request import DEFAULT_REASON

    if text is None:
        return DEFAULT_REASON
    check_reason(text)
    return text


def read_ids(name: str) -> tuple[str, ...]:
    """The ids in a file, one per line. Raises MissingFileError if it does not exist, UsageError if it cannot be read or
    has no ids, RefusedError if other users can write to it."""
    from kgm.text.input_files import MOST_SETTINGS_BYTES, read_input, refuse_foreign

    if name != "-":
        refuse_foreign(name, "who is removed")
    try:
        text = sys.stdin.read() if name == "-" else read_input(name, MOST_SETTINGS_BYTES).decode("utf-8")
    except FileNotFoundError as error:
        raise MissingFileError(f"--from-file {name}: {error.strerror or error}") from error
    except OSError as error:
        raise UsageError(f"--from-file {name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--from-file {name}: the file is not UTF-8 text") from error
    lines = [line.strip() for line in text.splitlines()]
    ids = tuple(line for line in lines if line and not line.startswith("#"))
    if not ids:
        raise UsageError(f"--from-file {name}: the file contains no id", hint="an empty list never means all members")
    return ids

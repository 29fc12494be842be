"""The head of the audit log: the number of records and the hash of the last one, in a file of its own.

The hash chain does not show that the last lines, or all of them, were removed; the head does. It is written after the
lines that it counts, and atomically, so a process that is killed in between leaves lines that the head does not cover
yet. They follow the line that the head names, and the next write adds them to the head.

Anyone who can write both files can forge both."""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
from dataclasses import dataclass
from typing import Any, Final

from kgm.text.files import replace_file

_MOST_BYTES: Final = 64 * 1024
_MOST_DAMAGES: Final = 20
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What has been written so far.

    first: the number, from 1, of the oldest record that no rotation has deleted. records: the number of the last
    record. last: the hash of its line; None if there is no record. damage: what earlier writes found wrong, in
    words."""

    first: int = 1
    records: int = 0
    last: str | None = None
    damage: tuple[str, ...] = ()


class UnreadableHeadError(Exception):
    """There is a head file that cannot be read or that kgm did not write; the message says why."""


def head_path(log: pathlib.Path) -> pathlib.Path:
    """The path of the head, next to the log: `audit.jsonl.head`."""
    return log.with_name(f"{log.name}.head")


def read_head(log: pathlib.Path) -> Head | None:
    """The head of a log; None if there is none. Raises UnreadableHeadError."""
    try:
        file = os.open(head_path(log), _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableHeadError(error.strerror or str(error)) from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UnreadableHeadError("it is not a regular file")
        return _parsed(os.read(file, _MOST_BYTES))
    except OSError as error:
        raise UnreadableHeadError(error.strerror or str(error)) from None
    finally:
        os.close(file)


def write_head(log: pathlib.Path, head: Head) -> None:
    """Replace the head (mode 0600). Called with the log locked. Raises OSError; the former head is then still there."""
    text = json.dumps({
        "v": 1, "first": head.first, "records": head.records, "last": head.last,
        "damage": head.damage[:_MOST_DAMAGES],
    })  # fmt: skip
    replace_file(head_path(log), text.encode("ascii") + b"\n", mode=0o600)


def _parsed(text: bytes) -> Head:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableHeadError("it is not JSON") from None
    if not isinstance(found, dict):
        raise UnreadableHeadError("it is not a JSON object")
    first, records, last = _number(found.get("first")), _number(found.get("records")), found.get("last")
    is_hash = isinstance(last, str) and _HASH.fullmatch(last) is not None
    if first is None or records is None or not 1 <= first <= records + 1:
        raise UnreadableHeadError("it does not have the numbers of a head")
    if is_hash != (records > 0) or not (is_hash or last is None):
        raise UnreadableHeadError("it does not have the fields of a head")
    damage = found.get("damage")
    texts = damage if isinstance(damage, list) else []
    return Head(first=first, records=records, last=last, damage=tuple(one for one in texts if isinstance(one, str)))


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None

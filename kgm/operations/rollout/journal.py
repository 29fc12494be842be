"""The journal of a rollout: what is about to be done, and what came of it, each on disk before kgm goes on.

Lines of ASCII JSON, appended and flushed one by one. A kgm that is killed leaves at most one torn line at the end, of
an act that it had not begun: nothing is done before the line that announces it is on disk.

    plan              the spec, the cluster, the operator, the group as it was, what is foretold of the whole
    step-begin        the step, its members, the group before it, what is foretold of it
    command-begin     a command is about to run
    command-started   its process
    command-end       its result
    removal-begin     a LeaveGroup is about to be sent
    removal-end       its results
    step-end          what happened
    stop              why the rollout has stopped; resume: it goes on; done: it is complete"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from kgm.model.errors import NotFoundError, PartialError, RefusedError, UsageError
from kgm.operations.removal.audit_log import timestamp

VERSION: Final = 1
_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
#: A journal of 10,000 members with their partitions is far smaller.
_MOST_BYTES: Final = 256 << 20


class JournalKind(StrEnum):
    """The kinds of lines."""

    PLAN = "plan"
    STEP_BEGIN = "step-begin"
    COMMAND_BEGIN = "command-begin"
    COMMAND_STARTED = "command-started"
    COMMAND_END = "command-end"
    REMOVAL_BEGIN = "removal-begin"
    REMOVAL_END = "removal-end"
    STEP_END = "step-end"
    STOP = "stop"
    RESUME = "resume"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One line. data: everything but its kind and its time."""

    kind: JournalKind
    data: Mapping[str, Any]


class RolloutJournal:
    """Appends to one file. Make one with `create` or `reopen`. clock: seconds since the epoch."""

    def __init__(self, path: pathlib.Path, file: int, *, clock: Callable[[], float] = time.time) -> None:
        self.path, self._file, self._clock = path, file, clock

    @classmethod
    def create(cls, path: pathlib.Path) -> Self:
        """A new file, 0600. Raises RefusedError: nothing was done."""
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
            _flush_folder(path.parent)
        except FileExistsError:
            raise RefusedError(
                f"the journal {path} exists already: nothing was done",
                hint=f"kgm rollout --resume {path} goes on with it; or give another --journal",
            ) from None
        except OSError as error:
            raise RefusedError(
                f"the journal {path} cannot be written: {error.strerror or error}: nothing was done",
                hint="give --journal FILE in a folder of yours, or export XDG_STATE_HOME=/a/folder/of/yours",
            ) from None
        return cls(path, file)

    @classmethod
    def reopen(cls, path: pathlib.Path) -> Self:
        """A file to go on with; a torn last line is cut off. Raises RefusedError: nothing was done."""
        try:
            file = os.open(path, _OPEN)
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise OSError(errno.EINVAL, "it is not a regular file")  # noqa: TRY301
            os.ftruncate(file, len(_whole_lines(path)))
        except OSError as error:
            raise RefusedError(
                f"the journal {path} cannot be written: {error.strerror or error}: nothing was done"
            ) from None
        return cls(path, file)

    def write(self, kind: JournalKind, **data: Any) -> None:
        """Append a line and flush it to disk. Raises PartialError, after which nothing may be done any more."""
        line = json.dumps({"v": VERSION, "time": timestamp(self._clock()), "kind": str(kind), **data})
        rest = memoryview(line.encode("ascii") + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            raise PartialError(
                f"the journal {self.path} cannot be written: {error.strerror or error}: the rollout has stopped",
                hint="make room, then resume it; commands that were running go on",
            ) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


def read_journal(path: pathlib.Path) -> list[JournalLine]:
    """The lines, without a torn one at the end. Raises NotFoundError or UsageError."""
    try:
        text = _whole_lines(path)
    except OSError as error:
        raise NotFoundError(f"the journal {path} cannot be read: {error.strerror or error}") from None
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        try:
            data = json.loads(raw)
            if data.pop("v") != VERSION:
                raise UsageError(f"the journal {path} is of another version of kgm")
            data.pop("time")
            lines.append(JournalLine(kind=JournalKind(data.pop("kind")), data=data))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise UsageError(f"line {number} of {path} is not a line of a journal") from None
    if not lines or lines[0].kind is not JournalKind.PLAN:
        raise UsageError(f"{path} is not the journal of a rollout, or ends before its plan: nothing was done")
    return lines


def _whole_lines(path: pathlib.Path) -> bytes:
    """Everything up to the last end of a line. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(file, "rb") as stream:  # noqa: PTH123  (a descriptor)
        if os.fstat(file).st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, "it is larger than a journal can be")
        text = stream.read()
    return text[: text.rfind(b"\n") + 1]


def _flush_folder(folder: pathlib.Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

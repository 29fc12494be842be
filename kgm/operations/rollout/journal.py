"""The journal of a rollout: what is about to be done, and its result, each on disk before kgm continues.

Lines of ASCII JSON, appended and flushed one by one. If kgm is killed, it leaves at most one torn line at the end, for
an action that it had not begun: nothing is done before the line that announces it is on disk.

A journal determines which commands run. So kgm resumes only from a regular file of the operator that no other user can
write to, and only with the plan and the commands of the first run, of which it keeps a mark in its own folder.

    plan              the spec, the cluster, the operator, the group as it was, the prediction for the whole rollout
    step-begin        the step, its members, the group before it, the prediction for it
    command-begin     a command is about to run
    command-started   its process
    command-end       its result
    removal-begin     a LeaveGroup is about to be sent
    removal-end       its results
    acknowledged      the group when an operator resumed the step after a failure or a deviation that kgm had reported,
                      and what had happened in the step until then
    step-end          what happened
    stop              why the rollout has stopped, and whether kgm has seen, and told the operator, what has happened to
                      the group until then; resume: it continues; done: it is complete"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import re
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from kgm.model.errors import PartialError, RefusedError, UsageError
from kgm.operations.audit.audit_log import timestamp
from kgm.text.files import flush_folder, same_file, write_all
from kgm.text.input_files import who_else_writes
from kgm.text.shell import shell_word

VERSION: Final = 1
_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
#: A journal with 10,000 members and their partitions is far smaller.
_MOST_BYTES: Final = 256 << 20
_MOST_MARK_BYTES: Final = 1 << 20
_RUN_ID: Final = re.compile(r"[0-9a-f]{16}")


class JournalKind(StrEnum):
    """The kinds of lines."""

    PLAN = "plan"
    STEP_BEGIN = "step-begin"
    COMMAND_BEGIN = "command-begin"
    COMMAND_STARTED = "command-started"
    COMMAND_END = "command-end"
    REMOVAL_BEGIN = "removal-begin"
    REMOVAL_END = "removal-end"
    ACKNOWLEDGED = "acknowledged"
    STEP_END = "step-end"
    STOP = "stop"
    RESUME = "resume"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One line. data: everything but its kind and its time."""

    kind: JournalKind
    data: Mapping[str, Any]


class UnwrittenLineError(PartialError):
    """A line of the journal cannot be written, so nothing more may be done. error: None if its file is gone."""

    def __init__(self, path: pathlib.Path, error: OSError | None) -> None:
        what = "was deleted or moved" if error is None else f"cannot be written: {error.strerror or error}"
        self._why, self._is_gone = f"the journal {path} {what}", error is None
        remedy = "look at the group, and start a new rollout" if self._is_gone else "free some space"
        super().__init__(f"{self._why}: the rollout has stopped", hint=f"{remedy}; commands that were running continue")

    def as_refusal(self, *, then: str, group_id: str) -> RefusedError:
        """The same error, if nothing was done before. then: what to do once there is space."""
        hint = "start it again, with another --journal" if self._is_gone else f"free some space{then}"
        return RefusedError(f"nothing was done: {self._why}", hint=hint, group_id=group_id)


class RolloutJournal:
    """Appends to one file. Use `create` or `reopen` to get one. clock: seconds since the epoch."""

    def __init__(self, path: pathlib.Path, file: int, *, clock: Callable[[], float] = time.time) -> None:
        self.path, self._file, self._clock = path, file, clock

    @classmethod
    def create(cls, path: pathlib.Path) -> Self:
        """Create a new file (0600). Raises RefusedError if that is not possible: nothing was done."""
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
            flush_folder(path.parent)
        except FileExistsError:
            if not path.is_file():
                raise RefusedError(f"the journal {path} is not a regular file: nothing was done") from None
            raise RefusedError(
                f"the journal {path} already exists: nothing was done",
                hint=f"{resume_command(path)}; or give another --journal",
            ) from None
        except OSError as error:
            raise RefusedError(
                f"the journal {path} cannot be written: {error.strerror or error}: nothing was done",
                hint="give --journal FILE in a folder of yours, or export XDG_STATE_HOME=/a/folder/of/yours",
            ) from None
        return cls(path, file)

    @classmethod
    def reopen(cls, path: pathlib.Path) -> Self:
        """Open a file to continue it; a torn last line is cut off. Raises RefusedError if that is not possible: nothing
        was done."""
        try:
            file = os.open(path, _OPEN)
        except OSError as error:
            raise RefusedError(
                f"the journal {path} cannot be written: {error.strerror or error}: nothing was done"
            ) from None
        try:
            _refuse_foreign(path, file)
            os.ftruncate(file, len(_whole_lines(path)))
        except BaseException:
            os.close(file)
            raise
        return cls(path, file)

    def write(self, kind: JournalKind, **data: Any) -> None:
        """Append a line and flush it to disk. Raises UnwrittenLineError; then no part of the line is in the file, so a
        shorter one, such as why the rollout has stopped, can still follow."""
        if self.is_gone:  # nothing could be resumed from what has no name any more
            raise UnwrittenLineError(self.path, None)
        line = json.dumps({"v": VERSION, "time": timestamp(self._clock()), "kind": str(kind), **data})
        size = os.fstat(self._file).st_size
        try:
            write_all(self._file, line.encode("ascii") + b"\n")
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise UnwrittenLineError(self.path, error) from None

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted, moved, or replaced by another one, so that its path does not lead to it."""
        try:
            return not same_file(self._file, self.path)
        except OSError:
            return True

    def discard(self) -> None:
        """Delete the file, which has no plan yet: nothing can be resumed from it, and its name can be used again."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


def resume_command(path: pathlib.Path) -> str:
    """The command that continues the rollout of a journal."""
    return f"kgm rollout --resume {shell_word(str(path))}"


def read_journal(path: pathlib.Path) -> list[JournalLine]:
    """The lines, without a torn one at the end. Raises UsageError; or RefusedError for a file that others own or can
    write to, or that is not a regular file."""
    text = _whole_lines(path)
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        try:
            data = json.loads(raw)
            if data.pop("v") != VERSION:
                raise UsageError(f"the journal {path} was written by another version of kgm")
            data.pop("time")
            lines.append(JournalLine(kind=JournalKind(data.pop("kind")), data=data))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise UsageError(f"line {number} of {path} is not a line of a journal") from None
    if not lines or lines[0].kind is not JournalKind.PLAN:
        raise UsageError(f"{path} is not the journal of a rollout, or ends before its plan: nothing was done")
    return lines


def _whole_lines(path: pathlib.Path) -> bytes:
    """Everything up to the last newline. Raises what `read_journal` raises."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            raise _not_taken_up(path, "it is not a regular file") from None
        raise UsageError(f"the journal {path} cannot be read: {error.strerror or error}") from None
    try:
        _refuse_foreign(path, file)
        with open(file, "rb", closefd=False) as stream:
            text = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the journal {path} cannot be read: {error.strerror or error}") from None
    finally:
        os.close(file)
    if len(text) > _MOST_BYTES:
        raise UsageError(f"the journal {path} cannot be read: it is larger than a journal can be")
    return text[: text.rfind(b"\n") + 1]


def _refuse_foreign(path: pathlib.Path, file: int) -> None:
    """Raises RefusedError unless it is a regular file that only this user can write to: its commands will run."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise _not_taken_up(path, "it is not a regular file")
    why = who_else_writes(status, but=(os.geteuid(),))
    if why is not None:
        raise _not_taken_up(path, why)


def _not_taken_up(path: pathlib.Path, why: str) -> RefusedError:
    return RefusedError(
        f"nothing was done: the journal {path} is not resumed: {why}",
        facts=("a journal says which commands run as you",),
        hint="look at its commands, and start a new rollout: kgm rollout GROUP --exec ...",
    )


# -- the first run


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMark:
    """What kgm keeps about the first run of a rollout, apart from its journal. plan: a digest of everything in the
    `plan` line except the commands; commands: the commands, as in the journal."""

    plan: str
    commands: Mapping[str, Any]

    @classmethod
    def of(cls, data: Mapping[str, Any], commands: Mapping[str, Any]) -> Self:
        """data: the data of the `plan` line."""
        rest = {**data, "spec": {name: value for name, value in data["spec"].items() if name not in commands}}
        text = json.dumps(rest, sort_keys=True)
        return cls(plan=hashlib.sha256(text.encode("ascii")).hexdigest(), commands=dict(commands))

    def keep(self, folder: pathlib.Path, run: str) -> None:
        """Write the mark, before the journal's first line. Raises RefusedError."""
        path = _mark_path(folder, run)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                write_all(file, json.dumps({"plan": self.plan, "commands": self.commands}).encode("ascii"))
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise RefusedError(
                f"nothing was done: {path} cannot be written: {error.strerror or error}",
                hint="export XDG_STATE_HOME=/a/folder/of/yours",
            ) from None

    @classmethod
    def kept(cls, folder: pathlib.Path, run: str) -> Self | None:
        """The mark of a run; None if there is none, as on another machine. Raises RefusedError for one that others may
        have written."""
        path = _mark_path(folder, run)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            _refuse_foreign(path, file)
            data = json.loads(os.read(file, _MOST_MARK_BYTES))
            return cls(plan=str(data["plan"]), commands=dict(data["commands"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        finally:
            os.close(file)

    @staticmethod
    def drop(folder: pathlib.Path, run: str) -> None:
        """Delete the mark of a rollout that is complete."""
        with contextlib.suppress(OSError):
            _mark_path(folder, run).unlink()


def _mark_path(folder: pathlib.Path, run: str) -> pathlib.Path:
    """Raises UsageError for a text that is not a run id."""
    if not _RUN_ID.fullmatch(run):
        raise UsageError(f"the journal is not complete: {run!r} is not the id of a run")
    return folder / f"{run}.plan"

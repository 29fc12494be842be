"""The audit log: which removals were sent from this machine, by whom, and their results.

Before a LeaveGroup is sent, one `intent` line for each member is appended and flushed to disk;
afterwards, one `outcome` line for each. Both carry the run's id and the member's place in the run, which `read` uses to
match them: an intent without an outcome means that the run ended before it knew the result (kill -9, power failure).
Lines are ASCII JSON, one object each, so that no id can break them. Each line has its number and the hash of the
previous line (`kgm.operations.audit.chain`), even across files; the number of lines and the hash of the last one are in
a file next to the log (`kgm.operations.audit.head`).

The lines are flushed before the head is. A process that is killed in between leaves lines that the head does not cover:
they follow the line that the head names, `read` counts them as `newer`, and the next write adds them to the head. Where
the log does not continue from its head, the next line is numbered and chained as if it did, so the gap stays visible.

Several kgm processes can append at the same time: a batch is one write under flock, on a file opened with O_APPEND. A
batch that does not fit (disk full) is undone by truncating the file; if that fails too, the next batch starts on a new
line, and `read` skips and counts the torn one.

The size is bounded: a file of MAX_BYTES is renamed to `audit.jsonl.1`, and so on up to MAX_ROTATED_FILES; the oldest is
deleted. A file that cannot be renamed keeps growing, because a removal without a record is worse."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from kgm.model.errors import KgmError, RefusedError
from kgm.operations.audit.chain import KEY, NUMBER, ChainBreak, ChainCheck, digest, last_line
from kgm.operations.audit.head import Head, UnreadableHeadError, read_head, write_head
from kgm.text.files import flush_folder, same_file, try_lock, write_all

#: The size at which a file is renamed, and the number of renamed files. A line has about 500 bytes and a removal two
#: lines, so the files together hold about the last 150,000 removals.
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_ROTATED_FILES: Final = 8
VERSION: Final = 1
#: How long to wait for another kgm that is writing; a write takes milliseconds.
_LOCK_S: Final = 5.0
_LOCK_POLL_S: Final = 0.01
_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
#: The result of a removal that has no outcome record.
UNKNOWN: Final = "unknown"
#: The action assumed for records that name none.
REMOVAL: Final = "remove-members"
#: The action when groups or committed offsets were deleted.
DELETION: Final = "delete-groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRemoval:
    """One attempt to remove a member, to delete a group or its offsets, or to run a rollout command; and its result.

    action: `remove-members`, `delete-groups` or `rollout`. topic: the topic whose committed offsets were to be deleted,
    if the group itself stays. offsets: the offsets to delete, as JSON: topic, partition, committed. result: as
    `remove-members` names it, `done` or `failed` for a command; `unknown` without an outcome, and finished_at is then
    None. Times are RFC 3339. verdict, evidence: whether the target was known to be alive or in use when it was removed,
    and why."""

    run: str
    action: str
    time: str
    operator: str | None
    uid: int | None
    host: str | None
    pid: int | None
    cluster_id: str | None
    bootstrap: str | None
    group_id: str | None
    topic: str | None
    offsets: tuple[dict[str, Any], ...]
    group_instance_id: str | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    reason: str | None
    verdict: str | None
    evidence: tuple[str, ...]
    result: str
    error: str | None
    note: str | None
    finished_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogContents:
    """The contents of the log, oldest first. torn: the number of lines that are not records. breaks: lines that do not
    follow the line before them. problems: what else is wrong, in words: missing records, a missing head.

    newer: the number of records at the end that the head does not cover. has_head: whether a missing end would be
    noticed; true for a log without records."""

    removals: tuple[AuditedRemoval, ...]
    torn: int
    breaks: tuple[ChainBreak, ...] = ()
    problems: tuple[str, ...] = ()
    newer: int = 0
    has_head: bool = True


def default_path(environment: Mapping[str, str]) -> pathlib.Path:
    """`$XDG_STATE_HOME/kgm/audit.jsonl`. A relative XDG_STATE_HOME is ignored, as the specification requires.

    Raises RefusedError without a home directory."""
    home = environment.get("XDG_STATE_HOME", "")
    if home.startswith("/"):
        return pathlib.Path(home) / "kgm" / "audit.jsonl"
    try:
        return pathlib.Path.home() / ".local" / "state" / "kgm" / "audit.jsonl"
    except RuntimeError as error:
        raise RefusedError(f"there is no directory for the audit log: {error}", hint=_HINT) from None


_HINT = "export XDG_STATE_HOME=/a/folder/of/yours; --no-audit continues without a record"


class AuditTrail(Protocol):
    """Where the records of a removal go."""

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append all of these records, or none. Raises RefusedError."""
        ...


class ReadOnlyLogError(RefusedError):
    """The file system of the audit log is read-only, as in a container without a volume for it."""


class AuditLines:
    """Records as lines of JSON, for use where no file can be written: a container's output is its log."""

    def __init__(self, write: Callable[[str], object], *, clock: Callable[[], float] = time.time) -> None:
        self._write, self._clock = write, clock

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        stamp = timestamp(self._clock())
        for line in lines:
            self._write(json.dumps({"v": VERSION, "time": stamp, **line}) + "\n")


class AuditLog:
    """Appends to one file. clock: seconds since the epoch."""

    def __init__(self, path: pathlib.Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock

    def prepare(self) -> None:
        """Create the folder (0700) and the file (0600). Raises ReadOnlyLogError or another RefusedError if that is not
        possible."""
        try:
            os.close(self._open())
        except OSError as error:
            raise self._refused(error) from None

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append records, flushed to disk: all of them, or none. Raises RefusedError."""
        stamp = timestamp(self._clock())
        try:
            self._append([{"v": VERSION, "time": stamp, **line} for line in lines])
        except OSError as error:
            raise self._refused(error) from None

    def _append(self, records: Sequence[Mapping[str, Any]]) -> None:
        with self._locked() as file:
            size = os.fstat(file).st_size
            head = self._head()
            if size < MAX_BYTES or not self._rotated(head):
                data, head = _chained(records, head)
                _write(file, data, size, self.path)
                try:
                    write_head(self.path, head)
                except OSError:
                    _undo(file, size)
                    raise
                return
        self._append(records)  # to the new file: the open one was renamed

    def _head(self) -> Head:
        """The head that the next line follows; called with the lock held. Writes a head if there is none, so that a
        log with lines but no head cannot come from a process that was killed."""
        damage: tuple[str, ...] = ()
        try:
            head = read_head(self.path)
        except UnreadableHeadError as error:
            head, damage = None, (f"{timestamp(self._clock())}: the head was not readable: {error}",)
        if head is not None:
            last = last_line(self.path) or last_line(self._numbered(1))
            if (None if last is None else digest(last)) == head.last:
                return head
            check = self._followed(head)
            if check.foreign_end is not None:  # the line written next will follow it, so it would go unnoticed
                damage = (f"{timestamp(self._clock())}: line {check.foreign_end.line}, the last one, was not a record",)
                head = replace(head, damage=(*head.damage, *damage))
            return replace(head, records=check.count, last=check.last) if check.found_head else head
        check = self._followed(None)
        if check.has_numbers and not damage:
            damage = (f"{timestamp(self._clock())}: the head was missing before record {check.count + 1} was written",)
        head = Head(first=check.first, records=check.count, last=check.last, damage=damage)
        write_head(self.path, head)
        return head

    def _followed(self, head: Head | None) -> ChainCheck:
        check = ChainCheck(head)
        for path, number, line in self._lines():
            check.follow(path, number, line, _record(line))
        return check

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Open and lock the file. If it is renamed while kgm waits for the lock, the new file is opened."""
        deadline = time.monotonic() + _LOCK_S
        while True:
            file = self._open()
            try:
                _lock(file, deadline)
                if same_file(file, self.path):
                    yield file
                    return
            finally:
                os.close(file)

    def _open(self) -> int:
        folder = self.path.parent
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        _tighten(folder, 0o700)
        is_new = not self.path.exists()
        file = os.open(self.path, _OPEN, 0o600)
        try:
            _check_file(file)
            if is_new:
                flush_folder(folder)
        except BaseException:
            os.close(file)
            raise
        return file

    def _rotated(self, head: Head) -> bool:
        """audit.jsonl.7 -> .8, ..., audit.jsonl -> .1; called with the lock held. The head is updated first for the
        records that the renames delete, so a process that is killed in between leaves too many records, not too few."""
        oldest = self._numbered(MAX_ROTATED_FILES)
        try:
            if oldest.exists():
                check = ChainCheck(head)
                for line in _lines_of(oldest):
                    check.follow(oldest, 0, line, _record(line))
                write_head(self.path, replace(head, first=check.count + 1))
            for number in range(MAX_ROTATED_FILES - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    self._numbered(number).replace(self._numbered(number + 1))
            self.path.replace(self._numbered(1))
        except OSError:
            return False
        return True

    def _numbered(self, number: int) -> pathlib.Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _refused(self, error: OSError) -> RefusedError:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
        facts = [f"{self.path}: {why}"]
        with contextlib.suppress(OSError):
            owner = self.path.stat().st_uid if self.path.exists() else self.path.parent.stat().st_uid
            if owner != os.geteuid():
                facts.append(f"it belongs to uid {owner}; this is uid {os.geteuid()}")
        kind = ReadOnlyLogError if error.errno == errno.EROFS else RefusedError
        return kind("the audit log cannot be written", facts=facts, hint=_HINT)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self) -> AuditLogContents:
        """All removals, including those in rotated files. Raises KgmError for a file that cannot be read."""
        contents = self._read()
        if not (contents.breaks or contents.problems or contents.newer):
            return contents
        # Perhaps another process was writing or rotating the files.
        with self._locked_for_reading():
            return self._read()

    def _read(self) -> AuditLogContents:
        intents: dict[tuple[str, int], dict[str, Any]] = {}
        outcomes: dict[tuple[str, int], dict[str, Any]] = {}
        torn = 0
        unreadable = None
        try:
            head = read_head(self.path)
        except UnreadableHeadError as error:
            head, unreadable = None, f"the head of the audit log is not readable: {error}"
        chain = ChainCheck(head)
        for path, number, line in self._lines():
            record = _record(line)
            chain.follow(path, number, line, record)
            if record is None:
                torn += 1
                continue
            events = outcomes if record["event"] == "outcome" else intents
            events.setdefault((record["run"], record["seq"]), record)
        # The intent of an outcome may be in a file that was deleted.
        keys = list(intents) + [key for key in outcomes if key not in intents]
        removals = [_removal(intents.get(key), outcomes.get(key)) for key in keys]
        return AuditLogContents(
            removals=tuple(sorted(removals, key=lambda one: one.time)),
            torn=torn,
            breaks=tuple(chain.breaks),
            problems=tuple(chain.problems()) if unreadable is None else (unreadable,),
            newer=chain.newer,
            has_head=head is not None or chain.count == 0,
        )

    @contextlib.contextmanager
    def _locked_for_reading(self) -> Iterator[None]:
        """Keep other processes from writing, if the lock can be taken."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            yield
            return
        try:
            with contextlib.suppress(OSError):
                _lock(file, time.monotonic() + _LOCK_S)
            yield
        finally:
            os.close(file)

    def _lines(self) -> Iterator[tuple[pathlib.Path, int, bytes]]:
        """(file, line number in it, line), oldest first."""
        for path in [*(self._numbered(number) for number in range(MAX_ROTATED_FILES, 0, -1)), self.path]:
            try:
                for number, line in enumerate(_lines_of(path), 1):
                    yield path, number, line
            except FileNotFoundError:
                continue
            except OSError as error:
                raise KgmError(f"the audit log cannot be read: {path}: {error.strerror or error}") from None


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, to the millisecond, so that the strings sort by time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def intents(run: str, members: Sequence[Mapping[str, Any]], common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines to append before sending. members: the ids of each member; common: fields that all lines get."""
    return [{"event": "intent", "run": run, "seq": seq, **common, **one} for seq, one in enumerate(members)]


def outcomes(run: str, members: Sequence[Mapping[str, Any]], common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines to append afterwards: the same members in the same order, each with result, error and note."""
    return [{"event": "outcome", "run": run, "seq": seq, **common, **one} for seq, one in enumerate(members)]


def _chained(records: Sequence[Mapping[str, Any]], head: Head) -> tuple[bytes, Head]:
    """The lines, each with its number and the hash of the previous line, and the head after them."""
    lines, last = [], head.last
    for number, record in enumerate(records, head.records + 1):
        line = json.dumps({**record, NUMBER: number, KEY: last}).encode("ascii")
        last = digest(line)
        lines.append(line + b"\n")
    return b"".join(lines), replace(head, records=head.records + len(lines), last=last)


# -- files -------------------------------------------------------------------------------------------------------------


def _lock(file: int, deadline: float) -> None:
    while not try_lock(file):
        if time.monotonic() > deadline:
            raise OSError(errno.EAGAIN, "another process holds it")
        time.sleep(_LOCK_POLL_S)


def _write(file: int, data: bytes, size: int, path: pathlib.Path) -> None:
    """Append and flush; on failure truncate the file to its former size. Called with the lock held."""
    if _is_torn(path, size):
        data = b"\n" + data
    try:
        write_all(file, data)
        os.fsync(file)
    except OSError:
        _undo(file, size)
        raise


def _undo(file: int, size: int) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(file, size)


def _is_torn(path: pathlib.Path, size: int) -> bool:
    """Whether the last line is incomplete, because its writer was killed."""
    if not size:
        return False
    try:
        with path.open("rb") as file:
            file.seek(size - 1)
            return file.read(1) != b"\n"
    except OSError:
        return True  # an empty line does no harm


def _check_file(file: int) -> None:
    """Raises OSError unless it is a regular file. Removes the permissions of other users."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_mode & 0o077:
        os.fchmod(file, 0o600)


def _tighten(folder: pathlib.Path, mode: int) -> None:
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        folder.chmod(mode)


def _lines_of(path: pathlib.Path) -> Iterator[bytes]:
    """The lines of a file. Raises OSError, also if it is not a regular file: reading a pipe would never end."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(file, "rb") as lines:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield from lines


# -- records -----------------------------------------------------------------------------------------------------------


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("event") not in ("intent", "outcome"):
        return None
    has_key = isinstance(record.get("run"), str) and type(record.get("seq")) is int
    return record if has_key and isinstance(record.get("time"), str) else None


def _removal(intent: dict[str, Any] | None, outcome: dict[str, Any] | None) -> AuditedRemoval:
    known = {**(outcome or {}), **(intent or {})}

    def text(record: Mapping[str, Any], key: str) -> str | None:
        value = record.get(key)
        return value if isinstance(value, str) else None

    def number(key: str) -> int | None:
        value = known.get(key)
        return value if type(value) is int else None

    after, evidence = outcome or {}, known.get("evidence")
    return AuditedRemoval(
        run=known["run"], action=text(known, "action") or REMOVAL, time=known["time"],
        operator=text(known, "operator"), uid=number("uid"),
        host=text(known, "host"), pid=number("pid"), cluster_id=text(known, "cluster_id"),
        bootstrap=text(known, "bootstrap"), group_id=text(known, "group_id"),
        topic=text(known, "topic"), offsets=tuple(_offsets(known.get("offsets"))),
        group_instance_id=text(known, "group_instance_id"), member_id=text(known, "member_id"),
        client_id=text(known, "client_id"), client_host=text(known, "client_host"), reason=text(known, "reason"),
        verdict=text(known, "verdict"),
        evidence=tuple(one for one in evidence if isinstance(one, str)) if isinstance(evidence, list) else (),
        result=text(after, "result") or UNKNOWN, error=text(after, "error"), note=text(after, "note"),
        finished_at=text(after, "time"),
    )  # fmt: skip


def _offsets(rows: Any) -> Iterator[dict[str, Any]]:
    """The well-formed rows; anything else is skipped."""
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            topic, partition, committed = (row.get(key) for key in ("topic", "partition", "committed"))
            if isinstance(topic, str) and type(partition) is int and type(committed) is int:
                yield {"topic": topic, "partition": partition, "committed": committed}

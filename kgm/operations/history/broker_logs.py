"""Reads brokers' log files: rotated and compressed ones, from several brokers, as written by Kafka or journald.

The files of one broker are read in order of the time of their first line, because an entry that begins in one file may
continue in the next. The files of different brokers are kept apart."""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from kgm.history.causes.broker_log import BrokerReason, parse
from kgm.history.causes.log_clock import log_time
from kgm.model.errors import MissingFileError, UsageError
from kgm.text.input_files import open_input

#: In bytes. A coordinator logs all members of a LeaveGroup request on one line.
_LONGEST_LINE = 1 << 20
_GZIP = b"\x1f\x8b"
_OTHER_COMPRESSIONS = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}
#: If a file has lines with a time, the first is within this many lines.
_HEAD_LINES = 200
#: What rotation adds to the name of a log: `.1`, `.2026-11-21-04`, `-20261121`, and `.gz`.
_ROTATION = re.compile(r"(?:[.-]\d[\d.T_-]*)*(?:\.gz)?$")
_NUMBER = re.compile(r"\.(\d{1,4})(?:\.gz)?$")
#: The field that begins a file exported by journald.
_EXPORT = b"__CURSOR="
_MESSAGE, _REALTIME = "MESSAGE", "__REALTIME_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogFile:
    """A log file. broker: its path without the rotation suffix."""

    path: Path
    broker: str


def broker_reasons(paths: Iterable[Path]) -> Iterator[BrokerReason]:
    """What the logs say about rebalances, broker by broker. paths: files, and directories of files.

    Raises MissingFileError for a path that does not exist or a directory without logs; UsageError for a file that
    cannot be read, is damaged or truncated, or is compressed with anything but gzip."""
    by_broker: dict[str, list[_LogFile]] = {}
    for file in _files(paths):
        by_broker.setdefault(file.broker, []).append(file)
    for broker, files in by_broker.items():
        yield from parse(_lines_of_all(files), broker)


def check_broker_logs(paths: Iterable[Path]) -> None:
    """Raises as `broker_reasons` does for paths that are visibly not logs, even if the question asked does not use
    them."""
    for _ in _files(paths):
        pass


def _files(paths: Iterable[Path]) -> Iterator[_LogFile]:
    """The log files, each once."""
    seen: set[Path] = set()
    for path in paths:
        inside = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        logs = [each for each in inside if not path.is_dir() or _is_text(each)]
        if not path.is_dir():
            _check_text(path)
        if not logs:
            raise MissingFileError(f"directory {path} has no logs", hint="--broker-log takes files and directories")
        for log in logs:
            resolved = log.resolve()
            if resolved not in seen:
                seen.add(resolved)
                yield _LogFile(path=log, broker=_broker(log, path if path.is_dir() else None))


def _broker(log: Path, directory: Path | None) -> str:
    name = _ROTATION.sub("", log.name) or log.name
    return str((log if directory is None else log.relative_to(directory)).with_name(name))


def _is_text(path: Path) -> bool:
    """Whether a file in a directory may be a log. Other files, such as index files, contain zeros."""
    with _opened(path) as file:
        head = file.read(4_096)
    return b"\0" not in head or head.startswith(_EXPORT)


def _check_text(path: Path) -> None:
    """Raises UsageError for a file that begins with zeros, for instance a sparse file of any size."""
    with _opened(path) as file:
        head = file.read(4_096)
    if head and not head.strip(b"\0"):
        raise UsageError(f"file {path} is not a log: it begins with zeros")


def _lines_of_all(files: Iterable[_LogFile]) -> Iterator[str]:
    def first_time(file: _LogFile) -> tuple[bool, int, int, str]:
        with _opened(file.path) as opened:
            times = (log_time(line) for line in islice(_lines(opened), _HEAD_LINES))
            first = next((time for time in times if time is not None), None)
        # Of files whose first lines have the same millisecond, the one with the larger number is older.
        number = _NUMBER.search(file.path.name)
        age = 0 if number is None else int(number[1])
        return first is None, 0 if first is None else first.ms, -age, str(file.path)

    for file in sorted(files, key=first_time):
        with _opened(file.path) as opened:
            yield from _lines(opened)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, decompressed if it is gzipped, whatever its name is."""
    try:
        with open_input(str(path)) as plain:
            head = plain.read(6)
            plain.seek(0)
            other = next((name for magic, name in _OTHER_COMPRESSIONS.items() if head.startswith(magic)), None)
            if other is not None:
                raise UsageError(
                    f"file {path} is compressed with {other}, which kgm does not read", hint="unpack it, or use gzip"
                )
            if not head.startswith(_GZIP) and path.suffix != ".gz":
                yield plain
                return
            with gzip.GzipFile(fileobj=plain) as unzipped:
                yield cast("BinaryIO", unzipped)
    except FileNotFoundError:
        raise MissingFileError(f"file {path} does not exist") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"file {path} is not a complete gzip file: {error}") from error
    except OSError as error:
        raise UsageError(f"file {path} cannot be read: {error.strerror or error}") from error


# -- lines


def _lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a log. A journald entry becomes lines that begin with its time in UTC."""
    is_export = None
    for line in _bounded(file):
        if is_export is None:
            is_export = line.startswith(_EXPORT)
        if is_export:
            yield from _exported(line, file)
            return
        if line.startswith(b"{"):
            yield from _of_json(line)
        else:
            yield line.decode("utf-8", "backslashreplace")


def _bounded(file: BinaryIO) -> Iterator[bytes]:
    """The lines, skipping those longer than any line a broker writes."""
    is_rest = False
    while line := file.readline(_LONGEST_LINE):
        is_whole = len(line) < _LONGEST_LINE or line.endswith(b"\n")
        if is_whole and not is_rest:
            yield line
        is_rest = not is_whole


def _of_json(line: bytes) -> Iterator[str]:
    """The lines of an entry of `journalctl -o json`; any other line that begins with a brace is an ordinary log
    line."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or _MESSAGE not in entry:
        yield line.decode("utf-8", "backslashreplace")
        return
    message = entry[_MESSAGE]
    if isinstance(message, list):  # bytes that are not printable
        message = bytes(each & 0xFF for each in message if isinstance(each, int)).decode("utf-8", "backslashreplace")
    if isinstance(message, str):
        yield from _entry(message, str(entry.get(_REALTIME) or ""))


def _exported(first: bytes, file: BinaryIO) -> Iterator[str]:
    """The entries of `journalctl -o export`: lines of the form `FIELD=value`, or `FIELD` followed by the length in 8
    bytes and the value."""
    fields: dict[str, str] = {}
    line: bytes | None = first
    while line is not None:
        text = line.removesuffix(b"\n")
        name, equals, value = text.partition(b"=")
        if not text:
            yield from _entry(fields.get(_MESSAGE, ""), fields.get(_REALTIME, ""))
            fields = {}
        elif equals:
            fields[name.decode("ascii", "replace")] = value.decode("utf-8", "backslashreplace")
        else:
            fields[name.decode("ascii", "replace")] = _binary_value(file)
        line = file.readline(_LONGEST_LINE) or None
    yield from _entry(fields.get(_MESSAGE, ""), fields.get(_REALTIME, ""))


def _binary_value(file: BinaryIO) -> str:
    size = file.read(8)
    length = int.from_bytes(size, "little")
    value = file.read(length + 1) if length <= _LONGEST_LINE else b""
    if len(size) < 8 or len(value) != length + 1 or not value.endswith(b"\n"):
        raise UsageError("an export of journald is damaged or truncated: a field is not as long as it says")
    return value.removesuffix(b"\n").decode("utf-8", "backslashreplace")


def _entry(message: str, realtime_us: str) -> Iterator[str]:
    """The lines of a message, each with the time at which journald received it."""
    stamp = ""
    if realtime_us.isascii() and realtime_us.isdigit() and len(realtime_us) < 18:
        at = datetime.fromtimestamp(int(realtime_us) // 1_000 / 1_000, UTC)
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z") + " "
    for line in message.split("\n"):
        if line:
            yield stamp + line

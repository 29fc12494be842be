"""stdout and stderr: readers that go away, full disks, and characters that an encoding lacks.

A closed pipe is not an error (`kgm list | head`), and must not stop a command halfway: writes to a closed stderr are
lost, and a closed stdout ends only commands that do nothing but print. If stdout fails in another way, that is an
error, because a result that was not written must not look like one that was."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

from kgm.model.errors import OutputError

#: Streams that could not be written, and why: they now lead to /dev/null, so later writes would seem to work.
_broken: dict[str, tuple[TextIO, Exception]] = {}


def prepare() -> None:
    """Make the three streams usable, in whatever state the caller left them.

    A descriptor that the caller has closed (`>&-`) is opened on /dev/null so that writing to it fails: otherwise the
    next file or connection that kgm opens would get its number. A terminal gets the encoding of the locale, and what
    that lacks is escaped instead of failing. A pipe or a file gets UTF-8 whatever the locale is: escapes for a terminal
    are not those of JSON, and in CSV nothing would tell them from the data."""
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            _occupy(number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _occupy(number: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    if null != number:
        os.dup2(null, number)
        os.close(null)


def write_stderr(text: str) -> bool:
    """Write to stderr and flush. Returns False if it cannot be written, which is not an error."""
    _make_room()
    if _why_broken("stderr", sys.stderr) is not None:
        return False
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError) as error:
        _give_up("stderr", sys.stderr, error)
        return False
    return True


def write_stdout(text: str) -> bool:
    """Write a result to stdout and flush. Returns False if its reader has gone (`| head`), which is not an error.

    Raises OutputError if it cannot be written for another reason."""
    try:
        write_to_reader(text)
    except BrokenPipeError as error:
        _give_up("stdout", sys.stdout, error)
        return False
    return True


def write_to_reader(text: str) -> None:
    """Write to stdout and flush. Raises BrokenPipeError if its reader has gone, OutputError if it cannot be written
    for another reason."""
    _make_room()
    broken = _why_broken("stdout", sys.stdout)
    if isinstance(broken, BrokenPipeError):
        raise broken
    if broken is not None:
        raise output_error(broken) from broken
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        _give_up("stdout", sys.stdout, error)
        raise output_error(error) from error


def _why_broken(name: str, stream: TextIO) -> Exception | None:
    known = _broken.get(name)
    return known[1] if known is not None and known[0] is stream else None


def _give_up(name: str, stream: TextIO, error: Exception) -> None:
    _broken[name] = (stream, error)
    silence(stream)


def output_error(error: Exception) -> OutputError:
    """The error for a stdout that cannot be written."""
    why = error.strerror if isinstance(error, OSError) else None
    return OutputError(f"the output cannot be written: {why or error}")


def _make_room() -> None:
    """Wipe the progress line, if there is one."""
    progress = sys.modules.get("kgm.cli.output.progress")
    if progress is not None:
        progress.hide()


def silence(stream: TextIO) -> None:
    """Redirect the stream to /dev/null, so that Python does not fail when it flushes at exit."""
    try:
        number = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):
        return  # a stream without a file descriptor
    os.dup2(null, number)
    os.close(null)


def reader_has_gone(stream: TextIO) -> bool:
    """Whether the stream is a pipe or a socket whose reader has closed it."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def close() -> OutputError | None:
    """Flush both and close stdout at the end of the process; some file systems report a full disk only then.

    Returns the error if stdout could not be written; a reader that has gone does not count."""
    failure = None
    try:
        sys.stdout.flush()
        sys.stdout.close()
    except BrokenPipeError:
        silence(sys.stdout)
    except (OSError, ValueError) as error:
        silence(sys.stdout)
        failure = output_error(error)
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)
    return failure

"""stdout and stderr: what happens when a reader goes away, and characters that its encoding does not have.

A closed pipe is not an error (`kgm list | head`), and must not stop a command half way: what goes to stderr is lost
without a word, and a broken stdout ends only what does nothing but print."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO


def prepare() -> None:
    """Never fail for a character that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Write to stderr, now; if nobody reads it any more, so be it."""
    _make_room()
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def put(text: str) -> None:
    """Write a result to stdout. A reader that has gone (`| head`) is no error."""
    _make_room()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)


def _make_room() -> None:
    """Wipe the line of progress, if there may be one."""
    progress = sys.modules.get("kgm.cli.output.progress")
    if progress is not None:
        progress.hide()


def silence(stream: TextIO) -> None:
    """Send what is left, and what comes, nowhere: Python would complain when it flushes at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass  # a stream without a file has nothing to flush into


def reader_has_gone(stream: TextIO) -> bool:
    """Whether the stream is a pipe or socket that nobody reads any more."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def close() -> None:
    """Flush both, quietly, at the end of the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(stream)

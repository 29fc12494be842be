"""stdout and stderr: readers that go away, and characters that an encoding does not have.

A closed pipe is not an error (`kgm list | head`), and must not stop a command half way: a closed stderr loses what is
written to it, and a closed stdout ends only commands that do nothing but print."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO


def prepare() -> None:
    """Escape characters that the terminal's encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def write_stderr(text: str) -> None:
    """Write to stderr and flush. A closed stderr is ignored."""
    _make_room()
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def write_stdout(text: str) -> None:
    """Write a result to stdout. A reader that has gone (`| head`) is not an error."""
    _make_room()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)


def _make_room() -> None:
    """Wipe the progress line, if there is one."""
    progress = sys.modules.get("kgm.cli.output.progress")
    if progress is not None:
        progress.hide()


def silence(stream: TextIO) -> None:
    """Redirect the stream to /dev/null, so that Python does not fail when it flushes at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass  # a stream without a file descriptor


def reader_has_gone(stream: TextIO) -> bool:
    """Whether the stream is a pipe or a socket whose reader has closed it."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def close() -> None:
    """Flush both at the end of the process, ignoring errors."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(stream)

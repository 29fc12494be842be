"""Wait for a condition. A test that depends on other processes or threads waits for what it needs, never for a fixed
time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kgm.model.errors import ErrorCode

T = TypeVar("T")
#: What a coordinator answers until it has loaded its partition, or while it moves to another broker.
NOT_READY = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
#: The pause after a look, in multiples of the time that the look took, up to a limit.
_REST = 4
_LONGEST_REST_S = 0.25


def until(
    look: Callable[[], T],
    what: str | Callable[[], str],
    timeout_s: float = 60,
    *,
    accept: Callable[[T], object] = bool,
    every_s: float = 0.02,
) -> T:
    """Call `look` every `every_s` seconds until `accept` is true of what it returns; return that. A look that takes
    long, such as a request to a broker, is repeated less often, which leaves the processors to what is waited for.

    Raises TimeoutError after `timeout_s` with `what` (a text, or a function that is then called and returns one) and
    the last value seen. The last look begins after the deadline: a process that was not scheduled for a while, on a
    busy machine, still sees what has happened in the meantime."""
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        last = began > deadline
        seen = look()
        if accept(seen):
            return seen
        if last:
            message = what if isinstance(what, str) else what()
            raise TimeoutError(f"not within {timeout_s:g} s: {message} (last seen: {seen!r})")
        time.sleep(max(every_s, min(_REST * (time.monotonic() - began), _LONGEST_REST_S)))


def stays(look: Callable[[], object], what: str, seconds: float, *, every_s: float = 0.01) -> None:
    """Check that `look` returns a true value for `seconds`. For what must not happen, because that gives no signal."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert look(), what
        time.sleep(every_s)


def can_read(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, or the other end is closed, within this time. For any number of open files:
    `select` ends at 1,024, and a process that has run thousands of tests may have more."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def process_state(pid: int) -> str:
    """The state that the kernel reports: R is running, S is waiting, Z has ended; "" if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def is_running(pid: int) -> bool:
    """Whether a process is still running; one that has ended and is not reaped yet is not."""
    return process_state(pid) not in ("", "Z")

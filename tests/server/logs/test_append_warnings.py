"""When records cannot be written, the operator is told, and not once for each request."""

import contextlib
import errno
import os

import pytest

from kgm.server.logs.append_warnings import AppendWarnings

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Told:
    def __init__(self):
        self.now_s = 1000.0
        self.lines = []
        self.warnings = AppendWarnings("DIR", self.lines.append, lambda: self.now_s)

    def append(self, error=None):
        with contextlib.suppress(OSError, ValueError), self.warnings:
            if error is not None:
                raise error


@pytest.fixture
def told():
    return Told()


def test_the_first_failure_and_the_first_success_after_it_are_told(told):
    for error in (None, FULL, FULL, None, None):
        told.append(error)
    assert told.lines == [
        "DIR: records cannot be written, and requests that need it are refused: No space left on device",
        "DIR: records can be written again",
    ]


def test_what_the_disk_is_not_to_blame_for_is_not_told(told):
    told.append(ValueError("too large"))
    assert told.lines == []
    told.append(FULL)
    told.append(ValueError("too large"))  # nothing is known about the disk
    assert len(told.lines) == 1


def test_a_disk_that_is_nearly_full_is_told_at_most_twice_a_minute(told):
    """Small batches fit between larger ones that do not."""
    for _ in range(600):
        told.append(FULL)
        told.append()
        told.now_s += 1
    assert len(told.lines) == 2 * 600 // 60


def test_a_failure_soon_after_another_one_is_told_once_it_lasts(told):
    told.append(FULL)
    told.append()
    for _ in range(120):
        told.append(FULL)
        told.now_s += 1
    assert [line.count("No space left") for line in told.lines] == [1, 0, 1]

"""How `__consumer_offsets` is searched backwards, and what is said where it cannot be read."""

from __future__ import annotations

import pytest

from kgm.client.failures import is_temporary
from kgm.client.offsets_topic import partition_log
from kgm.model.errors import ErrorCode, KgmError, NotFoundError, UnreachableError


@pytest.mark.parametrize(
    ("error", "is_passing", "why"),
    [
        (partition_log.unauthorized(), False, "no READ on Topic '__consumer_offsets'"),
        (
            KgmError("x", kafka_error=ErrorCode.NOT_LEADER_OR_FOLLOWER), True,
            "__consumer_offsets cannot be read (NOT_LEADER_OR_FOLLOWER)",
        ),
        (UnreachableError("gone"), True, "__consumer_offsets cannot be read (gone)"),
        (
            KgmError("x", kafka_error=ErrorCode.UNKNOWN_SERVER_ERROR), False,
            "__consumer_offsets cannot be read (UNKNOWN_SERVER_ERROR)",
        ),
        (KgmError("odd bytes"), False, "__consumer_offsets cannot be read (odd bytes)"),
        (NotFoundError("the brokers report no topic"), False, "the brokers report no topic"),
    ],
)  # fmt: skip
def test_what_passes_and_what_stays(error, is_passing, why):
    assert is_temporary(error) is is_passing
    assert partition_log.why_unreadable(error) == why


@pytest.mark.parametrize(
    ("start", "end", "windows"),
    [
        (0, 0, []),
        (5, 8, [(5, 8)]),
        (0, 100, [(90, 100), (70, 90), (30, 70), (0, 30)]),
        (60, 100, [(90, 100), (70, 90), (60, 70)]),
    ],
)
def test_windows_go_back_from_the_end_and_leave_no_gap(start, end, windows):
    assert list(partition_log.windows_back(start, end, 10)) == windows

"""The result of a change for each requested id, and the resulting exit code."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kgm.client.failures import OtherClusterError
from kgm.model.errors import KgmError


class Result(enum.StrEnum):
    """The result for one id.

    planned: it would be removed. removed: a later description shows that it is gone. returned: it was removed, but is
    back. absent: nothing has this id. refused: by a guard or the broker. failed: it was not removed. unknown: it may
    have been removed, and no description shows whether it was."""

    PLANNED = "planned"
    REMOVED = "removed"
    RETURNED = "returned"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


#: A result, a note, and Kafka's error code.
Judgement: TypeAlias = tuple[Result, str | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneResult:
    """The result for one id. error: Kafka's error code, 0 for none; note: an explanation, or None. in_doubt: a request
    for it may have been carried out, whatever the result is."""

    result: Result
    error: int = 0
    note: str | None = None
    in_doubt: bool = False


def exit_code(results: Sequence[OneResult], *, ignore_missing: bool) -> int:
    """0 all done · 3 all absent · 6 refused and nothing changed · 7 partial, returned or unknown · 1 all failed."""
    done = {Result.REMOVED, Result.PLANNED} | ({Result.ABSENT} if ignore_missing else set())
    kinds = {one.result for one in results}
    rest = kinds - done
    if not rest:
        return 0
    if rest & {Result.UNKNOWN, Result.RETURNED} or has_changed(results) or Result.PLANNED in kinds:
        return 7
    if Result.FAILED in rest:
        return 1
    return 6 if Result.REFUSED in rest else 3


def has_changed(results: Sequence[OneResult]) -> bool:
    """Whether anything was changed, or may have been."""
    changing = {Result.REMOVED, Result.RETURNED, Result.UNKNOWN}
    return any(one.result in changing or one.in_doubt for one in results)


def running_again(unseen_because: KgmError | None) -> str:
    """What to say about running a command again whose outcome is not known. unseen_because: why it could not be seen
    afterwards. A new run would accept the cluster that answers by then, and change that one."""
    if isinstance(unseen_because, OtherClusterError):
        return "before you run the command again, check where the address leads, or set expect_cluster_id"
    return "running the command again is safe"

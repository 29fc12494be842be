"""Whether processes that took over one group instance id ran at the same time, or were restarts of one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

#: No process stops and starts again within this many ms.
_QUICKEST_RESTART_MS: Final = 200


def ran_together(takeovers: Sequence[tuple[int, str]]) -> bool:
    """takeovers: (time in ms, host) of each, the earliest first. True if a host comes back after another one, because
    its process was still there, or if a takeover follows another one too fast for a restart. Restarts of one process,
    whether on one host or on a new one each time, are neither."""
    hosts = [host for _, host in takeovers]
    changes = [host for at, host in enumerate(hosts) if not at or hosts[at - 1] != host]
    is_back = len(set(changes)) < len(changes)
    return is_back or any(later - earlier < _QUICKEST_RESTART_MS for (earlier, _), (later, _) in pairwise(takeovers))

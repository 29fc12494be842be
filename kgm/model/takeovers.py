"""Whether processes that took over one group instance id ran at the same time, or were restarts of one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

#: No process stops and starts again in so many ms.
_QUICKEST_RESTART_MS: Final = 200


def ran_together(takeovers: Sequence[tuple[int, str]]) -> bool:
    """takeovers: (time in ms, host) of each, the earliest first. A host that comes back after another one has a process
    that was still there; nor does a restart follow another one at once. Restarts of one process, on one host or each on
    a new one, are neither."""
    hosts = [host for _, host in takeovers]
    changes = [host for at, host in enumerate(hosts) if not at or hosts[at - 1] != host]
    is_back = len(set(changes)) < len(changes)
    return is_back or any(later - earlier < _QUICKEST_RESTART_MS for (earlier, _), (later, _) in pairwise(takeovers))

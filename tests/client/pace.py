"""Budgets for answers that never come: short, but long enough for everything before and after, at this machine's
current speed."""

from __future__ import annotations

import time

from kgm.client import connect

#: A short budget on an idle machine, where connecting and describing take 3 ms.
SHORT_MS = 1_500
#: A budget that is enough on a busy machine, in units of the time that connecting and describing take there.
_ROUNDS = 100
_PATIENCE_MS = 60_000


def short_budget_ms(bootstrap: str, group_id: str) -> int:
    """A budget in ms. Measures how long it takes to connect and to describe the group, which shows how busy this
    machine is: a budget that is too short to send the request says nothing about a lost answer."""
    slowest_s = 0.0
    for _ in range(2):
        started = time.monotonic()
        with connect(bootstrap, timeout_ms=_PATIENCE_MS) as cluster:
            cluster.describe_groups([group_id])
        slowest_s = max(slowest_s, time.monotonic() - started)
    return max(SHORT_MS, round(slowest_s * 1000 * _ROUNDS))

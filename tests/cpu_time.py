"""CPU time in tests: what was spent, and how much of it is allowed on a machine that is slower than another."""

from __future__ import annotations

import resource
import statistics
import time

#: CPU seconds of the reference on the machines that the budgets in the tests were measured on.
REFERENCE_S = 0.010


def spent_by_children() -> float:
    """The CPU seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def least_of(function, rounds):
    """The CPU seconds of the cheapest of several rounds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        function()
        least = min(least, time.process_time() - start)
    return least


def allowed(seconds: float) -> float:
    """A budget of CPU seconds, stretched where the machine is slow now: cores that are shared run at half their speed, and a
    budget that meant the same number of seconds everywhere would have to allow a slip of that size on all the others."""
    rounds = []
    for _ in range(3):
        start = time.process_time()
        _reference()
        rounds.append(time.process_time() - start)
    return seconds * max(1.0, statistics.median(rounds) / REFERENCE_S)


def _reference() -> list[tuple[str, int]]:
    """What the engine does most: short texts, dictionaries, small numbers, and a sort."""
    lengths: dict[str, int] = {}
    for number in range(60_000):
        name = f"member-{number % 997}"
        lengths[name] = lengths.get(name, 0) + len(name)
    return sorted(lengths.items(), key=lambda each: (-each[1], each[0]))

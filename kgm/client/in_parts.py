"""Answers about many groups, asked for some groups at a time: what one part takes in memory is free for the next.

A broker that does not answer is waited for once, for half of the time that is left. After that kgm is in a hurry
(`Brokers.hurry`): what it cannot get at once is an error of the groups concerned, so that it gets to the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from kgm.client.admin_client import AdminClient
from kgm.client.failures import is_temporary
from kgm.model.errors import KgmError, UnreachableError
from kgm.model.snapshot import GroupSnapshot

#: Groups of one part.
PART = 500
_SHARE = 0.5
#: What is known of a group, or why nothing is.
Answer: TypeAlias = GroupSnapshot | KgmError
Describe: TypeAlias = Callable[[Sequence[str]], list[Answer]]


def in_parts(
    cluster: AdminClient, group_ids: Sequence[str], describe: Describe, *, size: int | None = None
) -> Iterator[Answer]:
    """What `describe` answers for each group, in the order of the ids, asked for PART groups, or `size`, at a time.

    The time allowed is for the brokers: what the caller does meanwhile does not count. What could not be read of any
    part is in `cluster.offsets` at the end. Raises what `describe` raises for the first part; of another one that is
    the error of each group."""
    size = PART if size is None else size
    if len(group_ids) <= size:
        yield from describe(group_ids) if group_ids else ()
        return
    offsets = cluster.offsets
    unread_ends, unread_topics = dict(offsets.unread_ends), dict(offsets.unread_topics)
    try:
        for start in range(0, len(group_ids), size):
            answers = _of_part(cluster, group_ids, start, size, describe)
            unread_ends |= offsets.unread_ends
            unread_topics |= offsets.unread_topics
            answers.reverse()
            while answers:  # what the caller has done with is not kept
                since_s = time.monotonic()
                yield answers.pop()
                cluster.deadline = cluster.deadline.later(time.monotonic() - since_s)
    finally:
        cluster.brokers.take_time()
    offsets.unread_ends |= unread_ends
    offsets.unread_topics |= unread_topics


def _of_part(cluster: AdminClient, group_ids: Sequence[str], start: int, size: int, describe: Describe) -> list[Answer]:
    part, whole = group_ids[start : start + size], cluster.deadline
    if start and whole.expired:
        late = f"was not described within the time allowed ({whole.budget_ms} ms)"
        return [UnreachableError(f"group {group_id!r} {late}", group_id=group_id) for group_id in part]
    began_s = time.monotonic()
    cluster.deadline = whole if start + size >= len(group_ids) else whole.part(_SHARE)
    try:
        answers = describe(part)
    except KgmError as error:
        if not start:
            raise
        return [error] * len(part)
    finally:
        cluster.deadline = whole
    offsets = cluster.offsets
    unread = chain(offsets.unread_groups.values(), offsets.unread_ends.values(), offsets.unread_topics.values())
    if any(is_temporary(one) for one in chain(answers, unread) if isinstance(one, KgmError)):
        cluster.brokers.hurry()
    if any(cluster.brokers.has_moved(group_id, began_s) for group_id in part):
        # Else each part would be refused by the broker that listed its groups, and wait for the new one to take over.
        cluster.brokers.forget_coordinators(group_ids[start + size :])
    return answers

"""Answers about many groups, asked for some groups at a time: what one part takes in memory is free for the next.

A broker that does not answer is waited for once, for half of the time that is left. After that kgm is in a hurry
(`Brokers.hurry`): what it cannot get at once is an error of the groups concerned, so that it gets to the others.

What has to be kept of each group until it is asked for again is packed (`KeptGroups`)."""

from __future__ import annotations

import pickle
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from kgm.client.admin_client import AdminClient
from kgm.client.failures import is_temporary
from kgm.model.errors import KgmError, UnreachableError
from kgm.model.snapshot import GroupSnapshot

#: Groups of one part.
PART = 500
_SHARE = 0.5
#: So many groups are kept as they are: what they take is not worth the time.
UNPACKED = 1_000
#: Quick: names of groups and members are much alike.
_LEVEL = 1
#: What is known of a group, or why nothing is.
Answer: TypeAlias = GroupSnapshot | KgmError
Describe: TypeAlias = Callable[[Sequence[str]], list[Answer]]
T = TypeVar("T")


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


class KeptGroups(Generic[T]):
    """A value of each group, in the order in which they came. What goes beyond UNPACKED groups is packed, if it is so
    wanted: a description then takes a twentieth of its memory, and 0.1 ms more.

    Who takes them in the order in which they were put unpacks each part once."""

    def __init__(self, *, is_packed: bool = True) -> None:
        self._is_packed = is_packed
        self._part_of: dict[str, int] = {}
        self._packed: dict[int, bytes] = {}
        self._unpacked: dict[int, dict[str, T]] = {0: {}}
        self._latest = 0

    @property
    def group_ids(self) -> list[str]:
        return [*self._part_of]

    def put(self, group_id: str, value: T) -> None:
        """A group that has none yet."""
        if len(self._unpacked[self._latest]) == PART:
            if self._is_packed and self._latest * PART >= UNPACKED:
                full = pickle.dumps(self._unpacked.pop(self._latest), pickle.HIGHEST_PROTOCOL)
                self._packed[self._latest] = zlib.compress(full, _LEVEL)
            self._latest += 1
            self._unpacked[self._latest] = {}
        self._unpacked[self._latest][group_id] = value
        self._part_of[group_id] = self._latest

    def take(self, group_id: str) -> T | None:
        """The value of a group, which it does not have any more; None if it has none."""
        number = self._part_of.pop(group_id, None)
        if number is None:
            return None
        if number in self._packed:
            self._unpacked[number] = pickle.loads(zlib.decompress(self._packed.pop(number)))  # noqa: S301  (of this process)
        return self._unpacked[number].pop(group_id)

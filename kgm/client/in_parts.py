"""Answers about many groups, requested for some groups at a time, so that the memory of one part is free for the next.

kgm waits once for a broker that does not answer, for half of the time left. After that it is in a hurry
(`Brokers.hurry`): anything it cannot get immediately becomes an error of the groups concerned, so that it gets to the
others.

What has to be kept for each group until it is needed again is packed (`KeptGroups`)."""

from __future__ import annotations

import pickle
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

from kgm.client.admin_client import AdminClient
from kgm.client.failures import is_temporary
from kgm.model.errors import KgmError, UnreachableError
from kgm.model.snapshot import GroupSnapshot

#: Groups per part.
PART = 500
_SHARE = 0.5
#: This many groups are kept unpacked: the memory they take is not worth the time.
UNPACKED = 1_000
#: A fast level: the names of groups and members are much alike.
_LEVEL = 1
#: What is known about a group, or why nothing is.
Answer: TypeAlias = GroupSnapshot | KgmError
Describe: TypeAlias = Callable[[Sequence[str]], list[Answer]]
T = TypeVar("T")


def in_parts(
    cluster: AdminClient, group_ids: Sequence[str], describe: Describe, *, size: int | None = None
) -> Iterator[Answer]:
    """What `describe` answers for each group, in the order of the ids, requested for PART groups (or `size`) at a time.

    The time budget is for the brokers: time that the caller spends in between does not count. What could not be read in
    any part is in `cluster.offsets` at the end. If `describe` raises for the first part, so does this; for a later
    part, the error becomes the answer for each of its groups."""
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
            while answers:  # do not keep what the caller is done with
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
        # Otherwise each part would be refused by the broker that listed its groups, and wait for the new one to take
        # over.
        cluster.brokers.forget_coordinators(group_ids[start + size :])
    return answers


def packed(values: object) -> bytes:
    """Values that are much alike, such as the descriptions of many groups, in a few bytes each."""
    return zlib.compress(pickle.dumps(values, pickle.HIGHEST_PROTOCOL), _LEVEL)


def unpacked(part: bytes) -> Any:
    """What `packed` got, in this process."""
    return pickle.loads(zlib.decompress(part))  # noqa: S301


class KeptGroups(Generic[T]):
    """One value per group, in insertion order. With is_packed, groups beyond the first UNPACKED are packed, PART of
    them (or `size`) together: a description then takes a twentieth of the memory, and 0.1 ms more time.

    Taking one value unpacks its part, whose other values stay unpacked until they are taken."""

    def __init__(self, *, is_packed: bool = True, size: int | None = None) -> None:
        self._is_packed = is_packed
        self._size = PART if size is None else size
        self._part_of: dict[str, int] = {}
        self._packed: dict[int, bytes] = {}
        self._unpacked: dict[int, dict[str, T]] = {0: {}}
        self._latest = 0

    @property
    def group_ids(self) -> list[str]:
        return [*self._part_of]

    def put(self, group_id: str, value: T) -> None:
        """Add the value of a group that has none yet."""
        if len(self._unpacked[self._latest]) == self._size:
            if self._is_packed and self._latest * self._size >= UNPACKED:
                self._packed[self._latest] = packed(self._unpacked.pop(self._latest))
            self._latest += 1
            self._unpacked[self._latest] = {}
        self._unpacked[self._latest][group_id] = value
        self._part_of[group_id] = self._latest

    def take(self, group_id: str) -> T | None:
        """Remove and return the value of a group; None if it has none."""
        number = self._part_of.pop(group_id, None)
        if number is None:
            return None
        if number in self._packed:
            self._unpacked[number] = unpacked(self._packed.pop(number))
        return self._unpacked[number].pop(group_id)

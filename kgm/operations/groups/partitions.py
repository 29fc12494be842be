"""Partitions across groups: who owns them, how far behind they are, and which of them no member owns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge
from typing import Any, Final, NamedTuple, Protocol

from kgm.client import AdminClient
from kgm.clients.subscribed_topics import subscribed_topics
from kgm.model.errors import AuthorizationError, ErrorCode, KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.text.names import closest, natural, places_of

#: Rows that are sorted and packed as one run; the memory that fewer take is not worth the time.
_RUN: Final = 20_000
#: Rows of a run that are unpacked together.
_PART: Final = 250


class HasLag(Protocol):
    """A group, a member or a partition. lag: in records; lag_ms: in time, in ms. None if not known."""

    @property
    def lag(self) -> int | None: ...

    @property
    def lag_ms(self) -> int | None: ...


class PartitionOrder(StrEnum):
    """What partitions are sorted by: names alphabetically, numbers in descending order, unknown values last."""

    NAME = "name"
    LAG = "lag"
    LAG_TIME = "lag-time"

    def place(self, one: HasLag) -> tuple[bool, int]:
        """The part of the sort key that precedes the name."""
        match self:
            case PartitionOrder.LAG:
                value = one.lag
            case PartitionOrder.LAG_TIME:
                value = one.lag_ms
            case _:
                value = 0
        return value is None, -(value or 0)

    def members(self, group: GroupSnapshot) -> list[MemberSnapshot]:
        """The members of a group in this order."""
        return sorted(group.members, key=lambda member: (*self.place(member), natural(member.identity)))

    def offsets(self, group: GroupSnapshot) -> list[OffsetSnapshot]:
        """The offsets of a group in this order."""
        topics = places_of(row.topic for row in group.offsets)
        return sorted(group.offsets, key=lambda row: (*self.place(row), topics[row.topic], row.partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """Which partitions are selected: those of these topics, with these numbers (empty means all). only_lagging: those
    whose lag is not 0, including unknown lag. unowned: those that no member owns, or whose owner is unknown."""

    topics: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    only_lagging: bool = False
    unowned: bool = False

    def takes(self, row: PartitionRow) -> bool:
        offset = row.offset
        return (
            (not self.topics or offset.topic in self.topics)
            and (not self.numbers or offset.partition in self.numbers)
            and not (self.only_lagging and offset.known_lag == 0)
            and not (self.unowned and row.has_owner)
        )


class PartitionOwner(NamedTuple):
    """What is shown of a partition's owner next to the partition."""

    identity: str
    client_id: str
    client_host: str


class PartitionRow(NamedTuple):
    """A partition from the point of view of one group. owner: the member that owns it; has_owner: None if that is not
    known, for instance while a classic group rebalances."""

    group_id: str
    offset: OffsetSnapshot
    owner: PartitionOwner | None
    has_owner: bool | None


def partition_rows(group: GroupSnapshot, wanted: PartitionFilter) -> list[PartitionRow]:
    """A row for each partition that the group owns, has a committed offset for, or subscribes to by topic name."""
    return [row for row in _rows(group) if wanted.takes(row)]


class PartitionRows:
    """Rows of groups in an order, in which they can be iterated any number of times. group_ids: of all the groups, in
    natural order.

    Of many rows, all but the latest are packed, in sorted runs that are merged when they are iterated: a row then takes
    a tenth of the memory, and a few microseconds more time."""

    def __init__(self, order: PartitionOrder, group_ids: Iterable[str]) -> None:
        self._order = order
        self._groups = {group_id: place for place, group_id in enumerate(group_ids)}
        self._topics: set[str] = set()
        self._runs: list[list[bytes]] = []
        self._latest: list[PartitionRow] = []
        self._count = 0

    def add(self, rows: Iterable[PartitionRow]) -> None:
        before = len(self._latest)
        self._latest += rows
        self._count += len(self._latest) - before
        if len(self._latest) >= _RUN:
            self._pack()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PartitionRow]:
        key = self._key(self._topics | {row.offset.topic for row in self._latest})
        self._latest.sort(key=key)
        return merge(*map(_unpacked_run, self._runs), self._latest, key=key) if self._runs else iter(self._latest)

    def _pack(self) -> None:
        from kgm.client.in_parts import packed

        topics = {row.offset.topic for row in self._latest}
        self._latest.sort(key=self._key(topics))
        self._topics |= topics
        # Tuples take a fraction of the time that named ones take.
        plain = [
            (row.group_id, tuple(row.offset), None if row.owner is None else tuple(row.owner), row.has_owner)
            for row in self._latest
        ]
        self._runs.append([packed(plain[at : at + _PART]) for at in range(0, len(plain), _PART)])
        self._latest = []

    def _key(self, names: Iterable[str]) -> Callable[[PartitionRow], tuple[Any, ...]]:
        """The sort key of rows of these topics."""
        topics, groups, place = places_of(names), self._groups, self._order.place

        def key(row: PartitionRow) -> tuple[Any, ...]:
            offset = row.offset
            return *place(offset), topics[offset.topic], offset.partition, groups[row.group_id]

        return key


def _unpacked_run(parts: Iterable[bytes]) -> Iterator[PartitionRow]:
    from kgm.client.in_parts import unpacked

    for part in parts:
        for group_id, offset, owner, has_owner in unpacked(part):
            known = None if owner is None else PartitionOwner._make(owner)
            yield PartitionRow(group_id, OffsetSnapshot._make(offset), known, has_owner)


def _rows(group: GroupSnapshot) -> Iterator[PartitionRow]:
    from kgm.model.changes import knows_owners  # slow to import, and most descriptions do not need it

    owners = {one.member_id: PartitionOwner(one.identity, one.client_id, one.client_host) for one in group.members}
    is_known = knows_owners(group) and all(member.is_readable for member in group.members)
    subscribed = subscribed_topics(group.members, group.topics)
    places = {(row.topic, row.partition) for row in group.offsets}
    unread = [
        OffsetSnapshot(topic.name, number, None, None, None, None, None)
        for topic in group.topics
        if topic.name in subscribed
        for number in range(topic.partitions)
        if (topic.name, number) not in places
    ]
    for offset in (*group.offsets, *unread):
        owner = None if offset.member_id is None else owners.get(offset.member_id)
        has_owner = True if owner is not None else False if is_known else None
        yield PartitionRow(group_id=group.group_id, offset=offset, owner=owner, has_owner=has_owner)


def absent_partitions(cluster: AdminClient, wanted: PartitionFilter) -> list[KgmError]:
    """An error for each requested topic or partition that does not exist or is not visible to this login.

    Raises KgmError if the cluster cannot be asked."""
    errors: list[KgmError] = []
    for row in cluster.brokers.metadata(wanted.topics, cluster.deadline).topics if wanted.topics else ():
        name, count = row.name or "", len(row.partitions)
        if row.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            errors.append(_missing_topic(cluster, name))
        elif row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            facts = (f"the principal needs DESCRIBE on Topic {name!r}",)
            errors.append(AuthorizationError(f"topic {name!r} cannot be described", facts=facts))
        elif missing := [number for number in wanted.numbers if count and number >= count]:
            facts = (f"it has {count}: 0 to {count - 1}",)
            errors.append(NotFoundError(f"topic {name!r} has no partition {missing[0]}", facts=facts))
    return errors


def _missing_topic(cluster: AdminClient, name: str) -> NotFoundError:
    meant = None
    try:
        known: Sequence[str] = [row.name for row in cluster.brokers.metadata(None, cluster.deadline).topics if row.name]
        meant = closest(name, known)
    except KgmError:
        pass  # only the suggestion is lost
    facts = () if meant in (None, name) else (f"did you mean {meant!r}?",)
    return NotFoundError(f"topic {name!r} does not exist", facts=facts)

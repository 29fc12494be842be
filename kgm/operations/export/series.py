"""The series of groups, built from each group as it arrives, so that the groups themselves need not be kept.

Unknown values are missing, never 0 or -1. Dynamic members have no label of their own, because their ids change with
every restart: their partitions have only the label `client_id`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kgm.client.in_parts import packed, unpacked
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.text.names import in_order, natural
from kgm.text.sanitize import clean

#: Kafka's limit for topic names; group, instance and client ids are limited only by the request size.
_LONGEST_LABEL: Final = 249
_GROUP: Final = ("group",)
_SECONDS: Final = "seconds"
#: Rows that are packed together.
_PART: Final = 2_000
Row: TypeAlias = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedGroup:
    """A group as it is now. rebalances, handovers: counted since this collector first saw it."""

    snapshot: GroupSnapshot
    rebalances: int
    handovers: int


class PackedRows:
    """Rows in the order in which they were added, packed: a row takes 20 to 50 bytes instead of several hundred, and a
    microsecond or two more time."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._latest: list[Row] = []

    def append(self, row: Row) -> None:
        self._latest.append(row)
        if len(self._latest) == _PART:
            self._packed.append(packed(self._latest))
            self._latest = []

    def __iter__(self) -> Iterator[Row]:
        for part in self._packed:
            yield from unpacked(part)
        yield from self._latest


@dataclass(slots=True)
class SeriesFamily:
    """One metric. rows: (label values, value) of each series. is_cut: there are too many, and only their number is
    kept."""

    name: str
    help: str
    labels: tuple[str, ...]
    is_counter: bool = False
    unit: str = ""
    count: int = 0
    rows: PackedRows = field(default_factory=PackedRows)
    is_cut: bool = False

    def add(self, value: float, *labels: str) -> None:
        self.count += 1
        if not self.is_cut:
            self.rows.append((labels, value))

    def cut(self) -> None:
        """Drop the rows, and only count from now on."""
        self.is_cut, self.rows = True, PackedRows()


class GroupSeries:
    """All metrics of groups. most: the maximum number of series in one exposition, and kept for it; beyond that, the
    metrics that no longer fit are cut, the most detailed first. has_times: whether lag in time was requested."""

    def __init__(self, *, most: int, has_times: bool = False) -> None:
        self.group_ids: list[str] = []
        self.most, self._has_times = most, has_times
        family = self._family
        self._state = family("kgm_group_state", "1 for the state that the group is in.", "state")
        self._kind = family("kgm_group_type", "1 for the type of the group.", "type")
        self._members = family("kgm_group_members", "Members by status.", "status")
        self._static = family("kgm_group_static_members", "Members with a group.instance.id.")
        self._generation = family(
            "kgm_group_generation", "Generation of a classic group; assignment epoch of a consumer group."
        )
        self.rebalances = family(
            "kgm_group_rebalances",
            "Completed rebalances since the exporter first saw the group; of a consumer group, target assignments.",
            is_counter=True,
        )
        self.handovers = family(
            "kgm_group_handovers",
            "Partitions that passed from one member to another since the exporter first saw the group; those between "
            "two collections may be missed unless the exporter may read __consumer_offsets.",
            is_counter=True,
        )
        self._lag = family("kgm_group_lag", "Records that are not committed.")
        self._partial = family(
            "kgm_group_lag_partial",
            "1 if the group may also have lag in topics without DESCRIBE, which brokers leave out.",
        )
        self._topic_lag = family("kgm_group_topic_lag", "Records that are not committed, by topic.", "topic")
        self._member_lag = family(
            "kgm_member_lag", "Records that are not committed, by the member that owns the partition.",
            "group_instance_id", "client_id",
        )  # fmt: skip
        self._partition_lag = family(
            "kgm_partition_lag", "Records that are not committed, by partition, with its owner.", "topic", "partition",
            "group_instance_id", "client_id",
        )  # fmt: skip
        self._lost = family(
            "kgm_group_lost_records", "Records after the committed offset that retention has deleted.", "topic"
        )
        self._seconds = family(
            "kgm_group_lag_seconds",
            "Age of the group's oldest record that is not committed; missing if that of any partition is not known.",
            unit=_SECONDS,
        )
        self._partition_seconds = family(
            "kgm_partition_lag_seconds", "Age of the first record that is not committed.", "topic", "partition",
            unit=_SECONDS,
        )  # fmt: skip

    def _family(
        self, name: str, text: str, *labels: str, is_counter: bool = False, unit: str = ""
    ) -> SeriesFamily:  # fmt: skip
        return SeriesFamily(name, text, (*_GROUP, *labels), is_counter=is_counter, unit=unit)

    def __iter__(self) -> Iterator[SeriesFamily]:
        """From the least to the most detailed, so that the most detailed are left out first."""
        yield from (self._state, self._kind, self._members, self._static, self._generation)
        yield from (self.rebalances, self.handovers)
        yield from (self._lag, self._partial, self._topic_lag, self._member_lag, self._partition_lag, self._lost)
        if self._has_times:
            yield from (self._seconds, self._partition_seconds)

    def add(self, row: ExportedGroup) -> None:
        """Add the series of one group."""
        snapshot, name = row.snapshot, label(row.snapshot.group_id)
        self.group_ids.append(snapshot.group_id)
        self._state.add(1, name, snapshot.state)
        self._kind.add(1, name, snapshot.type)
        for status, count in sorted(Counter(member.status for member in snapshot.members).items()):
            self._members.add(count, name, status)
        self._static.add(snapshot.static_members, name)
        number = snapshot.generation if snapshot.type == "classic" else snapshot.assignment_epoch
        if number is not None:
            self._generation.add(number, name)
        self.rebalances.add(row.rebalances, name)
        self.handovers.add(row.handovers, name)
        self._add_lag(snapshot, name)
        if self._has_times:
            self._add_lag_times(snapshot, name)
        left = self.most
        for family in self:
            if not family.is_cut and family.count > left:
                family.cut()
            left -= 0 if family.is_cut else family.count

    def _add_lag(self, snapshot: GroupSnapshot, name: str) -> None:
        """Add the lag of the group, its topics, its members and its partitions."""
        if snapshot.lag is not None:
            self._lag.add(snapshot.lag, name)
            if snapshot.may_lack_offsets:
                self._partial.add(1, name)
        by_id = {member.member_id: member for member in snapshot.members}
        topics: Counter[str] = Counter()
        members: Counter[tuple[str, str]] = Counter()
        for offset in snapshot.offsets:
            if offset.lag is None:
                continue
            owner = _owner(by_id, offset.member_id)
            topics[offset.topic] += offset.lag
            if offset.member_id is not None:
                members[owner] += offset.lag
            self._partition_lag.add(offset.lag, name, label(offset.topic), str(offset.partition), *owner)
        losses: Counter[str] = Counter()
        for (topic, _partition), number in snapshot.lost.items():
            losses[topic] += number
        for topic in in_order(losses):
            self._lost.add(losses[topic], name, label(topic))
        for topic in in_order(topics):
            self._topic_lag.add(topics[topic], name, label(topic))
        for owner in sorted(members, key=lambda owner: [*map(natural, owner)]):
            self._member_lag.add(members[owner], name, *owner)

    def _add_lag_times(self, snapshot: GroupSnapshot, name: str) -> None:
        """Add how far behind the group and its partitions are in time."""
        if snapshot.lag_ms is not None:
            self._seconds.add(snapshot.lag_ms / 1000, name)
        for offset in snapshot.offsets:
            if offset.known_lag_ms is not None:
                seconds = offset.known_lag_ms / 1000
                self._partition_seconds.add(seconds, name, label(offset.topic), str(offset.partition))


def _owner(members: Mapping[str, MemberSnapshot], member_id: str | None) -> tuple[str, str]:
    """(group instance id, client id) of the member; empty strings where there is none."""
    member = None if member_id is None else members.get(member_id)
    return ("", "") if member is None else (label(member.group_instance_id), label(member.client_id))


def label(text: str | None) -> str:
    """A string from the cluster as a label value: on one line, without characters that a terminal interprets, of
    limited length. A changed string gets part of its hash as a suffix, because two series with the same labels would
    break the scrape."""
    shown = clean(text or "")
    if shown == (text or "") and len(shown) <= _LONGEST_LABEL:
        return shown
    return f"{shown[:_LONGEST_LABEL]}~{hashlib.sha256((text or '').encode()).hexdigest()[:8]}"

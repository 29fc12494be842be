"""What a request names, and what forbids its deletion no matter what the operator says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kgm.client.requests import Offsets
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.deletion.idleness import committed_of
from kgm.operations.deletion.request import DeletionRequest
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.text.names import in_order
from kgm.text.wording import many, some

#: Kafka's tools for group types that take more than DeleteGroups to delete.
_TOOLS: Final = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}
_EMPTY: Final = "Empty"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeletionTarget:
    """A group, or its committed offsets for one topic. offsets: the ones that would be deleted. group: None if it does
    not exist. impediment: what forbids the deletion; None if nothing does. Equal only to itself."""

    group_id: str
    topic: str | None = None
    group: GroupSnapshot | None = None
    offsets: Offsets = field(default_factory=dict)
    impediment: str | None = None

    @property
    def id(self) -> str:
        return self.group_id if self.topic is None else f"{self.group_id}:{self.topic}"

    @property
    def is_there(self) -> bool:
        return self.group is not None and (self.topic is None or bool(self.offsets))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The offsets as JSON."""
        return [
            {"topic": topic, "partition": partition, "committed": offset}
            for (topic, partition), offset in sorted(self.offsets.items())
        ]

    @property
    def partitions(self) -> dict[str, list[int]]:
        """The partitions with an offset that would be deleted, by topic."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.offsets):
            by_topic.setdefault(topic, []).append(partition)
        return by_topic


def targets_of(
    request: DeletionRequest, group_ids: Sequence[str], groups: Mapping[str, GroupSnapshot]
) -> list[DeletionTarget]:
    """The targets that the request names, in its order."""
    targets = []
    for group_id in group_ids:
        group = groups.get(group_id)
        if group is None:
            targets += [DeletionTarget(group_id=group_id, topic=topic) for topic in request.topics or (None,)]
        elif not request.is_of_offsets:
            targets.append(
                DeletionTarget(
                    group_id=group_id, group=group, offsets=committed_of(group), impediment=group_impediment(group)
                )
            )
        else:
            targets += [
                DeletionTarget(
                    group_id=group_id, topic=topic, group=group,
                    offsets={} if topic is None else committed_of(group, topic),
                    impediment=offsets_impediment(group, topic),
                )
                for topic in request.topics or _stale_topics(group)
            ]  # fmt: skip
    return targets


def _stale_topics(group: GroupSnapshot) -> list[str | None]:
    """Topics with committed offsets to which no member subscribes; [None] if that is not known."""
    if _unknown_subscription(group) is not None or not group.members:
        return [None]
    return [topic for topic in in_order({row.topic for row in group.offsets if row.committed is not None})
            if topic not in _read_topics(group)]  # fmt: skip


def group_impediment(group: GroupSnapshot) -> str | None:
    """Why the group may not be deleted; None if it may."""
    if (why := _type_impediment(group)) is not None:
        return why
    if group.members:
        names = some(in_order(one.identity for one in group.members))
        return f"it has {many(len(group.members), 'member')}: {names}"
    return None if group.state == _EMPTY else f"its state is {group.state}, not {_EMPTY}"


def offsets_impediment(group: GroupSnapshot, topic: str | None) -> str | None:
    """Why the group's committed offsets for a topic may not be deleted. topic: None if it is not known which topic."""
    if (why := _type_impediment(group)) is not None:
        return why
    if topic is None and not group.members:
        return "it has no members that say which topics they read: name one with --topic, or delete the group"
    if (why := _unknown_subscription(group)) is not None:
        return why
    if topic in _read_topics(group):
        return f"a member subscribes to topic {topic}"
    if topic in group.deleted_topics:
        return f"topic {topic} does not exist: Kafka does not delete its offsets on request; they expire"
    return None


def _type_impediment(group: GroupSnapshot) -> str | None:
    """Why a group of this type may not be deleted: it has more than members and committed offsets."""
    if group.type in _TOOLS:
        return (
            f"it is a {group.type} group: {_TOOLS[group.type]} --delete --group {group.group_id} also deletes what it "
            "has beyond committed offsets"
        )
    if group.type not in ("classic", "consumer"):
        return f"it is a {group.type} group, which kgm does not know"
    if group.type == "classic" and group.protocol_type not in (None, "", PROTOCOL_TYPE):
        return f"it is a group of protocol type {group.protocol_type!r}, not of consumers"
    return None


def _unknown_subscription(group: GroupSnapshot) -> str | None:
    """Why it is not known to which topics the members subscribe; None if it is known."""
    if any(one.regex for one in group.members):
        return "a member subscribes by a pattern"
    if group.members and not group.names_topics:
        return f"it is not known to which topics its members subscribe: its state is {group.state}"
    return None


def _read_topics(group: GroupSnapshot) -> set[str]:
    return {topic for one in group.members for topic in (*one.known_topics, *one.assignment)}

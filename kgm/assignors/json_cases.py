"""Groups to assign, as JSON: either a case in the input format of `kgm assign`, or a group as printed by `kgm
describe`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec

from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec, refuse_too_many_partitions
from kgm.assignors.server.broker_view import as_the_broker_sees
from kgm.assignors.unsupported_groups import refuse_unsupported
from kgm.java.re2j import compiled
from kgm.model.assignment import Partitions
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.snapshot_json import snapshot_from_json, snapshots_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentCase:
    """A group and the assignor to run on it. case: a value that identifies the case, and is echoed."""

    case: Any
    assignor: str
    group: GroupSpec


def cases_from_json(data: Any, assignor: str | None = None) -> list[AssignmentCase]:
    """Read a JSON value: a case, a group from a snapshot, or the whole output of `kgm describe -o json`.

    assignor: overrides the assignor in the JSON. Raises UsageError, which names the invalid key, and RefusedError for a
    group whose assignment cannot be predicted."""
    if not isinstance(data, Mapping):
        raise UsageError("not a JSON object")
    inner = data.get("data")
    if isinstance(inner, Mapping) and isinstance(inner.get("groups"), list):
        snapshots = snapshots_from_json(inner["groups"], data.get("schema"))
        return [_snapshot_case(snapshot, assignor) for snapshot in snapshots]
    if "group_id" in data and "case" not in data:
        return [_snapshot_case(snapshot_from_json(data), assignor)]
    return [_case(data, assignor)]


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Topic(msgspec.Struct):
    name: str
    partitions: _Count
    racks: list[list[str | None]] | None = None


class _Member(msgspec.Struct):
    member_id: str
    topics: list[str]
    group_instance_id: str | None = None
    rack: str | None = None
    owned: dict[str, list[_Count]] | None = None
    generation: Annotated[int, msgspec.Meta(ge=-1)] | None = None


class _Case(msgspec.Struct):
    topics: list[_Topic]
    members: list[_Member]
    assignor: str | None = None
    leader: str | None = None
    case: Any = None


def _case(data: Mapping[str, Any], assignor: str | None) -> AssignmentCase:
    try:
        read = msgspec.convert(data, _Case)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None
    except UnicodeEncodeError:  # msgspec encodes a string found where a list should be
        raise UsageError("a string has half of a surrogate pair, which is not a character") from None
    name = assignor or read.assignor
    if name is None:
        raise UsageError("assignor is missing")
    topics = tuple(
        TopicSpec(
            name=one.name,
            partitions=one.partitions,
            racks=None
            if one.racks is None
            else tuple(tuple(rack for rack in there if rack is not None) for there in one.racks),
        )
        for one in read.topics
    )
    refuse_too_many_partitions(topics)
    members = tuple(
        MemberSpec(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            rack=one.rack,
            topics=tuple(dict.fromkeys(one.topics)),
            owned=one.owned or {},
            generation=one.generation,
        )
        for one in read.members
    )
    return AssignmentCase(
        case=read.case, assignor=name, group=GroupSpec(members=members, topics=topics, leader=read.leader)
    )


def _snapshot_case(snapshot: GroupSnapshot, assignor: str | None) -> AssignmentCase:
    refuse_unsupported(snapshot)
    name = assignor or snapshot.assignor
    if name is None:
        raise UsageError(f"group {snapshot.group_id} has no assignor", hint="name one: --assignor NAME")
    if snapshot.type == "consumer" and not name.startswith("consumer-"):
        name = f"consumer-{name}"
    return AssignmentCase(case=snapshot.group_id, assignor=name, group=group_of(snapshot))


def group_of(snapshot: GroupSnapshot) -> GroupSpec:
    """A described group as its assignor sees it: every member claims its current assignment, at the current
    generation."""
    topics = tuple(TopicSpec(name=topic.name, partitions=topic.partitions) for topic in snapshot.topics)
    refuse_too_many_partitions(topics)
    names = [topic.name for topic in topics]
    members = tuple(
        MemberSpec(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            rack=member.rack,
            topics=subscribed_topics(member, names),
            owned=_owned(member),
            generation=snapshot.generation,
        )
        for member in snapshot.in_listed_order().members
    )
    if snapshot.type != "consumer":
        return GroupSpec(members=members, topics=topics, leader=snapshot.leader)
    ids = {topic.name: topic.topic_id for topic in snapshot.topics if topic.topic_id is not None}
    is_listed = all(member.listed_target is not None for member in snapshot.members)
    is_homogeneous = len({frozenset(member.topics) for member in members}) == 1
    return as_the_broker_sees(members, topics, ids, is_homogeneous=is_homogeneous, is_listed=is_listed)


def _owned(member: MemberSnapshot) -> Partitions:
    if member.listed_target is not None:
        return member.listed_target
    return member.assignment if member.target_assignment is None else member.target_assignment


def subscribed_topics(member: MemberSnapshot, names: Sequence[str]) -> tuple[str, ...]:
    """The known topics that a member subscribes to, by name or through its regular expression.

    Raises UsageError for an expression that brokers do not accept."""
    wanted = dict.fromkeys(name for name in member.known_topics if name in names)
    if member.regex:
        pattern = compiled(member.regex)
        if pattern is None:
            raise UsageError(
                f"member {member.member_id} subscribes to {member.regex!r}, which is not a valid regular expression",
                facts=("Kafka's brokers use RE2/J syntax: no look-around and no back references",),
            )
        wanted.update(dict.fromkeys(name for name in names if pattern.fullmatch(name)))
    return tuple(wanted)

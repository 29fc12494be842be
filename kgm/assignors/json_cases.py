"""Groups to assign, as JSON: a case as `kgm assign` reads it, or a group as `kgm describe` prints it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec, refuse_too_many_partitions
from kgm.assignors.server.broker_view import as_the_broker_sees
from kgm.assignors.unsupported_groups import refuse_unsupported
from kgm.java.re2j import compiled
from kgm.model.assignment import Partitions
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.snapshot_json import snapshot_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentCase:
    """A group and the assignor to run on it. case: the value that names it, which is echoed."""

    case: Any
    assignor: str
    group: GroupSpec


def cases_from_json(data: Any, assignor: str | None = None) -> list[AssignmentCase]:
    """Read a JSON value: a case, a group of a snapshot, or the whole output of `kgm describe -o json`.

    assignor: overrides the assignor in the JSON. Raises UsageError, which names the wrong key, and RefusedError for a
    group whose assignment cannot be predicted."""
    if not isinstance(data, Mapping):
        raise UsageError("not a JSON object")
    inner = data.get("data")
    if isinstance(inner, Mapping) and isinstance(inner.get("groups"), list):
        return [_snapshot_case(snapshot_from_json(group), assignor) for group in inner["groups"]]
    if "group_id" in data and "case" not in data:
        return [_snapshot_case(snapshot_from_json(data), assignor)]
    return [_case(data, assignor)]


def _case(data: Mapping[str, Any], assignor: str | None) -> AssignmentCase:
    topics = tuple(
        _topic(_object(item, f"topics[{i}]"), f"topics[{i}]") for i, item in enumerate(_list(data, "topics"))
    )
    members = tuple(
        _member(_object(item, f"members[{i}]"), f"members[{i}]") for i, item in enumerate(_list(data, "members"))
    )
    refuse_too_many_partitions(topics)
    return AssignmentCase(
        case=data.get("case"),
        assignor=assignor or _text(data, "assignor"),
        group=GroupSpec(members=members, topics=topics, leader=_text_or_none(data, "leader", "")),
    )


def _topic(data: Mapping[str, Any], where: str) -> TopicSpec:
    partitions = data.get("partitions")
    if not _is_count(partitions):
        raise UsageError(f"{where}.partitions is {_wrong(partitions, 'a number from 0 on')}")
    racks = data.get("racks")
    if racks is not None and not (
        isinstance(racks, list)
        and all(isinstance(there, list) and all(isinstance(rack, str | None) for rack in there) for there in racks)
    ):
        raise UsageError(f"{where}.racks is not a list of lists of names, one for each partition")
    return TopicSpec(
        name=_text(data, "name", where),
        partitions=partitions,
        racks=None if racks is None else tuple(tuple(rack for rack in there if rack is not None) for there in racks),
    )


def _member(data: Mapping[str, Any], where: str) -> MemberSpec:
    topics = _list(data, "topics", where)
    if not all(isinstance(name, str) for name in topics):
        raise UsageError(f"{where}.topics is not a list of names")
    owned = data.get("owned")
    if owned is None:
        owned = {}
    for name, partitions in _object(owned, f"{where}.owned").items():
        if not isinstance(partitions, list) or not all(_is_count(partition) for partition in partitions):
            raise UsageError(f"{where}.owned.{name} is not a list of partitions")
    generation = data.get("generation")
    if generation is not None and not (type(generation) is int and generation >= -1):
        raise UsageError(f"{where}.generation is {_wrong(generation, 'a number')}")
    return MemberSpec(
        member_id=_text(data, "member_id", where),
        group_instance_id=_text_or_none(data, "group_instance_id", where),
        rack=_text_or_none(data, "rack", where),
        topics=tuple(dict.fromkeys(topics)),
        owned=owned,
        generation=generation,
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
    """A described group as its assignor sees it: every member claims its assignment, at the current generation."""
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
    """The known topics that a member subscribes to, by name or by its regular expression.

    Raises UsageError for an expression that brokers do not accept."""
    wanted = dict.fromkeys(name for name in member.known_topics if name in names)
    if member.regex:
        pattern = compiled(member.regex)
        if pattern is None:
            raise UsageError(
                f"member {member.member_id} subscribes to {member.regex!r}, which is not a valid regular expression",
                facts=("Kafka's brokers take the syntax of RE2/J: no look-around and no back references",),
            )
        wanted.update(dict.fromkeys(name for name in names if pattern.fullmatch(name)))
    return tuple(wanted)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} is {_wrong(value, 'a JSON object')}")
    return value


def _list(data: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise UsageError(f"{_at(where, key)} is {_wrong(value, 'a list')}")
    return value


def _text(data: Mapping[str, Any], key: str, where: str = "") -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise UsageError(f"{_at(where, key)} is {_wrong(value, 'a text')}")
    return value


def _text_or_none(data: Mapping[str, Any], key: str, where: str) -> str | None:
    return None if data.get(key) is None else _text(data, key, where)


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _wrong(value: Any, wanted: str) -> str:
    return "missing" if value is None else f"not {wanted}"


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0

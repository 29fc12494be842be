"""Reads snapshots of groups from JSON: files may be handwritten or come from elsewhere, so everything is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kgm.model.assignment import Partitions
from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import CONFIDENCES, UNKNOWN, ClientLibrary, stated_library
from kgm.model.errors import UsageError
from kgm.model.forms.snapshot_form import COORDINATOR, OFFSET, USER_DATA
from kgm.model.snapshot import (
    GROUP_TYPES,
    CoordinatorNode,
    GroupSnapshot,
    MemberSnapshot,
    OffsetSnapshot,
    TopicSnapshot,
)
from kgm.model.snapshot_contradictions import refuse_contradictions
from kgm.model.uuids import uuid_of
from kgm.model.work import LIST_KEYS, NUMBER_KEYS, TEXT_KEYS, MemberWork, UserData

DEMO_SCHEMA: Final = "kgm.demo/v1"


def snapshot_from_json(data: Any) -> GroupSnapshot:
    """Read one group of `data.groups[]`. Raises UsageError, which names the invalid key."""
    group = _Reader(data, "group")
    coordinator = group.get("coordinator", (dict,), optional=True)
    members = tuple(_member(item, i) for i, item in enumerate(group.array("members")))
    _check_unique("members", "member_id", [member.member_id for member in members])
    instance_ids = [one.group_instance_id for one in members if one.group_instance_id is not None]
    _check_unique("members", "group_instance_id", instance_ids)
    versions = group.names("kafka_versions")
    snapshot = GroupSnapshot(
        group_id=group.text("group_id"),
        type=group.choice("type", GROUP_TYPES),
        state=group.text("state"),
        protocol_type=group.get("protocol_type", (str,), optional=True),
        assignor=group.get("assignor", (str,), optional=True),
        coordinator=None
        if coordinator is None
        else CoordinatorNode(**_Reader(coordinator, "group.coordinator").values(COORDINATOR)),
        generation=group.number("generation", most=_MOST_EPOCHS),
        group_epoch=group.number("group_epoch", most=_MOST_EPOCHS),
        assignment_epoch=group.number("assignment_epoch", most=_MOST_EPOCHS),
        session_timeout_ms=group.number("session_timeout_ms"),
        rebalance_timeout_ms=group.number("rebalance_timeout_ms"),
        # In the order of a live snapshot, whatever the order of the file: `listed_at` has the broker's.
        topics=tuple(
            sorted((_topic(item, i) for i, item in enumerate(group.array("topics"))), key=lambda one: one.name)
        ),
        members=tuple(sorted(members, key=lambda member: member.identity)),
        # A group without them was described without offsets, as in a journal: nothing is known about them.
        offsets=tuple(_offset(item, i) for i, item in enumerate(group.get("offsets", (list,), optional=True) or ())),
        kafka_versions=None if versions is None else tuple(map(BrokerVersion.parse, versions)),
        leader=group.get("leader", (str,), optional=True),
        leader_library=_library(group, "leader_library"),
        deleted_topics=group.names("deleted_topics") or (),
        may_lack_offsets=group.get("may_lack_offsets", (bool,), optional=True) is True,
        hidden_offset_topics=group.names("hidden_offset_topics") or (),
        next_rebalance_at=group.get("next_rebalance_at", (str,), optional=True),
        is_settled=group.get("is_settled", (bool,), optional=True),
        rebalance_delay_ms=group.get("rebalance_delay_ms", (int,), optional=True),
        unassigned_until=group.get("unassigned_until", (str,), optional=True),
        topology_epoch=group.number("topology_epoch"),
        earlier_assignors=group.names("earlier_assignors"),
    )
    refuse_contradictions(snapshot)
    return snapshot


def snapshots_from_json(groups: Iterable[Any], schema: Any = None) -> list[GroupSnapshot]:
    """Read `data.groups` of a document with this schema, None if it has none. Raises UsageError, which names the
    invalid key, also if a group occurs twice, because it is not known which one holds."""
    snapshots = [snapshot_from_json(each) for each in groups]
    if schema == DEMO_SCHEMA:  # it has its group after every step: what holds is how the demo left it
        return [*{snapshot.group_id: snapshot for snapshot in snapshots}.values()]
    _check_unique("groups", "group_id", [snapshot.group_id for snapshot in snapshots])
    return snapshots


def _check_unique(where: str, key: str, names: list[str]) -> None:
    """Raises UsageError if entries of a list share a value that must be unique to one of them."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise UsageError(f"{where}: {key} {twice!r} occurs twice")


_INT32 = 2**31 - 1
#: An epoch above this could overflow an int32 while a plan is played.
_MOST_EPOCHS = _INT32 - 2**20


class _Reader:
    """One JSON object and its path, which errors name."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise UsageError(f"{where} is not a JSON object")
        self.data, self.where = data, where

    def get(self, key: str, kinds: tuple[type, ...], *, optional: bool = False) -> Any:
        value = self.data.get(key)
        if value is None and optional:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise UsageError(f"{self.where}.{key} is {'missing' if value is None else 'not ' + wanted}")
        if isinstance(value, str):
            _check_text(value, f"{self.where}.{key}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise UsageError(f"{self.where}.{key} has more than 64 bits")
        return value

    def values(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The texts and numbers of a form without other values, by key."""
        kinds = {"str": (str,), "int": (int,)}
        return {key: self.get(key, kinds[word.rstrip("?")], optional=word.endswith("?")) for key, word in form.items()}

    def number(self, key: str, *, most: int = _INT32) -> int | None:
        """A number that is an int32 in Kafka; None if it is missing."""
        value: int | None = self.get(key, (int,), optional=True)
        if value is not None and not -_INT32 - 1 <= value <= most:
            raise UsageError(f"{self.where}.{key} is {value}, which is more than Kafka can count")
        return value

    def text(self, key: str) -> str:
        value: str = self.get(key, (str,))
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise UsageError(f"{self.where}.{key} is {value!r}; it can be {', '.join(allowed)}")
        return value

    def array(self, key: str) -> list[Any]:
        """A list that every version of kgm writes: if it is missing, what it would have is unknown, and not nothing."""
        value: list[Any] = self.get(key, (list,))
        return value

    def names(self, key: str) -> tuple[str, ...] | None:
        value = self.get(key, (list,), optional=True)
        if value is None:
            return None
        if not all(isinstance(name, str) for name in value):
            raise UsageError(f"{self.where}.{key} is not a list of names")
        for name in value:
            _check_text(name, f"{self.where}.{key}")
        return tuple(value)

    def partitions(self, key: str) -> Partitions:
        """Partitions by topic, which every version of kgm writes."""
        value = self.get(key, (dict,))
        for topic in value:
            _check_text(topic, f"{self.where}.{key}")
        return {topic: tuple(sorted({*_numbers(some, f"{self.where}.{key}.{topic}")})) for topic, some in value.items()}

    def listed(self, key: str) -> Partitions | None:
        """Partitions by topic, both in the order in which the file lists them."""
        value = self.get(key, (list,), optional=True)
        if value is None:
            return None
        rows = [_Reader(row, f"{self.where}.{key}[{number}]") for number, row in enumerate(value)]
        return {
            row.text("topic"): tuple(dict.fromkeys(_numbers(row.array("partitions"), f"{row.where}.partitions")))
            for row in rows
        }


def _check_text(text: str, where: str) -> None:
    """Raises UsageError for half of a surrogate pair, which JSON can contain, but Kafka's UTF-8 strings cannot."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{where} is not a text: it has half of a surrogate pair") from None


def _numbers(value: Any, where: str) -> list[int]:
    if not isinstance(value, list) or not all(type(p) is int and 0 <= p < 2**31 for p in value):
        raise UsageError(f"{where} is not a list of partitions")
    return value


def _topic(data: Any, index: int) -> TopicSnapshot:
    reader = _Reader(data, f"topics[{index}]")
    partitions = reader.get("partitions", (int,))
    if partitions < 0:
        raise UsageError(f"topics[{index}].partitions is negative")
    written = reader.get("topic_id", (str,), optional=True)
    topic_id = None if written is None else uuid_of(written)
    if written is not None and topic_id is None:
        raise UsageError(f"topics[{index}].topic_id is {written!r}, which is not a topic id")
    return TopicSnapshot(name=reader.text("name"), partitions=partitions, topic_id=topic_id)


def _member(data: Any, index: int) -> MemberSnapshot:
    reader = _Reader(data, f"members[{index}]")
    subscription = _Reader(reader.get("subscription", (dict,), optional=True) or {}, f"members[{index}].subscription")
    return MemberSnapshot(
        member_id=reader.text("member_id"),
        group_instance_id=reader.get("group_instance_id", (str,), optional=True),
        client_id=reader.get("client_id", (str,), optional=True) or "",
        client_host=reader.get("client_host", (str,), optional=True) or "",
        rack=reader.get("rack", (str,), optional=True),
        member_epoch=reader.number("member_epoch", most=_MOST_EPOCHS),
        status=reader.get("status", (str,), optional=True) or "unknown",
        topics=subscription.names("topics"),
        regex=subscription.get("regex", (str,), optional=True),
        assignment=reader.partitions("assignment"),
        target_assignment=None if data.get("target_assignment") is None else reader.partitions("target_assignment"),
        lag=reader.get("lag", (int,), optional=True),
        lag_ms=reader.get("lag_ms", (int,), optional=True),
        protocol=reader.get("protocol", (str,), optional=True),
        client_library=_library(reader, "client_library"),
        listed_at=reader.get("listed_at", (int,), optional=True),
        listed_target=reader.listed("listed_target"),
        is_readable=reader.get("is_readable", (bool,), optional=True) is not False,
        session_timeout_ms=reader.number("session_timeout_ms"),
        rebalance_timeout_ms=reader.number("rebalance_timeout_ms"),
        work=_work(reader),
        user_data=_user_data(reader),
        subscription_version=reader.number("subscription_version"),
        names_owned=reader.get("names_owned", (bool,), optional=True),
    )


def _work(reader: _Reader) -> MemberWork | None:
    values: dict[str, Any] = {key: reader.get(key, (str,), optional=True) for key in TEXT_KEYS}
    values |= {key: reader.names(key) for key in LIST_KEYS}
    values |= {key: reader.number(key) for key in NUMBER_KEYS}
    work = MemberWork(**values)
    return None if work == MemberWork() else work


def _user_data(reader: _Reader) -> UserData | None:
    value = reader.get("assignment_user_data", (dict,), optional=True)
    if value is None:
        return None
    return UserData(**_Reader(value, f"{reader.where}.assignment_user_data").values(USER_DATA))


def _library(reader: _Reader, key: str) -> ClientLibrary | None:
    """None if nothing is known. In snapshots of kgm up to 0.1 the value is just a name."""
    value = reader.get(key, (dict, str), optional=True)
    if value is None or isinstance(value, str):
        return stated_library(value)
    one = _Reader(value, f"{reader.where}.{key}")
    name = one.get("name", (str,), optional=True)
    confidence = one.choice("confidence", CONFIDENCES)
    evidence, candidates = one.names("evidence") or (), one.names("candidates") or ()
    if name is not None and confidence == UNKNOWN:
        raise UsageError(f"{one.where}.name is {name!r}, but its confidence is {UNKNOWN!r}")
    if name is None and not evidence and not candidates:
        return None
    return ClientLibrary(name=name, confidence=confidence, evidence=evidence, candidates=candidates)


def _offset(data: Any, index: int) -> OffsetSnapshot:
    return OffsetSnapshot(**_Reader(data, f"offsets[{index}]").values(OFFSET))

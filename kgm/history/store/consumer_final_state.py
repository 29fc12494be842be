"""What each group of the consumer protocol was at the end of a history, or at a time in it: see `ends`.

Its records have ids of topics, whose names commits tell. Where one name of a subscription is left and one id, they are
taken for each other; a group of which an id stays without a name says so as `unplayable`."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kgm.history.causes.classic_causes import Event
from kgm.history.store.store import Asked, Tables
from kgm.model.ids import uuid_text

Json = dict[str, Any]
_EPOCH = ("partition", "offset", "group_id", "epoch", "assignment_epoch", "assigned_timestamp")
_EVENT = ("partition", "offset", "group_id", "group_type", "event")
#: After these a group is not of the consumer protocol any more.
_OVER = (Event.REMOVED.value, Event.CONVERTED.value)


def consumer_groups(tables: Tables, asked: Asked) -> Iterator[Json]:
    """A group each, by id, with the keys of `ends` that are known of it."""
    every = tables.table("silver_group_epoch", asked, _EPOCH)
    epochs, assigned = _last(every, ["partition", "group_id"]), _assigned(every.to_pylist(), asked.until_ms)
    if not epochs:
        return
    over = {
        (row["partition"], row["group_id"]): row["offset"]
        for row in sorted(tables.rows("gold_event", asked, _EVENT), key=lambda row: int(row["offset"]))
        if row["group_type"] == "consumer" and row["event"] in _OVER
    }
    members: dict[tuple[int, str], list[Json]] = defaultdict(list)
    for row in _last(tables.table("silver_member_state", asked), ["partition", "group_id", "member_id"]):
        if row["state"] != "gone":
            members[row["partition"], row["group_id"]].append(row)
    names = {row["topic_id"]: row["topic"] for row in sorted(tables.rows("silver_topic", Asked()), key=_offset)}
    for epoch in sorted(epochs, key=lambda row: str(row["group_id"])):
        key = epoch["partition"], epoch["group_id"]
        if over.get(key, -1) <= epoch["offset"]:
            there = sorted(members[key], key=lambda row: str(row["member_id"]))
            yield _group(epoch, assigned.get(key), there, names)


def _assigned(epochs: Sequence[Json], until_ms: int | None) -> dict[tuple[int, str], int]:
    """The epoch of the last target assignment of each group, by then. Of an empty group it stays behind."""
    found: dict[tuple[int, str], int] = {}
    for row in epochs:
        at, epoch = row["assigned_timestamp"], row["assignment_epoch"]
        if at is not None and epoch is not None and (until_ms is None or at < until_ms):
            key = row["partition"], row["group_id"]
            found[key] = max(found.get(key, epoch), epoch)
    return found


def _offset(row: Mapping[str, Any]) -> int:
    return int(row["offset"])


def _last(table: pa.Table, keys: Sequence[str]) -> list[Json]:
    """The last row of each."""
    if not len(table):
        return []
    ends = table.group_by(list(keys)).aggregate([("offset", "max")]).rename_columns([*keys, "offset"])
    numbered = table.select([*keys, "offset"]).append_column("row", pa.array(range(len(table)), pa.int64()))
    chosen = numbered.join(ends, keys=[*keys, "offset"], join_type="inner").column("row")
    found: list[Json] = table.take(chosen).to_pylist()
    return found


def _group(epoch: Json, assigned: int | None, members: list[Json], names: Mapping[bytes, str]) -> Json:
    names, nameless = _named(members, names)
    found = [_member(row, names) for row in members]
    partitions: dict[str, int] = {}
    for member in found:
        for topic, numbers in member["assignment"].items():
            partitions[topic] = max([partitions.get(topic, 0), *(number + 1 for number in numbers)])
    ids = {name: uuid_text(topic_id) for topic_id, name in names.items()}
    asked_for = Counter(row["server_assignor"] for row in members if row["server_assignor"])
    group: Json = {
        "group_id": epoch["group_id"], "type": "consumer", "protocol_type": "consumer",
        "state": _state(members, epoch["epoch"], assigned),
        "assignor": asked_for.most_common(1)[0][0] if asked_for else None, "group_epoch": epoch["epoch"],
        "assignment_epoch": assigned,
        "rebalance_timeout_ms": max(
            (row["rebalance_timeout_ms"] for row in members if row["rebalance_timeout_ms"] is not None), default=None
        ),
        "topics": [
            {"name": name, "partitions": count, "topic_id": ids.get(name)} for name, count in sorted(partitions.items())
        ],
        "members": found,
    }  # fmt: skip
    if nameless:
        group["unplayable"] = "the history does not tell the names of all of its topics: nobody commits offsets of them"
    elif any(row["topics"] is None for row in members):
        group["unplayable"] = "compaction has removed what its members subscribe to"
    return group


def _state(members: Sequence[Json], epoch: int, assigned: int | None) -> str:
    """As ConsumerGroup.maybeUpdateGroupState has it; a member that is away is at no epoch of the group."""
    if not members:
        return "Empty"
    if assigned != epoch:
        return "Assigning"
    settled = all(row["state"] == "stable" and row["member_epoch"] == epoch for row in members)
    return "Stable" if settled else "Reconciling"


def _named(members: Sequence[Json], names: Mapping[bytes, str]) -> tuple[Mapping[bytes, str], bool]:
    """The names of the topics of which this group has partitions, by id, and whether one is not known."""
    ids = {each["topic_id"] for row in members for each in row["assigned"] or ()}
    nameless = ids - names.keys()
    known = {each: names[each] for each in ids - nameless}
    left = {topic for row in members for topic in row["topics"] or ()} - {*known.values()}
    if len(nameless) == 1 and len(left) == 1:
        return {**known, nameless.pop(): left.pop()}, False
    return known, bool(nameless)


def _member(row: Json, names: Mapping[bytes, str]) -> Json:
    status = "stable" if row["state"] == "stable" else "away" if row["state"] == "away" else "reconciling"
    return {
        "group_instance_id": row["group_instance_id"], "member_id": row["member_id"],
        "client_id": row["client_id"] or "", "client_host": row["client_host"] or "", "rack": row["rack_id"] or None,
        "member_epoch": row["member_epoch"], "status": status,
        "subscription": {"topics": sorted(row["topics"] or ()), "regex": row["regex"] or None},
        "assignment": {
            names[each["topic_id"]]: sorted(each["partitions"])
            for each in row["assigned"] or ()
            if each["topic_id"] in names
        },
        "target_assignment": None, "lag": None, "protocol": "classic" if row["classic"] else "consumer",
        "client_library": None, "listed_at": None, "listed_target": None,
    }  # fmt: skip

"""Forms for groups that several commands share, and the objects made from typed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kgm.model.forms.snapshot_form import OFFSET
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.partitions import PartitionRow
from kgm.operations.groups.unread import Unread
from kgm.text.names import NaturalKey, natural, places_of

#: A value before or after a change.
VALUE: Final = ("str", "int", None)
#: A partition of one group, in `describe --topic` and similar views.
PARTITION: Final[dict[str, Any]] = {
    "group_id": "str",
    **OFFSET,
    "client_id": "str?",
    "client_host": "str?",
    "has_owner": "bool?",
}
#: Something that could not be read, so that other values are null or missing.
UNREAD: Final[dict[str, Any]] = {"what": "str", "consequence": "str"}


def snapshot_json(snapshot: GroupSnapshot) -> dict[str, Any]:
    """A snapshot with its members, topics and partitions in natural order. Reading it back does not depend on these."""
    data = snapshot.to_json()
    place = places_of(row.topic for row in snapshot.offsets)
    data["topics"].sort(key=lambda one: natural(one["name"]))
    data["members"].sort(key=_identity)
    data["offsets"].sort(key=lambda one: (place[one["topic"]], one["partition"]))
    return data


def _identity(member: Mapping[str, Any]) -> NaturalKey:
    name = member["group_instance_id"]
    return natural(member["member_id"] if name is None else name)


def unread_json(every: Iterable[Unread]) -> list[dict[str, Any]]:
    return [{"what": one.text, "consequence": one.consequence} for one in every]


def partition_json(row: PartitionRow) -> dict[str, Any]:
    """An entry of `data.partitions`."""
    owner = row.owner
    return {
        "group_id": row.group_id,
        **row.offset.to_json(),
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
        "has_owner": row.has_owner,
    }

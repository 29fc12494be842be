"""Who assigns the partitions after a removal: the leader of a classic group, whose library decides ties.

No API returns the leader. If all members that stay run on librdkafka, a librdkafka client is assumed to lead, otherwise
a Java client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kgm.model.assignment import Assignment
from kgm.model.snapshot import GroupSnapshot

if TYPE_CHECKING:
    from kgm.assignors import MemberSpec
    from kgm.simulation.plan.client_library import Library

#: What a leader assigns, by member id: (assignor, members, partition counts) -> partitions by topic.
LeaderAssignor: TypeAlias = "Callable[[str, Sequence[MemberSpec], Mapping[str, int]], Assignment]"


def assumed_leader(group: GroupSnapshot, removed_member_ids: Collection[str]) -> LeaderAssignor | None:
    """How the leader assigns when every member that stays runs on librdkafka; None where Java's client is assumed."""
    from kgm.simulation.plan.client_library import Library

    return _librdkafka(group) if _libraries(group, removed_member_ids) == {Library.LIBRDKAFKA} else None


def other_possible_leader(group: GroupSnapshot, removed_member_ids: Collection[str]) -> LeaderAssignor | None:
    """How a librdkafka leader would assign, where a Java leader is assumed although some members that stay run on
    librdkafka; None where only one library can lead."""
    from kgm.assignors.client.librdkafka import ASSIGNORS
    from kgm.simulation.plan.client_library import Library

    libraries = _libraries(group, removed_member_ids)
    is_mixed = Library.LIBRDKAFKA in libraries and len(libraries) > 1
    return _librdkafka(group) if is_mixed and group.type == "classic" and group.assignor in ASSIGNORS else None


def _libraries(group: GroupSnapshot, removed_member_ids: Collection[str]) -> set[Library | None]:
    from kgm.simulation.plan.client_library import guess_library

    staying = [member for member in group.members if member.member_id not in removed_member_ids]
    return {guess_library(one.client_library, one.client_id, one.member_id) for one in staying}


def _librdkafka(group: GroupSnapshot) -> LeaderAssignor:
    from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
    from kgm.protocol.subscription import decode_assignment
    from kgm.simulation.plan.client_library import Library
    from kgm.simulation.play.leader import assignments

    capacity = map_capacity([member.member_id for member in group.in_listed_order().members]) or DEFAULT_CAPACITY

    def assign(assignor: str, members: Sequence[MemberSpec], topics: Mapping[str, int]) -> Assignment:
        blobs = assignments(assignor, members, topics, Library.LIBRDKAFKA, capacity)
        return {member_id: decode_assignment(blob).partitions for member_id, blob in blobs.items()}

    return assign

"""Who assigns the partitions after a removal: the leader of a classic group, with its client library's assignor.

No API returns the leader. If all members that stay use one library, one of its clients leads; otherwise the leader is
most likely a Java client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kgm.assignors import MemberSpec, has_assignor
from kgm.assignors.map_order import MapOrder
from kgm.clients.table import BROKER, SAME_ASSIGNOR, assigning_by
from kgm.coordinator.contract.behavior import behavior_of
from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
from kgm.java.scala_map import scala_map_capacity
from kgm.model.assignment import Assignment
from kgm.model.client_library import JAVA
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.starting_group import library_of
from kgm.simulation.play.leader import assigned

#: Descriptions of a broker, by whether it has Scala's maps.
_BROKERS: Final = {False: "a broker with the coordinator in Java", True: "a broker with the coordinator in Scala"}
_BY_BROKER: Final = assigning_by(BROKER)
#: How a leader assigns: (assignor, members, partition counts) -> partitions by topic, for each member id.
LeaderAssignor: TypeAlias = "Callable[[str, Sequence[MemberSpec], Mapping[str, int]], Assignment]"


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleLeader:
    """A client that may lead the group. library: whose assignor it runs. what: which client it is and what its
    assignment depends on, in words. assign: how it assigns; None: as Kafka's Java client does. map_order: records
    whether the order of a Go map decided the assignment."""

    library: str
    what: str
    assign: LeaderAssignor | None
    map_order: MapOrder = field(default_factory=MapOrder)


def possible_leaders(group: GroupSnapshot, removed_member_ids: Collection[str]) -> list[PossibleLeader]:
    """The clients that may lead the group afterwards, the most likely one first. There are several if libraries are
    mixed, or if the library follows the broker's order of members and it is not known which coordinator the broker
    runs."""
    libraries = _libraries(group, removed_member_ids) if group.type == "classic" else [JAVA]
    leaders = []
    for library in libraries:
        if library == JAVA:
            leaders.append(PossibleLeader(library=library, what="a Java consumer", assign=None))
            continue
        kinds = _has_scala_maps(group) if library in _BY_BROKER else [False]
        for kind in kinds:
            what = f"a {library} consumer" + (f" on {_BROKERS[kind]}" if len(kinds) > 1 else "")
            order = MapOrder()
            assign = _of_library(group, library, has_scala_maps=kind, map_order=order)
            leaders.append(PossibleLeader(library=library, what=what, assign=assign, map_order=order))
    return leaders


def _has_scala_maps(group: GroupSnapshot) -> list[bool]:
    """Whether the broker lists members in the order of the coordinator in Scala; both values if that is not known."""
    if not group.kafka_versions:
        return [False, True]
    return sorted({behavior_of(version).has_scala_maps for version in group.kafka_versions})


def _libraries(group: GroupSnapshot, removed_member_ids: Collection[str]) -> list[str]:
    """The libraries of the members that stay, Java first. Java also stands for libraries whose assignor kgm lacks."""
    assignor = SAME_ASSIGNOR.get(group.assignor or "", group.assignor or "")
    staying = [member for member in group.members if member.member_id not in removed_member_ids]
    found = set()
    for client in dict.fromkeys(library_of(group, one) for one in staying):
        names = [JAVA] if JAVA in client.candidates else [*client.candidates]
        found |= {name for name in names if has_assignor(name, assignor)} or {JAVA}
    return sorted(found or {JAVA}, key=lambda name: (name != JAVA, name))


def _of_library(
    group: GroupSnapshot, library: str, *, has_scala_maps: bool, map_order: MapOrder
) -> LeaderAssignor:  # fmt: skip
    listed = [member.member_id for member in group.in_listed_order().members]
    capacity = (scala_map_capacity(listed) if has_scala_maps else map_capacity(listed)) or DEFAULT_CAPACITY

    def assign(assignor: str, members: Sequence[MemberSpec], topics: Mapping[str, int]) -> Assignment:
        return assigned(
            assignor, members, topics, library, capacity, has_scala_maps=has_scala_maps, leader=group.leader,
            map_order=map_order,
        )  # fmt: skip

    return assign

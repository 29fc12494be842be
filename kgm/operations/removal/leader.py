"""Who assigns the partitions after a removal: the leader of a classic group, whose library decides ties.

No API returns the leader. If all members that stay run on librdkafka, a librdkafka client leads, otherwise a Java
client is the more likely one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kgm.assignors import MemberSpec
from kgm.assignors.client.librdkafka import ASSIGNORS
from kgm.coordinator.contract.broker_version import BrokerVersion, behavior_of
from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
from kgm.java.scala_map import scala_map_capacity
from kgm.model.assignment import Assignment
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.subscription import decode_assignment
from kgm.simulation.plan.client_library import Library, played_as
from kgm.simulation.plan.starting_group import library_of
from kgm.simulation.play.leader import assignments

#: Brokers by whether they have Scala's maps.
_BROKERS: Final = {False: "a broker with the coordinator in Java", True: "a broker with the coordinator in Scala"}
#: What a leader assigns, by member id: (assignor, members, partition counts) -> partitions by topic.
LeaderAssignor: TypeAlias = "Callable[[str, Sequence[MemberSpec], Mapping[str, int]], Assignment]"


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleLeader:
    """One that may lead the group. what: who it is and what it depends on, in words; assign: how it assigns, None as
    Kafka's Java client does."""

    what: str
    assign: LeaderAssignor | None


def possible_leaders(group: GroupSnapshot, removed_member_ids: Collection[str]) -> list[PossibleLeader]:
    """Who may lead the group afterwards, the most likely one first. Several where libraries are mixed, or where it is
    not known which coordinator the broker runs: librdkafka assigns in the order in which the broker lists members."""
    libraries = _libraries(group, removed_member_ids)
    java = PossibleLeader(what="a Java consumer", assign=None)
    if group.type != "classic" or Library.LIBRDKAFKA not in libraries or group.assignor not in ASSIGNORS:
        return [java]
    kinds = _has_scala_maps(group)
    librdkafka = [
        PossibleLeader(
            what="a librdkafka consumer" + (f" on {_BROKERS[kind]}" if len(kinds) > 1 else ""),
            assign=_librdkafka(group, has_scala_maps=kind),
        )
        for kind in kinds
    ]
    return librdkafka if libraries == {Library.LIBRDKAFKA} else [java, *librdkafka]


def _has_scala_maps(group: GroupSnapshot) -> list[bool]:
    """Whether members are listed in the order of the coordinator in Scala; both where it is not known."""
    if not group.kafka_versions:
        return [False, True]
    return sorted({behavior_of(BrokerVersion.parse(text)).has_scala_maps for text in group.kafka_versions})


def _libraries(group: GroupSnapshot, removed_member_ids: Collection[str]) -> set[Library | None]:
    staying = [member for member in group.members if member.member_id not in removed_member_ids]
    return {played_as(library_of(group, one)) for one in staying}


def _librdkafka(group: GroupSnapshot, *, has_scala_maps: bool) -> LeaderAssignor:
    listed = [member.member_id for member in group.in_listed_order().members]
    capacity = (scala_map_capacity(listed) if has_scala_maps else map_capacity(listed)) or DEFAULT_CAPACITY

    def assign(assignor: str, members: Sequence[MemberSpec], topics: Mapping[str, int]) -> Assignment:
        blobs = assignments(assignor, members, topics, Library.LIBRDKAFKA, capacity, has_scala_maps=has_scala_maps)
        return {member_id: decode_assignment(blob).partitions for member_id, blob in blobs.items()}

    return assign

"""The members as a Java leader holds them: in the order of its hash map."""

from collections.abc import Sequence

from kgm.assignors.contract import MemberSpec
from kgm.java.hash_map import map_order


def in_map_order(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """The members as `ConsumerCoordinator.onLeaderElected` puts them, one by one, into a `HashMap`."""
    return [members[position] for position in map_order([member.member_id for member in members])]

"""The order of members in a Java leader, which keeps them in a hash map."""

from collections.abc import Sequence

from kgm.assignors.contract import MemberSpec
from kgm.java.hash_map import map_order


def in_map_order(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """The members in the order of the `HashMap` into which `ConsumerCoordinator.onLeaderElected` puts them."""
    return [members[position] for position in map_order([member.member_id for member in members])]

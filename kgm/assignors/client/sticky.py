"""`sticky` and `cooperative-sticky`: balance comes first, then as few moves as possible (KIP-54, KIP-429, KIP-792).

Both run one of two algorithms: `sticky_constrained` if all members subscribe to the same topics, and `sticky_general`
otherwise. The difference is that the cooperative one holds back, for one rebalance, each partition that its previous
owner must revoke first. (They also differ in where a member reports what it owned, which does not matter here: in the
user data for `sticky`, in the subscription for `cooperative-sticky`.) (`AbstractStickyAssignor`, `StickyAssignor`,
`CooperativeStickyAssignor`.)
"""

from collections.abc import Iterable, Sequence

from kgm.assignors.client.member_order import in_map_order
from kgm.assignors.client.sticky_claims import Claims, Racks, older_claims, resolve_claims, subscribe_alike
from kgm.assignors.client.sticky_constrained import ConstrainedBuilder
from kgm.assignors.client.sticky_general import GeneralBuilder, fewest_subscribers_first
from kgm.assignors.client.sticky_moves import Movements
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec, by_member_id
from kgm.assignors.partition_numbers import NO_OWNER, Layout, client_layout
from kgm.assignors.result import by_owner, in_turn
from kgm.java.strings import utf16_key


def assign_sticky(group: GroupSpec) -> Assigned:
    """The eager one: all members have revoked all partitions, so partitions move immediately."""
    return _assign(group, is_cooperative=False)


def assign_cooperative_sticky(group: GroupSpec) -> Assigned:
    """Partitions that another member still owns are left out. Those members revoke them and rejoin; then the new owners
    get them."""
    return _assign(group, is_cooperative=True)


def _assign(group: GroupSpec, *, is_cooperative: bool) -> Assigned:
    members = in_map_order(group.members)
    layout = client_layout(group)
    if not members or not layout.total:
        return {member.member_id: {} for member in members}
    claims = resolve_claims(members, layout)
    racks = Racks(members, layout)
    if not subscribe_alike(members):
        owner = _assign_general(members, layout, claims, racks)
        held_back: Iterable[int] = _transferring(members, layout, owner) if is_cooperative else ()
    elif racks.rivals or claims.disputed or any(claims.loads):
        even = ConstrainedBuilder(members, layout, claims, racks)
        owner = even.build()
        held_back = even.transferring() if is_cooperative else ()
    else:  # a new group
        return in_turn(layout, by_member_id(members), [range(len(members))] * len(layout.topics))
    for number in held_back:
        owner[number] = NO_OWNER
    return by_owner(layout, members, owner)


def _assign_general(members: Sequence[MemberSpec], layout: Layout, claims: Claims, racks: Racks) -> list[int]:
    subscribed = layout.subscribed(members)
    return GeneralBuilder(
        layout=layout,
        subscribed=subscribed,
        owner=claims.owner,
        older_claims=older_claims(members, layout, claims.max_generation),
        racks=racks,
        ids=[utf16_key(member.member_id) for member in members],
        order=fewest_subscribers_first(layout, subscribed),
        movements=Movements(layout),
    ).build()


def _transferring(members: Sequence[MemberSpec], layout: Layout, owner: Sequence[int]) -> set[int]:
    """Partitions that their owner does not claim but another member does, at any generation."""
    kept: set[int] = set()
    revoked: set[int] = set()
    for position, member in enumerate(members):
        for number in layout.owned(member):
            (kept if owner[number] == position else revoked).add(number)
    return revoked - kept

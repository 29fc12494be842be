"""`sticky` and `cooperative-sticky`: balance first, then as few moves as that allows (KIP-54, KIP-429, KIP-792).

Both run the same algorithm, one of two: `sticky_even` when all members subscribe to the same topics, `sticky_mixed`
otherwise. They differ in that the cooperative one holds back, for one rebalance, each partition that its previous owner
must give up first. (And in where a member says what it owned, which does not matter here: user data for `sticky`, the
subscription for `cooperative-sticky`.)
(`AbstractStickyAssignor`, `StickyAssignor`, `CooperativeStickyAssignor`.)
"""

from collections.abc import Sequence

from kgm.assignors.java import utf16_key
from kgm.assignors.layout import Layout, client_layout
from kgm.assignors.spec import Assigned, GroupSpec, MemberSpec
from kgm.assignors.sticky_claims import Racks, older_claims, settle, subscribe_alike
from kgm.assignors.sticky_even import EvenBuilder
from kgm.assignors.sticky_mixed import MixedStickyBuilder, fewest_subscribers_first
from kgm.assignors.sticky_moves import Movements
from kgm.assignors.subscribers import in_map_order


def assign_sticky(group: GroupSpec) -> Assigned:
    """The eager one: everybody has revoked everything, so that partitions change hands at once."""
    return _assign(group, is_cooperative=False)


def assign_cooperative_sticky(group: GroupSpec) -> Assigned:
    """Partitions that somebody else still owns are left out; members revoke them, rejoin, and get them then."""
    return _assign(group, is_cooperative=True)


def _assign(group: GroupSpec, *, is_cooperative: bool) -> Assigned:
    members = in_map_order(group.members)
    layout = client_layout(group)
    claims = settle(members, layout)
    racks = Racks(members, layout)
    if not members or not layout.total:
        given: list[list[int]] = [[] for _ in members]
        held_back: dict[int, int] = {}
    elif subscribe_alike(members):
        even = EvenBuilder(members, layout, claims, racks)
        given, held_back = even.build(), even.transferring
    else:
        subscribed = [layout.subscribed(member) for member in members]
        given = MixedStickyBuilder(
            layout=layout,
            subscribed=subscribed,
            owned=claims.owned,
            older_claims=older_claims(members, layout, claims.max_generation),
            racks=racks,
            ids=[utf16_key(member.member_id) for member in members],
            order=fewest_subscribers_first(layout, subscribed),
            movements=Movements(layout),
        ).build()
        held_back = _transferring(members, layout, given)
    if is_cooperative and held_back:
        given = [[n for n in numbers if held_back.get(n) != position] for position, numbers in enumerate(given)]
    return layout.answer(members, given)


def _transferring(members: Sequence[MemberSpec], layout: Layout, given: Sequence[list[int]]) -> dict[int, int]:
    """Partitions that are new to their owner and that somebody else claims, at whatever generation."""
    added: dict[int, int] = {}
    revoked: set[int] = set()
    for position, (member, numbers) in enumerate(zip(members, given, strict=True)):
        claimed = set(layout.owned(member))
        added.update((number, position) for number in numbers if number not in claimed)
        revoked.update(claimed.difference(numbers))
    return {number: position for number, position in added.items() if number in revoked}

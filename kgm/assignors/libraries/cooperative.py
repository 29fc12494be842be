"""What both Go libraries do after a cooperative assignment."""

from collections.abc import Sequence

from kgm.assignors.client.sticky_claims import NO_GENERATION, generation_of
from kgm.assignors.contract import MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout


def without_transfers(
    layout: Layout, members: Sequence[MemberSpec], owner: Sequence[int], *, heeds_generations: bool = False
) -> list[int]:  # fmt: skip
    """The owners, but with no owner for partitions that another member claims and the new owner does not: the next
    rebalance assigns them. heeds_generations: a claim by the new owner does not count if another claim has a newer
    generation."""
    newest = [NO_GENERATION] * layout.total
    claimed: set[int] = set()
    kept: set[tuple[int, int]] = set()
    claims = [(position, generation_of(one), set(layout.owned(one))) for position, one in enumerate(members)]
    for _, generation, numbers in claims:
        claimed |= numbers
        for number in numbers:
            newest[number] = max(newest[number], generation)
    for position, generation, numbers in claims:
        kept |= {(number, position) for number in numbers if not heeds_generations or generation >= newest[number]}
    return [
        NO_OWNER if number in claimed and (number, position) not in kept else position
        for number, position in enumerate(owner)
    ]

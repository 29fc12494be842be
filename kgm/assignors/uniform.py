"""`uniform` of the coordinator (KIP-848), for groups in which every member subscribes to the same topics.

Members are walked twice in the order given: first each keeps what it owns up to its quota, then those below their
quota are filled. Some members may have one partition more than the others; whoever owns that many already keeps
them, first come first served, and a member that does not passes the chance on as long as enough members follow.
(`UniformHomogeneousAssignmentBuilder`; unequal subscriptions are in `uniform_mixed`.)
"""

from collections.abc import Sequence

from kgm.assignors.java import copied_set_order
from kgm.assignors.layout import Layout
from kgm.assignors.server import server_layout, subscriptions
from kgm.assignors.spec import Assigned, GroupSpec
from kgm.assignors.uniform_mixed import MixedBuilder


def assign_uniform(group: GroupSpec) -> Assigned:
    """Racks are ignored (KAFKA-19909). Raises UsageError when a member subscribes to a topic that is not there."""
    layout = server_layout(group)
    subscribed = subscriptions(group.members, layout)
    if not any(subscribed):
        return layout.answer(group.members, [() for _ in group.members])
    owned = _owned(group, layout)
    if all(topics == subscribed[0] for topics in subscribed):
        given = _assign_alike(layout, subscribed[0], owned)
    else:
        given = MixedBuilder(layout, subscribed, owned).build()
    return layout.answer(group.members, given)


def _owned(group: GroupSpec, layout: Layout) -> list[dict[int, list[int]]]:
    """For each member, by topic, what it owns; a partition claimed twice stays with the first (no broker has such)."""
    taken: set[int] = set()
    result = []
    for member in group.members:
        mine: dict[int, list[int]] = {}
        for name in sorted(member.owned.keys() & layout.index.keys(), key=layout.index.__getitem__):
            topic = layout.index[name]
            start, count = layout.starts[topic], layout.topics[topic].partitions
            numbers = [start + p for p in dict.fromkeys(member.owned[name]) if 0 <= p < count]
            free = [number for number in numbers if number not in taken]
            taken.update(free)
            if free:
                mine[topic] = free
        result.append(mine)
    return result


def _assign_alike(layout: Layout, topics: Sequence[int], owned: Sequence[dict[int, list[int]]]) -> list[list[int]]:
    is_assigned = bytearray(layout.total)
    for mine in owned:
        for numbers in mine.values():
            for number in numbers:
                is_assigned[number] = 1
    free = [number for topic in topics for number in layout.range(topic) if not is_assigned[number]]
    total = sum(layout.topics[topic].partitions for topic in topics)
    least, extras = divmod(total, len(owned))
    given: list[list[int]] = []
    unfilled: list[tuple[int, int]] = []
    for position, mine in enumerate(owned):
        has_extra = extras > 0
        quota = least + has_extra
        kept: list[int] = []
        for topic, numbers in mine.items():
            if topic in topics:
                keep, release = _trim(numbers, quota, layout.starts[topic])
                kept += keep
                free += release
                quota -= len(keep)
        if quota > 0 and has_extra and len(owned) - position > extras:
            # Somebody further down may own the extra partition already.
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled.append((position, quota))
        extras -= has_extra
        given.append(kept)
    _fill(given, unfilled, free)
    return given


def _trim(numbers: list[int], quota: int, start: int) -> tuple[list[int], list[int]]:
    """What stays and what goes of one topic's partitions, in the order of the Java set that they come in."""
    if len(numbers) <= quota:
        return numbers, []
    ordered = [start + partition for partition in copied_set_order(number - start for number in numbers)]
    return ordered[:quota], ordered[quota:]


def _fill(given: list[list[int]], unfilled: Sequence[tuple[int, int]], free: Sequence[int]) -> None:
    done = 0
    for position, quota in unfilled:
        given[position] += free[done : done + quota]
        done += quota
    assert done >= len(free), "quotas add up to all partitions"

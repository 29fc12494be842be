"""What differs from draw to draw before anything happens: orders that are not known."""

import random
from dataclasses import replace

from kgm.coordinator.consumer.regexes import RESOLVED_ONCE_MS
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.plan.starting_group import RESOLVED_BEFORE_MS, StartingGroup, StartingMember

#: How large the hash map of a consumer group may be: large enough for today's members, or for two or four times as
#: many.
_MAP_SIZES = 3


def shuffled(group: StartingGroup, seed: str, *, becomes_consumer: bool) -> StartingGroup:
    """The group with one choice for each order that is not known.

    Members whose ids fall into one bucket of the leader's hash map are visited in the order in which they joined. In
    consumer groups members are usually visited in the order of another hash map, which never shrinks, and topics in an
    order that depends on their ids and on the group's past."""
    is_consumer = becomes_consumer or group.protocol is GroupProtocol.CONSUMER
    are_listed = not is_consumer or all(member.listed is not None for member in group.members)
    if group.listing_capacity and are_listed and not group.regexes and group.topics.keys() <= group.topic_ids.keys():
        return group
    chance = random.Random(seed + "/order")  # noqa: S311  (a simulation)
    if group.listing_capacity is None:
        group = replace(group, members=tuple(chance.sample(group.members, len(group.members))))
        if group.protocol is GroupProtocol.CONSUMER:
            group = replace(group, listing_capacity=len(group.members) << chance.randrange(_MAP_SIZES))
    if group.regexes:
        group = replace(group, resolved_before_ms=_resolved_before_ms(chance))
    if is_consumer:
        group = replace(group, members=tuple(_with_some_order(member, chance) for member in group.members))
    drawn_ids = {name: chance.randbytes(16) for name in group.topics if name not in group.topic_ids}
    return replace(group, topic_ids={**drawn_ids, **group.topic_ids}) if drawn_ids else group


def _resolved_before_ms(chance: random.Random) -> int:
    """How long ago regular expressions were resolved: just now, or recently enough for the broker to wait before it
    does so again, or so long ago that it does not matter."""
    match chance.randrange(4):
        case 0:
            return 0
        case 1:
            return chance.randrange(RESOLVED_ONCE_MS)
        case _:
            return RESOLVED_BEFORE_MS


def _with_some_order(member: StartingMember, chance: random.Random) -> StartingMember:
    """Shuffles the order in which the member's topics and partitions are listed, which only matters if two of them
    share a bucket."""
    if member.listed is not None:
        return member
    owned = [(topic, numbers) for topic, numbers in member.owned.items() if numbers]
    chance.shuffle(owned)
    return replace(member, listed={topic: chance.sample(numbers, len(numbers)) for topic, numbers in owned})

"""The order in which the coordinator goes through the topics of a member's target.

It is that of a hash map of topic ids (`Assignment.fromRecord`), so it hangs on the ids; but where two ids share a
bucket, on the order in which the record has them, and that on how the assignor has put the map together: a copy of the
old one, less what the member lost, and every topic that is new to it at the head of its bucket. Who has to give up
partitions gives up those of the last topics, so the past of a member decides what moves. (One pair of topics in 16 has
to do with it.)"""

from collections.abc import Iterable, Mapping, Sequence

from kgm.assignors.java import DEFAULT_CAPACITY, UuidMapOrder, spread, uuid_hash, uuid_map_order
from kgm.assignors.uniform_mixed import Gain
from kgm.coordinator.consumer_member import Target

NOBODY = -1


def replayed(rows: Mapping[bytes, tuple[int, ...]]) -> Target:
    """A target as a record has it, as the coordinator goes through it."""
    return rows if len(rows) < 2 else {topic_id: rows[topic_id] for topic_id in uuid_map_order([*rows])}


def may_tie(topic_ids: Iterable[bytes]) -> bool:
    """Whether some of these topics share a bucket of the smallest map that a record is read into."""
    buckets = [spread(uuid_hash(topic_id)) % DEFAULT_CAPACITY for topic_id in topic_ids]
    return len(set(buckets)) < len(buckets)


def of_range(after: Target, subscribed: Sequence[bytes], room: int) -> Target:
    """A target of `range`, as its record has it. subscribed: the topics of the member, in the order of a hash set of
    their names. room: how many its map has room for."""
    order = UuidMapOrder(int(room / 0.75 + 1))
    for topic_id in subscribed:
        if topic_id in after:
            order.put(topic_id)
    return {topic_id: after[topic_id] for topic_id in order}


def of_uniform(
    before: Sequence[Target],
    kept: Sequence[Target],
    after: Sequence[Target],
    gains: Iterable[Gain],
    ids: Mapping[str, bytes],
) -> list[Target]:
    """Targets of `uniform`, as their records have them. kept: what each member had before of topics that it still
    subscribes to. gains: what then changed hands, in order. ids: of topics by name."""
    orders = [_copy(target) for target in before]
    for order, had, left in zip(orders, before, kept, strict=True):
        for topic_id in had:
            if topic_id not in left:
                order.remove(topic_id)
    counts = [{topic_id: len(partitions) for topic_id, partitions in target.items()} for target in kept]
    for name, loser, winner in gains:
        topic_id = ids[name]
        if loser != NOBODY:
            counts[loser][topic_id] -= 1
            if not counts[loser][topic_id]:
                orders[loser].remove(topic_id)
        if winner != NOBODY:
            orders[winner].compute_if_absent(topic_id)
            counts[winner][topic_id] = counts[winner].get(topic_id, 0) + 1
    return [
        had if target == had else {topic_id: target[topic_id] for topic_id in order}
        for order, had, target in zip(orders, before, after, strict=True)
    ]


def _copy(target: Target) -> UuidMapOrder:
    """`AssignorHelpers.deepCopyAssignment`."""
    order = UuidMapOrder(len(target))
    for topic_id in target:
        order.put(topic_id)
    return order

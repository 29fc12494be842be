"""The order in which Kafka's coordinator iterates over the topics and partitions of a member's target.

It is the order of hash maps and sets (`Assignment.fromRecord`), so it depends on topic ids and partition numbers. Where
two of them share a bucket, it depends on their order in the record, which in turn depends on how the assignor built the
map: as a copy of the old one, without what the member has lost, with every topic that is new to the member first in its
bucket, and every new partition last in its bucket. A member that must revoke partitions revokes the last ones, so the
member's history decides what moves. (This affects one pair of topics in 16, and partitions whose numbers differ by 16,
or by the number of buckets in a member's set.)

A `Target` has its topics in this order and its partitions ascending; a `ListedTarget` has both in this order."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kgm.assignors.server.uniform_heterogeneous import Gain
from kgm.coordinator.contract.topic_image import Topic
from kgm.coordinator.groups.consumer_member import ListedTarget, Target
from kgm.java.hash_map import DEFAULT_CAPACITY, UuidMapOrder, uuid_bucket, uuid_map_order
from kgm.java.hash_set import NumberSetOrder, copied_set_order


def replayed(rows: Mapping[bytes, Sequence[int]]) -> tuple[Target, Mapping[bytes, tuple[int, ...]]]:
    """A target from a record, and the partitions in Kafka's order for those topics whose order does not follow from the
    partition numbers."""
    if len(rows) > 1:
        rows = {topic_id: rows[topic_id] for topic_id in uuid_map_order([*rows])}
    target = {topic_id: tuple(sorted(partitions)) for topic_id, partitions in rows.items()}
    unusual = {}
    for topic_id, partitions in target.items():
        if may_share(partitions):
            listed = copied_set_order(rows[topic_id])
            if listed != copied_set_order(partitions):
                unusual[topic_id] = tuple(listed)
    return target, unusual


def may_share(partitions: Sequence[int]) -> bool:
    """Whether two of these partitions, given in ascending order, can share a bucket in a set of them."""
    return len(partitions) > 1 and partitions[-1] - partitions[0] >= DEFAULT_CAPACITY


def of_range(after: Target, subscribed: Iterable[bytes], room: int) -> ListedTarget:
    """A target from the `range` assignor, in the order of its record. subscribed: the member's topics, in the order of
    a hash set of their names. room: the number of topics that the map is sized for."""
    order = UuidMapOrder(int(room / 0.75 + 1))
    for topic_id in subscribed:
        if topic_id in after:
            order.put(topic_id)
    return {topic_id: after[topic_id] for topic_id in order}


def rooms(topics: Iterable[Topic], subscribed: Iterable[Iterable[bytes]]) -> dict[bytes, int]:
    """How many partitions `uniform` sizes a set for, by topic, if members have different subscriptions."""
    counts = Counter(topic_id for each in subscribed for topic_id in each)
    return {t.topic_id: int(-(-t.partitions // counts[t.topic_id]) / 0.75 + 1) for t in topics}


def of_uniform(
    before: Sequence[ListedTarget],
    after: Sequence[Target],
    subscribed: Sequence[Collection[bytes]],
    gains: Iterable[Gain],
    ids: Mapping[str, bytes],
    room_of: Mapping[bytes, int],
) -> list[ListedTarget]:
    """Targets from the `uniform` assignor, in the order of their records. subscribed: the topics of each member. gains:
    the partitions that moved, in order. ids: topic ids by name. room_of: how many partitions of a topic a new set is
    sized for, if not the default number."""
    buckets = {topic_id: uuid_bucket(topic_id) for topic_id in ids.values()}
    gains_of: dict[int, list[Gain]] = {
        at: []
        for at, (had, target) in enumerate(zip(before, after, strict=True))
        if any(map(may_share, target.values())) or len({buckets[topic_id] for topic_id in target}) < len(target)
    }
    if not gains_of:
        return [*after]
    for gain in gains:
        for at in gain[3:]:
            if at in gains_of:
                gains_of[at].append(gain)
    listed: list[ListedTarget] = [*after]
    for at, mine in gains_of.items():
        order = before[at]
        if mine or order.keys() - subscribed[at]:
            order = _replayed_gains(at, order, subscribed[at], mine, ids, room_of)
        # These differ only if two members owned the same partition, or one owned a nonexistent partition, which no
        # broker writes.
        if {topic_id: tuple(sorted(partitions)) for topic_id, partitions in order.items()} == after[at]:
            listed[at] = order
    return listed


def share_buckets(topic_ids: Collection[bytes]) -> bool:
    """Whether two of these topics share a bucket of the smallest map."""
    return len({*map(uuid_bucket, topic_ids)}) < len(topic_ids)


def _replayed_gains(
    at: int,
    before: ListedTarget,
    subscribed: Collection[bytes],
    gains: Sequence[Gain],
    ids: Mapping[str, bytes],
    room_of: Mapping[bytes, int],
) -> ListedTarget:
    """What `AssignorHelpers.deepCopyAssignment` copies, and how the assignor then changes the copy."""
    order = UuidMapOrder(len(before))
    for topic_id in before:
        order.put(topic_id)
    for topic_id in before:
        if topic_id not in subscribed:
            order.remove(topic_id)
    touched = {ids[name] for name, *_ in gains}
    sets = {t: NumberSetOrder.copied(before[t]) for t in touched & before.keys() if t in subscribed}
    for name, first, end, loser, winner in gains:
        topic_id = ids[name]
        for partition in range(first, end):
            if loser == at:
                sets[topic_id].remove(partition)
                if not sets[topic_id]:
                    order.remove(topic_id)
                    del sets[topic_id]
            if winner == at:
                order.compute_if_absent(topic_id)
                if topic_id not in sets:
                    sets[topic_id] = NumberSetOrder(room_of.get(topic_id, DEFAULT_CAPACITY))
                sets[topic_id].add(partition)
    return {topic_id: tuple(sets[topic_id]) if topic_id in touched else before[topic_id] for topic_id in order}

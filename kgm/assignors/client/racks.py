"""When racks matter for the client-side assignors (KIP-881)."""

from collections.abc import Iterable, Sequence


def racks_count(consumer_racks: Iterable[str], partition_racks: Sequence[frozenset[str]]) -> bool:
    """Whether rack awareness makes a difference: a consumer is in a rack that has partitions, and not every partition
    is in every rack (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
    every = frozenset().union(*partition_racks)
    return not every.isdisjoint(consumer_racks) and any(racks != every for racks in partition_racks)

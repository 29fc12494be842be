"""When racks count (KIP-881), for the client-side assignors."""

from collections.abc import Iterable, Sequence


def racks_count(consumer_racks: Iterable[str], partition_racks: Sequence[frozenset[str]]) -> bool:
    """Whether rack awareness changes anything: some consumer is in a rack that holds partitions, and not every
    partition is in every rack (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
    every = frozenset().union(*partition_racks)
    return not every.isdisjoint(consumer_racks) and any(racks != every for racks in partition_racks)

"""The internal topic `__consumer_offsets`: its name, and which of its partitions the records of a group are in."""

from kgm.java.hashing import string_hash

OFFSETS_TOPIC = "__consumer_offsets"
_SIGN = 1 << 31


def partition_for(name: str, partitions: int) -> int:
    """The partition of a group, or of a transactional id in the log of transactions (Kafka:
    GroupCoordinator.partitionFor): Java's `Utils.abs(name.hashCode()) % partitions`. Integer.MIN_VALUE, which has no
    absolute value, counts as 0."""
    value = string_hash(name)
    if value >= _SIGN:
        value = (1 << 32) - value
        if value == _SIGN:
            value = 0
    return value % partitions

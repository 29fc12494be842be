"""Hashes that map something to a partition, and the hash of a partition itself."""

from typing import Final

from kgm.java.strings import INT_MASK, signed_string_hash

_INT_MIN: Final = -(1 << 31)


def partition_for(text: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` for a group id, or of `__transaction_state` for a transactional id:
    `Utils.abs(text.hashCode()) % partitions` (Kafka: GroupCoordinatorService.partitionFor).

    `Utils.abs` returns 0 for the one number whose absolute value does not fit (-2^31)."""
    value = signed_string_hash(text)
    return 0 if value == _INT_MIN else abs(value) % partitions


def topic_partition_hash(topic_hash: int, partition: int) -> int:
    """`TopicPartition.hashCode` as an unsigned 32-bit number; topic_hash: the `string_hash` of the topic's name."""
    return (31 * (31 + partition) + topic_hash) & INT_MASK

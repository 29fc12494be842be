"""DescribeLogDirs v1-5: the one place where everything is kept. `kafka-reassign-partitions.sh` asks for it."""

from collections.abc import Callable

from kgm.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kgm.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kgm.server.cluster.nodes import OFFSETS_TOPIC
from kgm.server.cluster.topics import Topics
from kgm.server.contract.exchange import Call, Reply, Response

#: The bytes of a topic's partition.
SizeOf = Callable[[str, int], int]


class LogDirs:
    """Every broker has every partition, in one and the same place."""

    def __init__(self, where: str, topics: Topics, offsets_partitions: int, size_of: SizeOf) -> None:
        self._where = where
        self._topics = topics
        self._offsets_partitions = offsets_partitions
        self._size_of = size_of

    def describe(self, call: Call) -> Response:
        """The partitions asked for that there are; null asks for all."""
        message = call.message
        assert isinstance(message, DescribeLogDirsRequest)
        if message.topics is None:
            wanted = [(name, range(self._count(name))) for name in (*sorted(self._topics), OFFSETS_TOPIC)]
            rows = [self._describe(name, list(partitions)) for name, partitions in wanted]
        else:
            rows = [self._describe(topic.topic, topic.partitions) for topic in message.topics]
        result = DescribeLogDirsResult(log_dir=self._where, topics=[row for row in rows if row.partitions])
        return (Reply(call.ticket, DescribeLogDirsResponse(results=[result])),)

    def _count(self, name: str) -> int:
        return self._offsets_partitions if name == OFFSETS_TOPIC else self._topics.get(name, 0)

    def _describe(self, name: str, partitions: list[int]) -> DescribeLogDirsTopic:
        count = self._count(name)
        return DescribeLogDirsTopic(
            name=name,
            partitions=[
                DescribeLogDirsPartition(partition_index=index, partition_size=self._size_of(name, index))
                for index in partitions
                if 0 <= index < count
            ],
        )

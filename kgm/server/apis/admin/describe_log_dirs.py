"""DescribeLogDirs v1-5: every broker has every partition, in one log directory. `kafka-reassign-partitions.sh` needs
it."""

from kgm.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kgm.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, DescribeLogDirsRequest)
    counts = dict(sorted(cluster.topics.items()))
    if message.topics is None:
        wanted = [(name, list(range(count))) for name, count in counts.items()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in message.topics]
    rows = [
        DescribeLogDirsTopic(
            name=name,
            partitions=[
                DescribeLogDirsPartition(partition_index=index, partition_size=cluster.log(name, index).size)
                for index in partitions
                if 0 <= index < counts.get(name, 0)
            ],
        )
        for name, partitions in wanted
    ]
    result = DescribeLogDirsResult(log_dir=cluster.storage.path, topics=[row for row in rows if row.partitions])
    return (Reply(request.ticket, DescribeLogDirsResponse(results=[result])),)

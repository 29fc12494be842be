"""ElectLeaders v0-2: leaders of partitions of `__consumer_offsets`; a preferred election picks the first replica.

An unclean election never changes a leader, since every live replica is in sync. Leaders of user topics never change."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kgm.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kgm.server.apis.admin.topic_changes import NO_ERROR, RowError
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC

_PREFERRED = 0


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, ElectLeadersRequest)
    wanted = message.topic_partitions
    if wanted is None:
        elections = [(OFFSETS_TOPIC, list(range(len(cluster.placement))))]
    else:
        elections = [(topic.topic, topic.partitions) for topic in wanted]
    preferred = message.election_type == _PREFERRED
    response = ElectLeadersResponse()
    replies: Replies = ()
    for topic, partitions in elections:
        rows = []
        for partition in partitions:
            error, text = _error(cluster, topic, partition, preferred=preferred)
            if not error and cluster.placement.elect(partition, preferred=preferred):
                replies += cluster.leader_changed(partition, request.now)
            if wanted is not None or error is not ErrorCode.ELECTION_NOT_NEEDED:
                rows.append(PartitionResult(partition_id=partition, error_code=error, error_message=text))
        response.replica_election_results.append(ReplicaElectionResult(topic=topic, partition_result=rows))
    return (*replies, Reply(request.ticket, response))


def _error(cluster: EmbeddedCluster, topic: str, partition: int, *, preferred: bool) -> RowError:
    if topic != OFFSETS_TOPIC or partition not in cluster.placement:
        exists = 0 <= partition < cluster.topics.get(topic, 0)
        return ErrorCode.ELECTION_NOT_NEEDED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    row = cluster.placement[partition]
    first = row.replicas[0]
    if row.leader == first or (row.leader is not None and not preferred):
        return ErrorCode.ELECTION_NOT_NEEDED, None
    if not cluster.nodes[first].alive:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None
    return NO_ERROR

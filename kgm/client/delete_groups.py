"""DeleteGroups (v0-2) for one group and OffsetDelete (v0), each sent once. Error codes in an answer are data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgm.client.failures import BadAnswerError
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.protocol.apis import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAnswer:
    """What the coordinator answered. error_code: the first one that is not 0."""

    error_code: int
    version: int
    broker: str


def delete_group(connection: BrokerConnection, group_id: str, deadline: Deadline) -> DeleteAnswer:
    """Delete a group along with its committed offsets (KIP-229, Kafka 1.1). Raises KgmError; UnsupportedError before
    anything is sent."""
    from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
    from kgm.protocol.messages.delete_groups_response import DeleteGroupsResponse

    version = connection.version(ApiKey.DELETE_GROUPS)
    request = DeleteGroupsRequest(groups_names=[group_id])
    answer = connection.call(request, DeleteGroupsResponse, version=version, deadline=deadline)
    codes = [row.error_code for row in answer.results if row.group_id == group_id]
    return _answer(codes, connection, version, group_id)


def delete_offsets(
    connection: BrokerConnection, group_id: str, partitions: Mapping[str, Sequence[int]], deadline: Deadline
) -> DeleteAnswer:
    """Delete the committed offsets of partitions, by topic (KIP-496, Kafka 2.4). Raises what `delete_group` raises."""
    from kgm.protocol.messages.offset_delete_request import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )
    from kgm.protocol.messages.offset_delete_response import OffsetDeleteResponse

    version = connection.version(ApiKey.OFFSET_DELETE)
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        )
        for topic, numbers in partitions.items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    answer = connection.call(request, OffsetDeleteResponse, version=version, deadline=deadline)
    if answer.error_code:
        return _answer([answer.error_code], connection, version, group_id)
    rows = {(topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions}
    wanted = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    return _answer([rows[pair] for pair in wanted if pair in rows], connection, version, group_id, of=len(wanted))


def _answer(
    codes: Sequence[int], connection: BrokerConnection, version: int, group_id: str, *, of: int = 1
) -> DeleteAnswer:
    error_code = next((code for code in codes if code), 0)
    if not error_code and len(codes) < of:
        raise BadAnswerError(
            f"the answer of broker {connection.address} does not cover everything to be deleted", group_id=group_id
        )
    return DeleteAnswer(error_code=error_code, version=version, broker=str(connection.address))

"""Which members of a consumer or streams group may commit and fetch offsets, and in which epoch (KIP-848, KIP-1251,
KIP-1071; Kafka: validateOffsetCommit and validateOffsetFetch of ConsumerGroup and StreamsGroup)."""

from collections.abc import Callable
from dataclasses import dataclass

from kgm.coordinator.contract.api_versions import COMMIT_KNOWS_CONSUMER_PROTOCOL
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import StreamsMember
from kgm.coordinator.groups.streams_topology import StreamsTopology
from kgm.model.errors import ErrorCode

_NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class CommitPartitionValidator:
    """Decides, per partition, about a commit from an epoch before the member's own. It is accepted for partitions that
    the member has, or must revoke, and already had in that epoch. since: returns the epoch in which it got a partition
    of a topic; None if it does not have it. error: the error for all other partitions."""

    epoch: int
    since: Callable[[str, int], int | None]
    error: ErrorCode

    def check(self, topic: str, partition: int) -> ErrorCode:
        since = self.since(topic, partition)
        return self.error if since is None or self.epoch < since else ErrorCode.NONE


def check_commit(
    group: ConsumerGroup | StreamsGroup, member_id: str, epoch: int, version: int, image: TopicImage
) -> ErrorCode | CommitPartitionValidator:
    """Whether a commit is accepted; a validator if that depends on the partition."""
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not _uses_classic(member) and version < COMMIT_KNOWS_CONSUMER_PROTOCOL:
        return ErrorCode.UNSUPPORTED_VERSION
    return _check_epoch(group, member, epoch, image)


def check_transactional_commit(
    group: ConsumerGroup | StreamsGroup, member_id: str, instance_id: str | None, epoch: int, image: TopicImage
) -> ErrorCode | CommitPartitionValidator:
    """Whether a commit in a transaction is accepted (the request need not name a member); a validator if that depends
    on the partition."""
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    if epoch == _NO_EPOCH and member_id == "" and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    checked = _check_epoch(group, member, epoch, image)
    if isinstance(checked, CommitPartitionValidator):
        known, since = image.by_name, checked.since
        return CommitPartitionValidator(
            epoch,
            lambda topic, partition: since(topic, partition) if topic in known else None,
            ErrorCode.ILLEGAL_GENERATION,
        )
    return ErrorCode.ILLEGAL_GENERATION if checked is not ErrorCode.NONE else checked


def _check_epoch(
    group: ConsumerGroup | StreamsGroup, member: ConsumerMember | StreamsMember, epoch: int, image: TopicImage
) -> ErrorCode | CommitPartitionValidator:
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    error = _other_epoch_error(member)
    if epoch > member.member_epoch:
        return error
    if isinstance(member, ConsumerMember):
        assert isinstance(group, ConsumerGroup)
        if not group.behavior.has_assignment_epochs:
            return error
        return CommitPartitionValidator(epoch, _since(member, image), error)
    assert isinstance(group, StreamsGroup)
    return (
        error if group.topology is None else CommitPartitionValidator(epoch, _task_since(member, group.topology), error)
    )


def _since(member: ConsumerMember, image: TopicImage) -> Callable[[str, int], int | None]:
    def since(topic: str, partition: int) -> int | None:
        known = image.by_name.get(topic)
        return None if known is None else member.assignment_epoch(known.topic_id, partition)

    return since


def _task_since(member: StreamsMember, topology: StreamsTopology) -> Callable[[str, int], int | None]:
    def since(topic: str, partition: int) -> int | None:
        subtopology_id = topology.subtopology_of.get(topic)
        return None if subtopology_id is None else member.assignment_epoch(subtopology_id, partition)

    return since


def check_fetch(group: ConsumerGroup | StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether offsets may be fetched: by a member in its own epoch, and by a client that claims no membership."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.member_epoch else _other_epoch_error(member)


def _other_epoch_error(member: ConsumerMember | StreamsMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if _uses_classic(member) else ErrorCode.STALE_MEMBER_EPOCH


def _uses_classic(member: ConsumerMember | StreamsMember) -> bool:
    return isinstance(member, ConsumerMember) and member.classic is not None

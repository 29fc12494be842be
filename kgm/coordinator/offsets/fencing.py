"""Which member of a consumer group may commit and fetch offsets, and in which epoch (KIP-848, KIP-1251; Kafka:
ConsumerGroup.validateOffsetCommit, validateOffsetFetch)."""

from dataclasses import dataclass

from kgm.coordinator.contract.api_versions import COMMIT_KNOWS_CONSUMER_PROTOCOL
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.model.errors import ErrorCode

_NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class CommitPartitionValidator:
    """Decides by partition about a commit from an epoch before the member's own. It is accepted for partitions that the
    member has, or has to revoke, and had in that epoch. error: what other partitions are refused with."""

    member: ConsumerMember
    epoch: int
    image: TopicImage
    error: ErrorCode

    def check(self, topic: str, partition: int) -> ErrorCode:
        known = self.image.by_name.get(topic)
        since = None if known is None else self.member.assignment_epoch(known.topic_id, partition)
        return self.error if since is None or self.epoch < since else ErrorCode.NONE


def check_commit(
    group: ConsumerGroup, member_id: str, epoch: int, version: int, image: TopicImage
) -> ErrorCode | CommitPartitionValidator:
    """Whether a commit is accepted; a validator if that depends on the partition."""
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < COMMIT_KNOWS_CONSUMER_PROTOCOL:
        return ErrorCode.UNSUPPORTED_VERSION
    return _check_epoch(group, member, epoch, image)


def check_transactional_commit(
    group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, image: TopicImage
) -> ErrorCode | CommitPartitionValidator:
    """Whether a commit in a transaction is accepted, where a member need not be named; a validator if that depends on
    the partition."""
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    if epoch == _NO_EPOCH and member_id == "" and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    checked = _check_epoch(group, member, epoch, image)
    if isinstance(checked, CommitPartitionValidator):
        return CommitPartitionValidator(member, epoch, image, ErrorCode.ILLEGAL_GENERATION)
    return ErrorCode.ILLEGAL_GENERATION if checked is not ErrorCode.NONE else checked


def _check_epoch(
    group: ConsumerGroup, member: ConsumerMember, epoch: int, image: TopicImage
) -> ErrorCode | CommitPartitionValidator:
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    error = _other_epoch_error(member)
    if epoch > member.member_epoch or not group.behavior.has_assignment_epochs:
        return error
    return CommitPartitionValidator(member, epoch, image, error)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether offsets may be fetched: by a member in its own epoch, and by a client that claims no membership."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.member_epoch else _other_epoch_error(member)


def _other_epoch_error(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

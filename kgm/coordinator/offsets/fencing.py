"""Offsets of consumer groups: which member may commit and fetch, in which epoch (KIP-848, KIP-1251).

Kafka: ConsumerGroup.validateOffsetCommit, validateOffsetFetch."""

from dataclasses import dataclass

from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.consumer.member import ConsumerMember
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.model.errors import ErrorCode

_NEW_PROTOCOL_FROM = 9
_NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class AnEpochBefore:
    """A commit from an epoch before the member's own: it is let through for partitions that the member has, or has
    still to give up, and had in that epoch. error: what it is refused with."""

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
) -> ErrorCode | AnEpochBefore:
    """Whether a commit may be; AnEpochBefore if that depends on the partition."""
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < _NEW_PROTOCOL_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    return _check_epoch(member, epoch, image)


def check_transactional_commit(
    group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, image: TopicImage
) -> ErrorCode | AnEpochBefore:
    """Likewise in a transaction, where a member need not be named."""
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    if epoch == _NO_EPOCH and member_id == "" and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    checked = _check_epoch(member, epoch, image)
    if isinstance(checked, AnEpochBefore):
        return AnEpochBefore(member, epoch, image, ErrorCode.ILLEGAL_GENERATION)
    return ErrorCode.ILLEGAL_GENERATION if checked is not ErrorCode.NONE else checked


def _check_epoch(member: ConsumerMember, epoch: int, image: TopicImage) -> ErrorCode | AnEpochBefore:
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    error = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return error if epoch > member.member_epoch else AnEpochBefore(member, epoch, image, error)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether the offsets may be fetched: by members in their own epoch, and by who is none and says so."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

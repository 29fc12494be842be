"""The group epoch, and what the log stores with it about the topics that a group subscribes to.

That is a hash (KIP-1101), or in Kafka 4.0 the topics themselves. If they change, the group gets the next epoch."""

from collections.abc import Collection

from kgm.coordinator.consumer import records
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft


def write_if_changed(group: ConsumerGroup, topics: Collection[str], event: EventDraft, *, bumps: bool) -> int:
    """The group epoch, after writing the next one if `bumps`, or if the topics with these names have changed."""
    if not group.behavior.has_metadata_hash:
        return _write_with_topics(group, topics, event, bumps=bumps)
    metadata_hash = event.image.hash_of(topics)
    if not bumps and metadata_hash == group.metadata_hash:
        return group.group_epoch
    event.write(records.epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
    return group.group_epoch + 1


def _write_with_topics(group: ConsumerGroup, topics: Collection[str], event: EventDraft, *, bumps: bool) -> int:
    existing = event.image.described(topics)
    if existing != group.partition_metadata:
        event.write(records.partition_metadata_record(group.group_id, existing))
    elif not bumps:
        return group.group_epoch
    event.write(records.epoch_record(group.group_id, group.group_epoch + 1, 0))
    return group.group_epoch + 1

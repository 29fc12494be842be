"""Every type of group that a coordinator has."""

from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.streams_group import StreamsGroup

#: A group. The union is closed: `match` over it needs no wildcard. All of them have `group_id`, `group_type`, `state`,
#: `protocol_type`, `is_empty`, `is_subscribed_to` and `is_shared`.
Group = ClassicGroup | ConsumerGroup | StreamsGroup | ForeignGroup

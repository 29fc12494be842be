"""`range` of the coordinator (KIP-848): contiguous blocks per topic, static members first; no racks, not sticky.

Kafka's class has one path for equal and one for different subscriptions; their answers follow one rule."""

from kgm.assignors.answers import in_blocks
from kgm.assignors.server import server_layout
from kgm.assignors.spec import Assigned, GroupSpec, by_identity


def assign_server_range(group: GroupSpec) -> Assigned:
    """Raises UsageError when a member subscribes to a topic that is not there."""
    return in_blocks(server_layout(group), by_identity(group.members))

"""The coordinator's `range` (KIP-848): contiguous blocks per topic, static members first; no racks, not sticky.

Kafka's class has one path for equal and one for different subscriptions, but both produce results by the same rule."""

from kgm.assignors.contract import Assigned, GroupSpec, by_identity
from kgm.assignors.result import in_blocks
from kgm.assignors.server.broker_view import server_layout


def assign_server_range(group: GroupSpec) -> Assigned:
    """Raises UsageError if a member subscribes to a topic that does not exist."""
    return in_blocks(server_layout(group), by_identity(group.members))

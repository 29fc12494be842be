"""The map in which a broker keeps the members of a consumer group, as far as the group's records show it: the broker
lists members, and assigns partitions, in the order of that map."""

from dataclasses import dataclass, field

from kgm.history.state_json import json_name
from kgm.java.timeline_hash_map import TimelineOrder


@dataclass(slots=True, kw_only=True)
class BrokerMemberMap:
    """Its table never shrinks (`TimelineOrder`).

    capacity: the size of its table; None if it is not known. leader_epoch: of the last record; a coordinator that takes
    over builds its map from what compaction has left of the log. is_loaded_alike: whether it would build the same map,
    because no member has left or was written again."""

    capacity: int | None = field(default_factory=lambda: TimelineOrder().capacity)
    leader_epoch: int | None = field(default=None, metadata=json_name("leader"))
    is_loaded_alike: bool = field(default=True, metadata=json_name("alike"))

    def led_by(self, leader_epoch: int | None) -> None:
        """Note the leader epoch of a record, which not all sources have."""
        if (leader_epoch is None or leader_epoch != self.leader_epoch) and not self.is_loaded_alike:
            self.capacity = None
        self.leader_epoch = leader_epoch

    def put(self, members: int, *, is_new: bool, is_classic: bool) -> bool:
        """Add a member's record; members: how many the group had before it. Returns whether the table's size changed.

        is_classic: the member uses the classic protocol. If the group was converted from that, the broker has seen its
        members in another order."""
        before = self.capacity
        self.is_loaded_alike &= is_new
        if is_classic:
            self.capacity = None
        else:
            self.put_again(members)
        return self.capacity != before

    def put_again(self, members: int) -> None:
        """Put a member into the same place again, in a group with this many members, as every record of its current
        assignment does. A map that is loaded gets these, too: compaction leaves one for each member."""
        if self.capacity is not None:
            order = TimelineOrder(self.capacity)
            order.put(members)
            self.capacity = order.capacity

"""The map in which a broker has the members of a consumer group, as far as the group's records tell: it lists them, and
assigns partitions, in the order of that map."""

from dataclasses import dataclass, field

from kgm.history.state_json import json_name
from kgm.java.timeline_hash_map import TimelineOrder


@dataclass(slots=True, kw_only=True)
class BrokerMemberMap:
    """Its table never shrinks (`TimelineOrder`).

    capacity: of its table; None if it is not known. leader_epoch: of the last record; a coordinator that takes over
    builds its map from what compaction has left of the log. is_loaded_alike: it builds the same one, because no member
    has gone or was written again."""

    capacity: int | None = field(default_factory=lambda: TimelineOrder().capacity)
    leader_epoch: int | None = field(default=None, metadata=json_name("leader"))
    is_loaded_alike: bool = field(default=True, metadata=json_name("alike"))

    def led_by(self, leader_epoch: int | None) -> None:
        """The leader epoch of a record, which not all sources have."""
        if (leader_epoch is None or leader_epoch != self.leader_epoch) and not self.is_loaded_alike:
            self.capacity = None
        self.leader_epoch = leader_epoch

    def put(self, members: int, *, is_new: bool, is_classic: bool) -> bool:
        """A member's record, of a group that has so many members before it; whether the table has another size now.

        is_classic: the member uses the classic protocol. Where a group was converted from that, the broker has seen
        members in another order."""
        before = self.capacity
        self.is_loaded_alike &= is_new
        if is_classic:
            self.capacity = None
        else:
            self.put_again(members)
        return self.capacity != before

    def put_again(self, members: int) -> None:
        """A member of a group that has so many is put in its own place, as by every record of its current assignment.
        A map that is loaded gets these, too: compaction leaves one of each member."""
        if self.capacity is not None:
            order = TimelineOrder(self.capacity)
            order.put(members)
            self.capacity = order.capacity

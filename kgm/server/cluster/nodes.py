"""The brokers of a cluster, and which of them leads what.

All brokers share one process and one copy of everything, so that each is a replica of every partition and any of them
can take over. A *place* in `__consumer_offsets` names a partition there: its leader is the coordinator of the groups
that hash to it (Kafka: GroupCoordinator.partitionFor)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgm.java.hashing import string_hash

OFFSETS_TOPIC = "__consumer_offsets"
_SIGN = 1 << 31


def place_of(text: str, partitions: int) -> int:
    """Java's `Utils.abs(text.hashCode()) % partitions`; the one number without an absolute value counts as 0."""
    value = string_hash(text)
    if value >= _SIGN:
        value = (1 << 32) - value
        if value == _SIGN:
            value = 0
    return value % partitions


@dataclass(slots=True)
class Node:
    """One broker. port: where it listens; None says: wherever the client reached it."""

    node_id: int
    port: int | None = None
    alive: bool = True


class Nodes:
    """All brokers, by id from 1 on."""

    def __init__(self, count: int = 1) -> None:
        self._nodes = {node_id: Node(node_id) for node_id in range(1, count + 1)}
        self.ids = tuple(self._nodes)

    def __getitem__(self, node_id: int) -> Node:
        return self._nodes[node_id]

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._nodes

    def alive(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.alive]

    @property
    def controller(self) -> int:
        """The broker that clients are told to send administration to; each would do it."""
        return next((node.node_id for node in self.alive()), -1)

    def in_turn(self, start: int) -> tuple[int, ...]:
        """Every id once, beginning with the one whose turn it is."""
        at = start % len(self.ids)
        return self.ids[at:] + self.ids[:at]

    def living(self, replicas: Iterable[int]) -> list[int]:
        """Those of the replicas that are in sync, which are all that are alive."""
        return [node_id for node_id in replicas if self._nodes[node_id].alive]

    def leader(self, replicas: Iterable[int]) -> int | None:
        """The first replica that is alive leads."""
        return next(iter(self.living(replicas)), None)


@dataclass(slots=True)
class Place:
    """One partition of `__consumer_offsets`. The epoch counts its leaders. is_offline: its log has failed."""

    replicas: tuple[int, ...]
    leader: int | None
    epoch: int = 0
    is_offline: bool = False


class Placement:
    """Who leads the partitions of `__consumer_offsets`.

    A leader stays until it stops, is no longer a replica, or another one is elected; so one that comes back leads
    nothing at first, as in Kafka."""

    def __init__(self, nodes: Nodes, partitions: int, assigned: Mapping[int, Sequence[int]] | None = None) -> None:
        self.nodes = nodes
        self._places = []
        for partition in range(partitions):
            wanted = tuple(node_id for node_id in (assigned or {}).get(partition, ()) if node_id in nodes)
            replicas = wanted or nodes.in_turn(partition)
            self._places.append(Place(replicas, nodes.leader(replicas)))

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, partition: int) -> Place:
        return self._places[partition]

    def __contains__(self, partition: object) -> bool:
        return isinstance(partition, int) and 0 <= partition < len(self._places)

    def of_group(self, group_id: str) -> int:
        return place_of(group_id, len(self._places))

    def assigned(self) -> dict[int, list[int]]:
        """Replicas of the partitions that somebody has placed by hand."""
        return {
            partition: list(place.replicas)
            for partition, place in enumerate(self._places)
            if place.replicas != self.nodes.in_turn(partition)
        }

    def assign(self, partition: int, replicas: Sequence[int]) -> None:
        """Give the partition other replicas, which may try a log again that has failed."""
        self._places[partition].replicas = tuple(replicas)
        self._places[partition].is_offline = False

    def fail(self, partition: int) -> None:
        """The partition's log has failed: nobody leads, until somebody tries again."""
        self._places[partition].is_offline = True
        self.elect(partition)

    def retry(self) -> None:
        """Logs that have failed may be tried again."""
        for place in self._places:
            place.is_offline = False

    def elect(self, partition: int, *, preferred: bool = False) -> bool:
        """Find a leader: the one there is if it may stay, else the first replica that is alive. True if it changed."""
        place = self._places[partition]
        living = [] if place.is_offline else self.nodes.living(place.replicas)
        leader = place.leader if place.leader in living and not preferred else next(iter(living), None)
        return self._set(place, leader)

    def lead(self, partition: int, leader: int) -> bool:
        """Make one of the living replicas the leader. True if it was not."""
        assert leader in self.nodes.living(self._places[partition].replicas)
        self._places[partition].is_offline = False
        return self._set(self._places[partition], leader)

    @staticmethod
    def _set(place: Place, leader: int | None) -> bool:
        if leader == place.leader:
            return False
        place.leader = leader
        place.epoch += 1
        return True

"""The brokers of a cluster, and which of them leads which partition of `__consumer_offsets`.

All brokers share one process and one copy of everything, so each is a replica of every partition, and any of them can
take over. The leader of a partition of `__consumer_offsets` is the coordinator of its groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode

#: Kafka's `transaction.state.log.num.partitions`.
TRANSACTION_PARTITIONS = 50


@dataclass(slots=True)
class Node:
    """One broker. port: where it listens; None: the port at which the client reached it."""

    node_id: int
    port: int | None = None
    alive: bool = True


class Nodes:
    """All brokers; their ids start at 1."""

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
        """The broker that Metadata names as the controller: the first live one. Any of them would do."""
        return next((node.node_id for node in self.alive()), -1)

    def rotated(self, start: int) -> tuple[int, ...]:
        """All ids, each once, starting at a position, so that partitions get different leaders."""
        at = start % len(self.ids)
        return self.ids[at:] + self.ids[:at]

    def in_sync(self, replicas: Iterable[int]) -> list[int]:
        """The replicas that are in sync, in the given order. All live replicas are."""
        return [node_id for node_id in replicas if self._nodes[node_id].alive]

    def leader(self, replicas: Iterable[int]) -> int | None:
        """The first live replica; None if there is none."""
        return next(iter(self.in_sync(replicas)), None)

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates the transactions of this id; None if no broker is alive."""
        return self.leader(self.rotated(partition_for(transactional_id, TRANSACTION_PARTITIONS)))


@dataclass(slots=True)
class OffsetsPartition:
    """One partition of `__consumer_offsets`. epoch: incremented when its leader changes. is_offline: its log has
    failed."""

    replicas: tuple[int, ...]
    leader: int | None
    epoch: int = 0
    is_offline: bool = False


class Placement:
    """The replicas and leaders of the partitions of `__consumer_offsets`.

    A leader stays until it stops, is no longer a replica, or another one is elected. So a restarted broker leads
    nothing at first, as in Kafka."""

    def __init__(self, nodes: Nodes, partitions: int, reassigned: Mapping[int, Sequence[int]] | None = None) -> None:
        self.nodes = nodes
        self._partitions = []
        for partition in range(partitions):
            wanted = tuple(node_id for node_id in (reassigned or {}).get(partition, ()) if node_id in nodes)
            replicas = wanted or nodes.rotated(partition)
            self._partitions.append(OffsetsPartition(replicas, nodes.leader(replicas)))

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, partition: int) -> OffsetsPartition:
        return self._partitions[partition]

    def __contains__(self, partition: object) -> bool:
        return isinstance(partition, int) and 0 <= partition < len(self._partitions)

    def partition_for(self, group_id: str) -> int:
        """The partition that has the group's records."""
        return partition_for(group_id, len(self._partitions))

    def coordinator_of(self, group_id: str) -> int | None:
        """The broker that coordinates a group; None if there is none at the moment."""
        return self._partitions[self.partition_for(group_id)].leader

    def reassigned(self) -> dict[int, list[int]]:
        """The replicas of the partitions that were reassigned."""
        return {
            number: list(partition.replicas)
            for number, partition in enumerate(self._partitions)
            if partition.replicas != self.nodes.rotated(number)
        }

    def assign(self, partition: int, replicas: Sequence[int]) -> None:
        """Replace the replicas of a partition. If its log has failed, it can be tried again."""
        self._partitions[partition].replicas = tuple(replicas)
        self._partitions[partition].is_offline = False

    def fail(self, partition: int) -> None:
        """Mark the partition's log as failed: the partition has no leader until the log is tried again."""
        self._partitions[partition].is_offline = True
        self.elect(partition)

    def seen_epoch(self, partition: int, epoch: int) -> None:
        """Take note that the partition's log has batches of this leader epoch, perhaps from an earlier run."""
        row = self._partitions[partition]
        row.epoch = max(row.epoch, epoch)

    def refusal_at(self, partition: int, node_id: int, epoch: int) -> ErrorCode:
        """The error if a broker refuses to read a partition, or NONE. epoch: the leader epoch that the client knows;
        below 0 if it does not send one (Kafka: Partition.checkCurrentLeaderEpoch)."""
        row = self._partitions[partition]
        if 0 <= epoch != row.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < row.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if row.leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def retry(self) -> None:
        """Allow logs that have failed to be tried again."""
        for partition in self._partitions:
            partition.is_offline = False

    def elect(self, partition: int, *, preferred: bool = False) -> bool:
        """Elect a leader: the current one if it is an in-sync replica, else the first in-sync replica. preferred: the
        first one in any case. Returns whether the leader changed."""
        row = self._partitions[partition]
        in_sync = [] if row.is_offline else self.nodes.in_sync(row.replicas)
        leader = row.leader if row.leader in in_sync and not preferred else next(iter(in_sync), None)
        return self._set(row, leader)

    def lead(self, partition: int, leader: int) -> bool:
        """Make an in-sync replica the leader. Returns whether the leader changed."""
        assert leader in self.nodes.in_sync(self._partitions[partition].replicas)
        self._partitions[partition].is_offline = False
        return self._set(self._partitions[partition], leader)

    @staticmethod
    def _set(row: OffsetsPartition, leader: int | None) -> bool:
        if leader == row.leader:
            return False
        row.leader = leader
        row.epoch += 1
        return True

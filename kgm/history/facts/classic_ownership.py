"""Who owned which partition of a classic group: a row of `silver_owner` for as long as an identity keeps it.

The group's records show who owns which partition from the end of a rebalance on, and that members had revoked the other
partitions by the end of its join phase; the last commit before that is a lower bound for how long they consumed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kgm.history.facts.commit_windows import CommitTimes
from kgm.history.reconstruct.classic_snapshots import Snapshot, TopicPartition
from kgm.history.row_parts import GroupKey
from kgm.history.row_tables import RowCollector
from kgm.history.rows import OwnerRow

#: (topic, partition, identity)
LastOwners = Iterable[tuple[str, int, str]]


class ClassicOwnership:
    """The owners of a group's partitions. open: the rows of owners that still own their partition. last_owners: the
    identity that last owned each of the partitions that have no owner now."""

    def __init__(
        self, rows: RowCollector, group: GroupKey, open_rows: list[OwnerRow], last_owners: LastOwners,
        commits: CommitTimes,
    ) -> None:  # fmt: skip
        self.rows, self.group, self.commits = rows, group, commits
        self.open = {(row.place, row.topic_partition): row for row in open_rows}
        self.last_owners = {(topic, number): identity for topic, number, identity in last_owners}

    def regained(self, snapshot: Snapshot) -> tuple[int, int]:
        """How many partitions that had no owner until this snapshot have another one than their last, and the same.

        In a cooperative rebalance a partition that moves has no owner for one generation, in that of Kafka Streams for
        as many as it takes the next owner to catch up: no two consecutive records show that it moved."""
        owners = snapshot.owners
        same = [owners[place] == identity for place, identity in self.last_owners.items() if place in owners]
        return len(same) - sum(same), sum(same)

    def assigned(self, snapshot: Snapshot) -> None:
        """The partitions now have the owners of this snapshot. A row continues if the identity is the same."""
        owners: Mapping[TopicPartition, str] = snapshot.owners
        for place in self.open.keys() - owners.keys():
            self._close(place, snapshot)
        for place, identity in owners.items():
            row = self.open.get(place)
            if row is not None and row.seat == identity:
                continue
            if row is not None:
                self._close(place, snapshot)
            self._open(place, identity, snapshot)

    def forget_last_owners(self) -> None:
        """The group was removed: what follows is a new group with its id."""
        self.last_owners.clear()

    def finish(self) -> None:
        """Put the rows that are still open at the end of the records."""
        self.rows.put_all(self.open.values())

    def _open(self, place: TopicPartition, identity: str, snapshot: Snapshot) -> None:
        topic, number = place
        row = OwnerRow(
            **self.group.columns, topic=topic, topic_partition=number, place=topic, seat=identity,
            member_id=snapshot.members[identity].record.member_id, from_offset=snapshot.offset,
            from_timestamp=snapshot.timestamp, from_generation=snapshot.generation, known_from=snapshot.complete,
            exact=False,
        )  # fmt: skip
        self.open[place] = row
        self.last_owners.pop(place, None)
        self.rows.put(row)

    def _close(self, place: TopicPartition, snapshot: Snapshot) -> None:
        row = self.open.pop(place)
        self.last_owners[place] = row.seat
        last = self.commits.forget(place)
        earliest = row.from_timestamp if last is None else max(last, row.from_timestamp)
        until = min(snapshot.joined_at, snapshot.timestamp)
        self.rows.put(
            replace(
                row, to_offset=snapshot.offset, to_timestamp=until, to_generation=snapshot.generation,
                to_earliest_timestamp=min(earliest, until),
            )
        )  # fmt: skip

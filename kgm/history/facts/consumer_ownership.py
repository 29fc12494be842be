"""Who has which partition in a group of the consumer protocol, exact to the record: a partition is released when its
member's record no longer has it, neither assigned nor pending revocation, or when the member stopped (epoch -2) or is
gone."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kgm.history.facts.commit_windows import CommitTimes
from kgm.history.facts.consumer_state import CurrentAssignment, OwnershipState, TopicIdPartition
from kgm.history.reconstruct.classic_snapshots import TopicPartition
from kgm.history.row_parts import GroupKey, GroupRecord
from kgm.history.row_tables import RowCollector
from kgm.history.rows import OwnerRow

#: The name of a topic id (in hex), if a record up to an offset has it.
TopicNames = Callable[[str, int], str | None]
#: An offset after all records.
_END = 1 << 62


class ConsumerOwnership:
    """The owners of a group's partitions."""

    def __init__(self, rows: RowCollector, group: GroupKey, names: TopicNames, state: OwnershipState) -> None:
        self.rows, self.group, self.names = rows, group, names
        self.open: dict[TopicIdPartition, OwnerRow] = {(topic, number): row for topic, number, row in state.open}
        self.free = {(topic, number): (at, identity) for topic, number, at, identity in state.free}
        self.commits = CommitTimes(state.commits)

    def state(self) -> OwnershipState:
        """The state for the next run."""
        return OwnershipState(
            open=[(*place, row) for place, row in self.open.items()],
            free=[(*place, *since) for place, since in self.free.items()],
            commits=self.commits.state(),
        )

    def commits_of(self, places: Sequence[TopicIdPartition], offset: int) -> tuple[int | None, int | None]:
        """(the last commit of the partitions before an offset, the average time between commits of the busiest one)."""
        named = list(self._named(places, offset))
        return self.commits.last(named), self.commits.cadence(named)

    def is_lull(
        self, mine: Sequence[TopicIdPartition], others: Sequence[TopicIdPartition], record: GroupRecord
    ) -> bool:
        """Whether nobody has committed since about the last commit of `mine`: see `CommitTimes.is_lull`."""
        offset = record.offset
        return self.commits.is_lull(
            list(self._named(mine, offset)), list(self._named(others, offset)), record.timestamp
        )

    def _named(self, places: Sequence[TopicIdPartition], offset: int) -> Iterator[TopicPartition]:
        for topic, number in places:
            name = self.names(topic, offset)
            if name is not None:
                yield name, number

    def assigned(
        self, member_id: str, identity: str, current: CurrentAssignment, record: GroupRecord, generation: int,
        *, known: bool,
    ) -> int:  # fmt: skip
        """A member's partitions from this record on. Returns for how long, in ms, those that it got from others had no
        owner, summed over partitions."""
        now = set(current.owned())
        self._release(member_id, now, record, generation)
        unowned = 0
        for place in sorted(now):
            row = self.open.get(place)
            if row is not None and row.member_id == member_id:
                continue
            if row is not None:
                self._close(place, record, generation)
            since = self.free.pop(place, None)
            if since is not None and since[1] != identity:
                unowned += max(record.timestamp - since[0], 0)
            self._open(place, member_id, identity, record, generation, known=known)
        return unowned

    def gone(self, member_id: str, record: GroupRecord, generation: int) -> None:
        """A member is no longer in the group."""
        self._release(member_id, set(), record, generation)

    def finish(self) -> None:
        """Put the rows that are still open at the end of the records."""
        for place, row in self.open.items():
            if row.topic is None:
                row = self.open[place] = replace(row, topic=self.names(place[0], _END))  # noqa: PLW2901
            self.rows.put(row)

    def _release(self, member_id: str, remaining: set[TopicIdPartition], record: GroupRecord, generation: int) -> None:
        """The member now owns only these partitions."""
        owned = [place for place, row in self.open.items() if row.member_id == member_id]
        for place in owned:
            if place not in remaining:
                self._close(place, record, generation)

    def _open(
        self, place: TopicIdPartition, member_id: str, identity: str, record: GroupRecord, generation: int,
        *, known: bool,
    ) -> None:  # fmt: skip
        topic, number = place
        name, topic_id = self.names(topic, record.offset), bytes.fromhex(topic)
        row = OwnerRow(
            **self.group.columns, topic=name, topic_id=topic_id, topic_partition=number,
            place=urlsafe_b64encode(topic_id).decode().rstrip("="), seat=identity, member_id=member_id,
            from_offset=record.offset, from_timestamp=record.timestamp, from_generation=generation, known_from=known,
            exact=True,
        )  # fmt: skip
        self.open[place] = row
        if name is not None:
            self.commits.forget((name, number))
        self.rows.put(row)

    def _close(self, place: TopicIdPartition, record: GroupRecord, generation: int) -> None:
        row = self.open.pop(place)
        self.free[place] = record.timestamp, row.seat
        self.rows.put(
            replace(
                row, to_offset=record.offset, to_timestamp=record.timestamp, to_earliest_timestamp=record.timestamp,
                to_generation=generation, topic=row.topic or self.names(place[0], record.offset),
            )
        )  # fmt: skip

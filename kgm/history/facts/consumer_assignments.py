"""Target and current assignments of a group of the consumer protocol: what is planned, what each member has, and how
long partitions had no owner in between."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypedDict

from kgm.history.causes.verdict import Cause
from kgm.history.facts.consumer_epochs import GroupEpochs
from kgm.history.facts.consumer_ownership import ConsumerOwnership, TopicNames
from kgm.history.facts.consumer_state import (
    ConsumerGroupState,
    CurrentAssignment,
    LoggedMember,
    LoggedMemberState,
    TopicIdPartition,
    flat_partitions,
    logged_state,
    plan_key,
)
from kgm.history.facts.daily_totals import DailyTotals
from kgm.history.facts.rebalance_rows import RecentRebalances
from kgm.history.row_parts import GroupKey, GroupRecord, TopicIdPartitions
from kgm.history.row_tables import RowCollector
from kgm.history.rows import MemberStateRow, RebalanceRow
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kgm.records.messages.consumer_group_target_assignment_member_value import ConsumerGroupTargetAssignmentMemberValue


class ConsumerAssignments:
    """The assignments of one group, whose state it shares with `consumer_groups`."""

    def __init__(
        self, rows: RowCollector, group: GroupKey, names: TopicNames, state: ConsumerGroupState, days: DailyTotals,
        recent: RecentRebalances,
    ) -> None:  # fmt: skip
        self.rows, self.state, self.days, self.recent = rows, state, days, recent
        self.ownership = ConsumerOwnership(rows, group, names, state.owners)
        self.epochs = GroupEpochs(rows, state.epochs)

    def target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        """The target assignment of a member."""
        self.state.target.pop(member_id, None)
        if value is not None:
            self.state.target[member_id] = flat_partitions(value.topic_partitions)

    def planned(self, record: GroupRecord, epoch: int) -> None:
        """The target assignment of an epoch is complete."""
        state = self.state
        state.group.assigned_epoch = epoch
        planned = {
            plan_key(place): state.identity(member_id) for member_id, places in state.target.items() for place in places
        }
        last = state.last_planned | state.planned
        both = last.keys() & planned.keys()
        unmoved = sum(last[place] == planned[place] for place in both)
        self.recent.update(partial(self._with_moves, epoch, len(both) - unmoved, unmoved, planned))
        state.planned = planned
        state.last_planned = {place: identity for place, identity in last.items() if place not in planned}
        self.epochs.assigned(record, epoch)
        state.group.lagging = [each for each in state.members if not self._has_target(each, epoch)]
        self._check_reached(record)

    def _with_moves(
        self, epoch: int, moved: int, unmoved: int, planned: Mapping[str, str], row: RebalanceRow
    ) -> RebalanceRow:
        if row.to_generation != epoch:
            return row
        self.days.of(row.timestamp).moved += moved
        return self._with_new_partitions(replace(row, moved=moved, kept=unmoved, assigned=len(planned)), planned)

    def _with_new_partitions(self, row: RebalanceRow, planned: Mapping[str, str]) -> RebalanceRow:
        """The row with a more specific cause, if topic metadata changed because a topic got more partitions."""
        if row.cause != Cause.METADATA.value:
            return row
        before = self.state.planned
        topics = {place.split(" ")[0] for place in before}
        new = [place for place in planned.keys() - before.keys() if place.split(" ")[0] in topics]
        if not new:
            return row
        line = f"{len(new)} partitions were assigned that were not there before"
        self.days.recount(row.timestamp, row.cause, Cause.PARTITIONS.value)
        return replace(
            row, cause=Cause.PARTITIONS.value, inferred_cause=Cause.PARTITIONS.value, evidence=(*row.evidence, line)
        )

    def current(
        self, record: GroupRecord, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> LoggedMemberState:
        """The current assignment of a member; returns its state."""
        self.state.put_again_in_map(member_id)
        member = self.state.members.get(member_id)
        if value is None:
            self.rows.put(_state_row(record, member_id, LoggedMemberState.GONE, member, None))
            return LoggedMemberState.GONE
        state = logged_state(value.member_epoch, value.state)
        row = _state_row(record, member_id, state, member, value)
        self.rows.put(self._listed(row, member))
        current = CurrentAssignment(
            epoch=value.member_epoch, state=state, assigned=flat_partitions(value.assigned_partitions),
            pending=flat_partitions(value.partitions_pending_revocation),
        )  # fmt: skip
        self.state.current[member_id] = current
        group = self.state.group
        unowned = self.ownership.assigned(
            member_id, self.state.identity(member_id), current, record, self.state.generation, known=group.whole
        )
        if unowned:
            self.recent.update(partial(self._with_unowned, unowned))
        if member_id in group.lagging and self._has_target(member_id, group.assigned_epoch):
            group.lagging.remove(member_id)
            self._check_reached(record)
        return state

    def listed_again(self, record: GroupRecord, member_id: str) -> None:
        """The broker lists the group in another order since a member's record; the member's assignment is unchanged."""
        current = self.state.current.get(member_id)
        member = self.state.members.get(member_id)
        if current is None or member is None:
            return
        row = _state_row(record, member_id, current.state, member, None)
        row = replace(
            row, **_of_member(member), member_epoch=current.epoch, assigned=_grouped(current.assigned),
            pending=_grouped(current.pending),
        )  # fmt: skip
        self.rows.put(self._listed(row, member))

    def _listed(self, row: MemberStateRow, member: LoggedMember | None) -> MemberStateRow:
        """The row with everything that determines the order in which the broker lists the group."""
        target, listing = self.state.target.get(row.member_id), self.state.group.listing
        return replace(
            row, target=None if target is None else _grouped(target),
            listed_offset=None if member is None else member.listed_offset,
            listing_capacity=None if listing is None else listing.capacity,
        )  # fmt: skip

    def _with_unowned(self, ms: int, row: RebalanceRow) -> RebalanceRow:
        if row.to_generation != self.state.group.assigned_epoch:
            return row
        total = (row.unowned_ms or 0) + ms
        day = self.days.of(row.timestamp)
        day.stopped_partition_ms_min += ms
        day.stopped_partition_ms_max += ms
        return replace(row, unowned_ms=total, stopped_partition_ms_min=total, stopped_partition_ms_max=total)

    def _has_target(self, member_id: str, epoch: int | None) -> bool:
        """Whether a member has everything that the target assignment of an epoch gives it, or is away."""
        current = self.state.current.get(member_id)
        if current is None:
            return False
        if current.state is LoggedMemberState.AWAY:
            return True
        return current.state is LoggedMemberState.STABLE and current.epoch == epoch

    def _check_reached(self, record: GroupRecord) -> None:
        if not self.state.group.lagging:
            self.epochs.reached(record)


def _state_row(
    record: GroupRecord, member_id: str, state: LoggedMemberState, member: LoggedMember | None,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> MemberStateRow:  # fmt: skip
    row = MemberStateRow(
        partition=record.partition, offset=record.offset, timestamp=record.timestamp, leader_epoch=record.leader_epoch,
        group_id=record.group_id, member_id=member_id, state=state.value,
        group_instance_id=None if member is None else member.instance_id,
    )  # fmt: skip
    if value is None:
        return row
    row = replace(
        row, member_epoch=value.member_epoch, previous_member_epoch=value.previous_member_epoch,
        assigned=_by_topic(value.assigned_partitions), pending=_by_topic(value.partitions_pending_revocation),
    )  # fmt: skip
    return row if member is None else replace(row, **_of_member(member))


class _MemberColumns(TypedDict):
    client_id: str
    client_host: str
    rack_id: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    topics: tuple[str, ...]
    regex: str | None
    classic: bool


def _of_member(member: LoggedMember) -> _MemberColumns:
    return {
        "client_id": member.client_id, "client_host": member.client_host, "rack_id": member.rack_id,
        "rebalance_timeout_ms": member.rebalance_timeout_ms, "server_assignor": member.server_assignor,
        "topics": tuple(member.topics), "regex": member.regex or None,
        "classic": member.classic_session_ms is not None,
    }  # fmt: skip


def _grouped(places: Sequence[TopicIdPartition]) -> tuple[TopicIdPartitions, ...]:
    """Partitions by topic, in the order of their record, which has each topic once."""
    return tuple(
        TopicIdPartitions(topic_id=bytes.fromhex(topic), partitions=tuple(number for _, number in some))
        for topic, some in groupby(places, key=itemgetter(0))
    )


def _by_topic(topics: list[TopicPartitions]) -> tuple[TopicIdPartitions, ...]:
    return tuple(TopicIdPartitions(topic_id=each.topic_id, partitions=tuple(each.partitions)) for each in topics)

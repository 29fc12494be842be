"""Which rebalances of a history are replayed, and when the events they show happened."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from kgm.history.causes.verdict import Cause
from kgm.history.rows import RebalanceRow, TenureRow
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.replay.recorded_group import Moment

#: At most this many of the newest rebalances are replayed, with at most this many member assignments in total.
MOST_REBALANCES = 60
_MOST_ASSIGNMENTS = 1_200
#: The largest number of records in the batch of a rebalance.
_LARGEST_BATCH = 50
#: How long before the earliest possible event the window starts.
_BEFORE_MS = 60_000
#: Causes that have nothing to do with processes that start or stop.
_OTHER_CAUSES = frozenset(
    each.value
    for each in (
        Cause.SUBSCRIPTION, Cause.PARTITIONS, Cause.METADATA, Cause.REJOIN, Cause.COORDINATOR, Cause.ROUNDS,
        Cause.SYNC_TIMEOUT, Cause.UNKNOWN, Cause.COOPERATIVE,
    )
)  # fmt: skip


class NotReplayableError(Exception):
    """A history that cannot be replayed, and why."""


def newest(rebalances: Sequence[RebalanceRow]) -> list[RebalanceRow]:
    """The newest rebalances with the same protocol and assignor and no gap between them. Raises NotReplayableError if
    there are none."""
    rows: list[RebalanceRow] = []
    assignor: str | None = None
    assignments = 0
    for row in reversed(rebalances[-MOST_REBALANCES:]):
        is_other = bool(rows) and row.group_type != rows[0].group_type
        is_other = is_other or (None not in (assignor, row.protocol) and row.protocol != assignor)
        assignments += row.members_after or 0
        is_too_much = bool(rows) and assignments > _MOST_ASSIGNMENTS
        if not row.complete or is_other or is_too_much or row.cause in (Cause.CONVERSION, Cause.ASSIGNOR):
            break
        assignor = assignor or row.protocol
        rows.insert(0, row)
    if not rows:
        raise NotReplayableError("records of the newest rebalance are missing")
    return rows


def untouched(rows: Sequence[RebalanceRow]) -> list[RebalanceRow]:
    """Rebalances that no process caused by starting or stopping, and the cooperative rounds that follow them. A
    returning static member causes one if its subscription has changed."""
    others: list[RebalanceRow] = []
    for row in rows:
        is_round = row.cause == Cause.COOPERATIVE
        has_other_cause = not (row.joined or row.left) and (row.cause in _OTHER_CAUSES or bool(row.replaced))
        follows = bool(others) and others[-1].to_generation == row.from_generation
        if has_other_cause and (not is_round or follows):
            others.append(row)
    return others


class Window:
    """The time in which these rebalances happened. session_ms: the session timeout of the members.

    The record of a classic group shows what happened between the previous rebalance and the end of the join phase; that
    of a consumer group shows what happened when it was written."""

    def __init__(self, rows: Sequence[RebalanceRow], tenures: Iterable[TenureRow], session_ms: int) -> None:
        self.rows, self.session_ms = rows, session_ms
        self.is_consumer = rows[0].group_type == GroupProtocol.CONSUMER.value
        self.from_ms = rows[0].timestamp - session_ms - _BEFORE_MS
        self.begin = _first_offset(tenures, rows[0]) if self.is_consumer else rows[0].offset
        self.last = rows[-1].offset
        self._of_rebalance = {rows[0].offset: _moment(rows[0], self.from_ms)}
        for before, row in pairwise(rows):
            self._of_rebalance[row.offset] = _moment(row, before.timestamp + 1)

    def moment(self, offset: int, timestamp: int) -> Moment:
        """When the event shown by the record at this offset happened."""
        at_once = Moment(earliest_ms=timestamp, latest_ms=timestamp)
        return at_once if self.is_consumer else self._of_rebalance.get(offset, at_once)


def _moment(row: RebalanceRow, earliest_ms: int) -> Moment:
    latest_ms = row.timestamp - (row.sync_ms or 0)
    return Moment(earliest_ms=min(earliest_ms, latest_ms), latest_ms=latest_ms, is_first=not row.members_before)


def _first_offset(tenures: Iterable[TenureRow], first: RebalanceRow) -> int:
    """The offset at which the first rebalance of a consumer group begins: the records of the members that joined or
    left precede that of the epoch, in one batch, and several epochs can have one target assignment."""
    tenures = list(tenures)
    places = [(row.from_offset, row.from_timestamp, row.from_generation) for row in tenures]
    places += [
        (row.to_offset, row.to_timestamp, row.from_generation if row.to_generation is None else row.to_generation)
        for row in tenures
        if row.to_offset is not None and row.to_timestamp is not None
    ]
    earlier = range(first.from_generation, first.to_generation - 1)
    return min(
        (
            offset
            for offset, timestamp, generation in places
            if offset < first.offset
            and (generation in earlier or (timestamp == first.timestamp and first.offset - offset < _LARGEST_BATCH))
        ),
        default=first.offset,
    )

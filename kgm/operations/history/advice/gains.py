"""How much a change would have helped a group, by replaying its history as it was and with the change."""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter

from kgm.history.rows import OwnerRow, RebalanceRow
from kgm.operations.history.advice.recorded import Recording, moved
from kgm.records.record import Record, encode_record
from kgm.simulation.plan.client_library import usual_heartbeat_interval_ms
from kgm.simulation.replay.changes import GroupChange, GroupChangeKind
from kgm.simulation.replay.player import Replay, ReplayDraw, Spacing
from kgm.simulation.replay.recorded_group import ReplayedGroup

#: The two extremes of what the records leave open: how long before its stop a process was last heard from, and whether
#: processes that ended in an unknown way let their sessions expire.
_EXTREME_TIMINGS = ((0.0, False), (1.0, True))
_RANDOM: tuple[float | None, bool | None] = (None, None)
#: The number of random draws. The random member ids, too, influence the assignment.
_RANDOM_DRAWS = 4
#: A history that takes more requests than this is replayed only with the extremes.
_MANY_REQUESTS = 2_500
#: (how long brokers wait for the first members, how soon members learn of a rebalance), tried in this order until a
#: replay has as many rebalances as were recorded. Each attempt uses other random numbers, because a slow request at the
#: wrong moment merges two rebalances.
_TRIES_MS = (
    (3_000, 300), (3_000, 1_000), (0, 300), (3_000, 100), (0, 100), (3_000, 30), (0, 30), (3_000, 3_000),
)  # fmt: skip
_SEED = "advice"


class Bound(StrEnum):
    """How exact the numbers of a piece of advice are."""

    EXACT = "exact"
    """All replays agree, and the replays of the history as it was have the rebalances that were recorded."""
    RANGE = "range"
    """The numbers depend on something that the records leave open."""
    AT_MOST = "at-most"
    """In addition, it is not certain which process replaced which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The totals of one replay. interruptions: how often a member stopped consuming a partition. requests: how many the
    coordinator handled."""

    rebalances: int
    moves: int
    interruptions: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """How many rebalances, moves or interruptions a change would have avoided. recorded: how many there were. least,
    typical, most: how many of them would have been avoided; negative if there would have been more."""

    recorded: int
    least: int
    typical: int
    most: int

    @property
    def is_exact(self) -> bool:
        return self.least == self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a change would have avoided. interruptions: no record has them, so `recorded` is the number in the replay
    without the change."""

    rebalances: Spared
    moves: Spared
    interruptions: Spared


class Replays:
    """The replays of a recording as it was, and the effect of a change on each."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.baselines = self._as_it_was(range(len(_EXTREME_TIMINGS)))
        if self.baselines[0][1].requests <= _MANY_REQUESTS:
            self.baselines += self._as_it_was(range(len(_EXTREME_TIMINGS), len(_EXTREME_TIMINGS) + _RANDOM_DRAWS))

    @property
    def is_faithful(self) -> bool:
        """Whether each replay without a change has as many rebalances as were recorded."""
        return all(measured.rebalances == self._replayable for _, measured in self.baselines)

    @property
    def replayed(self) -> tuple[int, int]:
        """(fewest, most) rebalances of the replays without a change, plus those that are not replayed."""
        counts = [measured.rebalances + self.recording.untouched for _, measured in self.baselines]
        return min(counts), max(counts)

    @property
    def _replayable(self) -> int:
        return self.recording.rebalances - self.recording.untouched

    def gain(self, change: GroupChange) -> Gain:
        """What the change would have avoided."""
        changed = change.applied(self.recording.group)
        draws = [draw for draw, _ in self.baselines]
        before = [measured for _, measured in self.baselines]
        if change.kind is GroupChangeKind.ASSIGNOR:
            otherwise_timed = self._otherwise_timed()
            draws += otherwise_timed
            before += [before[0]] * len(otherwise_timed)
        pairs = list(zip(before, measure(changed, draws), strict=True))
        moves = self.recording.moves - self.recording.untouched_moves
        return Gain(
            rebalances=_spared(
                self.recording.rebalances, self._replayable, [(a.rebalances, b.rebalances) for a, b in pairs]
            ),
            moves=_spared(self.recording.moves, moves, [(a.moves, b.moves) for a, b in pairs]),
            interruptions=_spared(
                pairs[0][0].interruptions, None, [(a.interruptions, b.interruptions) for a, b in pairs]
            ),
        )

    def _otherwise_timed(self) -> list[ReplayDraw]:
        """Draws in which rebalances take other times than recorded: those that coincided may now follow one another,
        and vice versa."""
        draw, _ = self.baselines[0]
        session_ms = self.recording.group.session_timeout_ms
        apart = replace(draw, spacing=Spacing.APART)
        close = replace(draw, spacing=Spacing.CLOSE, heartbeat_interval_ms=usual_heartbeat_interval_ms(session_ms))
        closer = (close, replace(close, spacing=Spacing.ANY), replace(close, spacing=Spacing.AS_RECORDED))
        return [
            replace(other, seed=f"{_SEED}/{other.spacing.name}/{number}")
            for other in (apart, *closer)
            for number in range(_RANDOM_DRAWS)
        ]

    def _as_it_was(self, numbers: Iterable[int]) -> list[tuple[ReplayDraw, Measured]]:
        """For each number the first draw that has as many rebalances as were recorded, or else the closest one."""
        closest: dict[int, tuple[int, ReplayDraw, Measured]] = {}
        open_numbers = list(numbers)
        for attempt in range(len(_TRIES_MS)):
            draws = [_draw(number, attempt) for number in open_numbers]
            still_open = []
            for number, draw, measured in zip(open_numbers, draws, measure(self.recording.group, draws), strict=True):
                off = abs(measured.rebalances - self._replayable)
                if number not in closest or off < closest[number][0]:
                    closest[number] = off, draw, measured
                if off and measured.requests <= _MANY_REQUESTS:
                    still_open.append(number)
            open_numbers = still_open
            if not open_numbers:
                break
        return [(draw, measured) for _, (_, draw, measured) in sorted(closest.items(), key=lambda each: each[0])]


def _draw(number: int, attempt: int) -> ReplayDraw:
    delay_ms, heartbeat_ms = _TRIES_MS[attempt]
    lag, unsure_expired = _EXTREME_TIMINGS[number] if number < len(_EXTREME_TIMINGS) else _RANDOM
    return ReplayDraw(
        seed=f"{_SEED}/{number}/{attempt}", heartbeat_interval_ms=heartbeat_ms, initial_delay_ms=delay_ms,
        lag=lag, unsure_expired=unsure_expired,
    )  # fmt: skip


def _spared(recorded: int, replayable: int | None, pairs: Sequence[tuple[int, int]]) -> Spared:
    """How many would have been avoided. recorded: all; replayable: those that a replay can contain. pairs: (without the
    change, with it) for each replay. Both the recorded number and the replayed one are used as starting points."""
    avoided = sorted(
        start - after
        for before, after in pairs
        for start in ((before,) if replayable is None else (before, replayable))
    )
    return Spared(
        recorded=recorded, least=avoided[0], typical=avoided[(len(avoided) - 1) // 2], most=min(avoided[-1], recorded)
    )


def measure(group: ReplayedGroup, draws: Sequence[ReplayDraw]) -> list[Measured]:
    """Replay the group once for each draw, and derive the results from the records as from a broker's: from one log,
    which takes a fraction of the time of many, with a name for the group of each draw."""
    from kgm.history.in_process import derive_records
    from kgm.history.store.query import RowFilter

    replays = [Replay(group, draw) for draw in draws]
    records = [
        (each.timestamp_ms, *encode_record(_of_group(each.record, str(number))))
        for number, replay in enumerate(replays)
        for each in replay.play()
    ]
    tables = derive_records(sorted(records, key=itemgetter(0)))
    rebalances = Counter(row.group_id for row in tables.rows(RebalanceRow, RowFilter()))
    owners: defaultdict[str, list[OwnerRow]] = defaultdict(list)
    for row in tables.rows(OwnerRow, RowFilter()):
        owners[row.group_id].append(row)
    return [
        Measured(
            rebalances=rebalances[str(number)],
            moves=len(moved(owners[str(number)])),
            interruptions=replay.interruptions,
            requests=replay.world.requests,
        )
        for number, replay in enumerate(replays)
    ]


def _of_group(record: Record, group_id: str) -> Record:
    """The record with another group in its key."""
    key = copy.copy(record.key)
    setattr(key, "group" if hasattr(key, "group") else "group_id", group_id)
    return Record(key, record.value)

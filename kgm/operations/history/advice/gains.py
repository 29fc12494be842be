"""How much a change would have helped a group, by replaying its history as it was and with the change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kgm.history.rows import OwnerRow, RebalanceRow
from kgm.operations.history.advice.recorded import Recording, moved
from kgm.records.record import encode_record
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
        self.baselines = [self._as_it_was(0, *_EXTREME_TIMINGS[0]), self._as_it_was(1, *_EXTREME_TIMINGS[1])]
        if self.baselines[0][1].requests <= _MANY_REQUESTS:
            self.baselines += [self._as_it_was(2 + number, *_RANDOM) for number in range(_RANDOM_DRAWS)]

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
        pairs = [(before, measure(changed, draw)) for draw, before in self.baselines]
        if change.kind is GroupChangeKind.ASSIGNOR:
            pairs += self._otherwise_timed(changed)
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

    def _otherwise_timed(self, changed: ReplayedGroup) -> list[tuple[Measured, Measured]]:
        """Replays of the change in which rebalances take other times than recorded: those that coincided may now follow
        one another, and vice versa."""
        draw, before = self.baselines[0]
        session_ms = self.recording.group.session_timeout_ms
        apart = replace(draw, spacing=Spacing.APART)
        close = replace(draw, spacing=Spacing.CLOSE, heartbeat_interval_ms=usual_heartbeat_interval_ms(session_ms))
        closer = (close, replace(close, spacing=Spacing.ANY), replace(close, spacing=Spacing.AS_RECORDED))
        others = [
            replace(other, seed=f"{_SEED}/{other.spacing.name}/{number}")
            for other in (apart, *closer)
            for number in range(_RANDOM_DRAWS)
        ]
        return [(before, measure(changed, other)) for other in others]

    def _as_it_was(
        self, number: int, lag: float | None, unsure_expired: bool | None  # noqa: FBT001
    ) -> tuple[ReplayDraw, Measured]:  # fmt: skip
        """The first draw that has as many rebalances as were recorded, or else the closest one."""
        tried: list[tuple[int, int, ReplayDraw, Measured]] = []
        for attempt, (delay_ms, heartbeat_ms) in enumerate(_TRIES_MS):
            draw = ReplayDraw(
                seed=f"{_SEED}/{number}/{attempt}", heartbeat_interval_ms=heartbeat_ms,
                initial_delay_ms=delay_ms, lag=lag, unsure_expired=unsure_expired,
            )  # fmt: skip
            measured = measure(self.recording.group, draw)
            off = abs(measured.rebalances - self._replayable)
            tried.append((off, len(tried), draw, measured))
            if not off or measured.requests > _MANY_REQUESTS:
                break
        _, _, draw, measured = min(tried, key=lambda each: each[:2])
        return draw, measured


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


def measure(group: ReplayedGroup, draw: ReplayDraw) -> Measured:
    """Replay the group once, and derive the result from its records as from a broker's."""
    from kgm.history.in_process import derive_records
    from kgm.history.store.query import RowFilter

    replay = Replay(group, draw)
    records = [(each.timestamp_ms, *encode_record(each.record)) for each in replay.play()]
    tables = derive_records(records)
    return Measured(
        rebalances=len(tables.rows(RebalanceRow, RowFilter())),
        moves=len(moved(tables.rows(OwnerRow, RowFilter()))),
        interruptions=replay.interruptions,
        requests=replay.world.requests,
    )

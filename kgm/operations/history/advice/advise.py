"""Which changes the causes of a group's rebalances suggest, and how many rebalances each would have avoided."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kgm.history.causes.verdict import Cause
from kgm.history.rows import RebalanceRow
from kgm.operations.history.advice.gains import Bound, Gain, Replays
from kgm.operations.history.advice.recorded import Recording, record
from kgm.operations.history.advice.suggestions import suggested_changes
from kgm.operations.history.advice.window import NotReplayableError
from kgm.operations.history.advice.wording import caveats_of, price_of, text_of
from kgm.operations.history.source import History
from kgm.simulation.replay.changes import GroupChange, GroupChangeKind

#: A replay explains nothing if its number of rebalances differs from the recorded one by more than this share.
_MOST_OFF = 0.2
_OF_EXPIRIES = frozenset({Cause.SESSION_EXPIRY.value, Cause.BOUNCE.value, Cause.ALL_GONE.value})
_OF_RESTARTS = _OF_EXPIRIES | {
    Cause.JOIN.value, Cause.LEAVE.value, Cause.REPLACEMENT.value, Cause.MAX_POLL.value, Cause.DEPARTURE.value,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change, and what it would have avoided in the group. causes: the causes of the rebalances that it affects.
    caveats: what the replay cannot know. price: what the change costs; None if no cost is known."""

    change: GroupChange
    causes: tuple[str, ...]
    gain: Gain
    bound: Bound
    text: str
    price: str | None
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """The advice for a group. rebalances: how many were replayed; replayed: (fewest, most) rebalances in the replays
    without a change; untouched: how many rebalances no change here affects; reason: why there is no advice, None if
    there could be some."""

    advice: tuple[Advice, ...] = ()
    rebalances: int = 0
    replayed: tuple[int, int] = (0, 0)
    untouched: int = 0
    reason: str | None = None


def advise(history: History, group_id: str, rebalances: Sequence[RebalanceRow]) -> AdviceReport:
    """The advice for a group, most effective first. rebalances: all of the group's, by time."""
    if not rebalances:
        return AdviceReport(reason="there are no rebalances")
    try:
        recording = record(history, group_id, rebalances)
    except NotReplayableError as error:
        return AdviceReport(reason=str(error))
    changes = list(suggested_changes(recording.group))
    if not changes:
        return AdviceReport(
            rebalances=recording.rebalances, replayed=(recording.rebalances, recording.rebalances),
            untouched=recording.untouched, reason="no process was restarted, and none joined and left repeatedly",
        )  # fmt: skip
    try:
        return _computed(recording, changes, rebalances)
    except Exception as error:  # noqa: BLE001  (an impossible history must not hide the rest of the answer)
        return AdviceReport(reason=f"internal error: {type(error).__name__}: {error}")


def _computed(
    recording: Recording, changes: Sequence[GroupChange], rebalances: Sequence[RebalanceRow]
) -> AdviceReport:  # fmt: skip
    replays = Replays(recording)
    report = AdviceReport(rebalances=recording.rebalances, replayed=replays.replayed, untouched=recording.untouched)
    off = max(abs(each - recording.rebalances) for each in replays.replayed)
    if off > _MOST_OFF * recording.rebalances:
        return replace(report, reason="replaying the history does not give the rebalances that were recorded")
    every = [_advice(recording, replays, change, rebalances) for change in changes]
    return replace(report, advice=tuple(_worth_it(every)))


def _worth_it(every: Iterable[Advice]) -> list[Advice]:
    """The advice that avoids anything, most effective first; of two with the same effect, only the first, which changes
    less."""
    ranked: list[Advice] = []
    for each in every:
        if _spares(each) and not any(other.gain == each.gain for other in ranked):
            ranked.append(each)
    return sorted(ranked, key=lambda each: (-each.gain.rebalances.typical, -each.gain.moves.typical))


def _spares(advice: Advice) -> bool:
    gain = advice.gain
    if advice.change.kind is GroupChangeKind.ASSIGNOR:
        return gain.interruptions.typical > 0
    return gain.rebalances.typical > 0 or (gain.rebalances.typical == 0 and gain.moves.typical > 0)


# -- the effect of each change


def _advice(recording: Recording, replays: Replays, change: GroupChange, rows: Sequence[RebalanceRow]) -> Advice:
    gain = replays.gain(change)
    bound = _bound(recording, replays, change, gain)
    return Advice(
        change=change, causes=_causes(change, rows), gain=gain, bound=bound, price=price_of(change, recording.group),
        text=text_of(recording.group, change, gain, bound), caveats=caveats_of(recording, replays, change),
    )  # fmt: skip


def _bound(recording: Recording, replays: Replays, change: GroupChange, gain: Gain) -> Bound:
    if change.kind.is_about_restarts and recording.group.unsure_restarts:
        return Bound.AT_MOST
    if change.kind is GroupChangeKind.MAX_POLL_INTERVAL and recording.has_unsure_stalls:
        return Bound.AT_MOST
    if change.kind is GroupChangeKind.ASSIGNOR:  # rebalances take longer or shorter, so other ones coincide
        return Bound.RANGE
    is_known = recording.is_session_known and recording.are_partitions_known and replays.is_faithful
    return Bound.EXACT if is_known and gain.rebalances.is_exact and gain.moves.is_exact else Bound.RANGE


def _causes(change: GroupChange, rows: Sequence[RebalanceRow]) -> tuple[str, ...]:
    """The causes of the rebalances that the change affects."""
    if change.kind is GroupChangeKind.ASSIGNOR:
        return tuple(dict.fromkeys(row.cause for row in rows))
    if change.kind is GroupChangeKind.MAX_POLL_INTERVAL:
        return (Cause.MAX_POLL.value,)
    about = _OF_EXPIRIES if change.kind is GroupChangeKind.SESSION_TIMEOUT else _OF_RESTARTS
    return tuple(dict.fromkeys(row.cause for row in rows if row.cause in about))

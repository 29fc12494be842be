"""What happened to a group, and why: all of its rebalances, one of them in detail, and what to do next."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgm.history.causes.session_timeouts import SessionLookup
from kgm.history.places.remote_path import Place
from kgm.history.row_parts import CauseCount
from kgm.history.rows import AlarmRow, EventRow, MemberChangeRow, RebalanceRow, TimeoutAdviceRow
from kgm.model.assignment import Move
from kgm.operations.groups.rebalance_wait import RebalanceWait
from kgm.operations.history.advice import AdviceReport, advise
from kgm.operations.history.gaps import incomplete_groups
from kgm.operations.history.next_steps import NextStep, next_steps
from kgm.operations.history.rebalance_effects import RebalanceEffects
from kgm.operations.history.source import History, HistorySource, open_history
from kgm.operations.history.unfinished import logged_wait

_GENERATIONS_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A group, within the requested time. complete: no gap hides rebalances; None if there are none, and no gap.
    rebalance: the one explained in detail, with the members it changed and the partitions that moved between it and the
    next one. advice: what would have avoided rebalances, for all of the group's rebalances. wait: which members the
    rebalance in progress at the end of the history waits for; None if none is known to be in progress."""

    group_id: str
    group_type: str | None
    complete: bool | None
    causes: tuple[CauseCount, ...]
    rebalance: RebalanceRow | None
    changes: tuple[MemberChangeRow, ...]
    moves: tuple[Move, ...]
    rebalances: tuple[RebalanceRow, ...]
    events: tuple[EventRow, ...]
    alarms: tuple[AlarmRow, ...]
    timeout_advice: TimeoutAdviceRow | None
    next_steps: tuple[NextStep, ...]
    advice: AdviceReport
    wait: RebalanceWait | None = None


def explain(
    group_id: str, source: HistorySource | str | Place, *, generation: int | None = None, since_ms: int | None = None,
    until_ms: int | None = None, broker_logs: Iterable[Path] = (), sessions: "SessionLookup | None" = None,
) -> Explanation:  # fmt: skip
    """Explain a group from a history: `segments:DIR`, a copy of a broker's folders `__consumer_offsets-N`, or the
    directory of a built store. generation: explain the rebalance that led to it in detail; None: the last one.
    sessions: as for `open_history`.

    Raises what `open_history` raises, and `History.lacks` if the history does not have the group or the generation."""
    history = open_history(source, since_ms=since_ms, until_ms=until_ms, broker_logs=broker_logs, sessions=sessions)
    return explain_group(history, group_id, generation)


def explain_group(
    history: History, group_id: str, generation: int | None = None, *, is_advised: bool = True
) -> Explanation:
    """Explain a group from an open history, as `explain` does. is_advised: whether to replay the history with changes,
    which takes longer than everything else."""
    rebalances = history.rebalances(group_id)
    if not rebalances:
        history.require_group(group_id)
    chosen = _chosen(history, rebalances, generation, group_id)
    advice = history.tables.rows(TimeoutAdviceRow, history.all_times(group_id))
    alarms = tuple(history.rows(AlarmRow, group_id))
    effects = None if chosen is None else RebalanceEffects(history, chosen)
    moves = () if effects is None else effects.moves
    causes = count_causes(rebalances)
    has_gap = bool(incomplete_groups(history, group_id)) or not all(row.complete for row in rebalances)
    complete = False if has_gap else True if rebalances else None
    return Explanation(
        group_id=group_id, group_type=rebalances[0].group_type if rebalances else None, complete=complete,
        causes=causes, rebalance=chosen, changes=() if effects is None else effects.changes, moves=moves,
        rebalances=tuple(rebalances), events=tuple(history.rows(EventRow, group_id)), alarms=alarms,
        timeout_advice=advice[0] if advice else None,
        next_steps=next_steps(
            history, group_id, rebalances=rebalances, alarms=alarms, advice=advice[0] if advice else None,
            moved=bool(moves), is_complete=not has_gap,
        ),
        advice=advise(history, group_id, rebalances) if is_advised else AdviceReport(reason="it was not asked for"),
        wait=None if history.until_ms is not None else logged_wait(history, group_id),
    )  # fmt: skip


def count_causes(rebalances: Iterable[RebalanceRow]) -> tuple[CauseCount, ...]:
    """How often each cause occurs, most frequent first."""
    return tuple(
        CauseCount(cause=cause, count=n) for cause, n in Counter(row.cause for row in rebalances).most_common()
    )


def _chosen(
    history: History, rows: Sequence[RebalanceRow], generation: int | None, group_id: str
) -> RebalanceRow | None:
    """The last rebalance; if a generation is given, the last rebalance that led to it or skipped it."""
    if generation is None:
        return rows[-1] if rows else None
    for row in reversed(rows):
        if row.from_generation < generation <= row.to_generation:
            return row
    known = sorted({row.to_generation for row in rows})
    shown = ", ".join(map(str, known[-_GENERATIONS_SHOWN:])) or "none"
    raise history.lacks(
        f"the history has no rebalance of group {group_id} that led to generation {generation}",
        facts=(f"generations in the history: {shown}",),
        hint=history.command("rebalances", group_id),
        group_id=group_id,
    )

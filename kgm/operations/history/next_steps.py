"""The commands to run next, given what a history says about a group."""

from collections.abc import Sequence
from dataclasses import dataclass

from kgm.history.row_parts import Involvement
from kgm.history.rows import AlarmRow, RebalanceRow, TimeoutAdviceRow
from kgm.operations.history.source import History
from kgm.pipeline.options import SourceKind
from kgm.text.wording import typed


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A command, and why to run it."""

    why: str
    command: str


def next_steps(
    history: History, group_id: str, *, rebalances: Sequence[RebalanceRow], alarms: Sequence[AlarmRow],
    advice: TimeoutAdviceRow | None, moved: bool, is_complete: bool,
) -> tuple[NextStep, ...]:  # fmt: skip
    """The next steps, most useful first. moved: whether the explained rebalance moved partitions;
    is_complete: whether no gap hides rebalances."""
    group = typed(group_id)
    timeouts = history.command("timeouts", group_id)
    steps: list[tuple[str, str]] = []
    if advice is not None and advice.verdict == "raise":
        steps.append(("restarts take longer than the session timeout", timeouts))
    elif any(row.cause == "session-expiry" for row in rebalances):
        steps.append(("sessions expired: crashes, or slow restarts?", timeouts))
    if _has_dynamic_bounces(rebalances):
        compare = f"kgm simulate-bounce {group} --all --rolling --compare"
        steps.append(("would static members have prevented rebalances?", compare))
    if any(row.lost_rounds for row in rebalances):
        steps.append(("rebalances did not complete: what keeps the group from becoming stable?", f"kgm doctor {group}"))
    if alarms:
        steps.append(("alarms of the group", history.command("zombies", group_id)))
    if moved:
        steps.append(("who owned which partition before and after", history.command("movement", group_id)))
    steps.append(("which members came and went", history.command("timeline", group_id)))
    # `verify` reads files only; of the live topic the warning about the gap says since when it is complete.
    if not is_complete and history.source.kind is not SourceKind.KAFKA:
        steps.append(("which part of the history is complete", history.command("verify")))
    return tuple(NextStep(why=why, command=command) for why, command in steps)


def _has_dynamic_bounces(rebalances: Sequence[RebalanceRow]) -> bool:
    """Whether a dynamic member came back; its identity is its member id."""
    return any(
        each.what == Involvement.RETURNED and each.seat == each.member_id for row in rebalances for each in row.who
    )

"""What is done to a real group, and what happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop
from kgm.simulation.report.prediction import Prediction

__all__ = ["Case", "Outcome", "Rolling", "Stop", "one_of_each_kind"]

#: A restart that takes longer than this exceeds the session timeout of the groups here.
_LATE_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A group and what is done to it. who: positions of the members that bounce; likewise scale_in and remove.

    kind: "rd", "java", or "both" (librdkafka in even positions). half_dynamic: members in odd positions are dynamic.
    tell_heartbeat: whether a prediction for classic members is given their heartbeat interval. freed: members that were
    killed are removed before they start again. retry_ms: the delay after which a refused member is started again.
    migrate: members of a classic group come back with the consumer protocol."""

    kind: str = "rd"
    static: bool = True
    assignor: str = "range"
    members: int = 3
    partitions: int = 12
    who: tuple[int, ...] = ()
    rolling: Rolling | None = None
    stop: Stop = Stop.CLEAN
    restart_ms: int = 1_500
    scale_in: tuple[int, ...] = ()
    scale_out: int = 0
    remove: tuple[int, ...] = ()
    shared_client_id: bool = False
    tell_heartbeat: bool = True
    topics: int = 1
    half_dynamic: bool = False
    freed: bool = False
    retry_ms: int | None = None
    migrate: bool = False

    def __str__(self) -> str:
        membership = "mixed" if self.half_dynamic else "static" if self.static else "dynamic"
        who = "all" if len(self.who) == self.members else f"{len(self.who)}"
        how = f"{'rolling ' if self.rolling else ''}{who} {self.stop.value} back after {self.restart_ms} ms"
        how += ", removed before" if self.freed else ""
        how += f", again every {self.retry_ms} ms" if self.retry_ms else ""
        how += ", migrating" if self.migrate else ""
        what = how if self.who else ""
        for name, value in (("in", len(self.scale_in)), ("out", self.scale_out), ("remove", len(self.remove))):
            what += f" {name} {value}" if value else ""
        return (
            f"{self.kind} {membership} {self.assignor} {self.members}x{self.topics * self.partitions}: {what.strip()}"
        )

    @property
    def action(self) -> str:
        """The action, in one word."""
        for name, is_done in (
            ("migrate", self.migrate), ("scale in", self.scale_in), ("scale out", self.scale_out), ("remove", self.remove),
            ("crash", self.stop is Stop.CRASH), ("late", self.restart_ms > _LATE_MS), ("roll", self.rolling),
        ):  # fmt: skip
            if is_done:
                return name
        return "restart"

    @property
    def batches(self) -> tuple[tuple[int, ...], ...]:
        """The positions that are down at the same time, batch by batch, in order."""
        if self.rolling is None:
            return (self.who,) if self.who else ()
        size = self.rolling.max_unavailable
        return tuple(self.who[first : first + size] for first in range(0, len(self.who), size))


def one_of_each_kind(cases: Sequence[Case]) -> list[Case]:
    """One case for each action, taking memberships and libraries in turn."""
    kinds: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        kinds[case.action].append(case)
    chosen: list[Case] = []
    for alike in kinds.values():
        libraries = Counter(case.kind for case in chosen)
        memberships = Counter(case.static for case in chosen)
        chosen.append(min(alike, key=lambda case: (memberships[case.static], libraries[case.kind])))
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was predicted (from `before`, for `plan`), and what really happened. Owners are identities.

    generations, rebalances: epochs and target assignments of a consumer group. restarts_ms, retries_ms: how long each
    process was really away, after it was stopped or refused, until the next one was ready to join. handovers: how often
    a member itself reported that it got a partition that another one had before."""

    before: GroupSnapshot
    plan: Plan
    prediction: Prediction
    restarts_ms: tuple[int, ...]
    retries_ms: tuple[int, ...]
    generations: int
    rebalances: int
    moved_partitions: int
    handovers: int
    refused: int
    final: Mapping[str, Mapping[str, tuple[int, ...]]]
    stopped_partition_ms: int
    story: tuple[str, ...]

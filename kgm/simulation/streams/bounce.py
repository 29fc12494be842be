"""Predict what a plan does to a Kafka Streams application that rebalances."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.frameworks.streams import in_order
from kgm.frameworks.task_copies import FreedTasks, freed_tasks, task_texts
from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.simulation.framework_play import INITIAL_DELAY_MS, played_often, prediction_of
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from kgm.simulation.play.draw import Draw
from kgm.simulation.report.caveats import initial_delay_caveats
from kgm.simulation.report.framework_doubts import release_doubts, stay_text, why_not_settled
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.streams.group import (
    DEFAULTS,
    NO_STRATEGY,
    PROBING_INTERVAL,
    SESSION_MS,
    STANDBYS,
    STRATEGY,
    TAGS,
    KnownSettings,
    StreamsFleet,
    Supposed,
    split_settings,
    streams_group_of,
    supposed_rare,
    supposed_usual,
)
from kgm.simulation.streams.play import StreamsPlay
from kgm.text.durations import show_duration
from kgm.text.wording import some

#: The most work (tasks times processes) in all draws together, and how many draws there are in any case.
_MOST_WORK, _FEWEST_DRAWS = 40_000, 6
TASKS_TEXT = (
    "partitions are tasks here: TOPIC is subtopology-ID, PARTITION the number of its task; time to restore state "
    "is not counted"
)
#: The most draws that suppose rare cases.
_RARE_DRAWS = 40


def simulate_streams(
    snapshot: GroupSnapshot, plan: Plan, *, name: str, draws: int, seed: int, is_out_of_time: Callable[[], bool]
) -> Prediction:
    """Like `kgm.simulation.bounce.simulate`. Never exact: where tasks go depends on settings and state that no broker
    has, and on random member ids."""
    group, (known, of_broker) = streams_group_of(snapshot, plan), split_settings(plan.settings)
    drawn = draws_of_streams(snapshot, plan, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
    shortest_ms = BrokerSettings.from_overrides(of_broker).group_min_session_timeout_ms
    rare = partial(supposed_rare, group, known, shortest_session_ms=shortest_ms)
    others = [
        _play(group, plan, rare, f"{seed}/rare/{number}")
        for number in range(affordable(group, min(draws, _RARE_DRAWS)))
        if not is_out_of_time()
    ]
    of_release = release_doubts(snapshot, plan, len(group.tasks))
    caveats = (
        *_caveats(snapshot, group, plan, known, shortest_ms),
        *of_release.caveats,
        *initial_delay_caveats(plan, INITIAL_DELAY_MS, (*drawn, *others)),
    )
    found = prediction_of(snapshot, name, STREAMS_ASSIGNOR, drawn, others, caveats)
    return found if found.ranges is None else replace(found, ranges=of_release.widened(found.ranges))


def draws_of_streams(
    snapshot: GroupSnapshot, plan: Plan, *, draws: int, seed: int, is_out_of_time: Callable[[], bool] = lambda: False
) -> Sequence[Draw]:
    """The plan played `draws` times, but at least once, with Kafka's defaults for settings that are not in the plan.

    Raises RefusedError for an application that cannot be played, UsageError for a setting that is not a number."""
    _refuse(snapshot, plan.what_if)
    group, (known, of_broker) = streams_group_of(snapshot, plan), split_settings(plan.settings)
    BrokerSettings.from_overrides(of_broker)

    def play(number: int) -> Draw:
        return _play(group, plan, lambda chance: supposed_usual(group, known, chance), f"{seed}/{number}")

    return played_often(affordable(group, draws), play, is_out_of_time)


def affordable(group: StreamsFleet, draws: int) -> int:
    """The number of draws to play, which is smaller for a large application: a draw with 30 processes and 600 tasks
    takes the better part of a second."""
    return min(draws, max(_FEWEST_DRAWS, _MOST_WORK // (len(group.tasks) * group.processes + 1)))


def _play(group: StreamsFleet, plan: Plan, suppose: Callable[[random.Random], Supposed], name: str) -> Draw:
    chance = random.Random(name)  # noqa: S311  (the same each time)
    return StreamsPlay(group, plan, suppose(chance), chance).play()


def _refuse(snapshot: GroupSnapshot, what_if: WhatIf) -> None:
    if what_if.protocol is not None or what_if.assignor not in (None, STREAMS_ASSIGNOR):
        raise RefusedError(
            f"group {snapshot.group_id} is a Kafka Streams application: it has no other assignor and protocol",
            group_id=snapshot.group_id,
        )


def freed_by(snapshot: GroupSnapshot, plan: Plan) -> FreedTasks:
    """The tasks of all members that stop. Copies only count in processes that keep running meanwhile."""
    away = [(*plan.scale_in, *plan.remove), *plan.batches()]
    every = [freed_tasks(snapshot, names) for names in away]
    return FreedTasks(
        standbys={task: names for one in every for task, names in one.standbys.items()},
        alone=in_order(task for one in every for task in one.alone),
    )


def halves_text(group: StreamsFleet, plan: Plan) -> list[str]:
    """A caveat if only some threads of a process go."""
    going = {*plan.scale_in, *plan.remove}
    halves = {one.process for one in group.threads if one.identity in going}
    left = sorted(one.identity for one in group.threads if one.process in halves and one.identity not in going)
    if not left:
        return []
    return [f"{some(left)}: other threads of the process go. Here it runs on, but a process stops with all its threads"]


def _caveats(
    snapshot: GroupSnapshot, group: StreamsFleet, plan: Plan, known: KnownSettings, shortest_session_ms: int
) -> list[str]:
    """The caveats, the most important first."""
    texts = [] if snapshot.is_settled else [why_not_settled(snapshot)]
    texts += [*task_texts(freed_by(snapshot, plan)), *halves_text(group, plan), *stay_text(plan)]
    texts.append(TASKS_TEXT)
    texts.append(
        "who gets which task, and how often it rebalances until all copies have caught up, depends on state and "
        "settings that no broker has: with more to restore there are more probing rebalances, one every "
        f"{show_duration(known.numbers.get(PROBING_INTERVAL, DEFAULTS[PROBING_INTERVAL]))}"
    )
    if STRATEGY not in plan.settings and any(member.rack for member in snapshot.members):
        texts.append(
            f"threads report racks: with a {STRATEGY} tasks go elsewhere; the default {NO_STRATEGY} is assumed"
        )
    supposed = {**DEFAULTS, STANDBYS: group.standbys}
    if any(one.session_ms is None for one in group.threads):
        texts.append(
            f"session timeouts are not known: {SESSION_MS / 1000:g} s is assumed, and the ranges include "
            f"{shortest_session_ms / 1000:g} s (--session-timeout)"
        )
    unknown = [f"{key}={value}" for key, value in supposed.items() if key not in known.numbers]
    if known.tags is None and group.tag_keys:
        unknown.append(f"{TAGS}={','.join(group.tag_keys)}")
    if unknown:
        texts.append(f"assumed about the application (--set): {some(unknown)}")
    return texts

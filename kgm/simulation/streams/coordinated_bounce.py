"""Predict what a plan does to a streams group (KIP-1071)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.frameworks.task_copies import task_texts
from kgm.model.broker_version import REFERENCE, BrokerVersion
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.framework_play import Pace, played_often, prediction_of
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.plan.settled import size_limit_name
from kgm.simulation.play.draw import Draw
from kgm.simulation.report.caveats import size_caveats
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.streams.bounce import TASKS_TEXT, affordable, freed_by, halves_text
from kgm.simulation.streams.coordinated_group import (
    SINCE,
    STREAMS_GROUP,
    assumed_settings,
    coordinated_group_of,
    rules_of,
    versions_of,
)
from kgm.simulation.streams.coordinated_play import CoordinatedPlay
from kgm.simulation.streams.group import StreamsFleet
from kgm.text.wording import some

#: The assignor of the coordinator.
_ASSIGNOR = "sticky"
#: Everything as soon or as late as possible, with all heartbeats together at some time after a process has stopped:
#: from immediately, so that members are assigned its tasks, to so late that it is back before anyone notices.
_PACES = tuple(Pace(steps=steps, notices=notices / 5) for notices in (5, 0, 4, 1, 3, 2) for steps in (0, 0.4, 1))
#: Each is played twice: what moves depends on random ids.
_ROUNDS = 2


def simulate_streams_group(
    snapshot: GroupSnapshot, plan: Plan, *, name: str, draws: int, seed: int, is_out_of_time: Callable[[], bool]
) -> Prediction:
    """Like `kgm.simulation.bounce.simulate`. Never exact: who gets which task depends on random member ids."""
    drawn = draws_of_streams_group(snapshot, plan, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
    group = coordinated_group_of(snapshot, plan)
    rules = rules_of(snapshot, group, plan)
    others = [
        _play(snapshot, group, plan, settings, f"{seed}/{number}", pace)
        for number, (pace, settings) in enumerate(product(_PACES * _ROUNDS, rules))
        if number < affordable(group, draws) and not is_out_of_time()
    ]
    may_be_full = _may_lack_room(plan)
    caveats = [*_size_caveats((*drawn, *others), may_be_full=may_be_full), *_caveats(snapshot, group, plan, rules[0])]
    return replace(
        prediction_of(snapshot, name, _ASSIGNOR, drawn, others, caveats, protocol=STREAMS_GROUP),
        may_be_full=may_be_full,
        assumes_session=_waits_for_session(plan) and not plan.knows_session and not plan.what_if.session_timeout_ms,
    )


def draws_of_streams_group(
    snapshot: GroupSnapshot, plan: Plan, *, draws: int, seed: int, is_out_of_time: Callable[[], bool] = lambda: False
) -> Sequence[Draw]:
    """The plan played `draws` times, but at least once. Raises what `coordinated_group_of` raises, and UsageError for
    an invalid setting."""
    group = coordinated_group_of(snapshot, plan)
    rules = rules_of(snapshot, group, plan)

    def play(number: int) -> Draw:
        return _play(snapshot, group, plan, rules[number % len(rules)], f"{seed}/{number}")

    return played_often(affordable(group, draws), play, is_out_of_time)


def _play(
    snapshot: GroupSnapshot, group: StreamsFleet, plan: Plan, settings: BrokerSettings, name: str,
    pace: Pace | None = None,
) -> Draw:  # fmt: skip
    chance = random.Random(name)  # noqa: S311  (the same each time)
    keeps_disk = chance.random() < 0.5
    return CoordinatedPlay(snapshot, group, plan, settings, chance, keeps_disk=keeps_disk, pace=pace).play()


def _waits_for_session(plan: Plan) -> bool:
    """Whether members stop that stay in the group until their session ends: those that are closed leave."""
    return plan.stop is Stop.CRASH and bool(plan.bounce or plan.scale_in)


def _may_lack_room(plan: Plan) -> bool:
    """Whether processes start for which the group may have no room, because the broker's limit is not known: threads
    that are killed count until their session ends."""
    return not plan.knows_size_limit and bool(plan.scale_out or (plan.bounce and plan.stop is Stop.CRASH))


def _size_caveats(draws: Sequence[Draw], *, may_be_full: bool) -> tuple[str, ...]:
    if any(draw.refused_joins for draw in draws):
        text = (
            f"the group is full ({size_limit_name(STREAMS_GROUP)}) and refuses threads that start; they end, and "
            "nothing starts them again here"
        )
        return (text,)
    return size_caveats(STREAMS_GROUP, may_be_full=may_be_full)


def _rules_text(versions: Sequence[BrokerVersion]) -> str:
    text = f"streams groups are played by the rules of Kafka {REFERENCE.major}.{REFERENCE.minor}"
    oldest = min(versions).release
    lacking = [name for name, since in SINCE.items() if oldest < since]
    if not lacking:
        return text
    if len(versions) == 1:
        return f"{text}, without {' and '.join(lacking)}, which Kafka {versions[0]} does not have"
    return (
        f"{text}; the broker may also be Kafka {' or '.join(map(str, versions[1:]))} (--kafka-version), without "
        f"{' or '.join(lacking)}: the ranges include that"
    )


def _caveats(snapshot: GroupSnapshot, group: StreamsFleet, plan: Plan, settings: BrokerSettings) -> list[str]:
    """The caveats, the most important first."""
    texts = [*task_texts(freed_by(snapshot, plan)), *halves_text(group, plan)]
    texts.append(TASKS_TEXT)
    texts.append("who gets which task depends on random member ids; a process that starts again has new ones")
    versions = versions_of(snapshot, plan)
    if any(version.release != REFERENCE.release for version in versions):
        texts.append(_rules_text(versions))
    assumed = [f"{name}={value}" for name, value in assumed_settings(snapshot, group, plan, settings).items()]
    if assumed:
        texts.append(f"assumed about the broker and the group (--set): {some(assumed)}")
    return texts

"""Predict what a plan does to a group of Connect workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.frameworks.connect import CONNECTOR
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.connect.group import (
    DEFAULT_DELAY_MS,
    MAX_DELAY,
    ConnectGroup,
    connect_group_of,
    delays_of,
)
from kgm.simulation.connect.play import edge_plays, usual_play
from kgm.simulation.framework_play import played_often, prediction_of
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.play.draw import Draw
from kgm.simulation.report.prediction import Prediction
from kgm.text.durations import show_duration
from kgm.text.wording import group_command, many, some


def simulate_connect(
    snapshot: GroupSnapshot, plan: Plan, *, name: str, draws: int, seed: int, is_out_of_time: Callable[[], bool]
) -> Prediction:
    """Like `kgm.simulation.bounce.simulate`. Never exact: which worker gets which task depends on random member ids."""
    drawn = draws_of(snapshot, plan, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
    group = connect_group_of(snapshot, plan)
    in_time = takewhile(lambda _: not is_out_of_time(), edge_plays(group, plan, str(seed)))
    edges = [play.play() for play in in_time]
    return prediction_of(
        snapshot, name, snapshot.assignor or "connect", drawn, edges, _caveats(group, snapshot, plan, drawn)
    )


def draws_of(
    snapshot: GroupSnapshot, plan: Plan, *, draws: int, seed: int,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> Sequence[Draw]:  # fmt: skip
    """The plan played `draws` times, but at least once, with the usual delay."""
    group = connect_group_of(snapshot, plan)
    BrokerSettings.from_overrides({key: value for key, value in plan.settings.items() if key != MAX_DELAY})
    return played_often(draws, lambda number: usual_play(group, plan, f"{seed}/{number}").play(), is_out_of_time)


def _caveats(group: ConnectGroup, snapshot: GroupSnapshot, plan: Plan, drawn: Sequence[Draw]) -> list[str]:
    """The caveats, the most important first."""
    delay_ms = delays_of(plan.settings)[0]
    texts = [_what_stops(group, plan, delay_ms)] if not group.is_eager else []
    if MAX_DELAY not in plan.settings and not group.is_eager:
        texts.append(
            f"{MAX_DELAY} of the workers is not known: its default is assumed, {show_duration(DEFAULT_DELAY_MS)}; the "
            f"ranges include 0, and with a longer delay it takes longer (--set {MAX_DELAY}=MS)"
        )
    if group.delay_ms:
        until = f" until {snapshot.unassigned_until}" if snapshot.unassigned_until else ""
        texts.append(
            f"the group holds work back now{until}, because a worker has left: not all of it can be seen, and here "
            f"the delay begins with the plan ({group_command('wait', snapshot.group_id, '--for', 'settled')})"
        )
    if len({draw.rebalances for draw in drawn}) > 1:
        texts.append("the number of rebalances depends on timing, and on who leads when a leader has gone")
    texts.append(
        "partitions are tasks here: TOPIC is a connector, PARTITION the number of its task. Connectors themselves move "
        "too, and are not counted"
    )
    texts.append("which worker gets which task depends on random member ids, and on what the leader remembers")
    return texts


def _what_stops(group: ConnectGroup, plan: Plan, delay_ms: int) -> str:
    """What happens to the tasks of workers that stop, with the leader's apart from the others'."""
    stopping = [one for one in group.workers if one.identity in plan.named]
    tasks = sum(number != CONNECTOR for one in stopping if one.identity != group.leader for _, number in one.work)
    texts = []
    if others := [one.identity for one in stopping if one.identity != group.leader]:
        held = f"{many(tasks, 'task')} of {some(others)} do not run for {show_duration(delay_ms)} after it leaves, "
        texts.append(
            f"{held}even if it is back sooner, while REST still reports RUNNING" if delay_ms else
            f"{many(tasks, 'task')} of {some(others)} go to other workers immediately"
        )  # fmt: skip
    if any(one.identity == group.leader for one in stopping):
        texts.append(
            f"{group.leader} leads: the next leader does not remember what ran there, and gives it to the others at "
            "once; when a worker returns, tasks are taken from them again"
        )
    return "; ".join(texts) or "no worker stops, so nothing is held back"

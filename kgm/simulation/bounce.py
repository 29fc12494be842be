"""From a plan to a prediction: the plan is played as many times as it takes to know what is certain."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.connect.bounce import draws_of, simulate_connect
from kgm.simulation.connect.group import connect_group_of, is_connect
from kgm.simulation.draws.executor import HERE, DrawExecutor
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.settled import may_lack_room
from kgm.simulation.plan.starting_group import with_stated_library
from kgm.simulation.play.draw import Draw
from kgm.simulation.played_bounce import BounceToPlay, PlayedBounce
from kgm.simulation.report.caveats import (
    assumed_consumer_settings,
    assumes_topics,
    heartbeat_caveats,
    is_foreign,
    may_be_late,
    policy_caveats,
    settings_caveats,
    size_caveats,
    version_caveats,
    votes_caveats,
)
from kgm.simulation.report.certainty import Doubts, doubts_of
from kgm.simulation.report.framework_doubts import framework_doubts
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.shape import PlayedShapes
from kgm.simulation.simulation import SEED, Simulation, never
from kgm.simulation.streams.bounce import draws_of_streams, simulate_streams
from kgm.simulation.streams.coordinated_bounce import draws_of_streams_group, simulate_streams_group
from kgm.simulation.streams.coordinated_group import is_streams_group
from kgm.simulation.streams.group import for_broker, is_streams, refuse_unsettled, streams_group_of

DRAWS = 200
_FEWER_DRAWS = (
    "the time limit (--timeout) has passed: there are fewer draws than asked for, and some possibilities may not have "
    "been played"
)
_ONE_DRAW = "this is one of many possible outcomes, and the others are not known: allow more with --draws or --budget"


def simulate(
    snapshot: GroupSnapshot, plan: Plan, *, name: str = "as-is", draws: int = DRAWS, seed: int = SEED,
    keeps_holdings: bool = False, is_out_of_time: Callable[[], bool] = never, budget_ms: int | None = None,
    executor: DrawExecutor = HERE, shapes: PlayedShapes | None = None,
) -> Prediction:  # fmt: skip
    """Predict what the plan does to the group.

    draws: how often to play what is random, at most. The same seed gives the same prediction. keeps_holdings: record
    `holdings` in the typical draw. is_out_of_time: checked now and then; once it is true, no more draws are played.
    budget_ms: what the random draws may cost (`draws.budget`), even if it only pays for one; None: BUDGET_MS, and at
    least three draws. executor: plays the draws. shapes: what was already played for groups of the same shape. Neither
    of these two affects the prediction.
    Raises NotFoundError for a member or group that does not exist, RefusedError for a group that cannot be simulated,
    UsageError for a plan that does not fit the group, TimedOutError if the time is not enough for one draw."""
    if is_connect(snapshot):
        return simulate_connect(snapshot, plan, name=name, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
    if is_streams_group(snapshot):
        return simulate_streams_group(snapshot, plan, name=name, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
    snapshot = with_stated_library(snapshot, plan.what_if.library)
    simulation = Simulation.of(snapshot, for_broker(snapshot, plan), seed)
    simulation = replace(simulation, is_out_of_time=is_out_of_time, budget_ms=budget_ms, executor=executor)
    to_play = BounceToPlay.of(snapshot, plan, simulation, draws)
    try:
        refuse_unsettled(snapshot)
        played, real = (PlayedShapes() if shapes is None else shapes).play(to_play)
    except RefusedError:
        if not is_streams(snapshot):
            raise
        return simulate_streams(snapshot, plan, name=name, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
    is_cut_short, group, planned = is_out_of_time(), simulation.group, simulation.plan
    doubts = _doubts(snapshot, simulation, played)
    of_framework = framework_doubts(snapshot, group, planned)
    exact = (
        doubts.is_exact
        and of_framework.is_exact
        and not is_cut_short  # other versions or libraries may not have been played
        and played.are_alike
        and (played.draws > 1 or played.is_certain)
        and not (played.is_open or _is_early(simulation) or is_foreign(snapshot, planned))
        and not (played.depends_on_policy or played.depends_on_votes or played.is_left_to_chance)
        and not may_be_late(group, planned)
        # Without a rebalance no client fetches the number of partitions.
        and not (assumes_topics(snapshot, group) and played.rebalances)
    )
    # What other libraries would do differently has its own ranges.
    has_one_draw = played.draws == 1 and doubts.is_exact and of_framework.is_exact
    return Prediction(
        name=name,
        assignor=group.unknown_assignor or group.assignor,
        generation_before=group.generation if group.generation_is_known else None,
        typical=real.typical(played, keeps_holdings=keeps_holdings),
        exact=exact,
        caveats=(
            *of_framework.caveats,
            *doubts.caveats,
            *played.session_caveats,
            *_caveats(snapshot, simulation, played, may_be_full=doubts.may_be_full),
            *((_FEWER_DRAWS,) if is_cut_short else ()),
            *((_ONE_DRAW,) if played.draws == 1 and not (exact or played.is_certain) else ()),
        ),
        ranges=None if exact or has_one_draw else of_framework.widened(doubts.widened(played.ranges)),
        stopped_partition_range_ms=replace(played.stopped_range_ms, is_open=doubts.late_returns > 0),
        protocol=group.protocol.value,
        may_be_full=doubts.may_be_full,
    )


def _doubts(snapshot: GroupSnapshot, simulation: Simulation, played: PlayedBounce) -> Doubts:
    group, plan, default = simulation.group, simulation.plan, simulation.settings.default_assignor
    becomes_consumer = group.protocol is GroupProtocol.CONSUMER and snapshot.type != "consumer"
    uses_default = played.depends_on_votes or plan.migrate or (becomes_consumer and plan.what_if.assignor is None)
    is_custom = uses_default and default in simulation.settings.custom_assignors
    doubts = doubts_of(
        snapshot, group, plan, has_rebalances=played.has_rebalances, custom_default=default if is_custom else None
    )
    may_be_full = may_lack_room(group, plan, simulation.settings)
    return replace(doubts, late_returns=played.left_out, may_be_full=may_be_full)


def _caveats(
    snapshot: GroupSnapshot, simulation: Simulation, played: PlayedBounce, *, may_be_full: bool
) -> tuple[str, ...]:
    """What is not known of the broker and the group, and what was assumed."""
    group, plan, settings = simulation.group, simulation.plan, simulation.settings
    return (
        *version_caveats(snapshot, plan, depends_on_version=played.depends_on_version),
        *policy_caveats(depends_on_policy=played.depends_on_policy),
        *heartbeat_caveats(group, depends_on_intervals=played.depends_on_intervals),
        *votes_caveats(group, settings, depends_on_votes=played.depends_on_votes),
        *size_caveats(group.protocol.value, may_be_full=may_be_full),
        *played.caveats.open,
        *group.caveats,
        *settings_caveats(
            assumed_consumer_settings(snapshot, group, plan, settings),
            depends_on_intervals=played.depends_on_intervals,
            has_rebalances=played.has_rebalances,
        ),
        *played.caveats.assumed,
    )


def play(
    snapshot: GroupSnapshot,
    plan: Plan,
    *,
    draws: int,
    seed: int,
    is_out_of_time: Callable[[], bool],
    executor: DrawExecutor,
) -> tuple[Sequence[Draw], int]:
    """Only the draws, to find out what they cost; and how many partitions the group consumes, or tasks it runs. Raises
    what `simulate` raises."""
    if is_connect(snapshot):
        drawn = draws_of(snapshot, plan, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
        return drawn, connect_group_of(snapshot, plan).tasks
    if is_streams_group(snapshot):
        drawn = draws_of_streams_group(snapshot, plan, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
        return drawn, len(streams_group_of(snapshot, plan).tasks)
    simulation = replace(
        Simulation.of(snapshot, for_broker(snapshot, plan), seed), is_out_of_time=is_out_of_time, executor=executor
    )
    try:
        refuse_unsettled(snapshot)
        return simulation.play(draws), simulation.consumed_partitions
    except RefusedError:
        if not is_streams(snapshot):
            raise
        drawn = draws_of_streams(snapshot, plan, draws=draws, seed=seed, is_out_of_time=is_out_of_time)
        return drawn, len(streams_group_of(snapshot, plan).tasks)


def _is_early(simulation: Simulation) -> bool:
    """Whether the broker's rules for this group have not been verified against its own classes."""
    is_consumer = simulation.group.protocol is GroupProtocol.CONSUMER or simulation.plan.migrate
    return is_consumer and not simulation.settings.behavior.has_compared_consumer_groups

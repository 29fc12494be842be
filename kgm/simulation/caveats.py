"""What a reader has to know before trusting a prediction, in words."""

from collections.abc import Sequence

from kgm.assignors import is_cooperative
from kgm.coordinator.settings import BrokerSettings
from kgm.simulation.library import HEARTBEAT_INTERVAL_MS, Library
from kgm.simulation.origin import Origin
from kgm.simulation.plan import Plan
from kgm.simulation.report import Outcome


def caveats(origin: Origin, plan: Plan, settings: BrokerSettings, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """In order of weight: what is open, then what was assumed."""
    said = [*_open(origin, outcomes), *_timing(origin, plan, outcomes), *origin.caveats]
    if any(outcome.rebalances for outcome in outcomes):
        said += _assumed(origin, plan)
    if any(outcome.passed_empty for outcome in outcomes) and "group.initial.rebalance.delay.ms" not in plan.settings:
        delay_ms = settings.group_initial_rebalance_delay_ms
        said.append(
            f"the group is empty for a while, and its first rebalance waits for group.initial.rebalance.delay.ms, taken to "
            f"be {delay_ms} ms (--set group.initial.rebalance.delay.ms=N)"
        )
    return tuple(said)


def _open(origin: Origin, outcomes: Sequence[Outcome]) -> list[str]:
    """What nobody can know beforehand."""
    said = []
    unsettled = sum(not outcome.settled for outcome in outcomes)
    if unsettled:
        said.append(f"the group does not come to rest in {unsettled} of {len(outcomes)} draws: what they say is not final")
    if any(outcome.random_ids for outcome in outcomes):
        said.append(
            "members that are to come get random ids (the member id of a dynamic member, an instance id without a pattern); "
            f"with {origin.assignor} who gets which partitions follows from the order of ids"
        )
    if len({outcome.refused_joins for outcome in outcomes}) > 1 or any(outcome.refused_joins for outcome in outcomes):
        said.append("joins are refused: those members stay away, though a client may try again")
    return said


def _timing(origin: Origin, plan: Plan, outcomes: Sequence[Outcome]) -> list[str]:
    said = []
    if len({(outcome.generations, outcome.rebalances) for outcome in outcomes}) > 1:
        said.append(
            "how many rebalances there are depends on timing: members that stop or start together may fall into one join "
            "phase or into several"
        )
    session_s = origin.session_timeout_ms / 1000
    if plan.bounce and abs(plan.restart_time_ms - origin.session_timeout_ms) < 2 * HEARTBEAT_INTERVAL_MS:
        said.append(f"the restart takes about as long as the session timeout ({session_s:g} s): members may be back just in time or just too late")
    if origin.all_static and plan.bounce and not outcomes[0].rebalances and len(outcomes) == 1:
        said.append(f"this holds as long as every process is back within {session_s:g} s of its last heartbeat")
    return said


def _assumed(origin: Origin, plan: Plan) -> list[str]:
    said = []
    if plan.heartbeat_interval_ms is None:
        said.append(
            f"clients most likely heartbeat every {HEARTBEAT_INTERVAL_MS // 1000} s, the default; that is how soon they hear "
            "of a rebalance (--heartbeat-interval)"
        )
    libraries = {seat.library for seat in origin.seats}
    alike = len({frozenset(seat.topics) for seat in origin.seats}) <= 1
    if is_cooperative(origin.assignor) and None in libraries:
        said.append("members that do not give their client library away are taken for Java's; others hand partitions on otherwise")
    if is_cooperative(origin.assignor) and len(libraries - {None} | ({Library.JAVA} if None in libraries else set())) > 1:
        said.append("whether a Java or a librdkafka member leads is not known, and they hand partitions on differently")
    if is_cooperative(origin.assignor) and not alike and Library.LIBRDKAFKA in libraries:
        said.append("members subscribe to different topics: librdkafka leaders are not reliable there, and have been seen to crash")
    if plan.scale_out:
        said.append("new members are taken to be like those that are there, with names that count on where there is a pattern")
    return said

"""What a reader has to know before trusting a prediction, in words."""

from collections.abc import Sequence

from kgm.assignors import is_cooperative
from kgm.assignors.client.librdkafka import ASSIGNORS
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.starting_group import Origin
from kgm.simulation.play.client_profiles import HEARTBEAT_INTERVAL_MS, Library
from kgm.simulation.report.report import Outcome

#: As many ids stand in a command that is proposed.
_NAMED = 5
INITIAL_DELAY = "group.initial.rebalance.delay.ms"


def caveats(origin: Origin, plan: Plan, settings: BrokerSettings, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """In order of weight: what is open, what hangs on timing, then what was assumed."""
    said = [
        *_not_kafka(origin, settings, outcomes),
        *_open(origin, outcomes),
        *_timing(origin, plan, outcomes),
        *origin.caveats,
    ]
    if origin.protocol is GroupProtocol.CONSUMER or plan.migrate:
        said += _refused(origin, plan, settings, outcomes)
    if origin.protocol is GroupProtocol.CONSUMER:
        said += _consumers(origin, outcomes)
    elif any(outcome.rebalances for outcome in outcomes):
        said += [*_clients(origin, plan), *_leaders(origin)]
    if plan.migrate:
        said.append(
            "members that come back with the consumer protocol ask for no assignor: the group gets the broker's first, "
            f"{settings.consumer_assignors[0]}; sessions and heartbeats are the broker's from then on"
        )
    if plan.scale_out:
        said.append("new members are taken to be like those that are there, their names to count on")
    if any(outcome.passed_empty for outcome in outcomes) and INITIAL_DELAY not in plan.settings:
        delay_ms = settings.group_initial_rebalance_delay_ms
        said.append(f"the group is empty for a while; its first rebalance waits {INITIAL_DELAY}={delay_ms} (--set)")
    return tuple(said)


def hangs_on_session(otherwise: Sequence[Outcome], session_timeout_ms: int) -> tuple[str, ...]:
    """What a session timeout shorter than the one assumed would make of it; nothing where there is no difference."""
    if not otherwise:
        return ()
    one = otherwise[0]
    rebalances = f"{one.rebalances} rebalance{'' if one.rebalances == 1 else 's'}"
    said = (
        f"Kafka does not tell a live group's session timeout: were it {session_timeout_ms / 1000:g} s, there would be "
        f"{rebalances} and {one.moved_partitions} moved; --session-timeout settles it"
    )
    return (said,)


def _not_kafka(origin: Origin, settings: BrokerSettings, outcomes: Sequence[Outcome]) -> list[str]:
    """What is supposed that no Apache Kafka can do, and what it costs."""
    planned = settings.plans.of(origin.group_id)
    if planned is None:
        return []
    what_if = (
        "what-if only: Apache Kafka has neither a target group size nor pre-registered instance ids, which KIP-345 "
        "names as future work; `kgm serve` has them, off by default"
    )
    said = [what_if]
    waits = [outcome.newcomers_wait_ms for outcome in outcomes if outcome.newcomers_wait_ms is not None]
    if waits:
        said.append(
            f"new members are without partitions for up to {max(waits) / 1000:.1f} s; those that are there keep theirs "
            "meanwhile. The wait ends when all have come, or after the rebalance timeout "
            "(or kgm.group.newcomer.max.wait.ms)"
        )
    finals = [outcome.final_assignment for outcome in outcomes]
    if any(len(final) < (planned.target_size or 0) or planned.instance_ids - final.keys() for final in finals):
        said.append("the planned members never all come: who waits for them waits in vain, as long as it may")
    return said


def _open(origin: Origin, outcomes: Sequence[Outcome]) -> list[str]:
    """What nobody can know beforehand."""
    said = []
    restless = sum(not outcome.settled for outcome in outcomes)
    if restless:
        said.append(f"the group does not come to rest in {restless} of {len(outcomes)} draws; they say nothing final")
    if any(outcome.random_ids for outcome in outcomes):
        said.append(
            "members that are to come get random ids (member ids of dynamic members, instance ids without a pattern); "
            f"with {origin.assignor}, who gets what follows from the order of ids"
        )
    if any(outcome.refused_joins for outcome in outcomes) and origin.protocol is GroupProtocol.CLASSIC:
        said.append("a refused member is taken to stay away, though a client may try again")
    return said


def _timing(origin: Origin, plan: Plan, outcomes: Sequence[Outcome]) -> list[str]:
    said = []
    if len({(outcome.generations, outcome.rebalances) for outcome in outcomes}) > 1:
        what = "join phase or into several" if origin.protocol is GroupProtocol.CLASSIC else "target assignment or not"
        said.append(
            "the number of rebalances hangs on timing: members that stop or start at about the same time fall into one "
            + what
        )
    session = f"{origin.session_timeout_ms / 1000:g} s"
    if plan.bounce and abs(plan.restart_time_ms - origin.session_timeout_ms) < 2 * HEARTBEAT_INTERVAL_MS:
        said.append(f"the restart takes about as long as the session timeout ({session}): in time, or too late")
    if len(outcomes) == 1 and plan.bounce:
        said.append(f"this holds as long as every process is back within {session} of its last heartbeat")
    return said


def _clients(origin: Origin, plan: Plan) -> list[str]:
    said = []
    if plan.heartbeat_interval_ms is None:
        said.append(
            f"clients most likely heartbeat every {HEARTBEAT_INTERVAL_MS // 1000} s, the default, and hear of "
            "a rebalance as late as that (--heartbeat-interval)"
        )
    alike = len({frozenset(seat.topics) for seat in origin.seats}) <= 1
    librdkafka = any(seat.library is Library.LIBRDKAFKA for seat in origin.seats)
    if is_cooperative(origin.assignor) and librdkafka and not alike:
        said.append("members subscribe to different topics; librdkafka leaders have been seen to crash over that")
    return said


def _refused(origin: Origin, plan: Plan, settings: BrokerSettings, outcomes: Sequence[Outcome]) -> list[str]:
    """Who was not let in, why, and what helps."""
    events = [event for outcome in outcomes for event in outcome.timeline if event.event == "refused"]
    said = []
    refused = dict.fromkeys(event.member for event in events if event.member and "UNRELEASED" in event.detail)
    if refused and not plan.what_if.freed:
        session = f"{origin.session_timeout_ms / 1000:g} s"
        then = (
            "it is taken to stay away (--retry-every: it is started again)"
            if plan.retry_every_ms is None
            else f"it is started again every {plan.retry_every_ms / 1000:g} s"
        )
        ids = ",".join(refused) if len(refused) <= _NAMED else "ID,ID..."
        said.append(
            "a killed static member has not said that it will be back: until its session ends, up to "
            f"{session} after its last heartbeat, the broker refuses its next process (UNRELEASED_INSTANCE_ID), which "
            f"clients take for fatal: {then}. Removed first, it is let in at once: "
            f"kgm remove-members {origin.group_id} --instance-ids {ids}"
        )
    if any("GROUP_ID_NOT_FOUND" in event.detail for event in events):
        why = (
            f"librdkafka's {origin.assignor} leaves user data in assignments, over which the broker takes it for an "
            "assignor of your own. Change to range or roundrobin first"
            if settings.may_upgrade
            else f"group.consumer.migration.policy is {settings.group_consumer_migration_policy}. Change it first"
        )
        said.append(
            "the broker refuses to upgrade the group (GROUP_ID_NOT_FOUND, which clients take for fatal): "
            f"{why}, or migrate while nobody is in the group"
        )
    return said


def _consumers(origin: Origin, outcomes: Sequence[Outcome]) -> list[str]:
    """What goes for consumer groups (KIP-848) alone."""
    said = []
    if any(outcome.rebalances for outcome in outcomes) and origin.seats:
        said.append(
            "which member gets a partition that is free hangs on the order of a hash map on the broker, which a larger "
            "group in the past may have left another"
        )
    if len(origin.topics) > 1 and origin.topics.keys() - origin.topic_ids.keys():
        said.append(
            "the broker hands out topics in an order that hangs on their ids, which the snapshot does not tell: each "
            "draw has others"
        )
    return said


def _leaders(origin: Origin) -> list[str]:
    """Java and librdkafka leaders hand partitions out differently where the assignor is sticky, and where static and
    dynamic members are in one group."""
    kinds = {seat.group_instance_id is None for seat in origin.seats}
    if not is_cooperative(origin.assignor) and (len(kinds) == 1 or origin.assignor not in ASSIGNORS):
        return []
    said = []
    libraries = {seat.library for seat in origin.seats}
    if None in libraries:
        said.append("members that do not give their client library away are taken for Java's")
    if len({library or Library.JAVA for library in libraries}) > 1:
        said.append("whether a Java or a librdkafka member leads is not known; they hand partitions out differently")
    return said

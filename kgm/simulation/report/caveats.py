"""What a reader should know before trusting a prediction, in words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kgm.assignors import has_assignor, is_cooperative
from kgm.clients.table import leaving_when_unsubscribed
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.broker_version import REFERENCE
from kgm.model.client_library import JAVA, LIBRDKAFKA, PLAYED
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Stop
from kgm.simulation.plan.client_library import HEARTBEAT_INTERVAL_MS, Library, longest_heartbeat_interval_ms
from kgm.simulation.plan.expressions import may_be_dropped
from kgm.simulation.plan.settled import size_limit_name
from kgm.simulation.plan.starting_group import StartingGroup
from kgm.simulation.plan.votes import same_lists
from kgm.simulation.play.draw import (
    FULL_FOR_NOW,
    SILENT_CLOSE,
    TRIES_AGAIN,
    TRIES_UNTIL_THERE_IS_ROOM,
    UNRELEASED,
    Draw,
)  # fmt: skip
from kgm.text.braces import as_list
from kgm.text.names import in_order
from kgm.text.shell import shell_word
from kgm.text.wording import many, some, typed

#: The most ids that a suggested command names.
_MOST_IDS = 5
#: A restart that is within this fraction of a short session timeout takes about as long.
_CLOSE = 4
INITIAL_DELAY = "group.initial.rebalance.delay.ms"
HEARTBEAT_INTERVAL = "group.consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "group.consumer.assignment.interval.ms"
#: The broker's settings that decide what a rebalance of a consumer group assigns, and when.
_OF_CONSUMERS = ("group.consumer.assignors", HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)
#: What becomes of a process that ends because the broker refuses it.
_LATER = (
    "; the ranges include that it is started again later, joins then, and causes another rebalance, but how long "
    "partitions stop is then not known (--retry-every: how often it is started again)"
)
#: Which members of the other protocol a broker lets into a group (KIP-848).
MIGRATION_POLICY = "group.consumer.migration.policy"


class Caveats(NamedTuple):
    """The most important first: what is open, and what depends on timing; then what follows from assumptions. What was
    assumed about the group itself belongs in between."""

    open: tuple[str, ...]
    assumed: tuple[str, ...]


def caveats(
    group: StartingGroup, plan: Plan, settings: BrokerSettings, draws: Sequence[Draw], *, is_certain: bool
) -> Caveats:
    """is_certain: whether all members are back so early that no other member notices."""
    timing = _timing(group, plan, draws, is_certain=is_certain)
    texts: list[str] = []
    texts += _without_room(plan, draws)
    if group.protocol is GroupProtocol.CONSUMER or plan.migrate:
        texts += _refused(group, plan, settings, draws)
        if not settings.behavior.has_compared_consumer_groups:
            texts.append(f"consumer groups of Kafka {settings.kafka_version} are simulated as those of 4.0")
    if group.protocol is GroupProtocol.CONSUMER:
        texts += _consumer_group(group, plan, draws)
    elif any(draw.rebalances for draw in draws):
        texts += [*_clients(group, plan, draws), *_leaders(group), *_versions(group, settings)]
    texts += _unsubscribing(group, plan)
    if plan.migrate:
        texts.append(
            "members that return with the consumer protocol do not ask for an assignor: the group uses the broker's "
            f"first, {settings.default_assignor}; the broker then sets session timeout and heartbeat interval"
        )
    if plan.scale_out:
        texts.append("new members are assumed to be like the existing ones, with names that continue the numbering")
    if group.protocol is GroupProtocol.CLASSIC:
        texts += initial_delay_caveats(plan, settings.group_initial_rebalance_delay_ms, draws)
    if not group.has_offsets and any(draw.was_empty for draw in draws):
        texts.append(_may_be_deleted(group, settings))
    return Caveats((*_not_kafka(group, settings, draws), *_open(group, draws), *timing), tuple(texts))


def initial_delay_caveats(plan: Plan, delay_ms: int, draws: Iterable[Draw]) -> list[str]:
    """A caveat if a classic group becomes empty and it is not known how long the broker then waits."""
    if INITIAL_DELAY in plan.settings or not any(draw.was_empty for draw in draws):
        return []
    return [f"the group is empty for a while; its first rebalance then waits {INITIAL_DELAY}={delay_ms} (--set)"]


def _may_be_deleted(group: StartingGroup, settings: BrokerSettings) -> str:
    known = "the group has no committed offsets:"
    unknown = "it is not known whether the group has committed offsets: without them"
    seconds = f"{settings.offsets_retention_check_interval_ms / 1000:g}"
    return (
        f"{known if group.has_offsets is False else unknown} a broker deletes it if it is empty when the broker looks, "
        f"every {seconds} s (offsets.retention.check.interval.ms), and its generations or epochs count from 1 again"
    )


def session_caveats(shorter: Sequence[Draw], session_timeout_ms: int) -> tuple[str, ...]:
    """What a session timeout shorter than the assumed one would change. shorter: draws with the shorter one; empty if
    it changes nothing."""
    if not shorter:
        return ()
    one = shorter[0]
    text = (
        f"the session timeout is not known: if it is {session_timeout_ms / 1000:g} s, expect "
        f"{many(one.rebalances, 'rebalance')} and {many(one.moved_partitions, 'moved partition')}; set it with "
        "--session-timeout"
    )
    return (text,)


def is_foreign(snapshot: GroupSnapshot, plan: Plan) -> bool:
    """Whether the broker is not a release of Apache Kafka that kgm knows, and no version was given for it."""
    return plan.kafka_version is None and snapshot.kafka_versions == ()


def assumes_topics(snapshot: GroupSnapshot, group: StartingGroup) -> bool:
    """Whether partition counts or subscriptions had to be assumed, because the snapshot lacks them."""
    is_read = all(member.topics is not None or member.regex for member in snapshot.members)
    return not is_read or not group.topics.keys() <= {topic.name for topic in snapshot.topics}


def version_caveats(snapshot: GroupSnapshot, plan: Plan, *, depends_on_version: bool) -> tuple[str, ...]:
    """Which version of Kafka is assumed, if it is not known. depends_on_version: whether another version that the
    broker may run behaves differently."""
    reference = f"Kafka {REFERENCE.major}.{REFERENCE.minor} (--kafka-version)"
    if is_foreign(snapshot, plan):
        text = f"the broker is not a release of Apache Kafka that kgm knows: it is simulated as {reference}"
        return (f"{text}, and may behave differently",)
    if plan.kafka_version is None and snapshot.coordinator is not None:
        text = f"the broker's version is not known: it is assumed to behave as {reference}"
        return (text,)
    if not depends_on_version:
        return ()
    text = (
        f"the broker may also be Kafka {' or '.join(map(str, plan.other_versions))}, whose coordinator does something "
        f"else here: the ranges include that. The result shown is for {plan.kafka_version} (--kafka-version)"
    )
    return (text,)


def assumed_consumer_settings(
    snapshot: GroupSnapshot, group: StartingGroup, plan: Plan, settings: BrokerSettings
) -> list[str]:
    """The settings of the broker of a consumer group that are not known. None for a group without a coordinator, which
    is made up: its broker has Kafka's defaults."""
    if not (group.protocol is GroupProtocol.CONSUMER or plan.migrate) or snapshot.coordinator is None:
        return []
    known = {*plan.settings}
    if plan.heartbeat_interval_ms is not None:
        known.add(HEARTBEAT_INTERVAL)
    if not settings.behavior.has_assignment_interval:
        known.add(ASSIGNMENT_INTERVAL)
    return [name for name in _OF_CONSUMERS if name not in known]


def settings_caveats(assumed: Sequence[str], *, depends_on_intervals: bool, has_rebalances: bool) -> tuple[str, ...]:
    """What the settings of the broker of a consumer group change that are not known (`assumed_consumer_settings`).
    depends_on_intervals: whether other intervals have other outcomes. has_rebalances: whether any draw has a rebalance
    or another generation."""
    if not (assumed and has_rebalances):
        return ()
    names = " and ".join(filter(None, (", ".join(assumed[:-1]), assumed[-1])))
    ranged = ". The ranges include the shortest and longest intervals" if depends_on_intervals else ""
    return (f"Kafka's defaults are assumed for the broker's {names} (--set){ranged}",)


def heartbeat_caveats(group: StartingGroup, *, depends_on_intervals: bool) -> tuple[str, ...]:
    """What the unknown heartbeat interval of the members of a classic group would change. depends_on_intervals: whether
    the longest one has other outcomes."""
    if group.protocol is not GroupProtocol.CLASSIC or not depends_on_intervals:
        return ()
    shortest_ms, longest_ms = group.sessions_ms()
    longest = _seconds(longest_heartbeat_interval_ms(longest_ms))
    up_to = "" if shortest_ms == longest_ms else ", or a third of a shorter session timeout,"
    return (
        f"the ranges include other outcomes that heartbeats every {longest}{up_to} would have (--heartbeat-interval)",
    )


def policy_caveats(*, depends_on_policy: bool) -> tuple[str, ...]:
    """What the unknown migration policy of the broker would change. depends_on_policy: whether members migrate, and it
    is not known."""
    if not depends_on_policy:
        return ()
    text = (
        f"the broker's {MIGRATION_POLICY} is not known: a broker that does not upgrade groups refuses members that "
        f"return with the consumer protocol, and the ranges include that. The result shown is for bidirectional "
        f"(--set {MIGRATION_POLICY}=bidirectional)"
    )
    return (text,)


def votes_caveats(group: StartingGroup, settings: BrokerSettings, *, depends_on_votes: bool) -> tuple[str, ...]:
    """What the unknown votes of members for the broker's assignor would change. depends_on_votes: whether they may."""
    if not depends_on_votes:
        return ()
    text = (
        f"which members ask for {group.assignor} (group.remote.assignor) is not known: without those that stop, the "
        f"group may change to the broker's default, {settings.default_assignor}, and the ranges include that "
        f"(--assignor {group.assignor} if all members ask for it)"
    )
    return (text,)


def size_caveats(protocol: str, *, may_be_full: bool) -> tuple[str, ...]:
    """protocol: as in `size_limit_name`. may_be_full: whether processes start, and it is not known whether the group
    has room for them."""
    if not may_be_full:
        return ()
    limit = size_limit_name(protocol)
    text = (
        f"the broker's {limit} is not known: if the group is full, processes that start are refused until a session "
        f"has ended, and join later, which no range includes (--set {limit}=N)"
    )
    return (text,)


def _not_kafka(group: StartingGroup, settings: BrokerSettings, draws: Sequence[Draw]) -> list[str]:
    """Assumed features that Apache Kafka does not have, and what they cost."""
    planned = settings.plans.of(group.group_id)
    if planned is None:
        return []
    what_if = (
        "what-if only: Apache Kafka has neither a target group size nor pre-registered instance ids, which KIP-345 "
        "names as future work; `kgm serve` has them, off by default"
    )
    texts = [what_if]
    waits = [draw.newcomers_wait_ms for draw in draws if draw.newcomers_wait_ms is not None]
    if waits:
        texts.append(
            f"new members have no partitions for up to {max(waits) / 1000:.1f} s; the other members keep theirs. The "
            "wait ends when all new members have joined, or after the rebalance timeout "
            "(or kgm.group.newcomer.max.wait.ms)"
        )
    finals = [draw.final_assignment for draw in draws]
    if any(len(final) < (planned.target_size or 0) or planned.instance_ids - final.keys() for final in finals):
        texts.append("not all planned members join: members that wait for them wait for the longest time allowed")
    return texts


def _open(group: StartingGroup, draws: Sequence[Draw]) -> list[str]:
    """What cannot be known in advance."""
    texts = []
    unstable = sum(not draw.became_stable for draw in draws)
    if unstable:
        texts.append(
            f"the group does not become stable in {unstable} of {len(draws)} draws, whose results are not final"
        )
    if any(draw.has_random_ids for draw in draws):
        texts.append(
            "members that start get random ids (member ids of dynamic members, instance ids without a pattern); "
            f"with {group.assignor} the assignment depends on the order of the ids"
        )
    if any(draw.follows_map_order for draw in draws):
        texts.append(
            "who gets which partition depends on the order of a Go map, which differs from run to run, in "
            f"{group.assignor} of franz-go and sarama"
        )
    return texts


def _timing(group: StartingGroup, plan: Plan, draws: Sequence[Draw], *, is_certain: bool) -> list[str]:
    texts = []
    if len({(draw.generations, draw.rebalances) for draw in draws}) > 1:
        what = "join phase" if group.protocol is GroupProtocol.CLASSIC else "target assignment"
        texts.append(
            "the number of rebalances depends on timing: members that stop or start at about the same time share one "
            f"{what} or cause several"
        )
    shortest_ms, longest_ms = group.sessions_ms(plan.bounce or None)
    session = " to ".join(dict.fromkeys((_seconds(shortest_ms), _seconds(longest_ms))))
    if plan.remove_first:
        texts.append(
            "each batch is assumed to be removed 1.5 to 8 s after it has stopped, and to start when the group is stable"
            " without it"
        )
        return texts
    if may_be_late(group, plan):
        texts.append(
            f"the restart takes about as long as the session timeout ({session}): it may be in time or too late"
        )
    is_unnoticed = not any(draw.rebalances or draw.generations for draw in draws)
    if is_certain or (plan.bounce and (is_unnoticed or len(draws) == 1)):
        each = "" if shortest_ms == longest_ms else ", each by its own session timeout"
        texts.append(f"this holds as long as every process is back within {session} of its last heartbeat{each}")
    return texts


def may_be_late(group: StartingGroup, plan: Plan) -> bool:
    """Whether a restart takes about as long as the session timeout of a member that restarts."""
    if plan.remove_first:
        return False
    sessions_ms = {one.session_timeout_ms for one in group.members if one.identity in plan.bounce}
    restarts_ms = plan.restart_times_ms or (plan.restart_time_ms,)
    return any(
        abs(restart_ms - session_ms) < min(2 * HEARTBEAT_INTERVAL_MS, session_ms // _CLOSE)
        for session_ms in sessions_ms
        for restart_ms in restarts_ms
    )


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1000:g} s"


def _clients(group: StartingGroup, plan: Plan, draws: Sequence[Draw]) -> list[str]:
    texts = []
    left = len(group.members) + plan.scale_out - len({*plan.scale_in, *plan.remove})
    if plan.named and left > 1 and not (group.has_known_votes or group.other_assignors):
        texts.append(same_lists(group.unknown_assignor or group.assignor))
    silent = {event.member or "" for draw in draws for event in draw.timeline if event.detail == SILENT_CLOSE}
    if silent:
        session = _seconds(group.sessions_ms(silent)[1])
        texts.append(
            f"librdkafka members of {group.assignor} groups that have no partitions do not leave when they are closed "
            f"({len(silent)} here): each stays a member until its session ends, up to {session}, and rebalances wait "
            "for it"
        )
    if plan.heartbeat_interval_ms is None:
        texts.append(
            f"clients probably heartbeat every {HEARTBEAT_INTERVAL_MS // 1000} s, the default, and learn of a "
            "rebalance up to that late (--heartbeat-interval)"
        )
    are_alike = len({frozenset(member.topics) for member in group.members}) <= 1
    has_librdkafka = any(member.library is Library.LIBRDKAFKA for member in group.members)
    if is_cooperative(group.assignor) and has_librdkafka and not are_alike:
        texts.append("members subscribe to different topics: librdkafka leaders have been seen to crash in such groups")
    return texts


def _unsubscribing(group: StartingGroup, plan: Plan) -> list[str]:
    """That static members leave whose programs unsubscribe before they close them, which nothing shows in advance."""
    is_classic = group.protocol is GroupProtocol.CLASSIC
    if plan.stop is not Stop.CLEAN:
        return []
    stop = {*plan.bounce, *plan.scale_in, *plan.remove}
    static = [one for one in group.members if one.identity in stop and one.group_instance_id is not None]
    names = {name for one in static for name in leaving_when_unsubscribed(one.client, is_classic=is_classic)}
    return [
        f"a program of {name} that unsubscribes before it closes leaves the group, as some JavaScript clients do: "
        "then use --stop leave"
        for name in in_order(names)
    ]


def _without_room(plan: Plan, draws: Sequence[Draw]) -> list[str]:
    """Which members the group has no room for, and what follows."""
    events = [event for draw in draws for event in draw.timeline if event.event == "refused"]
    texts = []
    for_now = in_order({event.member or "" for event in events if event.detail == FULL_FOR_NOW})
    if for_now and plan.retry_every_ms is None:
        texts.append(
            f"the group is full: {some(for_now)} cannot join before a session ends (GROUP_MAX_SIZE_REACHED), and "
            f"clients treat that as fatal{_LATER}"
        )
    trying = in_order({event.member or "" for event in events if event.detail == TRIES_UNTIL_THERE_IS_ROOM})
    if trying:
        texts.append(
            f"the group is full: {some(trying)} cannot join before a session ends (GROUP_MAX_SIZE_REACHED), and "
            "librdkafka tries again until then"
        )
    lasting = in_order(
        {event.member or "" for event in events if "MAX_SIZE" in event.detail}.difference(for_now, trying)
    )
    if lasting:
        texts.append(f"the group is full and refuses {some(lasting)} (GROUP_MAX_SIZE_REACHED)")
    return texts


def _refused(group: StartingGroup, plan: Plan, settings: BrokerSettings, draws: Sequence[Draw]) -> list[str]:
    """Which members were refused, why, and what helps."""
    events = [event for draw in draws for event in draw.timeline if event.event == "refused"]
    texts = []
    refused = dict.fromkeys(
        event.member for event in events if event.member and event.detail in (UNRELEASED, TRIES_AGAIN)
    )
    if refused and not plan.what_if.freed:
        session = _seconds(group.sessions_ms(refused)[1])
        then = "and it tries again until then"
        if any(event.detail == UNRELEASED for event in events):
            then = "and clients treat that as fatal" + (
                _LATER
                if plan.retry_every_ms is None
                else f": it is started again every {plan.retry_every_ms / 1000:g} s"
            )
        removal = ""
        if settings.behavior.removes_consumer_members:
            command = _removal_command(group.group_id, list(refused))
            removal = f". If it is removed first, it can join immediately: {command}"
        texts.append(
            f"a {'killed ' if plan.stop is Stop.CRASH else ''}static member has not announced its return: until "
            f"its session ends, up to {session} after its last heartbeat, the broker refuses its next process "
            f"(UNRELEASED_INSTANCE_ID), {then}{removal}"
        )
    if any("GROUP_ID_NOT_FOUND" in event.detail for event in events):
        writer = group.unknown_assignor or group.assignor
        writer = f"the assignor {writer}" if group.has_user_data else f"librdkafka's {writer}"
        why = (
            f"{writer} writes user data into assignments, so the broker takes it for a custom assignor. Change to "
            "range or roundrobin first"
            if settings.may_upgrade
            else f"{MIGRATION_POLICY} is {settings.group_consumer_migration_policy}. Change it first"
        )
        texts.append(
            "the broker refuses to upgrade the group (GROUP_ID_NOT_FOUND, which clients treat as fatal): "
            f"{why}, or migrate while the group has no members"
        )
    return texts


def _removal_command(group_id: str, instance_ids: Sequence[str]) -> str:
    ids = shell_word(as_list(instance_ids)) if len(instance_ids) <= _MOST_IDS else "ID,ID..."
    return f"kgm remove-members {typed(group_id)} --instance-ids {ids}"


def _consumer_group(group: StartingGroup, plan: Plan, draws: Sequence[Draw]) -> list[str]:
    """What applies to consumer groups (KIP-848) only."""
    texts = []
    if plan.bounce and may_be_dropped(group, plan) and any(draw.rebalances for draw in draws):
        texts.append(
            "the broker forgets what a regular expression matches when the last member with it is gone, and resolves "
            "expressions at most once in 10 s: until then a member that returns with it has no partitions. When it "
            "last did so is not known: it is played as just now and as long ago"
        )
    if any(draw.rebalances for draw in draws) and group.members:
        texts.append(
            "which member gets a free partition depends on the order of a hash map on the broker, and so on how large "
            "the group was in the past"
        )
    if len(group.topics) > 1 and group.topics.keys() - group.topic_ids.keys():
        texts.append(
            "the broker assigns topics in an order that depends on their ids, which are not in the snapshot: each draw "
            "has other ids"
        )
    return texts


def _versions(group: StartingGroup, settings: BrokerSettings) -> list[str]:
    """What is not known about a broker with the coordinator in Scala."""
    if not settings.behavior.has_scala_maps or group.listing_capacity is not None:
        return []
    text = (
        f"Kafka {settings.kafka_version} lists members in the order of a hash map, which depends on the version of "
        "Scala with which the broker was built (2.12 or 2.13): each draw has another order"
    )
    return [text]


def _leaders(group: StartingGroup) -> list[str]:
    """Java and librdkafka leaders assign partitions differently where the assignor is sticky, and where a group has
    both static and dynamic members."""
    kinds = {member.group_instance_id is None for member in group.members}
    assigners = {member.assigner(group.assignor) for member in group.members}
    are_alike = len(kinds) == 1 or not has_assignor(LIBRDKAFKA, group.assignor)
    if not is_cooperative(group.assignor) and are_alike and assigners <= PLAYED:
        return []
    texts = []
    if any(member.library is None and member.client.name is None for member in group.members):
        texts.append("members whose client library is not known are assumed to use the Java client")
    if len(assigners) > 1:
        names = ["Java" if name == JAVA else name for name in sorted(assigners, key=lambda name: (name != JAVA, name))]
        which = " or ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)
        texts.append(f"whether {which} member leads is not known; they may assign partitions differently")
    return texts

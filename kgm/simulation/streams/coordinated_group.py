"""A streams group (KIP-1071) as it is when a plan starts: in its own coordinator, which loads it from records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.streams_member import HeldTasks, StreamsMember, TargetTasks
from kgm.coordinator.groups.streams_topology import StreamsTopology
from kgm.coordinator.streams import records
from kgm.coordinator.streams.target import STANDBYS
from kgm.coordinator.streams.topology import as_record
from kgm.model.broker_version import REFERENCE, BrokerVersion
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.messages.streams_group_heartbeat_request import Subtopology, TopicInfo, Topology
from kgm.records.record import Record
from kgm.simulation.plan.bounce_plan import Plan, with_versions_of
from kgm.simulation.plan.retention import offset_record
from kgm.simulation.plan.starting_group import has_offsets
from kgm.simulation.streams.group import StreamsFleet, partition_of, streams_group_of, subtopology
from kgm.text.wording import group_command

STREAMS_GROUP: Final = "streams"
_BROKER_PREFIX: Final = "broker."
_SESSION: Final = "group.streams.session.timeout.ms"
_INTERVAL: Final = "group.streams.heartbeat.interval.ms"
_OF_STANDBYS: Final = f"group.streams.{STANDBYS}"
INITIAL_DELAY: Final = "group.streams.initial.rebalance.delay.ms"
ASSIGNMENT_INTERVAL: Final = "group.streams.assignment.interval.ms"
#: The first release that has a setting; the others are as old as streams groups.
SINCE: Final = {INITIAL_DELAY: (4, 2), ASSIGNMENT_INTERVAL: (4, 3)}
#: The releases before `REFERENCE` that have streams groups.
_EARLIER: Final = tuple(BrokerVersion(4, minor, has_java_coordinator=True) for minor in (2, 1))
#: The epoch before the plan, if the snapshot does not have it.
_EPOCH: Final = 1


def is_streams_group(snapshot: GroupSnapshot) -> bool:
    """Whether it is a streams group that has members."""
    return snapshot.type == STREAMS_GROUP and bool(snapshot.members)


def coordinated_group_of(snapshot: GroupSnapshot, plan: Plan) -> StreamsFleet:
    """Raises RefusedError for a group or a what-if that cannot be played, NotFoundError for a name that is not a
    member."""
    group_id = snapshot.group_id
    if plan.migrate or plan.what_if.changes_assignment or plan.remove or plan.remove_first:
        raise RefusedError(
            f"group {group_id} is a streams group (KIP-1071): its members have no instance ids, no assignor of "
            "consumers and no other protocol, and no operator can remove them",
            group_id=group_id,
        )
    if snapshot.state != "Stable":
        raise RefusedError(
            f"streams group {group_id} cannot be simulated: its state is {snapshot.state}",
            hint=group_command("wait", group_id, "--for", "stable"),
            group_id=group_id,
        )
    strangers = {*plan.named} - {member.identity for member in snapshot.members}
    if strangers:
        raise NotFoundError(f"group {group_id} has no member {', '.join(sorted(strangers))}", group_id=group_id)
    return streams_group_of(snapshot, plan)


def versions_of(snapshot: GroupSnapshot, plan: Plan) -> tuple[BrokerVersion, ...]:
    """The versions that the broker may run, as far as their rules differ; the one assumed first."""
    stated = with_versions_of(snapshot, plan)
    if stated.kafka_version is not None:
        return stated.kafka_version, *stated.other_versions
    is_made_up = snapshot.kafka_versions is None and snapshot.coordinator is None
    return (REFERENCE,) if is_made_up else (REFERENCE, *_EARLIER)


def rules_of(snapshot: GroupSnapshot, group: StreamsFleet, plan: Plan) -> tuple[BrokerSettings, ...]:
    """The settings that the coordinator uses, for each version that differs in them. Raises UsageError."""
    settings = _settings_of(snapshot, group, plan)
    return tuple(dict.fromkeys(_of_version(settings, plan, version) for version in versions_of(snapshot, plan)))


def _of_version(settings: BrokerSettings, plan: Plan, version: BrokerVersion) -> BrokerSettings:
    """A broker that lacks a setting assigns tasks without that delay. Whoever sets it knows that the broker has it."""
    names = {name.removeprefix(_BROKER_PREFIX) for name in plan.settings}
    if version.release < SINCE[INITIAL_DELAY] and INITIAL_DELAY not in names:
        settings = replace(settings, group_streams_initial_rebalance_delay_ms=0)
    if version.release < SINCE[ASSIGNMENT_INTERVAL] and ASSIGNMENT_INTERVAL not in names:
        settings = replace(settings, group_streams_assignment_interval_ms=0)
    return settings


def _settings_of(snapshot: GroupSnapshot, group: StreamsFleet, plan: Plan) -> BrokerSettings:
    names = {name.removeprefix(_BROKER_PREFIX): value for name, value in plan.settings.items()}
    settings = BrokerSettings.from_overrides({_OF_STANDBYS: str(group.standbys), **names})
    seen_ms = None if _SESSION in names else snapshot.session_timeout_ms
    session_ms = plan.what_if.session_timeout_ms or seen_ms
    if session_ms is not None:
        settings = replace(settings, group_streams_session_timeout_ms=session_ms)
    if plan.heartbeat_interval_ms is not None:
        settings = replace(settings, group_streams_heartbeat_interval_ms=plan.heartbeat_interval_ms)
    interval_ms, session_ms = settings.group_streams_heartbeat_interval_ms, settings.group_streams_session_timeout_ms
    if interval_ms >= session_ms:  # no broker starts with that (GroupCoordinatorConfig): all sessions would end
        raise UsageError(
            f"broker setting {_SESSION} is out of range: {session_ms}",
            facts=(f"{_INTERVAL} is {interval_ms}, and must be less",),
            hint="--heartbeat-interval",
        )
    return replace(settings, kafka_version=REFERENCE)


def assumed_settings(
    snapshot: GroupSnapshot, group: StreamsFleet, plan: Plan, settings: BrokerSettings
) -> dict[str, int]:
    """The settings that a prediction depends on and that neither the broker, nor the group, nor the plan states, by
    their names as broker settings. settings: those that are played."""
    newest = max(versions_of(snapshot, plan)).release
    stated = {name.removeprefix(_BROKER_PREFIX) for name in plan.settings}
    if plan.what_if.session_timeout_ms or snapshot.session_timeout_ms:
        stated.add(_SESSION)
    if plan.heartbeat_interval_ms is not None:
        stated.add(_INTERVAL)
    values = {
        _SESSION: settings.group_streams_session_timeout_ms,
        _INTERVAL: settings.group_streams_heartbeat_interval_ms,
        ASSIGNMENT_INTERVAL: settings.group_streams_assignment_interval_ms,
        INITIAL_DELAY: settings.group_streams_initial_rebalance_delay_ms,
        _OF_STANDBYS: group.standbys,
    }
    return {
        name: value
        for name, value in values.items()
        if name not in stated and (name not in SINCE or newest >= SINCE[name])
    }


def topology_of(group: StreamsFleet) -> Topology:
    """A topology with these tasks: each subtopology reads a topic of its own, and has a changelog if it has state."""
    stateful = group.stateful or frozenset()
    names = sorted({subtopology(task) for task in group.tasks})
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=[_topic_of(name)],
                state_changelog_topics=[TopicInfo(name=_changelog_of(name))] if name in stateful else [],
            )
            for name in names
        ]
    )


def image_of(group: StreamsFleet) -> TopicImage:
    """The topics of that topology, all of which exist."""
    sizes: dict[str, int] = {}
    for task in group.tasks:
        name, (_, partition) = subtopology(task), partition_of(task)
        for topic in (_topic_of(name), _changelog_of(name)):
            sizes[topic] = max(sizes.get(topic, 0), partition + 1)
    return TopicImage.counted(sizes)


def _topic_of(name: str) -> str:
    return f"subtopology-{name}"


def _changelog_of(name: str) -> str:
    return f"changelog-{name}"


def records_of(snapshot: GroupSnapshot, group: StreamsFleet, settings: BrokerSettings, now_ms: int) -> Iterator[Record]:
    """The records of the group in the log, with a committed offset, unless it is known to have none: a broker deletes a
    group without any when it finds it empty."""
    group_id, image = snapshot.group_id, image_of(group)
    value = as_record(topology_of(group))
    yield records.topology_record(group_id, value)
    epoch = snapshot.assignment_epoch or _EPOCH
    configs = {STANDBYS: str(settings.group_streams_num_standby_replicas)}
    topics = StreamsTopology(value).topics
    yield records.epoch_record(group_id, snapshot.group_epoch or epoch, image.hash_of(topics), value.epoch, configs)
    for thread in group.threads:
        active, standby = _by_subtopology(thread.active), _by_subtopology(thread.standby)
        member = StreamsMember(
            thread.member_id,
            epoch,
            epoch,
            rebalance_timeout_ms=thread.rebalance_ms,
            topology_epoch=value.epoch,
            process_id=thread.process,
            assigned=HeldTasks({name: dict.fromkeys(some, epoch) for name, some in active.items()}, standby),
        )
        yield records.member_record(group_id, member)
        yield records.target_record(group_id, member.member_id, TargetTasks(active, standby))
        yield records.current_record(group_id, member)
    yield records.target_epoch_record(group_id, epoch, 0)
    if has_offsets(snapshot) is not False:
        yield offset_record(group_id, _topic_of(subtopology(min(group.tasks))), now_ms)


def _by_subtopology(tasks: frozenset[str]) -> Mapping[str, frozenset[int]]:
    rows: dict[str, set[int]] = {}
    for task in tasks:
        rows.setdefault(subtopology(task), set()).add(partition_of(task)[1])
    return {name: frozenset(some) for name, some in rows.items()}

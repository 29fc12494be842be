"""The group for which a bounce is predicted: from a live cluster, from a snapshot, or made up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgm.client import AdminClient
from kgm.client.failures import UnreadSettings
from kgm.client.offsets_topic.last_rebalance import (
    all_with_logged_timeouts,
    with_logged_timeouts,
    with_resolved_topics,
)
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig, limits_of, listed_assignors
from kgm.model.broker_version import FIRST_WITH_JAVA, LAST_WITH_SCALA
from kgm.model.errors import ConditionNotMet, NotFoundError, PartialError, UsageError
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan
from kgm.simulation.plan.server_assignors import OFFERED
from kgm.simulation.plan.settled import size_limit_name
from kgm.simulation.plan.starting_group import with_stated_library
from kgm.simulation.plan.synthetic_group import newly_assigned, synthetic_group
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.sinks import SinkGroup
from kgm.text.names import in_order
from kgm.text.whole_numbers import whole_number
from kgm.text.wording import some

#: The settings that a group of each type can have of its own. The broker's defaults for them have the same names,
#: prefixed with `group.`.
GROUP_SETTINGS = {
    kind: tuple(name for name in GroupConfig.names() if name.startswith(f"{kind}.")) for kind in ("consumer", "streams")
}
#: The broker's defaults for them, and its limits.
_OF_GROUPS = {
    kind: tuple(limit for name in names for limit in (f"group.{name}", *limits_of(name)) if limit is not None)
    for kind, names in GROUP_SETTINGS.items()
}
#: The settings of the coordinator's broker that matter to a bounce. A version may not have all of them.
BROKER_SETTINGS = (
    OFFERED,
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    *_OF_GROUPS["consumer"],
    "group.initial.rebalance.delay.ms",
    "group.max.size",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    "group.streams.max.size",
    *_OF_GROUPS["streams"],
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
)
#: Either of them turns on the new coordinator of 3.7 to 3.9.
_NEW_COORDINATOR, _PROTOCOLS = "group.coordinator.new.enable", "group.coordinator.rebalance.protocols"
_ASSUMED = (
    "Kafka's defaults are assumed for limits of session timeouts and group sizes, and for the initial rebalance delay "
    "(--set)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BounceGroup:
    """A group, and the known settings of its broker, by name.

    is_made_up: the group already has the assignor, membership and protocol of the plan's what-ifs. sinks: for Connect
    workers, the groups of their sink connectors; missing_sinks: why others are not known. caveats: what could not be
    read. hidden_topics: those of the cluster that could not be described. has_unread_settings: whether the broker's
    settings could not be read. has_unread_session: whether the session timeout of a streams group could not be read,
    so that Kafka's default is assumed."""

    snapshot: GroupSnapshot
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    is_made_up: bool = False
    sinks: tuple[SinkGroup, ...] = ()
    missing_sinks: tuple[ConditionNotMet, ...] = ()
    caveats: tuple[str, ...] = ()
    hidden_topics: frozenset[str] = frozenset()
    has_unread_settings: bool = False
    has_unread_session: bool = False

    def unread(self, prediction: Prediction) -> PartialError | None:
        """Why a limit that the prediction keeps proves nothing: it rests on partition counts, subscriptions, the size
        that a group may have or the session timeout of a streams group, which could not be read and had to be assumed.
        Ranges include other unknowns, such as session timeouts of other groups, but not these."""
        snapshots = [self.snapshot, *(sink.snapshot for sink in self.sinks)]
        topics = {topic for each in snapshots for topic in _topics_without_count(each, self.hidden_topics)}
        members = [name for each in snapshots for name in _without_subscription(each)]
        if not (topics or members or prediction.may_be_full or prediction.assumes_session):
            return None
        facts = [f"partitions of topic {some(map(repr, in_order(topics)))}"] if topics else []
        facts += [f"subscription of {some(in_order(members))}"] if members else []
        needs = [f"DESCRIBE on Topic {some(map(repr, in_order(topics)))}"] if topics else []
        if prediction.may_be_full:
            limit = size_limit_name(prediction.protocol)
            facts.append(f"the broker's {limit}")
            needs.append(f"DESCRIBE_CONFIGS on Cluster 'kafka-cluster' (or state the limit: --set {limit}=N)")
        if prediction.assumes_session:
            facts.append("the group's session timeout")
            needs.append(
                f"DESCRIBE_CONFIGS on Cluster 'kafka-cluster' and on Group {self.snapshot.group_id!r} (or state the "
                "timeout: --session-timeout DURATION)"
            )
        return PartialError(
            f"group {self.snapshot.group_id!r}: the prediction assumes what could not be read, so limits that it keeps "
            "prove nothing",
            facts=facts, group_id=self.snapshot.group_id,
            hint=f"the principal needs {' and '.join(needs)}" if needs else None,
        )  # fmt: skip

    def with_settings(self, plan: Plan) -> Plan:
        """The plan with those settings of the broker that it does not have itself."""
        settings = {**self.broker_settings, **plan.settings}
        protocol = self.snapshot.type if plan.what_if.protocol is None else plan.what_if.protocol.value
        limits = {size_limit_name(protocol), *([size_limit_name("consumer")] if plan.migrate else [])}
        knows_limit = not self.has_unread_settings or limits <= settings.keys()
        knows_session = not self.has_unread_session or f"group.{_session_name('streams')}" in settings
        return replace(plan, settings=settings, knows_size_limit=knows_limit, knows_session=knows_session)


def _session_name(kind: str) -> str:
    """The setting of groups of a type for it."""
    return f"{kind}.session.timeout.ms"


def _topics_without_count(snapshot: GroupSnapshot, hidden: Collection[str]) -> set[str]:
    """Topics of members whose partition count is not known: not those that are known not to exist."""
    known = {topic.name for topic in snapshot.topics}.union(snapshot.deleted_topics)
    owned = {topic for member in snapshot.members for topic, numbers in member.assignment.items() if numbers}
    wanted = {topic for member in snapshot.members for topic in member.known_topics}
    return (owned - known) | (wanted & set(hidden))


def _without_subscription(snapshot: GroupSnapshot) -> list[str]:
    """Members of which neither topics nor a regular expression could be read."""
    return [one.identity for one in snapshot.members if one.topics is None and not one.regex]


def live_group(cluster: AdminClient, group_id: str) -> BounceGroup:
    """A group of a cluster, which is only read. Its session timeout comes from the coordinator's log, if kgm has
    permission to read that.

    Raises KgmError if the group cannot be described."""
    asked = asked_settings(cluster, group_id)
    snapshot = with_logged_timeouts(cluster, cluster.describe_group(group_id, with_ends=False))
    (snapshot,) = _with_other_topics(cluster, [snapshot])
    return group_with_settings(cluster, snapshot, asked)


def asked_settings(cluster: AdminClient, group_id: str) -> dict[str, str]:
    """Those settings of the broker that coordinates a group that matter to a bounce and that kgm can read."""
    return cluster.broker_settings(group_id, (*BROKER_SETTINGS, _NEW_COORDINATOR, _PROTOCOLS))


def group_with_settings(cluster: AdminClient, snapshot: GroupSnapshot, asked: Mapping[str, str]) -> BounceGroup:
    """A described group with its own settings and its broker's. asked: `asked_settings` of that broker."""
    kind = "streams" if snapshot.type == "streams" else "consumer"
    own = cluster.group_settings(snapshot.group_id, GROUP_SETTINGS[kind])
    settings = usable_settings(asked)
    if snapshot.group_id in cluster.unread_group_settings:  # then it is not known whether the broker's apply
        settings = {name: value for name, value in settings.items() if name not in _OF_GROUPS[kind]}
    # Brokers before 4.0 do not say it of a group, and `describe_group` does not ask for that of a streams group.
    if snapshot.type == kind and snapshot.session_timeout_ms is None:
        session = _session_name(kind)
        session_ms = whole_number(own.get(session) or settings.get(f"group.{session}"))
        snapshot = replace(snapshot, session_timeout_ms=session_ms)
    return BounceGroup(
        snapshot=with_known_coordinator(snapshot, asked),
        broker_settings=settings | as_broker_settings(own, settings),
        caveats=tuple(_unread_settings(cluster, snapshot)),
        hidden_topics=cluster.offsets.undescribed_topics,
        has_unread_settings=snapshot.group_id in cluster.unread_broker_settings,
        has_unread_session=snapshot.type == "streams" and snapshot.session_timeout_ms is None,
    )


def live_groups(
    cluster: AdminClient, groups: Sequence[GroupSnapshot],
    on_group: Callable[[int, int], None] = lambda _done, _of: None,
) -> list[BounceGroup]:  # fmt: skip
    """Described groups with their settings, the versions of their brokers and, for classic groups, what only the
    coordinators' logs contain, if kgm may read those. Each broker is asked once.

    on_group: called with the number of groups done and the total."""
    if not groups:
        return []
    groups = _with_other_topics(cluster, all_with_logged_timeouts(cluster, cluster.with_kafka_versions(groups)))
    by_broker: dict[int, tuple[Mapping[str, str], UnreadSettings | None]] = {}
    read, unread = [], cluster.unread_broker_settings
    for number, group in enumerate(groups):
        on_group(number, len(groups))
        broker = None if group.coordinator is None else group.coordinator.id
        if broker is not None and broker in by_broker:
            asked, why = by_broker[broker]
            if why is not None:
                unread[group.group_id] = why
        else:
            asked = asked_settings(cluster, group.group_id)
            if broker is not None:
                by_broker[broker] = asked, unread.get(group.group_id)
        read.append(group_with_settings(cluster, group, asked))
    return read


def _with_other_topics(cluster: AdminClient, groups: Sequence[GroupSnapshot]) -> list[GroupSnapshot]:
    """Described groups with the topics that they may gain or lose without a plan."""
    return cluster.offsets.with_similar_topics(with_resolved_topics(cluster, groups), cluster.deadline)


def _unread_settings(cluster: AdminClient, group: GroupSnapshot) -> Iterator[str]:
    """Caveats about settings that could not be read, and what is assumed instead."""
    if unread := cluster.unread_broker_settings.get(group.group_id):
        yield f"the broker's settings {unread.why}: {_ASSUMED}"
    if group.type in GROUP_SETTINGS and (unread := cluster.unread_group_settings.get(group.group_id)):
        yield f"the group's settings {unread.why}: Kafka's defaults are assumed for its session timeout and intervals"


def usable_settings(asked: Mapping[str, str]) -> dict[str, str]:
    """The broker's settings as the engine expects them: Kafka's assignors by name, custom ones by class."""
    settings = {name: value for name, value in asked.items() if name in BROKER_SETTINGS}
    if listed := listed_assignors(settings.pop(OFFERED, "")):
        settings[OFFERED] = ",".join(listed)
    return settings


def with_known_coordinator(snapshot: GroupSnapshot, asked: Mapping[str, str]) -> GroupSnapshot:
    """The snapshot with only those broker versions that its settings allow too: they show which of the two coordinators
    a broker of 3.7 to 3.9 runs."""
    if not snapshot.kafka_versions:
        return snapshot
    versions = snapshot.kafka_versions
    if _PROTOCOLS in asked or _NEW_COORDINATOR in asked:
        is_new = asked.get(_NEW_COORDINATOR) == "true" or "consumer" in asked.get(_PROTOCOLS, "").split(",")
        versions = tuple(
            version
            for version in versions
            if version.has_java_coordinator == is_new or not FIRST_WITH_JAVA <= version.release <= LAST_WITH_SCALA
        )
    return replace(snapshot, kafka_versions=versions)


def as_broker_settings(group_settings: Mapping[str, str], broker_settings: Mapping[str, str]) -> dict[str, str]:
    """One group's effective settings as a broker's, with bounds that allow them: brokers before 4.3 use what they have
    once accepted even if it is outside their bounds by now. broker_settings: the known ones, with the bounds; for
    others, Kafka's defaults."""
    defaults, fields = BrokerSettings(), BrokerSettings.names()
    settings = {}
    for name, text in group_settings.items():
        settings[f"group.{name}"] = text
        for limit, nearest in zip(limits_of(name), (min, max), strict=True):
            value = whole_number(text)
            if limit is not None and value is not None:
                known = whole_number(broker_settings.get(limit))
                settings[limit] = str(nearest(value, getattr(defaults, fields[limit]) if known is None else known))
    return settings


def recorded_group(snapshots: Sequence[GroupSnapshot], group_id: str | None, *, path: str) -> BounceGroup:
    """The group in a snapshot file. group_id: required if the file has several groups. path: for error messages.

    Raises NotFoundError if the group is not there, UsageError if several are and none is named."""
    groups = [each for each in snapshots if group_id in (None, each.group_id)]
    if not groups:
        what = "is empty" if group_id is None else f"has no group {group_id}"
        raise NotFoundError(f"the snapshot in file {path} {what}", group_id=group_id)
    if len(groups) > 1:
        ids = ", ".join(each.group_id for each in groups)
        raise UsageError(
            f"file {path} contains {len(groups)} groups", facts=[f"groups: {ids}"], hint="name one of them"
        )
    return BounceGroup(snapshot=groups[0])


def made_up_group(
    members: int,
    topics: Sequence[TopicSnapshot],
    *,
    membership: Membership | None = None,
    assignor: str | None = None,
    protocol: GroupProtocol | None = None,
    library: str | None = None,
) -> BounceGroup:
    """A Stable group that does not exist, with partitions assigned as this client library would; see `synthetic_group`
    for the arguments and the errors."""
    snapshot = synthetic_group(
        members, topics, membership or Membership.STATIC, assignor, protocol or GroupProtocol.CLASSIC
    )
    if library is not None:
        snapshot = newly_assigned(with_stated_library(snapshot, library))
    return BounceGroup(snapshot=snapshot, is_made_up=True)

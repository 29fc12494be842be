"""The group snapshot: what `kgm describe -o json` prints for one group and offline commands read.

Every key is always present; an unknown value is null, never -1 and never 0. `snapshot_json` reads it; it is strict
about the keys that kgm uses, and ignores keys that a later version adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

from kgm.model.assignment import Partitions
from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import ClientLibrary
from kgm.model.forms.json_form import as_json
from kgm.model.forms.snapshot_form import CLIENT_LIBRARY, GROUP, MEMBER, USER_DATA, WORK
from kgm.model.uuids import uuid_text
from kgm.model.work import MemberWork, UserData

GROUP_TYPES = ("classic", "consumer", "share", "streams")
#: Member epoch of a static member that left and is expected back (KIP-848).
AWAY_EPOCH: Final = -2


def status_at(member_epoch: int, assignment_epoch: int | None, *, has_target: bool = True) -> str:
    """The status of a member with epochs. has_target: whether it owns what it should."""
    is_stable = member_epoch == assignment_epoch and has_target
    return "away" if member_epoch == AWAY_EPOCH else "stable" if is_stable else "reconciling"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorNode:
    """The broker that coordinates a group."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSnapshot:
    """A topic that the group subscribes to or has committed offsets for. topic_id: 16 bytes; in JSON, Kafka's text
    form. The order in which the broker's assignors (KIP-848) process topics depends on it."""

    name: str
    partitions: int
    topic_id: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        written = None if self.topic_id is None else uuid_text(self.topic_id)
        return {"name": self.name, "partitions": self.partitions, "topic_id": written}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """One member. Its *identity* is its group instance id, or its member id if it is dynamic.

    status: `away` is a static member of a `consumer` group at member epoch -2 (KIP-848). topics: in the order in which
    the member names them, if that is known; None if it is not known what the member subscribes to. protocol: `classic`
    or `consumer`; during a migration a group has members of both. client_library: None if it is not known. listed_at:
    its position in the broker's response, which is the order of a hash map that assignors may depend on; None if it is
    not known or has no meaning. listed_target: the target assignment of a member of a consumer group, topics and
    partitions in the order of the broker's response, which is also the order of hash maps: a member that has to revoke
    partitions revokes the last ones. is_readable: whether its assignment could be decoded; if not, `assignment` is
    empty, and what it owns is not known. session_timeout_ms, rebalance_timeout_ms: of a member of a classic group,
    which no API returns; None unless they were read from the coordinator's log. subscription_version: the version of
    Kafka's format in which a classic consumer writes its subscription, which distinguishes old clients from new ones;
    None if it is not known. names_owned: whether its subscription names partitions that it owned when it joined, as
    only consumers that keep their partitions in a rebalance do; None if it is not known. work: None unless the group is
    one of Kafka Streams or Connect, and shows it. user_data: what the assignor wrote into the assignment in addition to
    the partitions; None if there is none, or it is unknown. lag, lag_ms: the sum of its partitions' lag, and the
    largest lag_ms among them; None as soon as one of them is unknown."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rack: str | None = None
    member_epoch: int | None = None
    status: str = "unknown"
    topics: tuple[str, ...] | None = ()
    regex: str | None = None
    assignment: Partitions = field(default_factory=dict)
    target_assignment: Partitions | None = None
    lag: int | None = None
    lag_ms: int | None = None
    protocol: str | None = None
    client_library: ClientLibrary | None = None
    listed_at: int | None = None
    listed_target: Partitions | None = None
    is_readable: bool = True
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    work: MemberWork | None = None
    user_data: UserData | None = None
    subscription_version: int | None = None
    names_owned: bool | None = None

    @property
    def identity(self) -> str:
        return self.group_instance_id if self.group_instance_id is not None else self.member_id

    @property
    def known_topics(self) -> tuple[str, ...]:
        """The topics that the member is known to subscribe to by name."""
        return self.topics or ()

    def to_json(self) -> dict[str, Any]:
        own = {
            "subscription": {
                "topics": None if self.topics is None else sorted(self.topics),
                "regex": self.regex,
            },
            "assignment": _sorted(self.assignment),
            "target_assignment": None if self.target_assignment is None else _sorted(self.target_assignment),
            "client_library": as_json(self.client_library or ClientLibrary(), CLIENT_LIBRARY),
            "listed_target": None
            if self.listed_target is None
            else [{"topic": topic, "partitions": [*numbers]} for topic, numbers in self.listed_target.items()],
            **(dict.fromkeys(WORK) if self.work is None else as_json(self.work, WORK)),
            "assignment_user_data": None if self.user_data is None else as_json(self.user_data, USER_DATA),
        }
        return as_json(self, MEMBER, own)


class OffsetSnapshot(NamedTuple):
    """Committed and end offset of one partition. lag: how many records can still be read, from the committed offset on,
    or from the log's start if that is later; None if it is not known, or if the committed offset is past the end (the
    topic was created again, or has lost records). lost: how many records after the committed offset retention has
    deleted; None if that is not known.

    lag_ms: the age of the first record that can still be read, 0 if there is none. commit_age_ms: how long ago the
    offset was committed. None if they are not known, or were not requested."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    group_instance_id: str | None
    member_id: str | None
    lost: int | None = None
    lag_ms: int | None = None
    commit_age_ms: int | None = None

    @property
    def is_past_end(self) -> bool:
        """Whether the committed offset is past the end of the partition."""
        return self.committed is not None and self.end is not None and self.committed > self.end

    @property
    def known_lag(self) -> int | None:
        """The lag; 0 for an empty partition (end 0) without a committed offset."""
        return 0 if self.committed is None and self.end == 0 else self.lag

    @property
    def known_lag_ms(self) -> int | None:
        """Like `known_lag`, in ms."""
        return 0 if self.known_lag == 0 else self.lag_ms

    def to_json(self) -> dict[str, Any]:
        return dict(zip(OFFSET_KEYS, self))  # noqa: B905  (a named tuple has all of its fields)


#: The keys of an offset in JSON, in order: its fields.
OFFSET_KEYS = OffsetSnapshot._fields
_PLACE = itemgetter(OFFSET_KEYS.index("topic"), OFFSET_KEYS.index("partition"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """One group at the time of the snapshot. Times are in milliseconds.

    session_timeout_ms: of a consumer group; for a classic group the one of its members, None if it is not known or
    differs between members (`MemberSnapshot`). rebalance_timeout_ms: the longest among its members.
    leader: the member id of the classic group's leader, which no API returns; None if it is not known.
    leader_library: the client library that has written the assignments of a classic group; None if they are not known.
    kafka_versions: the versions that its coordinator's broker may run; empty if it is not a release of Apache Kafka
    that kgm knows, and None if it was not asked. deleted_topics: topics that members own or that have committed
    offsets (for predictions, also those that an expression is known to have matched), but that brokers report as
    nonexistent. may_lack_offsets: brokers may have left out committed offsets, because the login may not describe all
    topics. hidden_offset_topics: topics whose committed offsets they have left out, according to the group's log.
    next_rebalance_at: when a member of a Kafka Streams application will start the next rebalance, as RFC 3339; the year
    1970 means immediately. is_settled: False if such an application, or a group of Connect workers, has a rebalance
    ahead that has not begun yet; None if it does not report that. rebalance_delay_ms: how long after its last rebalance
    the leader of a Connect group holds back connectors and tasks that were lost with a worker. unassigned_until: when
    that ends, as RFC 3339. topology_epoch: of a streams group (KIP-1071). earlier_assignors: of a classic group of
    consumers, the other ones that it had with any of its members, by instance id or member id, as far back as its log
    was read; None if it was not. similar_topics: topics to which a member of a
    classic group does not subscribe, although an expression may match them; not in JSON, and read for predictions only.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str | None = None
    assignor: str | None = None
    coordinator: CoordinatorNode | None = None
    generation: int | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[TopicSnapshot, ...] = ()
    members: tuple[MemberSnapshot, ...] = ()
    offsets: tuple[OffsetSnapshot, ...] = ()
    kafka_versions: tuple[BrokerVersion, ...] | None = None
    leader: str | None = None
    leader_library: ClientLibrary | None = None
    deleted_topics: tuple[str, ...] = ()
    may_lack_offsets: bool = False
    hidden_offset_topics: tuple[str, ...] = ()
    next_rebalance_at: str | None = None
    is_settled: bool | None = None
    rebalance_delay_ms: int | None = None
    unassigned_until: str | None = None
    topology_epoch: int | None = None
    earlier_assignors: tuple[str, ...] | None = None
    similar_topics: tuple[TopicSnapshot, ...] = ()

    def session_of(self, member: MemberSnapshot) -> int | None:
        """The session timeout of one of its members; None if it is not known."""
        return self.session_timeout_ms if member.session_timeout_ms is None else member.session_timeout_ms

    def rebalance_of(self, member: MemberSnapshot) -> int | None:
        """The rebalance timeout of one of its members; None if it is not known."""
        return self.rebalance_timeout_ms if member.rebalance_timeout_ms is None else member.rebalance_timeout_ms

    @property
    def static_members(self) -> int:
        """How many members are static (KIP-345)."""
        return sum(member.group_instance_id is not None for member in self.members)

    @property
    def classic_members(self) -> tuple[str, ...]:
        """The members of a consumer group that is being migrated (KIP-848) and that still use the classic protocol, by
        identity."""
        if self.type != "consumer":
            return ()
        return tuple(member.identity for member in self.members if member.protocol == "classic")

    @property
    def session_range_ms(self) -> tuple[int, int] | None:
        """The shortest and the longest session timeout of its members; None if one of them is not known."""
        every = [self.session_of(member) for member in self.members] or [self.session_timeout_ms]
        known = [one for one in every if one is not None]
        return (min(known), max(known)) if len(known) == len(every) else None

    @property
    def member_timeouts_ms(self) -> dict[str, tuple[int, int]]:
        """(session timeout, rebalance timeout) by member id, for members whose own timeouts are known."""
        return {
            one.member_id: (one.session_timeout_ms, one.rebalance_timeout_ms)
            for one in self.members
            if one.session_timeout_ms is not None and one.rebalance_timeout_ms is not None
        }

    def with_member_timeouts(self, timeouts_ms: Mapping[str, tuple[int, int]]) -> GroupSnapshot:
        """The group with these member timeouts, in the form of `member_timeouts_ms`."""
        nothing = (None, None)
        found = [timeouts_ms.get(member.member_id, nothing) for member in self.members]
        sessions = {session for session, _ in found}
        return replace(
            self,
            members=tuple(
                replace(member, session_timeout_ms=session, rebalance_timeout_ms=rebalance)
                for member, (session, rebalance) in zip(self.members, found, strict=True)
            ),
            session_timeout_ms=sessions.pop() if len(sessions) == 1 else None,
            rebalance_timeout_ms=max((rebalance for _, rebalance in found if rebalance is not None), default=None),
        )

    @property
    def names_topics(self) -> bool:
        """Whether its members name the topics that the group reads: each subscribes to some by name, or owns
        partitions."""
        return bool(self.members) and all((one.topics and not one.regex) or one.assignment for one in self.members)

    @property
    def may_hide_lag(self) -> bool:
        """Whether brokers have left out committed offsets, or may have left out those of topics that members read. That
        is not so if members name their topics: then only offsets of other topics may be missing."""
        return self.may_lack_offsets and (bool(self.hidden_offset_topics) or not self.names_topics)

    @property
    def lag(self) -> int | None:
        """The lag of the group in records, over the partitions for which it is known. None if it is known for none, or
        if that sum must not pass for the total: offsets may be hidden (`may_hide_lag`), a committed offset is past the
        end, or the end of a partition could not be read although its topic exists."""
        if self.may_hide_lag or self.past_end or self._has_unknown_ends():
            return None
        lags = [row.known_lag for row in self.offsets]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known else None

    @property
    def lag_ms(self) -> int | None:
        """How far behind the group is in ms: the largest value among its partitions; None as soon as one of them is not
        known."""
        if self.lag is None:
            return None
        return largest([row.known_lag_ms for row in self.offsets])

    def _has_unknown_ends(self) -> bool:
        """Whether the leader of a partition with a committed offset did not report its end."""
        unread = {row.topic for row in self.offsets if row.end is None and row.committed is not None}
        return bool(unread) and any(topic.name in unread for topic in self.topics)

    @property
    def lost(self) -> dict[tuple[str, int], int]:
        """How many records after the committed offset retention has deleted, for each partition that lost some."""
        return {(row.topic, row.partition): row.lost for row in self.offsets if row.lost}

    @property
    def left_lag(self) -> dict[str, int]:
        """The lag in topics that no member subscribes to any more, by topic; empty if some member's topics are not
        known."""
        if not self.names_topics or any(member.regex for member in self.members):
            return {}
        used = {topic for member in self.members for topic in (*member.known_topics, *member.assignment)}
        lags: Counter[str] = Counter()
        for row in self.offsets:
            if row.lag and row.topic not in used:
                lags[row.topic] += row.lag
        return dict(lags)

    @property
    def past_end(self) -> dict[str, tuple[int, ...]]:
        """The partitions whose committed offset is past the end."""
        return _by_topic(row for row in self.offsets if row.is_past_end)

    @property
    def marker_ends(self) -> dict[str, tuple[int, ...]]:
        """The partitions with lag in which nothing is left to read except transaction markers, as far as lag in time
        was requested."""
        return _by_topic(row for row in self.offsets if row.lag and row.lag_ms == 0)

    @property
    def knows_listed_order(self) -> bool:
        """Whether the order in which the broker lists the members is known."""
        return all(member.listed_at is not None for member in self.members)

    def in_listed_order(self) -> GroupSnapshot:
        """The snapshot with its members in the order in which the broker lists them, if that is known."""
        if not self.knows_listed_order:
            return self
        return replace(self, members=tuple(sorted(self.members, key=lambda member: member.listed_at or 0)))

    def to_json(self) -> dict[str, Any]:
        own = {
            "topics": [topic.to_json() for topic in sorted(self.topics, key=lambda topic: topic.name)],
            "members": [member.to_json() for member in sorted(self.members, key=lambda member: member.identity)],
            "offsets": [row.to_json() for row in sorted(self.offsets, key=_PLACE)],
            "kafka_versions": None if self.kafka_versions is None else [*map(str, self.kafka_versions)],
        }
        return as_json(self, GROUP, own)


def largest(spans_ms: Sequence[int | None]) -> int | None:
    """The largest value; None if there are no values, or if one of them is not known."""
    known = [span_ms for span_ms in spans_ms if span_ms is not None]
    return max(known) if known and len(known) == len(spans_ms) else None


def with_lag(member: MemberSnapshot, offsets: Sequence[OffsetSnapshot]) -> MemberSnapshot:
    """The member with its lag and lag_ms, `offsets` being the rows of its partitions."""
    lags = [row.known_lag for row in offsets]
    if not lags:
        return member
    known = [lag for lag in lags if lag is not None]
    lag_ms = largest([row.known_lag_ms for row in offsets])
    return replace(member, lag=sum(known) if len(known) == len(lags) else None, lag_ms=lag_ms)


def _sorted(partitions: Partitions) -> dict[str, list[int]]:
    return {topic: sorted(partitions[topic]) for topic in sorted(partitions)}


def _by_topic(rows: Iterable[OffsetSnapshot]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row.topic, []).append(row.partition)
    return {topic: tuple(sorted(numbers)) for topic, numbers in found.items()}

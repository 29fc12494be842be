"""Turns brokers' responses into `GroupSnapshot`s: pure, no sockets. What a response does not contain is None.

A classic group is described with its members' subscriptions only while it is Stable, and never with its generation or
timeouts; a consumer group (KIP-848) is described with epochs, targets and regexes. If a member's metadata is not in the
consumer protocol's format (Connect, Schema Registry, a custom assignor), that member has no topics; what Streams and
Connect write is read by `kgm.client.framework_groups`."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from kgm.client.failures import BadAnswerError
from kgm.client.requests import GroupDescription, Offsets
from kgm.clients.recognition import MemberEvidence, recognise, recognise_by_ids
from kgm.model.changes import REBALANCING
from kgm.model.client_library import ClientLibrary
from kgm.model.snapshot import (
    CoordinatorNode,
    GroupSnapshot,
    MemberSnapshot,
    OffsetSnapshot,
    TopicSnapshot,
    status_at,
    with_lag,
)
from kgm.model.work import CONNECT_PROTOCOL_TYPE, STREAMS_ASSIGNOR, UserData
from kgm.protocol.subscription import (
    PROTOCOL_TYPE,
    MemberAssignment,
    Subscription,
    readable_assignment,
    readable_subscription,
)

if TYPE_CHECKING:  # only few groups have what Streams and Connect write
    from kgm.client.framework_groups import FrameworkGroup

_CLASSIC_MEMBER = 0
#: No topic is known.
NO_TOPICS: Final[Mapping[str, TopicSnapshot]] = {}
NO_MATCHES: Final[Mapping[str, Collection[str]]] = {}
#: (instance id, member id) of a partition that no member owns.
_NO_OWNER = (None, None)
_new_tuple: Any = tuple.__new__


def group_without_offsets(group_id: str, described: GroupDescription) -> GroupSnapshot:
    """The group as the API describes it, before topics and offsets are known.

    Raises BadAnswerError if a member or an instance id occurs twice in the group."""
    group = _BUILDERS[described.kind](group_id, described.raw)
    _check_members(group)
    return group


def brief_group(group_id: str, described: GroupDescription) -> GroupSnapshot:
    """Like `group_without_offsets`, for many groups: the members of a classic group have only their ids, topics and
    assignments. Also raises BadAnswerError."""
    if described.kind != "classic":
        return group_without_offsets(group_id, described)
    raw: Any = described.raw
    is_consumer = raw.protocol_type == PROTOCOL_TYPE
    group = GroupSnapshot(
        group_id=group_id,
        type="classic",
        state=raw.group_state,
        protocol_type=raw.protocol_type,
        assignor=raw.protocol_data or None,
        members=tuple([_brief_member(member, is_consumer=is_consumer) for member in raw.members]),
    )
    _check_members(group)
    return group


def _brief_member(row: Any, *, is_consumer: bool) -> MemberSnapshot:
    if not is_consumer:
        return MemberSnapshot(member_id=row.member_id, group_instance_id=row.group_instance_id or None)
    subscription, assignment = _subscription(row.member_metadata), readable_assignment(row.member_assignment)
    return MemberSnapshot(
        member_id=row.member_id,
        group_instance_id=row.group_instance_id or None,
        topics=subscription.distinct_topics if subscription else None,
        assignment={} if assignment is None else assignment.partitions,
        is_readable=assignment is not None,
    )


def _check_members(group: GroupSnapshot) -> None:
    if len(group.members) < 2:
        return
    instance_ids = [member.group_instance_id for member in group.members if member.group_instance_id is not None]
    for what, names in (("member", [member.member_id for member in group.members]), ("instance id", instance_ids)):
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadAnswerError(
                f"the broker describes group {group.group_id!r} with {what} {twice!r} twice", group_id=group.group_id
            )


def members_snapshot(group_id: str, described: GroupDescription, coordinator: CoordinatorNode | None) -> GroupSnapshot:
    """The group with nothing but the ids of its members and their clients: fast, for many groups.

    Raises BadAnswerError as `group_without_offsets` does."""
    raw: Any = described.raw
    members = tuple(
        MemberSnapshot(
            member_id=one.member_id, group_instance_id=_instance_id(one), client_id=one.client_id,
            client_host=_host(one.client_host),
        )
        for one in raw.members
    )  # fmt: skip
    group = GroupSnapshot(
        group_id=group_id,
        type=described.kind,
        state=raw.group_state,
        coordinator=coordinator,
        members=members,
    )
    _check_members(group)
    return group


def _instance_id(member: Any) -> str | None:
    """The instance id, which the APIs name differently; members of share groups have none."""
    return getattr(member, "group_instance_id", None) or getattr(member, "instance_id", None) or None


def snapshot(
    base: GroupSnapshot, *, coordinator: CoordinatorNode | None, committed: Offsets | None = None,
    ends: Offsets | None = None, starts: Offsets | None = None,
    topics: Mapping[str, TopicSnapshot] = NO_TOPICS,
    session_timeout_ms: int | None = None, missing_topics: Container[str] = (),
    hidden_offset_topics: Sequence[str] | None = None, share_lags: Offsets | None = None, member_lags: bool = True,
    matched_topics: Mapping[str, Collection[str]] = NO_MATCHES,
) -> GroupSnapshot:  # fmt: skip
    """One group: `group_without_offsets` completed from other APIs. member_lags: include each member's lag.

    share_lags: for a share group, whose `committed` are the offsets from which it starts to read.

    starts: where logs begin, for partitions with a committed offset before their end. topics: all known topics by name,
    including those of other groups. missing_topics: topics that do not exist. hidden_offset_topics: as in
    the snapshot, None if no committed offset can be missing.
    matched_topics: the topics that match each regular expression of members."""
    used = used_topics(base.members, committed or {}, matched_topics)
    offsets: tuple[OffsetSnapshot, ...] = ()
    if committed is not None and base.type == "share":
        offsets = _share_rows(base.members, committed, ends or {}, share_lags or {})
    elif committed is not None:
        offsets = offset_rows(base.members, committed, ends or {}, starts or {})
    members: Iterable[MemberSnapshot] = base.members
    if member_lags:
        rows: dict[str | None, list[OffsetSnapshot]] = {}
        for row in offsets:
            rows.setdefault(row.member_id, []).append(row)
        members = [with_lag(member, rows.get(member.member_id, ())) for member in base.members]
    return replace(
        base,
        coordinator=coordinator,
        session_timeout_ms=session_timeout_ms,
        topics=tuple([topics[name] for name in sorted(used) if name in topics]),
        members=tuple(sorted(members, key=lambda member: member.identity)),
        offsets=offsets,
        may_lack_offsets=hidden_offset_topics is not None,
        hidden_offset_topics=tuple(hidden_offset_topics or ()),
        deleted_topics=tuple(sorted(topic for topic in _had(base.members, committed or {}) if topic in missing_topics)),
    )


def used_topics(
    members: Iterable[MemberSnapshot], committed: Offsets, matched_topics: Mapping[str, Collection[str]]
) -> set[str]:
    """Topics that members subscribe to or own, and topics with committed offsets. matched_topics: as in `snapshot`."""
    used = {topic for topic, _ in committed}
    for member in members:
        used |= {*member.known_topics, *member.assignment, *(member.target_assignment or {})}
        used.update(matched_topics.get(member.regex or "", ()))
    return used


def _had(members: Iterable[MemberSnapshot], committed: Offsets) -> set[str]:
    """Topics whose partitions members own, and topics with committed offsets: each of them existed once. When a topic
    is deleted, the coordinator soon deletes its offsets, and members keep its partitions until their next rebalance."""
    return {topic for topic, _ in committed}.union(*(member.assignment for member in members))


def _classic(group_id: str, group: Any) -> GroupSnapshot:
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    status = "stable" if group.group_state == "Stable" else "unknown"
    if group.group_state in REBALANCING:
        status = "reconciling"
    rows = [_ClassicRow(member, is_consumer=is_consumer) for member in group.members]
    verdict = recognise(group_id, group.protocol_data or None, [row.evidence for row in rows]) if is_consumer else None
    members = tuple(
        row.snapshot(status, None if verdict is None else verdict.members[place], listed_at=place)
        for place, row in enumerate(rows)
    )
    framework = _framework(group, rows)
    if framework is not None:
        members = tuple(replace(one, work=work) for one, work in zip(members, framework.work, strict=True))
    return GroupSnapshot(
        group_id=group_id,
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data or None,
        members=members,
        leader_library=None if verdict is None else verdict.leader,
        leader=None if framework is None else framework.leader,
        next_rebalance_at=None if framework is None else framework.next_rebalance_at,
        is_settled=None if framework is None else framework.is_settled,
        rebalance_delay_ms=None if framework is None else framework.rebalance_delay_ms,
    )


def _framework(group: Any, rows: Sequence[_ClassicRow]) -> FrameworkGroup | None:
    """What Streams and Connect write; None for any other group, and during a rebalance, when nothing is described."""
    if group.group_state != "Stable":
        return None
    if group.protocol_type == CONNECT_PROTOCOL_TYPE:
        from kgm.client.framework_groups import connect_group

        return connect_group([(member.member_metadata, member.member_assignment) for member in group.members])
    if group.protocol_type == PROTOCOL_TYPE and group.protocol_data == STREAMS_ASSIGNOR:
        from kgm.client.framework_groups import streams_group

        return streams_group([row.user_data for row in rows])
    return None


class _ClassicRow:
    """A member of a classic group: its row, and what was decoded from it."""

    __slots__ = ("_assignment", "_is_consumer", "_row", "_subscription")

    def __init__(self, row: Any, *, is_consumer: bool) -> None:
        self._row, self._is_consumer = row, is_consumer
        self._subscription = _subscription(row.member_metadata) if is_consumer else None
        self._assignment = readable_assignment(row.member_assignment) if is_consumer else MemberAssignment()

    @property
    def evidence(self) -> MemberEvidence:
        """What the client library can be recognized by."""
        return MemberEvidence(
            member_id=self._row.member_id,
            client_id=self._row.client_id,
            subscription=self._subscription,
            assignment=self._assignment,
            is_static=bool(self._row.group_instance_id),
        )

    def snapshot(self, status: str, library: ClientLibrary | None, *, listed_at: int) -> MemberSnapshot:
        row, subscription, assignment = self._row, self._subscription, self._assignment
        return MemberSnapshot(
            member_id=row.member_id,
            group_instance_id=row.group_instance_id or None,
            client_id=row.client_id,
            client_host=_host(row.client_host),
            rack=(subscription.rack_id or None) if subscription else None,
            status=status,
            # None: not readable, or not described while the group is rebalancing
            topics=subscription.distinct_topics if subscription else None if self._is_consumer else (),
            assignment={} if assignment is None else assignment.partitions,
            protocol="classic",
            client_library=library,
            listed_at=listed_at,
            is_readable=assignment is not None,
            user_data=UserData.of(assignment.user_data) if assignment is not None else None,
            subscription_version=None if subscription is None else subscription.version,
            names_owned=None if subscription is None else bool(subscription.owned_partitions),
        )

    @property
    def user_data(self) -> tuple[bytes | None, bytes | None]:
        """The user data of the subscription and of the assignment."""
        subscription, assignment = self._subscription, self._assignment
        own = None if subscription is None else subscription.user_data
        return own, None if assignment is None else assignment.user_data


@lru_cache(maxsize=256)
def _subscription(blob: bytes) -> Subscription | None:
    """The decoded subscription; None if it cannot be read. Cached, since the members of a group usually send the same
    one."""
    return readable_subscription(blob)


def _consumer(group_id: str, group: Any) -> GroupSnapshot:
    members = tuple(
        _consumer_member(group_id, member, group.assignment_epoch, listed_at=place)
        for place, member in enumerate(group.members)
    )
    return GroupSnapshot(
        group_id=group_id,
        type="consumer",
        state=group.group_state,
        protocol_type=PROTOCOL_TYPE,
        assignor=group.assignor_name or None,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=members,
    )


def _consumer_member(group_id: str, member: Any, assignment_epoch: int, *, listed_at: int) -> MemberSnapshot:
    assignment = _by_topic(member.assignment)
    target = _by_topic(member.target_assignment)
    protocol = "classic" if member.member_type == _CLASSIC_MEMBER else "consumer"
    return MemberSnapshot(
        member_id=member.member_id,
        group_instance_id=member.instance_id or None,
        client_id=member.client_id,
        client_host=_host(member.client_host),
        rack=member.rack_id or None,
        member_epoch=member.member_epoch,
        status=status_at(member.member_epoch, assignment_epoch, has_target=assignment == target),
        topics=tuple(sorted(set(member.subscribed_topic_names))),
        regex=member.subscribed_topic_regex or None,
        assignment=assignment,
        target_assignment=target,
        protocol=protocol,
        client_library=recognise_by_ids(group_id, member.client_id, member.member_id, protocol),
        listed_at=listed_at,
        listed_target={
            row.topic_name: tuple(row.partitions) for row in member.target_assignment.topic_partitions if row.partitions
        },
    )


def _share(group_id: str, group: Any) -> GroupSnapshot:
    members = tuple(
        MemberSnapshot(
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=_host(member.client_host),
            rack=member.rack_id or None,
            member_epoch=member.member_epoch,
            status=status_at(member.member_epoch, group.assignment_epoch),
            topics=tuple(sorted(set(member.subscribed_topic_names))),
            assignment=_by_topic(member.assignment),
            protocol="share",
        )
        for member in group.members
    )
    return GroupSnapshot(
        group_id=group_id,
        type="share",
        state=group.group_state,
        protocol_type="share",
        assignor=group.assignor_name or None,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=members,
    )


def _streams(group_id: str, group: Any) -> GroupSnapshot:
    """A streams group, whose members own tasks: partitions of every source topic of a subtopology (KIP-1071)."""
    from kgm.client.framework_groups import work_of_streams_member

    sources: dict[str, tuple[str, ...]] = {}
    for sub in (group.topology.subtopologies or ()) if group.topology is not None else ():
        names = {*sub.source_topics, *(topic.name for topic in sub.repartition_source_topics)}
        sources[sub.subtopology_id] = tuple(sorted(names))
    every_topic = tuple(sorted({name for names in sources.values() for name in names}))
    members = tuple(
        MemberSnapshot(
            member_id=member.member_id,
            group_instance_id=member.instance_id or None,
            client_id=member.client_id,
            client_host=_host(member.client_host),
            rack=member.rack_id or None,
            member_epoch=member.member_epoch,
            status=status_at(member.member_epoch, group.assignment_epoch),
            topics=every_topic,
            assignment=_of_tasks(member.assignment, sources),
            target_assignment=_of_tasks(member.target_assignment, sources),
            protocol="classic" if member.is_classic else "streams",
            work=work_of_streams_member(member),
        )
        for member in group.members
    )
    return GroupSnapshot(
        group_id=group_id,
        type="streams",
        state=group.group_state,
        protocol_type="streams",
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology_epoch=None if group.topology is None else group.topology.epoch,
        members=members,
    )


_BUILDERS = {"classic": _classic, "consumer": _consumer, "share": _share, "streams": _streams}


def _of_tasks(assignment: Any, sources: Mapping[str, Iterable[str]]) -> dict[str, list[int]]:
    partitions: dict[str, set[int]] = {}
    for task in assignment.active_tasks:
        for topic in sources.get(task.subtopology_id, ()):
            partitions.setdefault(topic, set()).update(task.partitions)
    return {topic: sorted(partitions[topic]) for topic in sorted(partitions)}


def _by_topic(assignment: Any) -> dict[str, list[int]]:
    merged: dict[str, set[int]] = {}
    for row in assignment.topic_partitions:
        if row.partitions:
            merged.setdefault(row.topic_name, set()).update(row.partitions)
    return {topic: sorted(merged[topic]) for topic in sorted(merged)}


def _host(text: str) -> str:
    """The host. Java prints addresses with a leading slash."""
    return text.removeprefix("/")


def offset_rows(
    members: Iterable[MemberSnapshot], committed: Offsets, ends: Offsets, starts: Offsets
) -> tuple[OffsetSnapshot, ...]:
    """One row for each partition that is owned or has a committed offset. starts: as in `snapshot`."""
    owners: dict[tuple[str, int], tuple[str | None, str | None]] = {}
    for member in members:
        owner = (member.group_instance_id, member.member_id)
        for topic, partitions in member.assignment.items():
            owners.update(dict.fromkeys([(topic, partition) for partition in partitions], owner))
    places = sorted(committed.keys() | owners.keys() if committed else owners)
    found = zip(
        places, map(committed.get, places), map(ends.get, places), map(owners.get, places, repeat(_NO_OWNER)),
        strict=True,
    )  # fmt: skip
    # A committed offset past the end gives no lag: the topic was recreated, or records were lost.
    rows = [
        (topic, number, at, end, None, *owner, None, None, None)
        if at is None or end is None or at > end
        else (topic, number, at, end, end - at, *owner, 0, None if at < end else 0, None)
        for (topic, number), at, end, owner in found
    ]
    if starts:
        rows = [_after_start(row, starts[row[0], row[1]]) if (row[0], row[1]) in starts else row for row in rows]
    return tuple(map(_new_tuple, repeat(OffsetSnapshot), rows))  # faster than `_make`, which is a Python function


def _share_rows(
    members: Iterable[MemberSnapshot], begins: Offsets, ends: Offsets, lags: Offsets
) -> tuple[OffsetSnapshot, ...]:
    """One row for each partition that members have or that has a start offset; no row has an owner. Records after the
    first one left may already be processed, so only the broker knows the lag. A partition that the group has not begun
    to read has no start offset yet, and which one it gets depends on `share.auto.offset.reset`."""
    had = {(topic, number) for one in members for topic, numbers in one.assignment.items() for number in numbers}
    return tuple(
        OffsetSnapshot(
            topic=topic,
            partition=number,
            committed=begins.get((topic, number)),
            end=ends.get((topic, number)),
            lag=lags.get((topic, number)),
            group_instance_id=None,
            member_id=None,
        )
        for topic, number in sorted(begins.keys() | had)
    )


def _after_start(row: tuple[Any, ...], start: int) -> tuple[Any, ...]:
    """The row of a partition whose log begins after the committed offset."""
    topic, number, at, end, _lag, *owner, _lost, _lag_ms, age_ms = row
    if at is None or end is None or not at < start <= end:
        return row
    return (topic, number, at, end, end - start, *owner, start - at, None if start < end else 0, age_ms)

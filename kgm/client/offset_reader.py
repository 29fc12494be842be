"""Committed offsets of groups, partitions of topics and their end offsets; and what could not be read, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgm.client import requests
from kgm.client.failures import from_code
from kgm.client.requests import GroupDescription, Offsets
from kgm.client.transport.brokers import BrokerNode, Brokers
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.clients.subscribed_topics import looks_for_topics, similar_topics
from kgm.java import re2j
from kgm.model.errors import ErrorCode, KgmError
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot

if TYPE_CHECKING:
    from kgm.client.topic_log.committed_topics import CommittedTopics

#: The share of the time that groups' logs can use.
_LOG_SHARE = 0.5
#: The errors in a broker's answer for topics that it knows, and for those that do not exist.
_DESCRIBED = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
#: The errors in a broker's answer for a partition that another broker leads.
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
_NO_PARTITION = KgmError("the topic has no such partition")
_NO_LEADER = KgmError("no leader")
_NO_ANSWER = KgmError("its leader does not mention it")


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenOffsets:
    """What is known about committed offsets that a broker may have left out. topics: those that it has left out,
    according to the group's log, in order; empty if it is not known whether there are any. names_topics: whether the
    group's members name the topics that they read."""

    topics: tuple[str, ...]
    names_topics: bool


class OffsetReader:
    """Reads offsets from the brokers of a cluster, and remembers what they did not report last time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        #: Described topics on which the principal has no DESCRIBE.
        self.denied_topics: set[str] = set()
        #: Other topics that could not be described.
        self.unread_topics: dict[str, KgmError] = {}
        #: Described topics that do not exist.
        self.missing_topics: set[str] = set()
        #: Groups whose committed offsets could not be read, or not all of them.
        self.unread_groups: dict[str, KgmError] = {}
        #: Groups for which a broker may have left out committed offsets: it silently does so for topics on which the
        #: principal has no DESCRIBE.
        self.incomplete_groups: dict[str, HiddenOffsets] = {}
        #: Whether there may be topics that the principal may not describe; None until that has been checked.
        self._is_limited: bool | None = None
        self._is_denied_nothing: bool | None = None
        #: The logs of groups, which show offsets that brokers leave out: opened for the first such group.
        self._logs: CommittedTopics | None = None
        #: (topic, partition) of topics that exist: partitions whose end offset could not be read.
        self.unread_ends: dict[tuple[str, int], KgmError] = {}
        #: By share group: how many records are left in each partition, if the broker reports it.
        self.share_lags: dict[str, Offsets] = {}
        #: (topic, partition) whose first unread record could not be read, and groups whose commits could not be read.
        self.unread_times: dict[tuple[str, int], KgmError] = {}
        self.unread_commit_times: dict[str, KgmError] = {}

    @property
    def undescribed_topics(self) -> frozenset[str]:
        """Topics for which it is unknown how many partitions they have, or whether they exist."""
        return frozenset(self.denied_topics | self.unread_topics.keys())

    def hidden_topics_of(self, group_id: str) -> tuple[str, ...] | None:
        """The topics whose committed offsets the broker has left out, as far as that is known; None if it has left out
        none."""
        found = self.incomplete_groups.get(group_id)
        return None if found is None else found.topics

    def forget_failures(self) -> None:
        """Forget which groups, topics and ends could not be read: `failures` is then about what is read from now on."""
        for unread in (self.unread_groups, self.unread_topics, self.unread_ends):
            unread.clear()

    def failures(self) -> list[KgmError]:
        """The errors of requests for committed offsets, topics and ends. A request counts once, whatever it was about,
        and so does an error that brokers report for several partitions. A partition that no broker could be asked
        about is not a failed request."""
        found: dict[object, KgmError] = {id(one): one for one in self.unread_groups.values()}
        found |= {id(one): one for one in self.unread_topics.values()}
        for one in self.unread_ends.values():
            found.setdefault(one.kafka_error or id(one), one)
        return [one for one in found.values() if one not in (_NO_PARTITION, _NO_LEADER, _NO_ANSWER)]

    def committed(self, descriptions: Mapping[str, GroupDescription], deadline: Deadline) -> dict[str, Offsets]:
        """Committed offsets by group; groups whose offsets cannot be read are left out. Share groups do not commit
        offsets: theirs are the offsets from which they start to read, and `share_lags` has their lags."""
        share_ids = [group_id for group_id, one in descriptions.items() if one.kind == "share"]
        group_ids = [group_id for group_id in descriptions if group_id not in share_ids]

        def ask(connection: BrokerConnection, chunk: list[str]) -> dict[str, Offsets | KgmError]:
            return requests.fetch_committed(connection, chunk, deadline)

        def ask_of_share(connection: BrokerConnection, chunk: list[str]) -> dict[str, Offsets | KgmError]:
            return {name: self._note_lags(name, one) for name, one in fetch_share(connection, chunk, deadline).items()}

        fetch_share = requests.fetch_share_offsets
        results: dict[str, Offsets | KgmError] = {}
        for names, task in ((group_ids, ask), (share_ids, ask_of_share)):
            try:
                results |= self._brokers.on_coordinators(names, task, deadline) if names else {}
            except KgmError as error:
                results |= dict.fromkeys(names, error)
        committed: dict[str, Offsets] = {}
        for group_id, one in results.items():
            if isinstance(one, KgmError):
                self.unread_groups[group_id] = one
            else:
                self.unread_groups.pop(group_id, None)
                committed[group_id] = one
        return committed

    def _note_lags(self, group_id: str, one: requests.ShareOffsets | KgmError) -> Offsets | KgmError:
        if isinstance(one, KgmError):
            return one
        self.share_lags[group_id] = one.lags
        return one.starts

    def topics_and_ends(
        self, topics: Sequence[str], partitions: set[tuple[str, int]], deadline: Deadline, *,
        committed: Offsets | None = None, is_stable: bool = False,
    ) -> tuple[list[TopicSnapshot], Offsets, Offsets]:  # fmt: skip
        """(topics that exist and are visible, end offsets, log start offsets). Leaders that moved are asked again.

        committed: the lowest committed offset of each partition; only if that is before the end is the log's start
        requested: records may have been deleted before they were read. is_stable: return last stable offsets instead of
        end offsets."""
        if not topics:
            return [], {}, {}
        known: dict[str, TopicSnapshot] = {}
        ends: Offsets = {}
        starts: Offsets = {}
        unread: dict[tuple[str, int], KgmError] = {}
        wanted = set(partitions)
        for _ in range(2):
            leaders: dict[tuple[str, int], int] = {}
            try:
                for row in self._brokers.metadata(topics, deadline).topics:
                    if row.name is None:
                        continue
                    self._note_described(row.name, row.error_code)
                    if not row.error_code:
                        topic_id = row.topic_id if any(row.topic_id) else None  # old brokers do not report it
                        known[row.name] = TopicSnapshot(
                            name=row.name, partitions=len(row.partitions), topic_id=topic_id
                        )
                        leaders.update(((row.name, p.partition_index), p.leader_id) for p in row.partitions)
            except KgmError as error:
                self.unread_topics |= dict.fromkeys(set(topics) - known.keys(), error)
                break
            existing = {pair for pair in wanted if pair[0] in known}
            new_ends, new_starts, new_unread = self._ends_by_leader(
                existing, leaders, deadline, committed=committed or {}, is_stable=is_stable
            )
            ends |= new_ends
            starts |= new_starts
            unread |= new_unread
            wanted = {pair for pair, error in new_unread.items() if error.kafka_error in _MOVED}
            if not wanted or deadline.expired:
                break
        for pair in partitions:
            self.unread_ends.pop(pair, None)
        self.unread_ends |= {pair: error for pair, error in unread.items() if pair not in ends}
        return [*known.values()], ends, starts

    def matched_topics(self, groups: Iterable[GroupSnapshot], deadline: Deadline) -> dict[str, set[str]]:
        """The topics that match each regular expression of members: more than are assigned while the coordinator has
        not noticed that some were created. Raises KgmError if no broker answers."""
        expressions = {member.regex for group in groups for member in group.members if member.regex}
        if not expressions:
            return {}
        rows = self._brokers.metadata(None, deadline).topics
        names = {row.name for row in rows if row.name is not None and not row.error_code}
        return {regex: re2j.matching(regex, names) or set() for regex in expressions}

    def note_incomplete(
        self, bases: Iterable[GroupSnapshot], committed: Mapping[str, Offsets], deadline: Deadline, *,
        most_searched: int,
    ) -> None:  # fmt: skip
        """Remember the groups whose committed offsets may be incomplete, because there may be topics that the principal
        may not describe. Where it may read the groups' log, that shows whether they are. Raises nothing.

        most_searched: the logs of at most this many groups are read only because an ACL may deny single topics, which
        nothing else shows; if there are more groups, none is read for that."""
        for group_id in committed:
            self.incomplete_groups.pop(group_id, None)
        if not committed:
            return
        may_hide = self._may_hide_topics(deadline)
        if not may_hide and (len(committed) > most_searched or not self._may_be_denied_one(deadline)):
            return
        # The offsets of a share group are not in the log of groups (`__share_group_state`).
        read = [one for one in bases if one.group_id in committed]
        logged = {one.group_id: committed[one.group_id] for one in read if one.type != "share"}
        hidden = self._hidden_topics(logged, deadline.part(_LOG_SHARE)) if logged else {}
        for one in read:
            topics = hidden.get(one.group_id)
            if topics or (may_hide and topics is None):
                self.incomplete_groups[one.group_id] = HiddenOffsets(topics=topics or (), names_topics=one.names_topics)

    def _may_hide_topics(self, deadline: Deadline) -> bool:
        """Whether there may be topics on which the principal has no DESCRIBE. No API returns that, but only to a
        principal that has it on any topic, as with an ACL on Topic '*', as a superuser, or because the brokers have no
        authorizer, a broker says that a topic that nobody has named does not exist. An ACL that denies one topic to
        such a principal is not noticed here, only in groups' logs."""
        if self._is_limited is None:
            from kgm.client.authorized_operations import opens_what_has_no_acl, unheard_name

            try:
                self._is_limited = bool(self._denied([unheard_name()], deadline))
            except KgmError:
                return True
            self._is_limited = self._is_limited or opens_what_has_no_acl(self._brokers, deadline)
        return self._is_limited

    def _may_be_denied_one(self, deadline: Deadline) -> bool:
        """Whether an ACL may deny single topics to the principal."""
        if self._is_denied_nothing is None:
            from kgm.client.authorized_operations import cluster_operations, is_a_brokers

            try:
                operations = self._brokers.on_any(lambda one: cluster_operations(one, deadline), deadline)
            except KgmError:
                return True
            self._is_denied_nothing = is_a_brokers(operations)
        return not self._is_denied_nothing

    def _hidden_topics(self, committed: Mapping[str, Offsets], deadline: Deadline) -> dict[str, tuple[str, ...]]:
        """By group, the topics with committed offsets that the broker has left out; groups whose log cannot be read in
        full are left out."""
        if self._logs is None:
            # Imported here because it decodes records, which few commands need.
            from kgm.client.topic_log.committed_topics import CommittedTopics

            self._logs = CommittedTopics(self._brokers)
        unseen = {
            group_id: topics - {topic for topic, _ in committed[group_id]}
            for group_id, topics in self._logs.of(committed, deadline).items()
        }
        try:
            denied = self._denied(set[str]().union(*unseen.values()), deadline)
        except KgmError:
            return {}
        self.denied_topics |= denied
        return {group_id: tuple(sorted(topics & denied)) for group_id, topics in unseen.items()}

    def _denied(self, topics: Iterable[str], deadline: Deadline) -> set[str]:
        """Those of the topics on which the principal has no DESCRIBE. Raises KgmError."""
        asked = sorted(topics)
        rows = self._brokers.metadata(asked, deadline).topics if asked else ()
        return {row.name for row in rows if row.name and row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    def with_similar_topics(self, groups: Sequence[GroupSnapshot], deadline: Deadline) -> list[GroupSnapshot]:
        """The groups with `similar_topics`, without those of which a partition has had another leader: no API returns
        when a topic was created, and such a one has been there for a while. Raises KgmError if no broker answers."""
        if not any(group.type == "classic" and any(map(looks_for_topics, group.members)) for group in groups):
            return [*groups]
        young = {
            row.name: TopicSnapshot(name=row.name, partitions=len(row.partitions))
            for row in self._brokers.metadata(None, deadline).topics
            if row.name is not None
            and not (row.error_code or row.is_internal or any(one.leader_epoch > 0 for one in row.partitions))
        }
        found = [similar_topics(group, young) for group in groups]
        return [
            replace(group, similar_topics=tuple(young[name] for name in sorted(names)))
            for group, names in zip(groups, found, strict=True)
        ]

    def _note_described(self, topic: str, error_code: int) -> None:
        """Remember whether a topic could be described; one that does not exist counts as described."""
        self.unread_topics.pop(topic, None)
        self.missing_topics.discard(topic)
        if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.missing_topics.add(topic)
        if error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.denied_topics.add(topic)
        elif error_code not in _DESCRIBED:
            self.unread_topics[topic] = from_code(error_code, f"topic {topic!r} cannot be described", api="Metadata")

    def _ends_by_leader(
        self,
        partitions: set[tuple[str, int]],
        leaders: Mapping[tuple[str, int], int],
        deadline: Deadline,
        *,
        committed: Offsets,
        is_stable: bool,
    ) -> tuple[Offsets, Offsets, dict[tuple[str, int], KgmError]]:
        """(end offsets, start offsets where requested, why the other partitions have no end offset)."""
        brokers = {broker.id: broker for broker in self._brokers.brokers()}
        by_leader: dict[BrokerNode, dict[str, list[int]]] = {}
        unread: dict[tuple[str, int], KgmError] = {}
        for topic, partition in sorted(partitions):
            leader = leaders.get((topic, partition))
            broker = None if leader is None else brokers.get(leader)
            if broker is not None:
                by_leader.setdefault(broker, {}).setdefault(topic, []).append(partition)
            else:
                unread[topic, partition] = _NO_PARTITION if leader is None else _NO_LEADER
        if not by_leader:
            return {}, {}, unread
        tasks = {
            broker: self._ends_task(broker, mine, deadline, committed=committed, is_stable=is_stable)
            for broker, mine in by_leader.items()
        }
        ends: Offsets = {}
        starts: Offsets = {}
        for broker, result in self._brokers.ask_each(tasks, deadline, "a partition leader").items():
            asked = [(topic, number) for topic, numbers in by_leader[broker].items() for number in numbers]
            if isinstance(result, KgmError):
                unread |= dict.fromkeys(asked, result)
            else:
                told, told_starts, refused = result
                ends |= told
                starts |= told_starts
                unread |= {pair: refused.get(pair, _NO_ANSWER) for pair in asked if pair not in told}
        return ends, starts, unread

    def _ends_task(
        self, broker: BrokerNode, partitions: dict[str, list[int]], deadline: Deadline, *, committed: Offsets,
        is_stable: bool,
    ) -> Callable[[], tuple[Offsets, Offsets, dict[tuple[str, int], KgmError]]]:  # fmt: skip
        def ask(connection: BrokerConnection) -> tuple[Offsets, Offsets, dict[tuple[str, int], KgmError]]:
            ends, refused = requests.fetch_offsets(connection, partitions, deadline, is_stable=is_stable)
            behind: dict[str, list[int]] = {}
            for (topic, number), end in ends.items():
                if committed.get((topic, number), end) < end:
                    behind.setdefault(topic, []).append(number)
            if not behind:
                return ends, {}, refused
            starts, more = requests.fetch_offsets(connection, behind, deadline, is_start=True)
            # Without the log's start, it is unknown how many of the records are still there.
            known = {pair: end for pair, end in ends.items() if pair not in more}
            return known, starts, refused | more

        return lambda: self._brokers.on_broker(broker, ask, deadline)

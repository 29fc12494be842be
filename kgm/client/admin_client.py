"""The client that kgm's commands use: list groups, describe them, remove members.

An `AdminClient` has one time budget. Reads are retried within it; partial failures are returned as data, along with the
results. A request that changes a group (`send_change`) is sent once: the caller decides what a lost response means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from kgm.client import requests
from kgm.client.failures import (
    BadAnswerError,
    ConnectError,
    LostError,
    MissingGroupError,
    UnreadSettings,
    WrongProtocolError,
)
from kgm.client.group_listing import ListedGroup, Listing
from kgm.client.offset_reader import OffsetReader
from kgm.client.requests import GroupDescription, GroupSettings, Offsets
from kgm.client.snapshots import brief_group, group_without_offsets, members_snapshot, snapshot, used_topics
from kgm.client.transport.bootstrap import parse_bootstrap
from kgm.client.transport.brokers import TAKEOVER_S, BrokerNode, Brokers
from kgm.client.transport.connection import BrokerConnection, Plaintext, Security
from kgm.client.transport.deadline import Deadline
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import BrokerError, DecodeError, KgmError, UnreachableError
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.apis import ApiKey
from kgm.text.whole_numbers import whole_number

if TYPE_CHECKING:  # needed only by removals and predictions
    from kgm.client.leave_group import LeaveAnswer, MemberToRemove

T = TypeVar("T")

#: The share of the budget that offsets can use: a dead partition leader must not cost the whole result.
_OFFSETS_SHARE = 0.6
#: Why a group may not exist even though its consumers are running.
_NO_GROUP_YET = (
    "a running consumer may have no group: librdkafka does not join while no topic that it subscribes to exists, and "
    "a consumer that assigns its own partitions has a group only once it commits"
)


class AdminClient:
    """A cluster behind a bootstrap list; a context manager. Create one with `kgm.client.connect`."""

    def __init__(self, bootstrap: str, *, timeout_ms: int, security: Security | None = None) -> None:
        self.bootstrap = bootstrap
        self.deadline = Deadline.after(timeout_ms)
        self.brokers = Brokers(parse_bootstrap(bootstrap), security or Plaintext())
        #: Also records which topics and offsets the brokers did not report.
        self.offsets = OffsetReader(self.brokers)
        #: Groups whose broker's settings, or own settings, could not be read, and why.
        self.unread_broker_settings: dict[str, UnreadSettings] = {}
        self.unread_group_settings: dict[str, UnreadSettings] = {}
        #: Groups whose records in `__consumer_offsets` could not be read, although the login is allowed to.
        self.unread_records: dict[str, KgmError] = {}
        #: Groups that a broker has listed as classic.
        self._listed_as_classic: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(value, MissingGroupError):
            self.name_similar_groups([value])
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.brokers.close()

    def start(self) -> None:
        """Connect to the cluster. Raises KgmError (exit 5 if no broker answers)."""
        self.brokers.start(self.deadline)

    def renew(self, timeout_ms: int | None = None) -> None:
        """Start the budget again: after a prompt, or for the next poll of a watch."""
        self.deadline = Deadline.after(self.deadline.budget_ms if timeout_ms is None else timeout_ms)

    def go_on(self, most_ms: float | None = None) -> None:
        """Start the budget again within one command, after time that the cluster was not using, but without the time
        already lost to answers that did not come. most_ms: the most to allow for what comes next."""
        self.deadline = self.deadline.go_on(most_ms)

    @property
    def cluster_id(self) -> str | None:
        return self.brokers.cluster_id

    def bind_to_cluster(self) -> None:
        """From now on, refuse every connection that leads to a cluster other than `cluster_id`: requests then raise
        OtherClusterError (exit 6). A group of the same name there is another group: kgm neither changes it nor takes
        what it reads for news of the first."""
        self.brokers.bind()

    def can_list_all(self, *, sees_some: bool) -> bool:
        """Whether a listing has every group: needs DESCRIBE on the cluster, or on all groups. True if the brokers do
        not report rights. sees_some: whether a listing has any group."""
        from kgm.client.authorized_operations import can_list_all, may_describe_any_group

        is_told = can_list_all(self._cluster_operations())
        return is_told or (sees_some and may_describe_any_group(self.brokers, self.deadline))

    def _cluster_operations(self) -> int | None:
        """What the principal is allowed to do on the cluster, as bits; None if the brokers do not report it."""
        from kgm.client.authorized_operations import cluster_operations

        deadline = self.deadline
        try:
            return self.brokers.on_any(lambda one: cluster_operations(one, deadline), deadline)
        except KgmError:
            return None

    # -- list ----------------------------------------------------------------------------------------------------------

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Listing:
        """The groups of all brokers, asked in parallel. states and types: match any of these, ignoring case; empty
        means all.

        A broker that does not answer until 90 % of the time left is over is an error in the listing; raises KgmError if
        none answers."""
        from kgm.client.group_listing import Listing, list_everywhere

        wanted_states, wanted_types = {s.lower() for s in states}, {t.lower() for t in types}
        if not self.brokers.brokers():
            self.brokers.start(self.deadline)
        by_broker, errors = list_everywhere(self.brokers, wanted_states, wanted_types, self.deadline.part(0.9))
        if errors and not by_broker:
            raise errors[0]
        listed: dict[str, ListedGroup] = {}
        for broker, rows_of in by_broker.items():
            self.brokers.remember_listed([group.group_id for group in rows_of], broker, also_listed=listed)
            listed.update((group.group_id, group) for group in rows_of)
        self._listed_as_classic |= {group.group_id for group in listed.values() if group.type == "classic"}
        rows = self._with_states(list(listed.values())) if wanted_states else list(listed.values())
        # Old brokers do not filter; filtering again changes nothing for the others.
        matching = [
            row
            for row in rows
            if (not wanted_states or (row.state or "").lower() in wanted_states)
            and (not wanted_types or (row.type or "classic") in wanted_types)
        ]
        return Listing(groups=tuple(sorted(matching, key=lambda row: row.group_id)), errors=tuple(errors))

    def name_similar_groups(self, errors: Iterable[KgmError]) -> None:
        """Add a suggestion for the group probably meant to errors about a missing group. Raises nothing."""
        missing = [one for one in errors if isinstance(one, MissingGroupError) and one.group_id is not None]
        if not missing:
            return
        from kgm.text.names import closest

        try:
            with self.brokers.in_a_hurry():
                known = [row.group_id for row in self.list_groups().groups]
        except KgmError:
            return  # not an error: only the suggestion is missing
        for error in missing:
            meant = closest(error.group_id or "", known)
            if meant not in (None, error.group_id):
                error.facts = (*error.facts, f"did you mean {meant!r}?")
            else:
                error.facts = (*error.facts, _NO_GROUP_YET)

    def _with_states(self, rows: list[ListedGroup]) -> list[ListedGroup]:
        """Fill in the states that old brokers leave out of their listings."""
        missing = [row.group_id for row in rows if row.state is None]
        if not missing:
            return rows
        described = self._describe(missing)
        states = {
            group_id: getattr(one.raw, "group_state", None)
            for group_id, one in described.items()
            if isinstance(one, GroupDescription)
        }
        return [replace(row, state=states.get(row.group_id, row.state)) for row in rows]

    # -- describe ------------------------------------------------------------------------------------------------------

    def describe_groups(
        self, group_ids: Sequence[str], *, offsets: bool = True, with_ends: bool = True, is_brief: bool = False,
        most_searched: int = 1,
    ) -> list[GroupSnapshot | KgmError]:  # fmt: skip
        """A snapshot or an error for each group, in the order of the ids (NotFoundError, AuthorizationError, ...).

        offsets: read committed offsets too; with_ends: and end offsets. Those that cannot be read are None. Topics and
        their partition counts are always included. is_brief: like `brief_group`, without members' lags, timeouts, and
        topics that match regular expressions but are not assigned. most_searched: as in `OffsetReader.note_incomplete`,
        unless is_brief. Raises KgmError only if no broker answers at all."""
        if not group_ids:
            return []
        described = self._describe(group_ids)
        descriptions: dict[str, GroupDescription] = {}
        bases: dict[str, GroupSnapshot] = {}
        for group_id, one in described.items():
            if isinstance(one, GroupDescription):
                try:
                    bases[group_id] = (brief_group if is_brief else group_without_offsets)(group_id, one)
                    descriptions[group_id] = one
                except KgmError as error:
                    described[group_id] = error
        deadline = self.deadline.part(_OFFSETS_SHARE)
        committed = self.offsets.committed(descriptions, deadline) if offsets else {}
        most_searched = 0 if is_brief else most_searched
        self.offsets.note_incomplete(bases.values(), committed, deadline, most_searched=most_searched)
        matched = {} if is_brief else self.offsets.matched_topics(bases.values(), deadline)
        topics: set[str] = set()
        partitions: set[tuple[str, int]] = set()
        lowest: Offsets = {}
        for group_id in descriptions:
            for pair, offset in committed.get(group_id, {}).items():
                lowest[pair] = min(offset, lowest.get(pair, offset))
            topics |= used_topics(bases[group_id].members, committed.get(group_id, {}), matched)
            partitions |= committed.get(group_id, {}).keys()
            for member in bases[group_id].members:
                partitions |= {(topic, p) for topic, numbers in member.assignment.items() for p in numbers}
        wanted = partitions if offsets and with_ends else set()
        known, ends, starts = self.offsets.topics_and_ends(sorted(topics), wanted, deadline, committed=lowest)
        timed = [] if is_brief else [g for g, one in descriptions.items() if one.kind == "consumer"]
        timeouts = self._session_timeouts(timed, deadline)
        topics_by_name = {topic.name: topic for topic in known}
        results: list[GroupSnapshot | KgmError] = []
        for group_id in group_ids:
            one = described[group_id]
            if isinstance(one, KgmError):
                results.append(one)
                continue
            results.append(
                snapshot(
                    bases[group_id], coordinator=self.brokers.coordinator(group_id), committed=committed.get(group_id),
                    ends=ends, starts=starts, topics=topics_by_name, session_timeout_ms=timeouts.get(group_id),
                    missing_topics=self.offsets.missing_topics,
                    hidden_offset_topics=self.offsets.hidden_topics_of(group_id),
                    share_lags=self.offsets.share_lags.get(group_id), member_lags=not is_brief, matched_topics=matched,
                )
            )  # fmt: skip
        return results

    def describe_members(self, group_ids: Sequence[str]) -> list[GroupSnapshot | KgmError]:
        """Type, state and coordinator of each group with the ids of its members, or an error, in the order of the group
        ids."""
        described = self._describe(group_ids) if group_ids else {}
        return [self._brief(group_id, described[group_id]) for group_id in group_ids]

    def _brief(self, group_id: str, described: GroupDescription | KgmError) -> GroupSnapshot | KgmError:
        if isinstance(described, KgmError):
            return described
        try:
            return members_snapshot(group_id, described, self.brokers.coordinator(group_id))
        except KgmError as error:
            return error

    def describe_members_of(self, group_id: str) -> GroupSnapshot:
        """One group with the ids of its members. Raises what `describe_members` returns."""
        (result,) = self.describe_members([group_id])
        if isinstance(result, KgmError):
            raise result
        return result

    def describe_group(self, group_id: str, *, offsets: bool = True, with_ends: bool = True) -> GroupSnapshot:
        """One group, with the Kafka versions that its coordinator may have. Raises what `describe_groups` returns."""
        (result,) = self.describe_groups([group_id], offsets=offsets, with_ends=with_ends)
        if isinstance(result, KgmError):
            raise result
        return self.with_kafka_versions([result])[0]

    def _describe(self, group_ids: Sequence[str]) -> dict[str, GroupDescription | KgmError]:
        deadline = self.deadline

        def ask(connection: BrokerConnection, chunk: list[str]) -> dict[str, GroupDescription | KgmError]:
            return requests.describe(connection, chunk, deadline, listed_as_classic=self._listed_as_classic)

        began_s = time.monotonic()
        results = self.brokers.on_coordinators(group_ids, ask, deadline)
        doubtful = [
            group_id
            for group_id, result in results.items()
            if self.brokers.has_moved(group_id, began_s) and not isinstance(result, UnreachableError)
        ]
        if doubtful:  # a coordinator that has just taken over may return an outdated description
            deadline.sleep(TAKEOVER_S)
            again = {} if deadline.expired else self.brokers.on_coordinators(doubtful, ask, deadline)
            results |= {
                group_id: result for group_id, result in again.items() if not isinstance(result, UnreachableError)
            }
        return results

    def instance_ids_in_use(self, group_id: str, instance_ids: Iterable[str]) -> set[str]:
        """Which of these instance ids belong to a member of the group, according to the coordinator's newest state.

        Checked by a Heartbeat with the instance id and an empty member id: it changes nothing, and its error code shows
        whether the id is in use. Raises KgmError; UnsupportedError for brokers older than KIP-345."""
        deadline, ids = self.deadline, sorted(instance_ids)

        def ask(connection: BrokerConnection, chunk: list[str]) -> dict[str, set[str] | KgmError]:
            return {group_id: requests.instance_ids_in_use(connection, group_id, ids, deadline) for group_id in chunk}

        result = self.brokers.on_coordinators([group_id], ask, deadline)[group_id]
        if isinstance(result, KgmError):
            raise result
        return result

    def with_kafka_versions(self, groups: Sequence[GroupSnapshot]) -> list[GroupSnapshot]:
        """The groups, each with the Kafka versions that its coordinator may have: the brokers of a cluster may differ.
        The version of a broker that does not answer stays unknown."""
        from kgm.client.version_inference import with_versions

        deadline = self.deadline.part(0.5)
        try:
            coordinators = self.brokers.find_coordinators([group.group_id for group in groups], deadline)
        except KgmError:
            return [*groups]  # not an error: predictions are only less certain
        versions = {
            broker: self._kafka_versions(broker, deadline)
            for broker in {*coordinators.values()}
            if isinstance(broker, BrokerNode)
        }
        return [
            with_versions(group, known)
            if isinstance(broker := coordinators[group.group_id], BrokerNode)
            and (known := versions[broker]) is not None
            else group
            for group in groups
        ]

    def _kafka_versions(self, broker: BrokerNode, deadline: Deadline) -> tuple[BrokerVersion, ...] | None:
        from kgm.client.version_inference import possible_versions

        try:
            connection = self.brokers.connection(broker.address, deadline)
        except KgmError:
            return None
        return possible_versions(connection.versions, connection.supported_features)

    # -- offsets -------------------------------------------------------------------------------------------------------

    def committed_offsets(self, group_id: str) -> Offsets:
        """Committed offsets by (topic, partition). Raises KgmError."""
        deadline = self.deadline

        def ask(connection: BrokerConnection, chunk: list[str]) -> dict[str, Offsets | KgmError]:
            return requests.fetch_committed(connection, chunk, deadline)

        result = self.brokers.on_coordinators([group_id], ask, deadline)[group_id]
        if isinstance(result, KgmError):
            raise result
        return result

    def end_offsets(self, partitions: Iterable[tuple[str, int]], *, is_stable: bool = False) -> Offsets:
        """End offsets by (topic, partition), if the leaders report them. is_stable: return the last stable offsets
        instead, below which consumers read that ignore open transactions (READ_COMMITTED, KIP-98)."""
        wanted = set(partitions)
        topics = sorted({topic for topic, _ in wanted})
        return self.offsets.topics_and_ends(topics, wanted, self.deadline, is_stable=is_stable)[1]

    def topic_names(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """The names of topics by id, if the cluster reports them."""

        def ask(connection: BrokerConnection) -> dict[bytes, str]:
            return requests.fetch_topic_names(connection, topic_ids, self.deadline)

        try:
            return self.brokers.on_any(ask, self.deadline)
        except KgmError:
            return {}  # not an error: the ids are shown

    def _session_timeouts(self, group_ids: list[str], deadline: Deadline) -> dict[str, int]:
        if not group_ids:
            return {}

        name = "consumer.session.timeout.ms"

        def ask(connection: BrokerConnection) -> dict[str, GroupSettings | KgmError]:
            return requests.fetch_group_settings(connection, group_ids, [name], deadline)

        try:
            answers = self.brokers.on_any(ask, deadline)
        except KgmError:
            return {}  # not an error: only a column stays empty
        stated = {group_id: one for group_id, one in answers.items() if isinstance(one, GroupSettings)}
        # Only a coordinator knows what it makes of a group's own settings.
        own = {group_id: one for group_id, one in stated.items() if one.own}
        effective = self.brokers.on_coordinators(
            [*own], lambda one, chunk: self._effective(one, {name: own[name] for name in chunk}, deadline), deadline
        )
        values = {group_id: one.values for group_id, one in stated.items()} | effective
        texts = {group_id: one.get(name) for group_id, one in values.items() if not isinstance(one, KgmError)}
        return {group_id: ms for group_id, text in texts.items() if (ms := whole_number(text)) is not None}

    def _effective(
        self, connection: BrokerConnection, stated: Mapping[str, GroupSettings], deadline: Deadline
    ) -> dict[str, dict[str, str] | KgmError]:
        """`requests.effective_settings` of groups with the same coordinator."""
        coordinator = self.brokers.coordinator(next(iter(stated)))
        broker_id = -1 if coordinator is None else coordinator.id  # a broker refuses another one's id
        return requests.effective_settings(connection, broker_id, stated, deadline)

    def broker_settings(self, group_id: str, names: Sequence[str]) -> dict[str, str]:
        """Settings of the broker that coordinates a group, by name; settings it does not report are left out."""

        def ask(connection: BrokerConnection, deadline: Deadline) -> dict[str, str]:
            coordinator = self.brokers.coordinator(group_id)
            if coordinator is None:
                raise BrokerError(f"the coordinator of group {group_id!r} is not known", group_id=group_id)
            return requests.fetch_broker_settings(connection, coordinator.id, list(names), deadline)

        return self._settings(group_id, ask, self.unread_broker_settings)

    def group_settings(self, group_id: str, names: Sequence[str]) -> dict[str, str]:
        """Effective settings of one group, by name: its own within the limits of its coordinator's broker, else the
        broker's. Settings that the broker does not report are left out; none if one of them is not certain."""

        def ask(connection: BrokerConnection, deadline: Deadline) -> dict[str, str]:
            answer = requests.fetch_group_settings(connection, [group_id], list(names), deadline)
            stated = answer.get(group_id, GroupSettings({}, frozenset()))
            if isinstance(stated, KgmError):
                raise stated
            settings = self._effective(connection, {group_id: stated}, deadline)[group_id]
            if isinstance(settings, KgmError):
                raise settings
            return settings

        return self._settings(group_id, ask, self.unread_group_settings)

    def session_timeout_ms(self, group_id: str, group_type: str) -> int | None:
        """The session timeout that the broker sets for a group of type consumer, streams or share, in ms: the group's,
        or the broker's if it has no group settings; None if that cannot be read."""
        name = f"{group_type}.session.timeout.ms"
        text = self.group_settings(group_id, [name]).get(name)
        if text is None and group_id not in self.unread_group_settings:
            text = self.broker_settings(group_id, [f"group.{name}"]).get(f"group.{name}")
        return whole_number(text)

    def _settings(
        self, group_id: str, fetch: Callable[[BrokerConnection, Deadline], dict[str, str]],
        unread: dict[str, UnreadSettings],
    ) -> dict[str, str]:  # fmt: skip
        """The settings; empty, with the reason in `unread`, if they cannot be read."""

        def ask(connection: BrokerConnection) -> dict[str, str]:
            return fetch(connection, deadline) if connection.supports(ApiKey.DESCRIBE_CONFIGS) else {}

        deadline = self.deadline.part(0.5)
        try:
            broker = self.brokers.find_coordinators([group_id], deadline)[group_id]
            if isinstance(broker, KgmError):
                raise broker
            settings = self.brokers.on_broker(broker, ask, deadline)
        except KgmError as error:  # not an error: predictions are only less certain
            unread[group_id] = UnreadSettings.of(error)
            return {}
        unread.pop(group_id, None)
        return settings

    # -- change --------------------------------------------------------------------------------------------------------

    def version_of(self, api: ApiKey, group_id: str, deadline: Deadline) -> int:
        """The newest version of a request that both kgm and the group's coordinator support. Raises KgmError."""

        def ask(connection: BrokerConnection, chunk: list[str]) -> dict[str, int | KgmError]:
            return dict.fromkeys(chunk, connection.version(api))

        result = self.brokers.on_coordinators([group_id], ask, deadline)[group_id]
        if isinstance(result, KgmError):
            raise result
        return result

    def send_change(self, group_id: str, send: Callable[[BrokerConnection], T], deadline: Deadline) -> T:
        """The result of `send`, which sends the group's coordinator one request that changes something, and is called
        once.

        Raises LostError with `sent` if the answer was lost or cannot be understood, and other KgmErrors if the request
        was not sent at all."""
        try:
            broker = self.brokers.find_coordinators([group_id], deadline)[group_id]
            if isinstance(broker, KgmError):
                raise broker
            connection = self.brokers.connection(broker.address, deadline)
        except LostError as error:  # only the lookup was lost
            raise ConnectError(error.message, facts=error.facts, hint=error.hint) from error
        try:
            return send(connection)
        except (DecodeError, BadAnswerError, WrongProtocolError) as error:
            raise LostError(error.message, sent=True, facts=error.facts) from error

    def leave_group(
        self, group_id: str, members: Sequence[MemberToRemove], *, reason: str | None, deadline: Deadline
    ) -> LeaveAnswer:
        """Send one LeaveGroup request, once: see `send_change`. Error codes in the answer are data."""
        from kgm.client.leave_group import leave_group

        return self.send_change(group_id, lambda one: leave_group(one, group_id, members, reason, deadline), deadline)

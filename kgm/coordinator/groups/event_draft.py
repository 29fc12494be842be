"""What one event changes, before it takes effect: drafts of groups, records, timers, replies.

An event is a request, an alarm, or something that the caller reports (`Coordinator.topics_changed`). The rules collect
what must be done in an `EventDraft`; the coordinator turns it into an outcome, and lets the drafts of groups take
effect when the outcome's records are replayed."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.contract.outcome import (
    CancelTimer,
    Millis,
    NewTopic,
    Outcome,
    Producer,
    Reply,
    Request,
    Run,
    SetTimer,
    Ticket,
    TimerKey,
    of_runs,
)
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.streams_topology import ConfiguredTopology
from kgm.protocol.struct import Message

NO_TOPICS = TopicImage()


class OnAppendFailure(enum.Enum):
    """What replaces the event when its records cannot be appended (Kafka: the appendFuture callbacks)."""

    REVERT = enum.auto()
    """Nothing changes, and the request is answered with the error."""
    KEEP = enum.auto()
    """A group became Empty: it stays Empty in memory, and only the current request is answered with the error."""
    REBALANCE = enum.auto()
    """The leader's SyncGroup: every parked SyncGroup is answered with the error, and a rebalance starts."""
    WITHOUT_PLANS = enum.auto()
    """A spare should have taken the place of a member (`classic.standby`): the event is handled as if there were no
    spares."""


@dataclass(slots=True, kw_only=True)
class EventDraft:
    """One event in progress. request, ticket: None unless the event is a request. alarm: None unless it is an alarm.

    behavior: of `settings.kafka_version`. live_timers: the timers that are set, with their deadlines. image: the topics
    that exist. configs: group configs by group id. groups: drafts by group id. dropped_groups: groups that end without
    a record. timers: changed timers, with a new deadline, or None if cancelled. topologies: the topologies of streams
    groups, configured for the topics that now exist, by group id. is_in_place: whether a group was changed without a
    draft."""

    now: Millis
    settings: BrokerSettings
    live_timers: Mapping[TimerKey, Millis]
    behavior: CoordinatorBehavior = REFERENCE_BEHAVIOR
    image: TopicImage = NO_TOPICS
    configs: Mapping[str, GroupConfig] = field(default_factory=dict)
    request: Request | None = None
    ticket: Ticket | None = None
    alarm: TimerKey | None = None
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    dropped_groups: list[str] = field(default_factory=list)
    records: list[Run] = field(default_factory=list)
    timers: dict[TimerKey, Millis | None] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)
    on_append_failure: OnAppendFailure = OnAppendFailure.REVERT
    producer: Producer | None = None
    new_topics: tuple[NewTopic, ...] = ()
    topologies: dict[str, ConfiguredTopology] = field(default_factory=dict)
    is_in_place: bool = False

    def draft(self, group: ClassicGroup) -> ClassicGroup:
        """A draft of the group, which this event may change."""
        draft = self.groups[group.group_id] = group.draft()
        return draft

    def in_place(self, group: ClassicGroup) -> ClassicGroup:
        """The group itself, for an event that is certain to have no records and so cannot fail; a draft if a fork
        shares the group. This way, members can join and sync without the cost of a draft for each."""
        if group.is_shared:
            return self.draft(group)
        self.is_in_place = True
        return group

    def write(self, record: Run) -> None:
        self.records.append(record)

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Fire `key` after this delay; replaces its deadline if it is set."""
        if key in self.timers:
            del self.timers[key]
        self.timers[key] = Millis(self.now + delay_ms)

    def is_timer_set(self, key: TimerKey) -> bool:
        return self.timers[key] is not None if key in self.timers else key in self.live_timers

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancel `key`, if it is set."""
        self.timers.pop(key, None)
        if key in self.live_timers:
            self.timers[key] = None

    def reply(self, ticket: Ticket, message: Message) -> None:
        self.replies.append(Reply(ticket, message))

    def answer(self, message: Message) -> None:
        """Reply to the current request."""
        assert self.ticket is not None
        self.replies.append(Reply(self.ticket, message))

    def refuse(self, message: Message) -> None:
        """Reply to the current request, and drop the records and timers of this draft. Group drafts, and replies to
        other requests, stay."""
        self.records.clear()
        self.timers.clear()
        self.answer(message)

    @property
    def version(self) -> int:
        """The version of the current request."""
        assert self.request is not None
        return self.request.version

    def outcome(self) -> Outcome:
        timers = [
            CancelTimer(key) if deadline is None else SetTimer(key, deadline) for key, deadline in self.timers.items()
        ]
        return Outcome(of_runs(self.records), tuple(timers), tuple(self.replies), self.producer, self.new_topics)

"""A draft of what one event does: changed groups, records, timers, replies. Nothing of it is in effect yet."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kgm.coordinator.classic.group import ClassicGroup
from kgm.coordinator.contract.outcome import (
    CancelTimer,
    Millis,
    Outcome,
    Producer,
    Reply,
    Request,
    SetTimer,
    Ticket,
    TimerKey,
)
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.protocol.struct import Message
from kgm.records.record import Record

NO_TOPICS = TopicImage()


class OnAppendFailure(enum.Enum):
    """What becomes of the draft when its records cannot be appended (Kafka: the appendFuture callbacks)."""

    REVERT = enum.auto()
    """As if the request had not been made; it is answered with the error."""
    KEEP = enum.auto()
    """A group became Empty: it stays so in memory, and only the request at hand hears of the error."""
    REBALANCE = enum.auto()
    """The leader's SyncGroup: every parked SyncGroup gets the error, and the members have to join again."""
    WITHOUT_PLANS = enum.auto()
    """A spare was to take somebody's place (`standby`): what is done is what is done where there is none."""


@dataclass(slots=True, kw_only=True)
class EventDraft:
    """One event at work. `request` and `ticket` are None when the event is an alarm, and `alarm` when it is not.

    live: the timers that are set, by deadline. image: the topics that there are. configs: what is set for single
    groups."""

    now: Millis
    settings: BrokerSettings
    live: Mapping[TimerKey, Millis]
    image: TopicImage = NO_TOPICS
    configs: Mapping[str, GroupConfig] = field(default_factory=dict)
    request: Request | None = None
    ticket: Ticket | None = None
    alarm: TimerKey | None = None
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    timers: dict[TimerKey, Millis | None] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)
    on_append_failure: OnAppendFailure = OnAppendFailure.REVERT
    producer: Producer | None = None

    def draft(self, group: ClassicGroup) -> ClassicGroup:
        """The group as this event may change it."""
        draft = self.groups[group.group_id] = group.draft()
        return draft

    def write(self, record: Record) -> None:
        self.records.append(record)

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Fire `key` that long from now, instead of when it was to fire."""
        if key in self.timers:
            del self.timers[key]
        self.timers[key] = Millis(self.now + delay_ms)

    def cancel_timer(self, key: TimerKey) -> None:
        """Do not fire `key`, if it is set at all."""
        self.timers.pop(key, None)
        if key in self.live:
            self.timers[key] = None

    def reply(self, ticket: Ticket, message: Message) -> None:
        self.replies.append(Reply(ticket, message))

    def answer(self, message: Message) -> None:
        """Reply to the request at hand."""
        assert self.ticket is not None
        self.replies.append(Reply(self.ticket, message))

    def outcome(self) -> Outcome:
        timers = [
            CancelTimer(key) if deadline is None else SetTimer(key, deadline) for key, deadline in self.timers.items()
        ]
        return Outcome(tuple(self.records), tuple(timers), tuple(self.replies), self.producer)

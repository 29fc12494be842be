"""The engine's contract: what goes in, what comes out. Field order of `Outcome` is the order of doing.

These are made for every event, and a timer key is hashed several times for each: hence named tuples."""

import enum
from typing import NamedTuple, NewType

from kgm.model.ids import Millis
from kgm.protocol.struct import Message
from kgm.records.record import Record

__all__ = [
    "CancelTimer",
    "Millis",
    "Outcome",
    "Producer",
    "Reply",
    "Request",
    "SetTimer",
    "Ticket",
    "TimerKey",
    "TimerKind",
]

#: Names one request that is waiting for its reply. The caller chooses it; it must be unique among those waiting.
Ticket = NewType("Ticket", int)


class Request(NamedTuple):
    """A request as it came from a client.

    client_id: of the request header (None is taken as ""). client_host: as Kafka shows it, with a leading slash
    ("/127.0.0.1")."""

    message: Message
    version: int
    client_id: str | None = ""
    client_host: str = ""


class TimerKind(enum.StrEnum):
    """What an alarm is for; the value is part of how a timer key is shown."""

    SESSION = "session"
    """A classic member's heartbeat, a new member's join (300 s), or a pending id's second JoinGroup."""
    JOIN = "join"
    """The join phase of a classic group: initial delay, or rebalance timeout."""
    SYNC = "sync"
    """The sync phase of a classic group: members that never sent SyncGroup."""
    HOLD = "hold"
    """Newcomers that are held back for a plan: the first of them has waited as long as it may."""
    REBALANCE = "rebalance"
    """A member of a consumer group that has partitions to give up: its rebalance timeout."""
    MEMBER_JOIN = "member-join"
    """A classic member of a consumer group that has been told to join again."""
    MEMBER_SYNC = "member-sync"
    """A classic member of a consumer group that has joined: its SyncGroup."""
    REGEX = "regex"
    """Regular expressions of a consumer group are to be resolved; due at once."""
    OFFSET_EXPIRATION = "offset-expiration"
    """The periodic look for offsets and groups past their retention; armed by `loaded`."""


class TimerKey(NamedTuple):
    """Names one timer; setting it again moves it."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.kind.value, self.group_id, self.member_id) if part)


class SetTimer(NamedTuple):
    """Fire `key` at `deadline_ms`, an absolute time; replaces the key's former deadline."""

    key: TimerKey
    deadline_ms: Millis


class CancelTimer(NamedTuple):
    """`key` is not to fire any more; cancelling what is not set is allowed."""

    key: TimerKey


class Reply(NamedTuple):
    """The answer to a ticket: the response message of the request's API, to be encoded at the request's version."""

    ticket: Ticket
    message: Message


class Producer(NamedTuple):
    """Who writes in a transaction (KIP-98); wherever one is taken, a plain pair will do."""

    producer_id: int
    producer_epoch: int


class Outcome(NamedTuple):
    """What one event asks for. Append and replay all records (or abort), then move timers, then send replies.

    producer: not None when the records belong to this producer's open transaction: they go into one transactional batch
    of its, are replayed with it, and count once a marker commits the transaction (`replay_end_transaction`)."""

    records: tuple[Record, ...] = ()
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    producer: Producer | None = None

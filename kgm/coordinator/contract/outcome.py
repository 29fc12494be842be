"""The engine's contract: requests in, outcomes out. The caller must execute the fields of `Outcome` in order.

These are named tuples because they are created for every event, and timer keys are hashed several times per event."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, NewType, overload

from kgm.protocol.struct import Message
from kgm.records.record import Record

__all__ = [
    "CancelTimer", "Millis", "NewTopic", "Outcome", "Producer", "RecordRuns", "Reply", "Request", "Run", "SetTimer",
    "Ticket", "TimerKey", "TimerKind", "of_runs", "runs_of", "session_key",
]  # fmt: skip

#: Milliseconds, as a time or as a duration.
Millis = NewType("Millis", int)
#: Identifies a request until its reply. The caller chooses it; it must be unique among the requests without a reply.
Ticket = NewType("Ticket", int)


class Request(NamedTuple):
    """A request as received from a client.

    client_id: from the request header; None counts as "". client_host: as Kafka shows it, with a leading slash
    ("/127.0.0.1")."""

    message: Message
    version: int
    client_id: str | None = ""
    client_host: str = ""


class TimerKind(enum.StrEnum):
    """What a timer is for. The value is part of the text of a timer key."""

    SESSION = "session"
    """A classic member's heartbeat, a new member's join (300 s), or a pending id's second JoinGroup."""
    JOIN = "join"
    """The join phase of a classic group: initial delay, or rebalance timeout."""
    SYNC = "sync"
    """The sync phase of a classic group: members that have sent no SyncGroup."""
    HOLD = "hold"
    """Newcomers that are held back for a planned scale-out: the earliest of their deadlines."""
    REBALANCE = "rebalance"
    """A member of a consumer or streams group that must revoke something: its rebalance timeout."""
    MEMBER_JOIN = "member-join"
    """A classic member of a consumer group that was asked to rejoin: its JoinGroup."""
    INITIAL_DELAY = "initial-rebalance-timeout"
    """A streams group that was Empty: its first target assignment."""
    MEMBER_SYNC = "member-sync"
    """A classic member of a consumer group that has joined: its SyncGroup."""
    REGEX = "regex"
    """The regular expressions of a consumer group must be resolved; due immediately."""
    OFFSET_EXPIRATION = "offset-expiration"
    """The periodic deletion of offsets and groups past their retention; first set by `Coordinator.loaded`."""


class TimerKey(NamedTuple):
    """Identifies a timer. Setting a timer again replaces its deadline."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.kind.value, self.group_id, self.member_id) if part)


#: The timer for the broker's periodic check for offsets and groups past their retention.
EXPIRATION_KEY = TimerKey(TimerKind.OFFSET_EXPIRATION)


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The session timer of a member, or of a pending member id."""
    return TimerKey(TimerKind.SESSION, group_id, member_id)


class SetTimer(NamedTuple):
    """Fire `key` at `deadline_ms`, an absolute time; replaces the deadline of the key."""

    key: TimerKey
    deadline_ms: Millis


class CancelTimer(NamedTuple):
    """Do not fire `key`. The timer need not be set."""

    key: TimerKey


class Reply(NamedTuple):
    """The reply to the request with this ticket: a response of the request's API, to be encoded in the request's
    version."""

    ticket: Ticket
    message: Message


class Producer(NamedTuple):
    """The producer of a transaction (KIP-98). Parameters of this type also accept a plain pair."""

    producer_id: int
    producer_epoch: int


class NewTopic(NamedTuple):
    """An internal topic that a streams group needs. replication_factor: 0 for the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


#: A record, or a sequence of records that are made when they are read.
Run = Record | Sequence[Record]


class RecordRuns(Sequence[Record]):
    """The records of all of these runs."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs

    def __len__(self) -> int:
        return sum(1 if isinstance(run, Record) else len(run) for run in self.runs)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | Sequence[Record]:
        return [*self][at]

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable([run] if isinstance(run, Record) else run for run in self.runs)


def of_runs(runs: Sequence[Run]) -> Sequence[Record]:
    """The records of these runs."""
    single = tuple([run for run in runs if isinstance(run, Record)])
    return single if len(single) == len(runs) else RecordRuns(tuple(runs))


def runs_of(records: Sequence[Record]) -> Sequence[Run]:
    """The runs of the records of an outcome, for callers that do not need each of them."""
    return records.runs if isinstance(records, RecordRuns) else records


class Outcome(NamedTuple):
    """What the caller must do for an event: append and replay all records (or abort), then change timers, then send
    replies.

    new_topics: to be created if they do not exist (Kafka: AutoTopicCreationManager); nothing waits for them.

    producer: None unless the records belong to this producer's open transaction. Then they are appended in one
    transactional batch, replayed with the producer, and take effect once a marker commits the transaction
    (`replay_end_transaction`)."""

    records: Sequence[Record] = ()
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    producer: Producer | None = None
    new_topics: tuple[NewTopic, ...] = ()

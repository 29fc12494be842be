"""What passes between the broker and whoever owns the connections: calls in, events out. Every call gets one event.

One of each is made for every request: hence named tuples."""

from dataclasses import dataclass
from typing import NamedTuple

from kgm.coordinator.contract.outcome import Millis, Reply, Ticket
from kgm.protocol.struct import Message

__all__ = ["Answer", "Call", "Event", "Hangup", "Millis", "NoAnswer", "Peer", "Reply", "Response", "Ticket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Both ends of a connection. client_host: as Kafka shows it ("/127.0.0.1"). host, port: where the client reached
    us; this is the address that it is told for all further requests, so that no name has to be configured."""

    client_host: str
    host: str
    port: int


class Call(NamedTuple):
    """One decoded request."""

    message: Message
    version: int
    client_id: str | None
    peer: Peer
    ticket: Ticket
    now: Millis


class Answer(NamedTuple):
    """A response frame, without its length."""

    ticket: Ticket
    frame: bytes


class NoAnswer(NamedTuple):
    """The request is done and gets no response: Produce with acks=0."""

    ticket: Ticket


class Hangup(NamedTuple):
    """Close the connection that the request came from, as Kafka does with what it cannot read."""

    ticket: Ticket
    reason: str


Event = Answer | NoAnswer | Hangup
#: What an API handler gives back: any number of replies, to its own ticket (now or later) and to others.
Response = tuple[Reply | NoAnswer | Hangup, ...]

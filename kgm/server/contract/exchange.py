"""What passes between a connection and its broker: requests in, events out. Every request gets exactly one event,
unless its connection is closed first.

These are named tuples because one of each is created for every request."""

from dataclasses import dataclass
from typing import NamedTuple

from kgm.coordinator.contract.outcome import Millis, Reply, Ticket
from kgm.protocol.struct import Message

__all__ = [
    "ClientRequest",
    "CloseConnection",
    "ConnectionEvent",
    "Endpoints",
    "Millis",
    "NoResponse",
    "Replies",
    "Reply",
    "ResponseFrame",
    "Ticket",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Both ends of a connection. client_host: as Kafka prints it ("/127.0.0.1"). server_host, server_port: the address
    at which the client reached the server. Responses name brokers by this host, so no host has to be configured."""

    client_host: str
    server_host: str
    server_port: int


class ClientRequest(NamedTuple):
    """One decoded request. node_id: the broker that received it."""

    message: Message
    version: int
    correlation_id: int
    client_id: str | None
    endpoints: Endpoints
    node_id: int
    ticket: Ticket
    now: Millis


class ResponseFrame(NamedTuple):
    """An encoded response, without its length."""

    ticket: Ticket
    frame: bytes


class NoResponse(NamedTuple):
    """The request is done and gets no response: Produce with acks=0."""

    ticket: Ticket


class CloseConnection(NamedTuple):
    """Close the connection that the request came from, as Kafka does if it cannot read a request."""

    ticket: Ticket
    reason: str


ConnectionEvent = ResponseFrame | NoResponse | CloseConnection
#: What the handler of an API returns: any number of replies, to its own ticket (now or later) and to others.
Replies = tuple[Reply | NoResponse | CloseConnection, ...]

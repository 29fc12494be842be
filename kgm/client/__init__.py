"""kgm's own Kafka client: only the requests that group membership needs.

Commands use `AdminClient` (`admin_client`). It sends requests through `Brokers` (`transport.brokers`), which knows
addresses, open connections and coordinators, asks different brokers at the same time in plain threads, and retries
reads until one `Deadline`. A `BrokerConnection` (`transport.connection`) is one socket with negotiated versions;
`security` adds TLS and SASL to it. `requests`, `group_listing` and `leave_group` have one function for each request;
`snapshots` turns responses into `GroupSnapshot`s; `offsets_topic` reads what no API returns from `__consumer_offsets`,
through `topic_log`.
Kafka error codes become exceptions in `failures` and nowhere else.

No asyncio, no logging, no concurrent.futures: a command has to start quickly and does not run for long.
"""

from __future__ import annotations

from kgm.client.admin_client import AdminClient
from kgm.client.transport.connection import Security

__all__ = ["AdminClient", "Security", "connect"]


def connect(bootstrap: str, *, timeout_ms: int = 30_000, security: Security | None = None) -> AdminClient:
    """Connect to a cluster, and return the client once a broker has answered. bootstrap: `host:port[,host:port...]`;
    timeout_ms: the budget for everything that follows.

    Raises UsageError for an invalid bootstrap list, UnreachableError if no broker answers."""
    cluster = AdminClient(bootstrap, timeout_ms=timeout_ms, security=security)
    try:
        cluster.start()
    except BaseException:
        cluster.close()
        raise
    return cluster

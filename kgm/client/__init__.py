"""Sockets out: kgm's own Kafka client, for the requests that group membership takes and nothing else.

Theory of operation: `AdminClient` (coordinator_client) is what commands use. It asks through `Brokers` (brokers), which
knows addresses, open connections and coordinators, sends to different brokers at once (parallel: plain threads) and
retries reads inside one `Deadline`. A `Connection` is one socket with negotiated versions; `Security` is the seam where
TLS and SASL plug in. `asking` holds one function a request, `describe` turns answers into `GroupSnapshot`s, `removal`
plans and carries out the removal of members. Errors are made in `failures` and nowhere else.

No asyncio, no logging, no concurrent.futures: a command starts, asks, and is gone.
"""

from kgm.client.admin_client import AdminClient
from kgm.client.group_listing import ListedGroup, Listing
from kgm.client.leave_group import Leaver
from kgm.client.transport.connection import Security

__all__ = ["AdminClient", "Leaver", "ListedGroup", "Listing", "Security", "connect"]


def connect(bootstrap: str, *, timeout_ms: int = 30_000, security: Security | None = None) -> AdminClient:
    """A cluster that has answered. bootstrap: `host:port[,host:port...]`; timeout_ms: budget of everything to come.

    Raises UsageError for a bootstrap list that cannot be read, UnreachableError when nobody answers."""
    cluster = AdminClient(bootstrap, timeout_ms=timeout_ms, security=security)
    try:
        cluster.start()
    except BaseException:
        cluster.close()
        raise
    return cluster

"""The embedded coordinator: a small cluster that real Kafka clients join, commit to, fetch from and describe.

How it works
------------
A request goes down through these packages, and its replies come back up:

    embedded    runs a server: in the foreground, or in a thread
    net         a connection cuts its bytes into frames; the driver has the clock, and gives each frame a *ticket*
    broker      decodes the frame and calls the handler of its API
    apis        one file per API, which answers the request or asks the group's coordinator
    cluster     what brokers share: topics, records, shards, transactions; like the coordinators, it never waits
    logs        what is stored, in memory or in a data directory
    contract    the types that pass between these packages

Groups belong to *shards*, one for each partition of `__consumer_offsets`: a log and, on the broker that leads the
partition, a coordinator. When the leader changes, the shard is unloaded (waiting requests are answered with
NOT_COORDINATOR) and loaded from its log on the other broker, in pieces, with other requests served in between. So only
what is in the log survives a failover, in memory or on disk, and every failover tests what a restart would read. The
brokers share one process and one copy of everything: they are for testing how clients fail over, not for durability.

With a data directory, everything a response depends on is on disk before the response is sent. All frames of one turn
of the event loop are served first, then each log they wrote to is flushed once, then the responses are sent. If a flush
fails, nothing is acknowledged: the shard goes offline, and its groups have no coordinator until the partition is moved
or the server restarts.

Consumer groups (KIP-848) know topics by their ids: each coordinator has an image of the topics (`Topics.image`), and is
notified when they change. Configurations of individual groups belong to the cluster, which passes them to the
coordinator.

`Limits` bounds how much any one client can take from the others. There is no authentication and no TLS: by default the
server listens on loopback.
"""

from kgm.server.contract.limits import Limits, settings_from_overrides
from kgm.server.embedded.foreground import serve_forever
from kgm.server.embedded.group_watch import GroupWatch
from kgm.server.embedded.in_thread import EmbeddedServer, serve_in_thread
from kgm.server.embedded.server import ServerOptions

__all__ = [
    "EmbeddedServer",
    "GroupWatch",
    "Limits",
    "ServerOptions",
    "serve_forever",
    "serve_in_thread",
    "settings_from_overrides",
]

"""The embedded coordinator: a small cluster that real Kafka clients join, commit to, fetch from and describe.

How it works
------------
`listener` owns the sockets of one broker and cuts the stream of a connection into frames. The `hub` owns the clock; it
hands each frame to the connection's `Broker` with a *ticket* and gets back events by ticket: an answer, no answer, or
"hang up". The brokers share one `Cluster`, which is as pure as the coordinators in it: it never waits, and time is an
argument.

Groups belong to *shards*, one for each partition of `__consumer_offsets`: a log, and on the broker that leads the
partition a coordinator. When the leader changes, the shard is unloaded (who waits is told NOT_COORDINATOR) and loaded
from its log on the other broker, in pieces between which everybody else is served. So what survives a failover is what
the log has, in memory as on disk, and every failover tests what a restart would find. Brokers share one process and one
copy of everything: they are for the clients' side of failover, not for more safety.

With a data directory, what a response rests on is on the disk before the response leaves. The frames of one turn of the
event loop are worked on first, each log that they wrote to is flushed once, then all answers go out. A flush that fails
acknowledges nothing: the shard goes offline, its groups have no coordinator until somebody moves the partition.

A connection has one request in work at a time. The next frame is looked at when the one before is answered, as in
Kafka, whose socket server mutes a connection while it owes it a response. So replies are in the order of requests
although a JoinGroup may wait for minutes, and a client that does not read, or that sends ahead, costs one request and
one response of memory, after which its socket is left to fill up.

Consumer groups (KIP-848) know topics by their ids: each coordinator has an image of the topics (`Topics.image`), and is
told when some come, grow or go. What is set for single groups (`configs`) is the cluster's, and goes to the coordinator
that has the group.

What one client can take from others is bounded by `Limits`. There is no authentication and no TLS: by default the
server listens on loopback.

Modules: limits (bounds, `--set`) · topics (names, partitions, ids) · nodes (brokers, who leads what) · exchange (what
passes between broker and listener) · cluster (everything shared) · broker (decode, dispatch) · outbox (encode; what
waits for a flush) · shard, shards (coordinators, and where they are) · kept (what outlives the process beside logs) ·
memory_log, storage (their logs) · log, data_files (records of topics) · syncing (flushes at once) · transactions
(their coordinator) · the APIs: groups, unavailable, metadata, data, topic_admin, configs, transaction_apis, log_dirs ·
hub (clock, turns of the loop) · listener (connections) · embedded (a server in the foreground, or in a thread).
"""

from kgm.server.contract.limits import Limits, settings_from_overrides
from kgm.server.net.embedded import EmbeddedServer, serve_forever, serve_in_thread

__all__ = ["EmbeddedServer", "Limits", "serve_forever", "serve_in_thread", "settings_from_overrides"]

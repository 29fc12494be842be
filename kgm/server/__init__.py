"""The embedded coordinator: a broker of one that real Kafka clients join, commit to, fetch from and describe.

How it works
------------
`listener` owns the sockets and the clock. It cuts the stream of a connection into frames and hands each to the
`Broker` with a *ticket*; the broker gives back events by ticket: an answer, no answer, or "hang up". The broker is as
pure as the coordinator behind it: it never waits, and time is an argument.

A connection has one request in work at a time. The next frame is looked at when the one before is answered, as in
Kafka, whose socket server mutes a connection while it owes it a response. So replies are in the order of requests
although a JoinGroup may wait for minutes, and a client that does not read, or that sends ahead, costs one request and
one response of memory, after which its socket is left to fill up.

What one client can take from others is bounded by `Limits`. There is no authentication and no TLS: by default the
server listens on loopback.

Modules: limits (bounds, `--set`) · topics (names, partitions, ids) · log (records in memory) · exchange (what passes
between broker and listener) · broker (decode, dispatch, encode; what is served) · cluster, data, groups (the APIs)
· listener (connections) · embedded (a server in the foreground, or in a thread).
"""

from kgm.server.embedded import EmbeddedServer, serve_forever, serve_in_thread
from kgm.server.limits import Limits, settings_from_overrides

__all__ = ["EmbeddedServer", "Limits", "serve_forever", "serve_in_thread", "settings_from_overrides"]

"""How the consumers of each client library behave, as far as it affects their group.

Taken from the source code of Kafka 4.3.0 (AbstractCoordinator, ConsumerCoordinator), librdkafka 2.16 (rdkafka_cgrp.c)
and the other libraries, each of which names the file. The time spans were measured on one machine (`play.timing` has
the ones that do not depend on the library). `kgm.clients.table` has what is known about a library without playing it:
default timeouts, and whether static members leave when they are closed."""

from dataclasses import dataclass, replace
from typing import Any

from kgm.simulation.plan.client_library import Library

#: (least, most) in ms.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """How one library behaves. `timing.draw_ms` draws from a span.

    start: from the start of the process to the first JoinGroup. react: from learning of a rebalance to JoinGroup.
    think: from the reply to JoinGroup to SyncGroup. revoke: from a reply to SyncGroup that takes partitions away, to
    the JoinGroup that follows in the cooperative protocol.
    rejoin_gap_ms: the least time between two JoinGroups, unless the rules skip it. heartbeat_tick_ms: the heartbeat
    interval is a multiple of it. beats_while_syncing: heartbeats begin one interval after the reply to JoinGroup;
    otherwise they begin immediately after the first assignment, and later rebalances do not change their rhythm.
    sends_generation_when_eager: subscriptions carry a generation with eager assignors too.
    leaves_after_last_revocation: a cooperative member that is closed leaves once it has given up its partitions, and so
    does not leave at all if it has none.
    fetch_ms: how long its fetches of partitions without records last; closing waits until they have ended.
    joins_after_fetches: it also does not join a rebalance before they have ended, and sends no heartbeats meanwhile.
    beats_after_fetches: it sends heartbeats only between two fetches. lost_ms: how long a member that the group has
    removed waits before it joins as a new one.
    topics_ms: from the first JoinGroup of a process until it knows the topics, for a library that joins without waiting
    for them; a leader leaves out the topics that it does not know, and assigns again when it knows them. None: a leader
    knows all topics.
    In a consumer group: names_itself_when_closed: when a static member is closed, it announces with its instance id
    that it will return; without the id the broker refuses this, and the member owns its partitions until its session
    ends. retries_ms: the first and the longest wait before a process that the broker refuses (UNRELEASED_INSTANCE_ID)
    tries again, each wait twice as long as the one before; None: the refusal ends it.
    In a classic group: full_retry_ms: the longest wait before a process for which the group has no room tries again,
    and each later wait; None: the refusal ends it, or kgm does not know better."""

    library: Library
    join_version: int
    sync_version: int
    heartbeat_version: int
    leave_version: int
    start: Span
    react: Span
    think: Span
    revoke: Span
    rejoin_gap_ms: float
    heartbeat_tick_ms: float
    beats_while_syncing: bool
    sends_generation_when_eager: bool
    leaves_after_last_revocation: bool
    fetch_ms: float = 0.0
    joins_after_fetches: bool = False
    beats_after_fetches: bool = False
    lost_ms: float = 0.0
    topics_ms: Span | None = None
    names_itself_when_closed: bool = True
    retries_ms: Span | None = None
    full_retry_ms: Span | None = None

    @property
    def late_to_return_ms(self) -> float:
        """How long after a heartbeat would have been due a member that the group has removed may join again."""
        return self.fetch_ms + self.lost_ms


JAVA = ClientProfile(
    library=Library.JAVA,
    join_version=9,
    sync_version=5,
    heartbeat_version=4,
    leave_version=5,
    start=(30.0, 500.0),
    react=(0.5, 60.0),
    think=(0.3, 5.0),
    revoke=(0.3, 5.0),
    rejoin_gap_ms=0.0,
    heartbeat_tick_ms=1.0,
    beats_while_syncing=True,
    sends_generation_when_eager=True,
    leaves_after_last_revocation=False,
)

LIBRDKAFKA = ClientProfile(
    library=Library.LIBRDKAFKA,
    join_version=5,
    sync_version=3,
    heartbeat_version=3,
    leave_version=1,
    start=(10.0, 500.0),
    react=(0.5, 30.0),
    think=(0.3, 5.0),
    revoke=(0.3, 10.0),
    rejoin_gap_ms=1_000.0,
    heartbeat_tick_ms=500.0,
    beats_while_syncing=False,
    sends_generation_when_eager=False,
    leaves_after_last_revocation=True,
    # Measured with librdkafka 2.x: 0.05 and 2.9 s after the first refusal, then every 2 s.
    full_retry_ms=(3_000.0, 2_000.0),
)


def _like_java(library: Library, join: int, sync: int, heartbeat: int, leave: int, **different: Any) -> ClientProfile:
    """A library that differs from Java only in the versions of its requests, and in `different`."""
    return replace(
        JAVA, library=library, join_version=join, sync_version=sync, heartbeat_version=heartbeat, leave_version=leave,
        **different,
    )  # fmt: skip


_OTHERS = (
    # consumer_group.go: session and manage; it rejoins as soon as a heartbeat says so. If it leads, is told to keep the
    # assignment, and would have assigned differently, it rejoins (`report.certainty`). KIP-848: leave848 and manage848
    # in consumer_group_848.go, retryBackoff in config.go.
    _like_java(Library.FRANZ_GO, 9, 5, 4, 5, names_itself_when_closed=False, retries_ms=(250.0, 5_000.0)),
    # consumer_group.go, with Config.Version 3.2 or newer: no JoinGroup 9, so a static leader that returns is told to be
    # a follower.
    _like_java(Library.SARAMA, 8, 5, 4, 5),
    # consumergroup.go and reader.go: the end of a generation waits for the readers of all partitions, each of them in a
    # fetch of up to MaxWait (10 s). Closed while idle, six processes left after 4 to 10 s.
    _like_java(
        Library.KAFKA_GO,
        1,
        0,
        0,
        0,
        fetch_ms=10_000.0,
        joins_after_fetches=True,
        lost_ms=5_000.0,
        beats_while_syncing=False,
    ),
    # runner.js: heartbeats follow fetches of up to maxWaitTimeInMs (5 s). Closed while idle, six processes left after 3
    # to 7 s.
    _like_java(Library.KAFKAJS, 5, 3, 3, 3, fetch_ms=5_000.0, beats_after_fetches=True),
    # consumer.js: static members leave too (`kgm.clients.table`). A refused member fails, but its heartbeats continue.
    _like_java(Library.PLATFORMATIC, 9, 5, 4, 5, retries_ms=(1_000.0, 1_000.0)),
    # coordinator/base.py. coordinator/consumer.py: _perform_assignment does not wait for metadata. cluster.py: ttl puts
    # retry_backoff_ms (100 ms) between the first request of a process, which has no topics, and the one that has them;
    # measured: the topics are known 69 to 101 ms after the first JoinGroup.
    _like_java(Library.KAFKA_PYTHON, 7, 5, 4, 5, topics_ms=(50.0, 110.0)),
    # protocol/group.py
    _like_java(Library.AIOKAFKA, 5, 3, 1, 1),
)
PROFILES = {profile.library: profile for profile in (JAVA, LIBRDKAFKA, *_OTHERS)}
#: The longest start of a process, unless starts are slow in the draw (`DrawTiming.start_ms`).
LONGEST_START_MS = max(profile.start[1] for profile in PROFILES.values())

"""How Java and librdkafka consumers behave, as far as a group notices.

Read in librdkafka 2.16 (rdkafka_cgrp.c) and in Kafka 4.3.0 (AbstractCoordinator, ConsumerCoordinator). The spans of
time were measured with both on one machine (`play.timing` has those that do not depend on the library)."""

from dataclasses import dataclass

from kgm.simulation.plan.client_library import Library

#: (least, most) in ms.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """How one library behaves. `timing.draw_ms` draws from a span.

    start: from the start of the process to the first JoinGroup. react: from learning of a rebalance to JoinGroup.
    think: from the reply to JoinGroup to SyncGroup. revoke: from a reply to SyncGroup that takes partitions away, to
    the JoinGroup that follows in the cooperative protocol.
    rejoin_gap_ms: the least time between two JoinGroups, unless the rules say at once. heartbeat_tick_ms: the heartbeat
    interval is a multiple of it. beats_while_syncing: heartbeats begin one interval after the reply to JoinGroup;
    otherwise at once with the first assignment, and their rhythm is not changed by later rebalances.
    sends_generation_when_eager: subscriptions carry a generation with eager assignors too.
    leaves_after_last_revocation: a cooperative member that is closed leaves when it has given up its partitions, and so
    not at all if it has none."""

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
)

PROFILES = {Library.JAVA: JAVA, Library.LIBRDKAFKA: LIBRDKAFKA}
#: The longest start of a process, unless starts are slow in the draw (`DrawTiming.start_ms`).
LONGEST_START_MS = max(profile.start[1] for profile in PROFILES.values())

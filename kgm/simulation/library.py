"""How the two client libraries behave that real consumers are made of, as far as a group notices.

Read in librdkafka 2.16 (rdkafka_cgrp.c) and in Kafka 4.3.0 (AbstractCoordinator, ConsumerCoordinator); the spans of
time were measured with both on one machine. What they have in common is in `member`."""

import enum
import random
from dataclasses import dataclass


class Library(enum.Enum):
    """A client library."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What one library does. Spans are (least, most) ms; a real one is drawn evenly, now and then a slow one.

    start: from the start of the process to the first JoinGroup. react: from hearing of a rebalance to JoinGroup.
    think: from the reply to JoinGroup to SyncGroup. revoke: from a reply to SyncGroup that takes partitions away, to
    the JoinGroup that follows in the cooperative protocol.
    rejoin_gap_ms: JoinGroups are at least this far apart, unless the rules say at once. heartbeat_tick_ms: heartbeats
    are sent at the first tick after their interval. beats_while_syncing: heartbeats run while SyncGroup waits.
    tells_generation_when_eager: subscriptions carry a generation also for eager assignors."""

    library: Library
    join_version: int
    sync_version: int
    heartbeat_version: int
    leave_version: int
    start: tuple[float, float]
    react: tuple[float, float]
    think: tuple[float, float]
    revoke: tuple[float, float]
    rejoin_gap_ms: float
    heartbeat_tick_ms: float
    beats_while_syncing: bool
    tells_generation_when_eager: bool


JAVA = Habits(
    library=Library.JAVA,
    join_version=9,
    sync_version=5,
    heartbeat_version=4,
    leave_version=5,
    start=(150.0, 700.0),
    react=(0.5, 100.0),
    think=(0.3, 5.0),
    revoke=(0.3, 5.0),
    rejoin_gap_ms=0.0,
    heartbeat_tick_ms=100.0,
    beats_while_syncing=True,
    tells_generation_when_eager=True,
)

LIBRDKAFKA = Habits(
    library=Library.LIBRDKAFKA,
    join_version=5,
    sync_version=3,
    heartbeat_version=3,
    leave_version=1,
    start=(20.0, 1_200.0),
    react=(0.5, 30.0),
    think=(0.3, 5.0),
    revoke=(0.3, 10.0),
    rejoin_gap_ms=1_000.0,
    heartbeat_tick_ms=1_000.0,
    beats_while_syncing=False,
    tells_generation_when_eager=False,
)

HABITS = {Library.JAVA: JAVA, Library.LIBRDKAFKA: LIBRDKAFKA}

#: How often something takes long (a collection of garbage, a busy machine), and how much longer then.
SLOW_SHARE = 0.01
SLOW_MS = (20.0, 300.0)
#: One way over the network and through the broker.
NETWORK_MS = (0.2, 2.0)


def drawn(chance: random.Random, span: tuple[float, float]) -> float:
    """How long something takes this time."""
    least, most = span
    value = least + (most - least) * chance.random()
    if chance.random() < SLOW_SHARE:
        value += SLOW_MS[0] + (SLOW_MS[1] - SLOW_MS[0]) * chance.random()
    return value


def guess(client_library: str | None, client_id: str, member_id: str) -> Library | None:
    """The library of a member that was seen, by what `describe` found out, or by the client ids that the libraries
    choose by themselves (`rdkafka`, `consumer-GROUP-1`). None: nobody knows."""
    said = (client_library or "").lower()
    if "rdkafka" in said or said in {"confluent-kafka", "confluent_kafka"}:
        return Library.LIBRDKAFKA
    if "java" in said:
        return Library.JAVA
    if client_id == "rdkafka" or member_id.startswith("rdkafka-"):
        return Library.LIBRDKAFKA
    if client_id.startswith("consumer-"):
        return Library.JAVA
    return None

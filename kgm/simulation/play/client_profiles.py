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
    rejoin_gap_ms: JoinGroups are at least this far apart, unless the rules say at once. heartbeat_tick_ms: the interval
    of heartbeats is a multiple of it. beats_while_syncing: heartbeats begin with the reply to JoinGroup, one interval
    after it; otherwise with the first assignment, at once, and their interval runs on through later rebalances.
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
    start=(30.0, 500.0),
    react=(0.5, 60.0),
    think=(0.3, 5.0),
    revoke=(0.3, 5.0),
    rejoin_gap_ms=0.0,
    heartbeat_tick_ms=1.0,
    beats_while_syncing=True,
    tells_generation_when_eager=True,
)

LIBRDKAFKA = Habits(
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
    tells_generation_when_eager=False,
)

HABITS = {Library.JAVA: JAVA, Library.LIBRDKAFKA: LIBRDKAFKA}

#: How often something takes long (a collection of garbage, a busy machine), and how much longer then.
SLOW_SHARE = 0.01
SLOW_MS = (20.0, 300.0)
#: One way over the network and through the broker.
NETWORK_MS = (0.2, 2.0)


#: Kafka's default, and how often it is taken when nobody says which interval the clients have.
HEARTBEAT_INTERVAL_MS = 3_000
USUAL_INTERVAL_SHARE = 0.75
#: How often processes start slowly and one by one, and by how much at most.
SLOW_START_SHARE = 0.1
SLOW_START_MS = 2_500.0
#: By how much one interval between heartbeats may be longer than asked for.
HEARTBEAT_LATE_MS = 10.0


class Tempo:
    """What the members of one draw have in common.

    Members that were assigned in the same round heartbeat in step for minutes; those that restarted without one do
    not. Processes that are started together take about equally long, or not. So each draw has an evenness.

    heartbeat_interval_ms: None is Kafka's default in most draws, and less in the others."""

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        self._chance = chance
        self.heartbeat_interval_ms = heartbeat_interval_ms or _some_interval_ms(chance, session_timeout_ms)
        self._phase = chance.random()
        self._phase_spread = chance.choice((0.05, 0.3, 1.0, 1.0))
        self._start = chance.random()
        self._start_spread = chance.choice((0.02, 0.2, 1.0))
        self._slow_start_ms = 0.0 if chance.random() > SLOW_START_SHARE else SLOW_START_MS

    def phase(self) -> float:
        """How far a member is in its heartbeat interval at the start, from 0 to 1."""
        return (self._phase + self._phase_spread * self._chance.random()) % 1.0

    def start(self, span: tuple[float, float], *, may_be_slow: bool) -> float:
        """How long a process takes to its first JoinGroup, beyond the restart time that the plan gives it."""
        share = self._start + self._start_spread * (self._chance.random() - 0.5)
        least, most = span
        late = self._slow_start_ms * self._chance.random() if may_be_slow else 0.0
        return late + least + (most - least) * min(max(share, 0.0), 1.0)


def usual_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's default, or what goes with a session timeout that is shorter than twice that."""
    return min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 2)


def _some_interval_ms(chance: random.Random, session_timeout_ms: int) -> int:
    """A heartbeat interval that somebody may have configured."""
    if chance.random() < USUAL_INTERVAL_SHARE:
        return usual_interval_ms(session_timeout_ms)
    most = min(HEARTBEAT_INTERVAL_MS, max(session_timeout_ms // 3, 1))
    return round(most * (0.1 + 0.9 * chance.random()))


def period_ms(habits: Habits, interval_ms: int, chance: random.Random) -> float:
    """The time between two heartbeats of one process."""
    ticks = -(-interval_ms // habits.heartbeat_tick_ms)
    return ticks * habits.heartbeat_tick_ms + HEARTBEAT_LATE_MS * chance.random()


def drawn(chance: random.Random, span: tuple[float, float]) -> float:
    """How long something takes this time."""
    least, most = span
    value = least + (most - least) * chance.random()
    if chance.random() < SLOW_SHARE:
        value += SLOW_MS[0] + (SLOW_MS[1] - SLOW_MS[0]) * chance.random()
    return value


def guess(client_library: str | None, client_id: str, member_id: str) -> Library | None:
    """The library of a member that was seen, by what `describe` found out, or by the client ids that the libraries
    choose by themselves (`rdkafka`, `consumer-GROUP-1`). None: it does not give itself away, as librdkafka does by the
    way it writes its subscription."""
    said = (client_library or "").lower()
    if "rdkafka" in said or client_id == "rdkafka" or member_id.startswith("rdkafka-"):
        return Library.LIBRDKAFKA
    if "java" in said or client_id.startswith("consumer-"):
        return Library.JAVA
    return None

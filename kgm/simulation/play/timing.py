"""How long things take in one draw: the network, the broker, heartbeats, and the start of processes."""

import random

from kgm.simulation.plan.client_library import HEARTBEAT_INTERVAL_MS, usual_heartbeat_interval_ms
from kgm.simulation.play.client_profiles import ClientProfile, Span

#: How often something takes long (a garbage collection, a busy machine), and how much longer then.
SLOW_SHARE = 0.01
SLOW_MS = (20.0, 300.0)
#: One way over the network and through the broker.
NETWORK_MS = (0.2, 2.0)
#: How often clients have the usual heartbeat interval when it is not known which they have.
USUAL_INTERVAL_SHARE = 0.75
#: How often processes start slowly and one by one, and by how much at most.
SLOW_START_SHARE = 0.1
SLOW_START_MS = 2_500.0
#: By how much an interval between heartbeats may exceed the configured one.
HEARTBEAT_LATE_MS = 10.0
#: How late a timer of the broker fires, because it passes from thread to thread; measured on an idle machine.
#: JoinGroups that arrive in between are in time even when `group.initial.rebalance.delay.ms` is 0.
TIMER_LATE_MS = (0.0, 4.0)
#: How often the broker is busy in a draw, and how late its timers fire then.
BUSY_BROKER_SHARE = 0.05
BUSY_TIMER_LATE_MS = (4.0, 300.0)


class DrawTiming:
    """What the members of one draw have in common.

    Members that were assigned in the same round heartbeat in step for minutes; members that restarted without a
    rebalance do not. Processes that are started together take about equally long, or not. So each draw has a spread of
    its own for both.

    heartbeat_interval_ms: None stands for Kafka's default in most draws, and for less in the others. is_usual: whether
    heartbeat interval and starts are those of most draws, and not drawn."""

    def __init__(
        self,
        chance: random.Random,
        heartbeat_interval_ms: int | None,
        session_timeout_ms: int,
        *,
        is_usual: bool = False,
    ) -> None:
        self._chance = chance
        self.heartbeat_interval_ms = heartbeat_interval_ms or _some_interval_ms(chance, session_timeout_ms)
        self._phase = chance.random()
        self._phase_spread = chance.choice((0.05, 0.3, 1.0, 1.0))
        self._start = chance.random()
        self._start_spread = chance.choice((0.02, 0.2, 1.0))
        self._slow_start_ms = 0.0 if chance.random() > SLOW_START_SHARE else SLOW_START_MS
        if is_usual:
            self.heartbeat_interval_ms = heartbeat_interval_ms or usual_heartbeat_interval_ms(session_timeout_ms)
            self._start, self._start_spread, self._slow_start_ms = 0.5, 0.2, 0.0

    def phase(self) -> float:
        """How far a member is in its heartbeat interval at the start, from 0 to 1."""
        return (self._phase + self._phase_spread * self._chance.random()) % 1.0

    def start_ms(self, span: Span, *, may_be_slow: bool) -> float:
        """How long a process takes to its first JoinGroup, beyond the restart time of the plan."""
        share = self._start + self._start_spread * (self._chance.random() - 0.5)
        least, most = span
        late = self._slow_start_ms * self._chance.random() if may_be_slow else 0.0
        return late + least + (most - least) * min(max(share, 0.0), 1.0)


def _some_interval_ms(chance: random.Random, session_timeout_ms: int) -> int:
    """A heartbeat interval that somebody may have configured."""
    if chance.random() < USUAL_INTERVAL_SHARE:
        return usual_heartbeat_interval_ms(session_timeout_ms)
    most = min(HEARTBEAT_INTERVAL_MS, max(session_timeout_ms // 3, 1))
    return round(most * (0.1 + 0.9 * chance.random()))


def heartbeat_period_ms(profile: ClientProfile, interval_ms: int, chance: random.Random) -> float:
    """The time between two heartbeats of one process."""
    ticks = -(-interval_ms // profile.heartbeat_tick_ms)
    return ticks * profile.heartbeat_tick_ms + HEARTBEAT_LATE_MS * chance.random()


def timer_late_ms(chance: random.Random) -> int:
    """How late the timers of the broker fire in one draw."""
    least, most = BUSY_TIMER_LATE_MS if chance.random() < BUSY_BROKER_SHARE else TIMER_LATE_MS
    return round(least + (most - least) * chance.random())


def draw_ms(chance: random.Random, span: Span) -> float:
    """How long something takes this time: mostly a time from the span, now and then longer."""
    least, most = span
    value = least + (most - least) * chance.random()
    if chance.random() < SLOW_SHARE:
        value += SLOW_MS[0] + (SLOW_MS[1] - SLOW_MS[0]) * chance.random()
    return value

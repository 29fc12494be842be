"""How long things take in one draw: the network, the broker, heartbeats, and the start of processes."""

import random

from kgm.simulation.plan.client_library import HEARTBEAT_INTERVAL_MS, Library, usual_heartbeat_interval_ms
from kgm.simulation.play.client_profiles import PROFILES, ClientProfile, Span
from kgm.simulation.play.random_stream import RandomStream

#: How often something takes unusually long (a garbage collection, a busy machine), and how much longer it takes then.
SLOW_SHARE = 0.01
SLOW_MS = (20.0, 300.0)
#: This many bits of a random number decide whether something takes unusually long, and how long; the others decide how
#: long it takes otherwise.
SLOW_BITS = 20
USUAL_UNIT = 2.0 ** (SLOW_BITS - 64)
#: Numbers of SLOW_BITS bits below this mean that it is slow.
SLOW_BELOW = round(SLOW_SHARE * 2**SLOW_BITS)
#: One way over the network and through the broker.
NETWORK_MS = (0.2, 2.0)
#: A request is answered after at most this many ms, unless the broker has to wait for other members.
LONGEST_TRIP_MS = 2 * (NETWORK_MS[1] + SLOW_MS[1])
#: How often clients are assumed to have the usual heartbeat interval when theirs is not known.
USUAL_INTERVAL_SHARE = 0.75
#: The share of their interval over which heartbeats are spread. Usually they are in step: Java consumers start the
#: interval when a rebalance ends, librdkafka's when they are first assigned something, which is after a heartbeat of
#: the others.
PHASE_SPREADS = (0.003,) * 8 + (0.3, 1.0)
#: How much more common quick starts are than slow ones: an exponent of a random share.
QUICKNESS = 3
#: How often processes start slowly and one by one, and by how much they are delayed at most.
SLOW_START_SHARE = 0.1
SLOW_START_MS = 2_500.0
#: Members that are stopped together stop within this many ms.
STOP_SPREAD_MS = 100.0
#: Steps of this share of a circle leave no large gap, however many there are.
_GOLDEN_SHARE = 0.618
#: The shortest start time that all libraries can reach.
_QUICK_START_MS = max(profile.start[0] for profile in PROFILES.values())
#: By how much an interval between heartbeats may exceed the configured one.
HEARTBEAT_LATE_MS = 10.0
#: How late the broker's timers fire, because they pass from thread to thread; measured on an idle machine. JoinGroups
#: that arrive in between are in time even when `group.initial.rebalance.delay.ms` is 0.
TIMER_LATE_MS = (0.0, 4.0)
#: How often the broker is busy in a draw, and how late its timers fire then.
BUSY_BROKER_SHARE = 0.05
BUSY_TIMER_LATE_MS = (4.0, 300.0)


class DrawTiming:
    """What the members of one draw have in common.

    Members that were assigned in the same round heartbeat in step for minutes; members that restarted without a
    rebalance do not. Processes that are started together take about equally long in some cases and not in others. So
    each draw has its own spread for both.

    heartbeat_interval_ms: None stands for Kafka's default in most draws, and for less in the others."""

    #: The share of the drawn reaction times that members actually take.
    pace = 1.0
    #: How late the timers of the broker fire, if not as usual.
    _timers_late: Span | None = None
    #: Whether fetches are answered immediately, because there are always records.
    has_records = False
    #: Whether members that leave the group when they stop are the first of their batch to stop.
    leavers_stop_first = False

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        self._chance = chance
        self.heartbeat_interval_ms = heartbeat_interval_ms or _some_interval_ms(chance, session_timeout_ms)
        self._phase = chance.random()
        self._phase_spread = chance.choice(PHASE_SPREADS)
        self._start = chance.random() ** QUICKNESS
        self._start_spread = chance.choice((0.02, 0.2, 1.0))
        self._slow_start_ms = 0.0 if chance.random() > SLOW_START_SHARE else SLOW_START_MS

    def begin_batch(self) -> None:
        """Another batch of processes stops or starts from now on."""

    def phase(self) -> float:
        """How far into its heartbeat interval a member is at the start, from 0 to 1."""
        return (self._phase + self._phase_spread * self._chance.random()) % 1.0

    def stop_ms(self) -> float:
        """When a process stops, from the start of its batch: members that are stopped together do not stop in the same
        millisecond."""
        return STOP_SPREAD_MS * self._chance.random()

    def start_ms(self, profile: ClientProfile, *, may_be_slow: bool) -> float:
        """How long a process takes until its first JoinGroup, in addition to the restart time of the plan."""
        start_ms = self._usual_start_ms(profile)
        return start_ms + self._slow_start_ms * self._chance.random() if may_be_slow else start_ms

    def _usual_start_ms(self, profile: ClientProfile) -> float:
        """The same for a start that is not slow."""
        share = self._start + self._start_spread * (self._chance.random() - 0.5)
        least, most = profile.start
        return least + (most - least) * min(max(share, 0.0), 1.0)

    @property
    def notices_after(self) -> float | None:
        """The share of its heartbeat interval after which a member learns of a rebalance; None: when its next heartbeat
        is due. When those of real members are due is not known."""
        return None

    def timer_late_ms(self, chance: random.Random) -> int:
        """How late the timers of the broker fire."""
        usual = BUSY_TIMER_LATE_MS if chance.random() < BUSY_BROKER_SHARE else TIMER_LATE_MS
        least, most = self._timers_late or usual
        return round(least + (most - least) * chance.random())


class UsualTiming(DrawTiming):
    """The heartbeat interval and starts of most draws."""

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self.heartbeat_interval_ms = heartbeat_interval_ms or usual_heartbeat_interval_ms(session_timeout_ms)
        self._start, self._start_spread, self._slow_start_ms = 0.5**QUICKNESS, 0.0, 0.0


# -- rare timings that lead to the extremes of a plan's outcome


class AllAtOnce(UsualTiming):
    """All processes of a batch stop at the same time, and join at the same time, before a timer of the broker fires;
    all heartbeats are due at the same time."""

    pace = 0.3
    has_records = True
    _timers_late = (TIMER_LATE_MS[1], TIMER_LATE_MS[1])

    def phase(self) -> float:
        return self._phase

    def stop_ms(self) -> float:
        return 0.0

    def _usual_start_ms(self, profile: ClientProfile) -> float:
        return max(profile.start[0], _QUICK_START_MS)


class OneByOne(UsualTiming):
    """The processes of a batch stop and join one after another, so each of them finds a group that is about to
    rebalance, or has just done so."""

    #: Whether the processes that are started last are the first to join.
    is_last_first = False

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self._timers_late = (0.0, 0.0)
        self._gap_ms = SLOW_START_MS * chance.random() ** 2
        self._started = 0

    def begin_batch(self) -> None:
        self._started = 0

    def phase(self) -> float:
        """Phases as far apart as possible, for any number of members."""
        self._phase = (self._phase + _GOLDEN_SHARE) % 1.0
        return self._phase

    def start_ms(self, profile: ClientProfile, *, may_be_slow: bool) -> float:
        least, most = profile.start
        longest_ms = SLOW_START_MS if may_be_slow else most - least
        late_ms = min(self._gap_ms * self._started, longest_ms)
        self._started += 1
        return least + (longest_ms - late_ms if self.is_last_first else late_ms)


class NoticedInBetween(OneByOne):
    """The processes of a batch are as far apart as possible, and the other members notice each of them before the next
    one stops or joins. Random draws seldom find that, because the heartbeats must be due within a fraction of a
    second."""

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self._gap_ms = SLOW_START_MS

    @property
    def notices_after(self) -> float:
        return 0.0


class NoticedLastFirst(NoticedInBetween):
    """Like `NoticedInBetween`, but the processes that are started last join first."""

    is_last_first = True


class SlowestLast(AllAtOnce):
    """All processes of a batch start immediately except one, which takes as long as a start can take."""

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self._late_ms = SLOW_START_MS * chance.random()
        self._is_first = True

    def begin_batch(self) -> None:
        self._is_first = True

    def start_ms(self, profile: ClientProfile, *, may_be_slow: bool) -> float:
        if not self._is_first:
            return super().start_ms(profile, may_be_slow=may_be_slow)
        self._is_first = False
        return profile.start[1] + (self._late_ms if may_be_slow else 0.0)


class OneLibraryLast(UsualTiming):
    """Java processes start as quickly as possible and those with other libraries as slowly as possible, or the
    reverse."""

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self._java_is_last = chance.choice((True, False))

    def _usual_start_ms(self, profile: ClientProfile) -> float:
        least, most = profile.start
        return most if (profile.library is Library.JAVA) is self._java_is_last else least


class RejoinsBeforeItStops(AllAtOnce):
    """The first process of a batch stops just before all heartbeats are due, and the others soon after, when they have
    joined the rebalance that it caused: it is one that leaves, if any does."""

    leavers_stop_first = True

    def __init__(self, chance: random.Random, heartbeat_interval_ms: int | None, session_timeout_ms: int) -> None:
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self._phase = 1.0 - STOP_SPREAD_MS / 3 / self.heartbeat_interval_ms
        self._is_first = True

    def begin_batch(self) -> None:
        self._is_first = True

    def stop_ms(self) -> float:
        is_first, self._is_first = self._is_first, False
        return 0.0 if is_first else STOP_SPREAD_MS * (1.0 - 0.2 * self._chance.random())


class Quickest(AllAtOnce):
    """Everything is as quick as possible, including the end of a session."""

    def phase(self) -> float:
        return 0.999

    @property
    def notices_after(self) -> float:
        return 0.0


class QuickBeforeNoticed(Quickest):
    """Everything is as quick as possible, but the other members learn of it as late as possible, so that much of it is
    one rebalance."""

    @property
    def notices_after(self) -> float:
        return 1.0


class Slowest(UsualTiming):
    """Everything takes as long as possible, except that some members learn of a rebalance immediately and wait for the
    others."""

    @property
    def notices_after(self) -> float:
        return self._chance.choice((0.0, 1.0))

    def phase(self) -> float:
        return 0.0

    def stop_ms(self) -> float:
        return STOP_SPREAD_MS

    def start_ms(self, profile: ClientProfile, *, may_be_slow: bool) -> float:
        return profile.start[1] + (SLOW_START_MS if may_be_slow else 0.0)


#: The timings that differ from others in how processes start.
EXTREME_STARTS = (SlowestLast, OneLibraryLast)
#: The extreme timings, each of which is played several times.
EXTREME_TIMINGS = (AllAtOnce, OneByOne, *EXTREME_STARTS, RejoinsBeforeItStops)
#: More of them, for when several processes stop or start at about the same time while other members keep running.
NOTICED = (NoticedInBetween, NoticedLastFirst)


def _some_interval_ms(chance: random.Random, session_timeout_ms: int) -> int:
    """A random heartbeat interval that someone could have configured."""
    if chance.random() < USUAL_INTERVAL_SHARE:
        return usual_heartbeat_interval_ms(session_timeout_ms)
    most = min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3)
    return max(1, round(most * (0.1 + 0.9 * chance.random())))


def heartbeat_period_ms(profile: ClientProfile, interval_ms: int, chance: RandomStream) -> float:
    """The time between two heartbeats of one process."""
    if profile.beats_after_fetches:
        return max(float(interval_ms), profile.fetch_ms) + HEARTBEAT_LATE_MS * promptly(chance.random())
    ticks = -(-interval_ms // profile.heartbeat_tick_ms)
    return ticks * profile.heartbeat_tick_ms + HEARTBEAT_LATE_MS * promptly(chance.random())


def promptly(share: float) -> float:
    """The share to the power of 8, which makes prompt reactions and heartbeats more common than slow ones. It is
    computed by products, which give the same result in arrays (`bulk.arrays`)."""
    square = share * share
    fourth = square * square
    return fourth * fourth


def reaction_ms(chance: RandomStream, span: Span) -> float:
    """How long a client takes this time: usually close to the least."""
    least, most = span
    return least + (most - least) * promptly(chance.random())


def draw_ms(chance: RandomStream, span: Span) -> float:
    """How long something takes this time: usually a time within the span, occasionally longer. Uses one random
    number."""
    least, most = span
    word = chance.word()
    value = least + (most - least) * ((word >> SLOW_BITS) * USUAL_UNIT)
    slow = word & ((1 << SLOW_BITS) - 1)
    if slow < SLOW_BELOW:
        value += SLOW_MS[0] + (SLOW_MS[1] - SLOW_MS[0]) * (slow / SLOW_BELOW)
    return value

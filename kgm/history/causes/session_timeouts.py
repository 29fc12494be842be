"""The session timeout of members of the consumer protocol, which no record has: it is a setting of the brokers, or of
the group. It is given by the user, asked of a broker, or inferred from the log; otherwise it is unknown.

A member whose session expires was last heard from one session timeout before its records are deleted. So each expiry
sets bounds for the timeout, and if several agree, the timeout is within them.

What a broker answers is the present setting, which may have been another when a member left (`at_departure`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kgm.history.causes.verdict import seconds

#: How far apart heartbeats of the consumer protocol are by default (group.consumer.heartbeat.interval.ms).
CONSUMER_HEARTBEAT_MS = 5_000
#: This many expiries have to agree, and this share of those that are remembered.
_LEAST_EXPIRIES = 3
_LEAST_PART = 0.6
_MOST_REMEMBERED = 12
#: People choose multiples of these as timeouts; the most likely first.
_ROUND_MS = (30_000, 15_000, 10_000, 5_000, 1_000)


class SessionSource(StrEnum):
    """Where a session timeout comes from."""

    MEMBER = "member"
    GIVEN = "given"
    BROKER = "broker"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimeout:
    """A session timeout in ms, and its bounds. expiries: how many expiries show it, for source LOG. may_differ: whether
    the members may have had another one: it was asked of a broker later, and the log does not show the same.
    allowed_ms: the shortest that the broker allows (`group.consumer.min.session.timeout.ms`), 0 if it is not known."""

    ms: int
    source: SessionSource
    least_ms: int
    most_ms: int
    expiries: int = 0
    may_differ: bool = False
    allowed_ms: int = 0

    @classmethod
    def exactly(cls, ms: int, source: SessionSource, *, allowed_ms: int = 0) -> "SessionTimeout":
        """A session timeout that is known to the millisecond."""
        return cls(ms=ms, source=source, least_ms=ms, most_ms=ms, allowed_ms=allowed_ms)

    @property
    def text(self) -> str:
        """`the session timeout is 10 s (given)`."""
        match self.source:
            case SessionSource.LOG if self.may_differ:
                return (
                    f"the session timeout was about {seconds(self.ms)}, as {self.expiries} expiries in this log show, "
                    "and is another now"
                )
            case SessionSource.BROKER if self.may_differ:
                return f"the session timeout is now {seconds(self.ms)} (asked of the broker), and may have been another"
            case SessionSource.MEMBER:
                return f"its session timeout is {seconds(self.ms)}"
            case SessionSource.GIVEN:
                return f"the session timeout is {seconds(self.ms)} (given)"
            case SessionSource.BROKER:
                return f"the session timeout is {seconds(self.ms)} (asked of the broker)"
            case SessionSource.LOG:
                return f"the session timeout is about {seconds(self.ms)}, as {self.expiries} expiries in this log show"


#: The session timeout of a group's members, by the group's id and its type, one of those for which the broker sets the
#: session timeout (`consumer`, `streams`, `share`). None if it is not known.
SessionLookup = Callable[[str, str], SessionTimeout | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSessions:
    """Session timeouts in ms given by the user: by group name, and for all other consumer groups. A `SessionLookup`."""

    default_ms: int | None = None
    by_group: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, group_id: str, group_type: str) -> SessionTimeout | None:
        """The session timeout of a group, if one was given."""
        ms = self.by_group.get(group_id, self.default_ms if group_type == "consumer" else None)
        return None if ms is None else SessionTimeout.exactly(ms, SessionSource.GIVEN)

    def __bool__(self) -> bool:
        return self.default_ms is not None or bool(self.by_group)


def at_departure(known: SessionTimeout | None, shown: SessionTimeout | None) -> SessionTimeout | None:
    """The session timeout of a member when it left. known: the member's own, the given one, or what the broker has now;
    shown: what the log has shown until then; each None if there is none."""
    if known is None or known.source is not SessionSource.BROKER:
        return known or shown
    if shown is None:
        return replace(known, may_differ=True)
    if shown.least_ms <= known.ms <= shown.most_ms:
        return replace(shown, ms=known.ms)
    return replace(shown, may_differ=True)


def no_session(_group_id: str, _group_type: str) -> SessionTimeout | None:
    """A `SessionLookup` that knows nothing."""
    return None


@dataclass(slots=True, kw_only=True)
class SessionEvidence:
    """What a group's log has shown so far. expiries: the bounds in ms from each departure, assuming that it was an
    expiry, the newest last; survived_ms: the longest time for which a member was away and kept its place."""

    expiries: list[tuple[int, int]] = field(default_factory=list)
    survived_ms: int = 0

    def add(self, least_ms: int, most_ms: int) -> None:
        """Add a departure that was an expiry if the session timeout is between these bounds."""
        self.expiries = [*self.expiries[-_MOST_REMEMBERED + 1 :], (least_ms, most_ms)]

    def survived(self, ms: int) -> None:
        """A member was away for this long, and its session did not expire."""
        self.survived_ms = max(self.survived_ms, ms)

    def session(self) -> SessionTimeout | None:
        """The session timeout on which enough expiries agree; None if too few do."""
        bounds = [each for each in self.expiries if each[1] >= self.survived_ms]
        agreeing = _largest_agreement(bounds)
        if len(agreeing) < max(_LEAST_EXPIRIES, len(bounds) * _LEAST_PART):
            return None
        least = max(self.survived_ms, *(each for each, _ in agreeing))
        most = min(each for _, each in agreeing)
        return SessionTimeout(
            ms=_roundest(least, most), source=SessionSource.LOG, least_ms=least, most_ms=most, expiries=len(agreeing)
        )


def _largest_agreement(bounds: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The largest set of bounds that have a time in common."""
    sets = ([each for each in bounds if each[0] <= least <= each[1]] for least, _ in bounds)
    return max(sets, key=len, default=[])


def _roundest(least: int, most: int) -> int:
    for step in _ROUND_MS:
        up = -(-least // step) * step
        if least <= up <= most:
            return up
    return (least + most) // 2

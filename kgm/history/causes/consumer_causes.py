"""Why the epoch of a group of the consumer protocol rose: what its records changed since the previous epoch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kgm.history.causes.session_timeouts import CONSUMER_HEARTBEAT_MS, SessionTimeout
from kgm.history.causes.verdict import (
    COORDINATOR_MOVED,
    SHOWN,
    Cause,
    Confidence,
    Departure,
    MissingMember,
    Verdict,
    departed_who,
    doubted,
    joined_verdict,
    resubscribed_verdict,
    seconds,
    static_departure,
    topology_verdict,
    weakest,
    who,
)
from kgm.history.reconstruct.classic_snapshots import MemberChange
from kgm.history.row_parts import Involvement

_SLACK_MS = 4_000
#: A member that is closed commits, and leaves within this many ms; one that missed this many commits had stopped
#: before.
_AT_ONCE_MS, _MISSED = 500, 2
_AGAIN = "but the coordinator has moved since, and sessions and rebalance timeouts started again"
#: The metadata hash of a group that subscribes to no topic that exists.
NO_TOPICS = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedConsumer:
    """A member that joined and was there before. down_ms: the latest time at which it was stopped. unique: whether no
    other process of the group has its client id and host, or its ids show that it is the same process."""

    change: MemberChange
    old_member_id: str
    down_ms: int
    unique: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochContext:
    """An epoch to explain. returned: the members in `joined` that were there before; returning: the identities of those
    that may have been, long ago or under another name. hashes: of the subscribed topics' metadata, before (None: not
    known) and now. regex, assignor: whether a regular expression was resolved again, or a member asked for another
    assignor. known: no record is missing since the group was created; broken: records are missing since the previous
    epoch. unseen_left: a member left of which the log has no other record. coordinator_moved: whether the leader epoch
    rose since the previous epoch. stayed: how many members were there before and after."""

    joined: Sequence[MemberChange]
    returned: Sequence[ReturnedConsumer]
    returning: Collection[str]
    departures: Sequence[Departure]
    resubscribed: Sequence[MemberChange]
    hashes: tuple[int | None, int]
    regex: bool
    assignor: bool
    empty: bool
    known: bool
    broken: bool
    unseen_left: bool = False
    coordinator_moved: bool = False
    stayed: int = 0
    #: Whether it is a streams group (KIP-1071): its members' subscription is their topology.
    has_topology: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAbsence:
    """What the records show about a member before they were deleted. away: since when it had the epoch -2; heard: the
    time of its last record, written for its own heartbeat; unrevoked: since when it was asked to revoke partitions
    without doing so; together: whether other members left with it in the same epoch; led_since: of the first record of
    the group by its present coordinator, which started all sessions and rebalance timeouts again when it loaded the
    group. All times in ms."""

    away: int | None
    heard: int
    unrevoked: int | None
    together: bool = False
    led_since: int = 0

    def is_loaded_since(self, at: int) -> bool:
        """Whether another coordinator may have loaded the group after this time, in ms."""
        return self.led_since > at

    def silence(self, missing: MissingMember, at: int) -> int:
        """For how long, in ms, nothing had been heard from the member at time `at`."""
        return at - (max(self.heard, missing.last_commit or 0) if self.away is None else self.away)

    def session_bounds(self, missing: MissingMember, at: int) -> tuple[int, int] | None:
        """The bounds in ms of the session timeout, assuming that the member's session expired at time `at`; None if it
        was not silent for longer than members that leave are, or commits too rarely to tell, or with all others, or if
        its session may have started again meanwhile."""
        silence = self.silence(missing, at)
        if self.together or silence < 0 or self.is_loaded_since(at - silence):
            return None
        if self.away is not None:
            return silence, silence + CONSUMER_HEARTBEAT_MS
        cadence = missing.cadence_ms
        if (
            missing.in_lull
            or cadence is None
            or missing.last_commit is None
            or silence < _MISSED * cadence + _SLACK_MS // 2
        ):
            return None
        return silence - cadence, silence + CONSUMER_HEARTBEAT_MS


def consumer_departure(
    missing: MissingMember, at: int, absence: ConsumerAbsence, session: SessionTimeout | None
) -> Departure:
    """How a member left whose records were deleted at time `at`, in ms. session: its session timeout, None if it is not
    known."""
    record = missing.change.member.record
    if at < 0:
        return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, "the record has no timestamp")
    if absence.together:
        why = "several members left with one request, which only an admin's LeaveGroup does"
        return missing.departed(Cause.REMOVAL, Confidence.CERTAIN, why)
    asked = absence.unrevoked if absence.away is None else None
    if asked is not None and at - asked >= record.rebalance_timeout > 0:
        why = f"it did not revoke partitions within its rebalance timeout of {seconds(record.rebalance_timeout)}"
        if absence.is_loaded_since(asked):
            return missing.departed(Cause.MAX_POLL, Confidence.POSSIBLE, f"{why}, {_AGAIN}")
        return missing.departed(Cause.MAX_POLL, Confidence.LIKELY, why)
    if session is None:
        return _without_session(missing, at, absence)
    found = _with_session(missing, at, absence, session)
    # No session is so short that it could be over at once, or before the shortest that the broker allows.
    shortest_ms = max(_AT_ONCE_MS, session.allowed_ms - CONSUMER_HEARTBEAT_MS)
    was_too_soon = found.cause in (Cause.LEAVE, Cause.REMOVAL) and absence.silence(missing, at) <= shortest_ms
    if not session.may_differ or was_too_soon:
        return found
    return replace(found, confidence=weakest(found.confidence, Confidence.POSSIBLE))


def _with_session(missing: MissingMember, at: int, absence: ConsumerAbsence, session: SessionTimeout) -> Departure:
    asked = absence.unrevoked if absence.away is None else None
    is_over = asked is not None and at - asked > session.most_ms + sum(_margins(session.ms))
    if asked is not None and is_over and not absence.is_loaded_since(asked):
        why = f"it did not revoke partitions for {seconds(at - asked)}, and {session.text}"
        return missing.departed(Cause.MAX_POLL, Confidence.LIKELY, f"{why}: it sent heartbeats, and did not poll")
    silence = absence.silence(missing, at)
    found = doubted(_silent(missing, silence, session)) if absence.away is None else _away(missing, silence, session)
    if found.cause is Cause.SESSION_EXPIRY and absence.is_loaded_since(at - silence):
        # A member that was removed before its session was over was silent for as long.
        evidence = f"{found.evidence}; {_AGAIN}: it may also have been removed, or have left"
        return replace(found, confidence=Confidence.POSSIBLE, evidence=evidence)
    return found


def _without_session(missing: MissingMember, at: int, absence: ConsumerAbsence) -> Departure:
    """How a member left if the session timeout is unknown: what depends on it is at most possible."""
    silence = absence.silence(missing, at)
    if absence.away is not None:
        why = f"it had stopped {seconds(silence)} before; the session timeout is not known"
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    why = f"it was heard from {seconds(silence)} before; the session timeout is not known"
    if silence <= _AT_ONCE_MS:
        return missing.departed(Cause.LEAVE, Confidence.POSSIBLE, why)
    if absence.session_bounds(missing, at) is not None:
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, why)


def _away(missing: MissingMember, ms: int, session: SessionTimeout) -> Departure:
    """How a static member left that had stopped, and could have come back."""
    heartbeat, slack = _margins(session.ms)
    why = f"it had stopped {seconds(ms)} before, {session.text}"
    if ms < session.least_ms - heartbeat - slack // 2:
        return missing.departed(Cause.REMOVAL, Confidence.LIKELY, f"{why}: it was removed")
    sure = Confidence.POSSIBLE if _is_early(ms, session) or ms > session.most_ms + slack else Confidence.LIKELY
    return missing.departed(Cause.SESSION_EXPIRY, sure, why)


def _silent(missing: MissingMember, silence: int, session: SessionTimeout) -> Departure:
    heartbeat, slack = _margins(session.ms)
    static = missing.change.member.record.group_instance_id is not None
    cadence = missing.cadence_ms
    regular = cadence is not None and cadence <= session.ms
    # Commits do not extend a session here: the last heartbeat may be one interval older than the last commit.
    if silence < session.least_ms - heartbeat:
        why = f"it was heard from {seconds(silence)} before, and {session.text}: that had not passed"
        if not static:
            return missing.departed(Cause.LEAVE, Confidence.LIKELY, why)
        missed = cadence is not None and regular and silence > _MISSED * cadence + _SLACK_MS // 2
        return static_departure(missing, silence, why, missed=missed, is_classic=False)
    why = f"silent for {seconds(silence)}, {session.text}"
    if cadence is not None:
        why = f"{why}; before that, it committed every {seconds(cadence)}"
    due = 2 * cadence if cadence is not None and regular else 0
    most = missing.change.member.record.rebalance_timeout
    if silence <= session.most_ms + heartbeat + slack + due:
        if not static and regular and silence >= most - slack:
            why = f"{why}; its max.poll.interval.ms is {seconds(most)}, after which it would leave by itself"
            return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
        sure = Confidence.LIKELY if regular and not _is_early(silence, session) else Confidence.POSSIBLE
        return missing.departed(Cause.SESSION_EXPIRY, sure, why)
    if regular and not static and most <= silence <= most + heartbeat + slack + due:
        why = f"{why}; its max.poll.interval.ms is {seconds(most)}, after which it leaves by itself"
        return missing.departed(Cause.MAX_POLL, Confidence.POSSIBLE, why)
    if regular or static:
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, f"{why}: too few commits to tell how it left")


def _is_early(ms: int, session: SessionTimeout) -> bool:
    """Whether a session rarely expires after a silence this short, as heartbeats are rarely further apart than a third
    of the session timeout. With the default heartbeat interval a short session may have expired, or the member was
    removed, or left."""
    return ms < session.least_ms - session.ms // 3


def _margins(session: int) -> tuple[int, int]:
    """(the longest time between heartbeats, how late things may show in the log), in ms."""
    return min(CONSUMER_HEARTBEAT_MS, max(session - 1_000, session // 3)), min(_SLACK_MS, session // 5)


def explain_epoch(context: EpochContext) -> Verdict:
    """The cause of an epoch."""
    verdict = _explained(context)
    return replace(verdict, evidence=(*verdict.evidence, COORDINATOR_MOVED)) if context.coordinator_moved else verdict


def _explained(context: EpochContext) -> Verdict:
    if context.broken:
        return Verdict(
            Cause.UNKNOWN, Confidence.UNKNOWN, evidence=("records in between are missing: compaction removed them",)
        )
    parts = _parts(context)
    causes = tuple(dict.fromkeys(each.cause for each in parts))
    people = tuple(each for part in parts for each in part.who)
    evidence = tuple(line for part in parts for line in part.evidence)
    first = parts[0]
    if context.empty and context.departures and context.known:
        line = "the group has no members left"
        told = [each for each in parts if each.cause is not Cause.DEPARTURE]
        also = tuple(dict.fromkeys(each.cause for each in told))
        sure = weakest(Confidence.CERTAIN, *(each.confidence for each in told))
        return Verdict(Cause.ALL_GONE, sure, people, (line, *evidence), also)
    sure = weakest(*(each.confidence for each in parts))
    sure = sure if context.known else weakest(sure, Confidence.LIKELY)
    return Verdict(first.cause, sure, people, evidence, causes[1:])


def _returned_text(one: ReturnedConsumer) -> str:
    """How a member came back. A process keeps its member id as long as it runs."""
    after = f"after {seconds(one.change.timestamp - one.down_ms)}"
    if one.old_member_id != one.change.member.record.member_id:
        return f"{one.old_member_id} came back as {one.change.identity} {after}"
    return (
        f"{one.old_member_id} came back {after} with the same member id, so its process ran on: it had not polled for "
        "max.poll.interval.ms, was suspended, or had unsubscribed"
    )


def _parts(context: EpochContext) -> list[Verdict]:
    parts = []
    back = {each.change.identity for each in context.returned}
    if context.returned:
        lines = tuple(map(_returned_text, context.returned[:SHOWN]))
        people = tuple(who(each.change, Involvement.RETURNED) for each in context.returned)
        sure = Confidence.LIKELY if all(each.unique for each in context.returned) else Confidence.POSSIBLE
        parts.append(Verdict(Cause.BOUNCE, sure, people, lines))
    joined = [each for each in context.joined if each.identity not in back]
    if joined:
        parts.append(joined_verdict(joined, context.returning))
    for each in context.departures:
        people = (departed_who(each),)
        parts.append(Verdict(each.cause, each.confidence, people, (each.evidence,)))
    if context.resubscribed:
        parts.append(
            topology_verdict(context.resubscribed)
            if context.has_topology
            else resubscribed_verdict(context.resubscribed, context.stayed)
        )
    return parts or [_same_members(context)]


def _same_members(context: EpochContext) -> Verdict:
    """The verdict if no member joined, left or changed, as far as the log shows the members."""
    if context.unseen_left:
        line = "a member is gone, and the log has no other record of it"
        return Verdict(Cause.DEPARTURE, Confidence.POSSIBLE, evidence=(line,))
    if context.regex:
        line = "a subscribed regular expression was resolved again, and the epoch rose with it"
        return Verdict(Cause.SUBSCRIPTION, Confidence.LIKELY, evidence=(line,))
    before, now = context.hashes
    if before not in (None, now):
        line = "the metadata of the subscribed topics changed: their partitions, racks or ids"
        if before == NO_TOPICS:
            line = (
                "the coordinator knew none of the subscribed topics before: it learns of new ones a little later than "
                "clients do (a group of Kafka 4.0 also begins like this after the upgrade)"
            )
        return Verdict(Cause.METADATA, Confidence.CERTAIN, evidence=(line,))
    if context.assignor:
        line = "a member asks for another assignor"
        return Verdict(Cause.ASSIGNOR, Confidence.POSSIBLE, evidence=(line,))
    return Verdict(Cause.UNKNOWN, Confidence.UNKNOWN, evidence=("the epoch rose, and no record says why",))

"""Why the epoch of a group of the consumer protocol rose: what its records changed since the epoch before."""

from collections.abc import Sequence
from dataclasses import dataclass

from kgm.history.causes.verdict import (
    SHOWN,
    Cause,
    Confidence,
    Departure,
    MissingMember,
    Verdict,
    joined_verdict,
    resubscribed_verdict,
    seconds,
    weaker,
    who,
)
from kgm.history.reconstruct.classic_snapshots import MemberChange

_SLACK_MS = 4_000
#: How far apart heartbeats of this protocol are by default (group.consumer.heartbeat.interval.ms).
CONSUMER_HEARTBEAT_MS = 5_000
#: The metadata hash of a group that subscribes to no topic that exists.
NO_TOPICS = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedConsumer:
    """A member that joined and was there before. down_ms: the latest time at which it was stopped."""

    change: MemberChange
    old_member_id: str
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochContext:
    """An epoch to explain. returned: those of `joined` that were there before. hashes: of the subscribed topics'
    metadata, before (None: not known) and now. regex, assignor: whether a regular expression was resolved again, or a
    member asked for another assignor. known: nothing is missing since the group began; broken: something is missing
    since the epoch before."""

    joined: Sequence[MemberChange]
    returned: Sequence[ReturnedConsumer]
    departures: Sequence[Departure]
    resubscribed: Sequence[MemberChange]
    hashes: tuple[int | None, int]
    regex: bool
    assignor: bool
    empty: bool
    known: bool
    broken: bool


def consumer_departure(
    missing: MissingMember, at: int, *, away: int | None, heard: int, unrevoked: int | None
) -> Departure:
    """How a member went whose records were deleted at a time. away: since when it had the epoch -2; heard: the time of
    its last record, which its own heartbeat made; unrevoked: since when it was asked to revoke partitions and did not.
    All in ms."""
    record = missing.change.member.record
    heartbeat, slack = _margins(record.session_timeout)
    session, static = record.session_timeout, record.group_instance_id is not None

    if at < 0:
        return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, "the record has no timestamp")
    if away is not None:
        why = f"it had stopped {seconds(at - away)} before, its session timeout is {seconds(session)}"
        if at - away < session - heartbeat - slack // 2:
            return missing.departed(Cause.REMOVAL, Confidence.LIKELY, f"{why}: it was removed")
        late = at - away > session + slack
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE if late else Confidence.LIKELY, why)
    if unrevoked is not None and at - unrevoked >= record.rebalance_timeout > 0:
        why = f"it did not revoke partitions within its rebalance timeout of {seconds(record.rebalance_timeout)}"
        return missing.departed(Cause.MAX_POLL, Confidence.LIKELY, why)
    silence = at - max(heard, missing.last_commit or 0)
    # Commits do not extend a session here: the last heartbeat may be one interval older than the last commit.
    if silence < session - heartbeat:
        why = (
            f"it was heard from {seconds(silence)} before, so its session timeout of {seconds(session)} had not passed"
        )
        return missing.departed(Cause.REMOVAL if static else Cause.LEAVE, Confidence.LIKELY, why)
    cadence = missing.cadence_ms
    regular = cadence is not None and cadence <= session
    why = f"silent for {seconds(silence)}, its session timeout is {seconds(session)}"
    if cadence is not None:
        why = f"{why}; before, it committed every {seconds(cadence)}"
    due = 2 * cadence if cadence is not None and regular else 0
    if silence <= session + heartbeat + slack + due:
        return missing.departed(
            Cause.SESSION_EXPIRY, Confidence.LIKELY if regular or static else Confidence.POSSIBLE, why
        )
    if regular or static:
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, f"{why}: too few commits to tell how it went")


def _margins(session: int) -> tuple[int, int]:
    """(how far apart heartbeats are at most, how much later things may show), in ms."""
    return min(CONSUMER_HEARTBEAT_MS, session // 3), min(_SLACK_MS, session // 5)


def explain_epoch(context: EpochContext) -> Verdict:
    """The cause of an epoch."""
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
        line = "the group has no members any more"
        return Verdict(Cause.ALL_GONE, Confidence.CERTAIN, people, (line, *evidence), causes)
    sure = first.confidence if context.known else weaker(first.confidence, Confidence.LIKELY)
    return Verdict(first.cause, sure, people, evidence, causes[1:])


def _parts(context: EpochContext) -> list[Verdict]:
    parts = []
    back = {each.change.identity for each in context.returned}
    if context.returned:
        lines = tuple(
            f"{each.old_member_id} came back as {each.change.identity} after "
            f"{seconds(each.change.timestamp - each.down_ms)}"
            for each in context.returned[:SHOWN]
        )
        people = tuple(who(each.change, "returned") for each in context.returned)
        parts.append(Verdict(Cause.BOUNCE, Confidence.LIKELY, people, lines))
    joined = [each for each in context.joined if each.identity not in back]
    if joined:
        parts.append(joined_verdict(joined))
    for each in context.departures:
        people = (who(each.missing.change, each.cause.value),)
        parts.append(Verdict(each.cause, each.confidence, people, (each.evidence,)))
    if context.resubscribed:
        parts.append(resubscribed_verdict(context.resubscribed))
    return parts or [_same_members(context)]


def _same_members(context: EpochContext) -> Verdict:
    """No member came, went or changed."""
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

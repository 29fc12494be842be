"""Why the epoch of a group of the consumer protocol rose: what its records changed since the epoch before."""

from collections.abc import Sequence
from dataclasses import dataclass

from kgm.history.causes.classic_causes import Cause, Confidence, Departed, Gone, Verdict, seconds, weaker, who
from kgm.history.reconstruct.classic_snapshots import Change
from kgm.history.rows import Row

_SHOWN = 8
_SLACK_MS = 4_000
#: Members of this protocol heartbeat this often by default (group.consumer.heartbeat.interval.ms).
HEARTBEAT_MS = 5_000
#: The hash of the metadata of no topics.
NO_TOPICS = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """An epoch to explain. returned: who joined and was there before, with what is known of the absence. hashes: of the
    subscribed topics' metadata, before (None: not known) and now. known: nothing is missing since the group began."""

    joined: Sequence[Change]
    returned: Sequence[tuple[Change, Row]]
    departed: Sequence[Departed]
    resubscribed: Sequence[Change]
    hashes: tuple[int | None, int]
    regex: bool
    assignor: bool
    empty: bool
    known: bool
    broken: bool


def departure(gone: Gone, at: int, *, away: int | None, heard: int, unrevoked: int | None) -> Departed:
    """How a member went whose records were deleted at a time. away: since when it had the epoch -2; heard: of its last
    record, which its own heartbeat made; unrevoked: since when it was asked to give up partitions and did not."""
    record = gone.change.member.record
    heartbeat, slack = _margins(record.session_timeout)
    session, seat, static = record.session_timeout, gone.change.seat, record.group_instance_id is not None

    def said(cause: Cause, confidence: Confidence, why: str) -> Departed:
        return Departed(gone=gone, cause=cause, confidence=confidence, evidence=f"{seat} is gone; {why}")

    if at < 0:
        return said(Cause.DEPARTURE, Confidence.POSSIBLE, "the record has no time")
    if away is not None:
        why = f"it had stopped {seconds(at - away)} before, its session timeout is {seconds(session)}"
        if at - away < session - heartbeat - slack // 2:
            return said(Cause.REMOVAL, Confidence.LIKELY, f"{why}: somebody removed it")
        late = at - away > session + slack
        return said(Cause.SESSION_EXPIRY, Confidence.POSSIBLE if late else Confidence.LIKELY, why)
    if unrevoked is not None and at - unrevoked >= record.rebalance_timeout > 0:
        why = f"it did not give up partitions within its rebalance timeout of {seconds(record.rebalance_timeout)}"
        return said(Cause.MAX_POLL, Confidence.LIKELY, why)
    silence = at - max(heard, gone.last_commit or 0)
    # Here commits do not extend a session: the last heartbeat may be one interval older than the last commit.
    if silence < session - heartbeat:
        why = f"it was heard of {seconds(silence)} before, so its session timeout of {seconds(session)} had not passed"
        return said(Cause.REMOVAL if static else Cause.LEAVE, Confidence.LIKELY, why)
    cadence = gone.cadence_ms
    regular = cadence is not None and cadence <= session
    why = f"silent for {seconds(silence)}, its session timeout is {seconds(session)}"
    if cadence is not None:
        why = f"{why}; before, it committed every {seconds(cadence)}"
    due = 2 * cadence if cadence is not None and regular else 0
    if silence <= session + heartbeat + slack + due:
        return said(Cause.SESSION_EXPIRY, Confidence.LIKELY if regular or static else Confidence.POSSIBLE, why)
    if regular or static:
        return said(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return said(Cause.DEPARTURE, Confidence.POSSIBLE, f"{why}: too rarely to tell how it went")


def _margins(session: int) -> tuple[int, int]:
    """(how far heartbeats are apart at most, how much later things may show) in ms."""
    return min(HEARTBEAT_MS, session // 3), min(_SLACK_MS, session // 5)


def explain(epoch: Epoch) -> Verdict:
    """The cause of an epoch."""
    if epoch.broken:
        line = "records in between are missing: compaction removed them"
        return Verdict(Cause.UNKNOWN, Confidence.UNKNOWN, evidence=(line,))
    parts = _parts(epoch)
    kinds = tuple(dict.fromkeys(each.cause for each in parts))
    people = tuple(row for each in parts for row in each.who)
    evidence = tuple(line for each in parts for line in each.evidence)
    first = parts[0]
    if epoch.empty and epoch.departed and epoch.known:
        line = "the group has no members any more"
        return Verdict(Cause.ALL_GONE, Confidence.CERTAIN, people, (line, *evidence), kinds)
    sure = first.confidence if epoch.known else weaker(first.confidence, Confidence.LIKELY)
    return Verdict(first.cause, sure, people, evidence, kinds[1:])


def _parts(epoch: Epoch) -> list[Verdict]:
    parts = []
    back = {each.seat for each, _ in epoch.returned}
    if epoch.returned:
        lines = tuple(
            f"{change.seat} is {row['member_id']} come back after {seconds(change.timestamp - row['down_max'])}"
            for change, row in epoch.returned[:_SHOWN]
        )
        people = tuple(who(change, "returned") for change, _ in epoch.returned)
        parts.append(Verdict(Cause.BOUNCE, Confidence.LIKELY, people, lines))
    joined = [each for each in epoch.joined if each.seat not in back]
    if joined:
        lines = tuple(f"{each.seat} is new" for each in joined[:_SHOWN])
        parts.append(Verdict(Cause.JOIN, Confidence.CERTAIN, tuple(who(each) for each in joined), lines))
    for each in epoch.departed:
        people = (who(each.gone.change, each.cause.value),)
        parts.append(Verdict(each.cause, each.confidence, people, (each.evidence,)))
    if epoch.resubscribed:
        lines = tuple(f"{each.seat} subscribes to other topics" for each in epoch.resubscribed[:_SHOWN])
        people = tuple(who(each) for each in epoch.resubscribed)
        parts.append(Verdict(Cause.SUBSCRIPTION, Confidence.CERTAIN, people, lines))
    return parts or [_nobody(epoch)]


def _nobody(epoch: Epoch) -> Verdict:
    """No member came, went or changed."""
    if epoch.regex:
        line = "a subscribed regular expression was resolved anew, and the epoch rose in the same moment"
        return Verdict(Cause.SUBSCRIPTION, Confidence.LIKELY, evidence=(line,))
    before, now = epoch.hashes
    if before not in (None, now):
        line = "the metadata of the subscribed topics changed: their partitions, racks or ids"
        if before == NO_TOPICS:
            line = (
                "the coordinator knew none of the subscribed topics before: it hears of new ones a little later than "
                "clients do (and a group of Kafka 4.0 begins so after the upgrade)"
            )
        return Verdict(Cause.METADATA, Confidence.CERTAIN, evidence=(line,))
    if epoch.assignor:
        line = "a member asks for another assignor"
        return Verdict(Cause.ASSIGNOR, Confidence.POSSIBLE, evidence=(line,))
    return Verdict(Cause.UNKNOWN, Confidence.UNKNOWN, evidence=("the epoch rose, and no record says why",))

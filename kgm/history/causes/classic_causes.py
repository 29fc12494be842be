"""Why a classic group rebalanced: from the records around it, with how sure that is and what in the log says so.

The log has no reasons in it, only what a group was when a rebalance ended. Some causes follow from that: a member that
was not there before joined. Others leave a trace in time: a session that expired was silent for the session timeout at
the least, for a commit refreshes it (GroupMetadataManager.validateOffsetCommit), and the end of a join phase does for
everybody (completeClassicGroupJoin); a member that was there later than that did not expire. The rest is told as
possible, or not at all.

What cannot be told apart by a log: a dynamic member that closes, unsubscribes, or is removed by an admin (each a
LeaveGroup); a member that its own client gave up after max.poll.interval.ms, from one that died, where the intervals
are alike; a leader that rejoined for new metadata, from one whose application asked for a rebalance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kgm.history.reconstruct.classic_snapshots import EAGER, Change, Kind, Member, Rebalance, Snapshot


class Cause(StrEnum):
    """Why a rebalance happened."""

    JOIN = "join"
    #: A clean LeaveGroup: closed, unsubscribed, or a dynamic member that an admin removed.
    LEAVE = "leave"
    SESSION_EXPIRY = "session-expiry"
    #: The client left by itself, for its application did not poll within max.poll.interval.ms.
    MAX_POLL = "max-poll"
    #: A static member, which does not leave by itself, was told to.
    REMOVAL = "admin-removal"
    #: Gone, and nothing tells which way.
    DEPARTURE = "departure"
    #: The same process, as far as its ids tell, went and came back.
    BOUNCE = "bounce"
    #: Members of one client id went from one host and came on another: a rollout.
    REPLACEMENT = "replacement"
    SUBSCRIPTION = "subscription-change"
    COOPERATIVE = "cooperative-round"
    PARTITIONS = "partition-change"
    ASSIGNOR = "assignor-change"
    #: Of the consumer protocol: racks or ids of subscribed topics changed, not known how.
    METADATA = "metadata-change"
    #: Somebody who was a member already joined again: a leader with new metadata, or an application that asked for it.
    REJOIN = "rejoin"
    COORDINATOR = "coordinator-move"
    #: The group changed between the classic and the consumer protocol.
    CONVERSION = "conversion"
    ALL_GONE = "all-gone"
    #: Members that joined and did not ask for their assignment in time; only a broker's log tells it.
    SYNC_TIMEOUT = "sync-timeout"
    #: Rounds that never completed, of which no record shows who was in them.
    ROUNDS = "unfinished-rounds"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"


class Event(StrEnum):
    """What happens to a group without a rebalance."""

    ABSORBED = "absorbed-bounce"
    #: A static member of the consumer protocol stopped and keeps its seat (member epoch -2).
    AWAY = "away"
    REMOVED = "group-removed"
    CONVERTED = "converted"


#: Two absences of a process are one bounce if it is back within this time.
RETURN_WITHIN_MS = 600_000
#: Heartbeats are at most this far apart by default (heartbeat.interval.ms); others learn of a rebalance by theirs.
HEARTBEAT_MS = 3_000
_SLACK_MS = 2_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """who: rows of `schema.WHO`. also: causes that came together with the first one."""

    cause: Cause
    confidence: Confidence
    who: tuple[dict[str, Any], ...] = ()
    evidence: tuple[str, ...] = ()
    also: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A member that is not there any more. last_commit: of any of its partitions while it had them; cadence_ms: how far
    its commits were apart on average. None where there were none, or too few. joined: when the join phase ended that it
    was last in, from where on the coordinator counts the sessions of all members anew; None where no record says it."""

    change: Change
    last_commit: int | None
    cadence_ms: int | None
    joined: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """How a member went."""

    gone: Gone
    cause: Cause
    confidence: Confidence
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A member that joined, and the one that it takes the place of: gone in this rebalance, or in an earlier one."""

    change: Change
    old_member_id: str
    absent_ms: int | None
    unique: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A rebalance to explain. holes: partitions that the one before took from a member and gave to nobody yet."""

    previous: Snapshot
    snapshot: Snapshot
    rebalance: Rebalance
    changes: Sequence[Change]
    departed: Sequence[Departed]
    returned: Sequence[Return]
    holes: frozenset[tuple[str, int]]
    coordinator_moved: bool


def who(change: Change, what: str | None = None) -> dict[str, Any]:
    """A row of `schema.WHO`."""
    record = change.member.record
    return {
        "seat": change.seat, "what": what or change.kind.value, "member_id": record.member_id,
        "client_id": record.client_id, "client_host": record.client_host,
    }  # fmt: skip


_Said = Callable[[Cause, Confidence, str], Departed]


def departure(gone: Gone, at: int) -> Departed:
    """How a member went that was gone at a time at the latest (the end of the join phase)."""
    record = gone.change.member.record
    session, seat = record.session_timeout, gone.change.seat
    static = record.group_instance_id is not None

    def said(cause: Cause, confidence: Confidence, why: str) -> Departed:
        return Departed(gone=gone, cause=cause, confidence=confidence, evidence=f"{seat} is gone; {why}")

    if at < 0:
        return said(Cause.DEPARTURE, Confidence.POSSIBLE, "the record has no time")
    for since, what in ((gone.last_commit, "it committed"), (gone.joined, "a generation began with it")):
        if since is not None and at - since < session:
            why = f"{what} {seconds(at - since)} before, so its session timeout of {seconds(session)} had not passed"
            if static:
                return said(Cause.REMOVAL, Confidence.LIKELY, f"{why}: a static member does not leave by itself")
            return said(Cause.LEAVE, Confidence.LIKELY, f"{why}: it left")
    if gone.last_commit is not None:
        return _silent(gone, at - gone.last_commit, said)
    if static:
        why = "it never committed; a static member does not leave by itself: its session ended, or it was removed"
        return said(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return said(Cause.DEPARTURE, Confidence.POSSIBLE, "it never committed, so that nothing tells how it went")


def _silent(gone: Gone, silence: int, said: _Said) -> Departed:
    """A session may have expired: which is likely if the silence is as long as that takes, give or take a heartbeat and
    the commits that were due; of a dynamic member only if it committed so regularly that it was missed, for otherwise
    it may have left after such a silence as well."""
    record = gone.change.member.record
    session, most, cadence = record.session_timeout, record.rebalance_timeout, gone.cadence_ms
    regular = cadence is not None and cadence <= session
    slack = HEARTBEAT_MS + _SLACK_MS + (2 * cadence if cadence is not None and regular else 0)
    why = f"silent for {seconds(silence)}, its session timeout is {seconds(session)}"
    if cadence is not None:
        why = f"{why}; before, it committed every {seconds(cadence)}"
    if silence <= session + slack:
        sure = Confidence.LIKELY if regular or record.group_instance_id is not None else Confidence.POSSIBLE
        return said(Cause.SESSION_EXPIRY, sure, why)
    if regular and most <= silence <= most + slack:
        return said(Cause.MAX_POLL, Confidence.POSSIBLE, f"{why}; its max.poll.interval is {seconds(most)}")
    if regular or record.group_instance_id is not None:
        return said(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return said(Cause.DEPARTURE, Confidence.POSSIBLE, f"{why}: too rarely to tell how it went")


def explain(step: Step) -> Verdict:
    """The cause of a rebalance."""
    if not step.rebalance.complete:
        return Verdict(
            Cause.UNKNOWN, Confidence.UNKNOWN, evidence=("records in between are missing: compaction removed them",)
        )
    if step.snapshot.kind is Kind.EMPTY:
        verdict = _all_gone(step)
    elif step.changes:
        verdict = _membership(step)
    else:
        verdict = _same_members(step)
    return _with_notes(verdict, step)


def _with_notes(verdict: Verdict, step: Step) -> Verdict:
    notes = list(verdict.evidence)
    if step.rebalance.lost_rounds:
        count = step.rebalance.lost_rounds
        notes.append("a round before it never completed" if count == 1 else f"{count} rounds before it never completed")
    if step.coordinator_moved:
        notes.append("another broker (or the same after a restart) was the coordinator by then: its leader epoch rose")
    return Verdict(verdict.cause, verdict.confidence, verdict.who, tuple(notes), verdict.also)


def _all_gone(step: Step) -> Verdict:
    also = tuple(dict.fromkeys(each.cause for each in step.departed if each.cause is not Cause.DEPARTURE))
    evidence = ("the group has no members any more", *(each.evidence for each in step.departed[:_SHOWN]))
    people = tuple(who(each.gone.change, each.cause.value) for each in step.departed)
    return Verdict(Cause.ALL_GONE, Confidence.CERTAIN, people, evidence, also)


_SHOWN = 8


def _membership(step: Step) -> Verdict:
    returned = {each.change.seat: each for each in step.returned}
    back = {each.old_member_id for each in step.returned}
    departed = [each for each in step.departed if each.gone.change.member.record.member_id not in back]
    joined = [each for each in step.changes if each.kind == "joined" and each.seat not in returned]
    resubscribed = [each for each in step.changes if each.kind == "resubscribed"]
    parts: list[Verdict] = []
    if step.returned:
        parts.append(_bounce(step))
    if departed and joined and not step.returned and _rollout(departed, joined):
        parts.append(_replacement(departed, joined))
    else:
        if joined:
            parts.append(_join(joined))
        parts += _departures(departed)
    if resubscribed:
        parts.append(_resubscribed(resubscribed))
    if step.previous.kind is Kind.CONVERTED:
        parts.append(_converted())
    return _together(parts, step)


def _together(parts: Sequence[Verdict], step: Step) -> Verdict:
    """Several causes in one rebalance: which of them began it is not in the log."""
    first = parts[0]
    confidence = first.confidence
    kinds = tuple(dict.fromkeys(each.cause for each in parts))
    if len(kinds) > 1:
        confidence = weaker(confidence, Confidence.POSSIBLE if first.cause is Cause.SUBSCRIPTION else Confidence.LIKELY)
    if step.rebalance.lost_rounds:
        confidence = weaker(confidence, Confidence.LIKELY)
    return Verdict(
        first.cause, confidence, tuple(row for each in parts for row in each.who),
        tuple(line for each in parts for line in each.evidence), kinds[1:],
    )  # fmt: skip


def weaker(one: Confidence, other: Confidence) -> Confidence:
    """The lesser of two."""
    order = list(Confidence)
    return max(one, other, key=order.index)


def _bounce(step: Step) -> Verdict:
    sure = Confidence.LIKELY if all(each.unique for each in step.returned) else Confidence.POSSIBLE
    lines = []
    for each in step.returned[:_SHOWN]:
        record = each.change.member.record
        name = "its group instance id" if record.group_instance_id is not None else "its client id and host"
        away = "" if each.absent_ms is None else f" after {seconds(each.absent_ms)}"
        lines.append(f"{each.change.seat} is {each.old_member_id} come back{away}: {name} is the same")
    people = tuple(who(each.change, "returned") for each in step.returned)
    return Verdict(Cause.BOUNCE, sure, people, tuple(lines))


def _join(joined: Sequence[Change]) -> Verdict:
    lines = tuple(f"{each.seat} is new" for each in joined[:_SHOWN])
    return Verdict(Cause.JOIN, Confidence.CERTAIN, tuple(who(each) for each in joined), lines)


def _departures(departed: Sequence[Departed]) -> list[Verdict]:
    """One for each way in which members went, the surest first."""
    order = list(Confidence)
    found: dict[Cause, list[Departed]] = {}
    for each in sorted(departed, key=lambda each: order.index(each.confidence)):
        found.setdefault(each.cause, []).append(each)
    return [
        Verdict(
            cause, min((each.confidence for each in those), key=order.index),
            tuple(who(each.gone.change, cause.value) for each in those),
            tuple(each.evidence for each in those[:_SHOWN]),
        )
        for cause, those in found.items()
    ]  # fmt: skip


def _rollout(departed: Sequence[Departed], joined: Sequence[Change]) -> bool:
    went = sorted(each.gone.change.member.record.client_id for each in departed)
    return went == sorted(each.member.record.client_id for each in joined)


def _replacement(departed: Sequence[Departed], joined: Sequence[Change]) -> Verdict:
    people = (*(who(each.gone.change, each.cause.value) for each in departed), *(who(each) for each in joined))
    line = f"{len(joined)} new for {len(departed)} gone, of the same client ids on other hosts"
    return Verdict(Cause.REPLACEMENT, Confidence.POSSIBLE, people, (line, *(each.evidence for each in departed)))


def _resubscribed(changes: Sequence[Change]) -> Verdict:
    lines = tuple(f"{each.seat} subscribes to other topics" for each in changes[:_SHOWN])
    return Verdict(Cause.SUBSCRIPTION, Confidence.CERTAIN, tuple(who(each) for each in changes), lines)


def _same_members(step: Step) -> Verdict:
    previous, snapshot = step.previous, step.snapshot
    if previous.kind is Kind.CONVERTED:
        return _converted()
    if previous.protocol != snapshot.protocol:
        line = f"the assignor changed from {previous.protocol} to {snapshot.protocol}"
        return Verdict(Cause.ASSIGNOR, Confidence.LIKELY, evidence=(line,))
    before, after = previous.owners, snapshot.owners
    new = after.keys() - before.keys()
    grown = _grown(before, new - step.holes)
    if grown:
        line = f"partitions are assigned that were not there before: {named(grown)}"
        return Verdict(Cause.PARTITIONS, Confidence.LIKELY, evidence=(line, "the members are the same"))
    if snapshot.protocol not in EAGER and new and new <= step.holes:
        return _second_round(step, before, after)
    if not step.rebalance.lost_rounds:
        return _rejoin(step, before, after)
    line = "the same members with the same topics; somebody may have come and gone in between"
    return Verdict(Cause.ROUNDS, Confidence.POSSIBLE, evidence=(line,))


def _converted() -> Verdict:
    line = "the group had just become a classic one, which makes its members join again"
    return Verdict(Cause.CONVERSION, Confidence.LIKELY, evidence=(line,))


def _second_round(step: Step, before: Mapping[tuple[str, int], str], after: Mapping[tuple[str, int], str]) -> Verdict:
    line = f"{named(after.keys() - before.keys())} were given up in the rebalance before, and have owners now"
    takers = {after[place] for place in after.keys() - before.keys()}
    people = tuple(_member_row(seat, step.snapshot.members[seat], "took over") for seat in sorted(takers))
    return Verdict(Cause.COOPERATIVE, Confidence.LIKELY, people, (line, "the members are the same"))


def _member_row(seat: str, member: Member, what: str) -> dict[str, Any]:
    record = member.record
    return {
        "seat": seat, "what": what, "member_id": record.member_id, "client_id": record.client_id,
        "client_host": record.client_host,
    }  # fmt: skip


def _rejoin(step: Step, before: Mapping[tuple[str, int], str], after: Mapping[tuple[str, int], str]) -> Verdict:
    gone = before.keys() - after.keys()
    if gone and step.snapshot.protocol in EAGER:
        line = f"{named(gone)} are assigned no more, with the same members and topics in their subscriptions"
        return Verdict(Cause.PARTITIONS, Confidence.POSSIBLE, evidence=(line,))
    if step.coordinator_moved:
        return Verdict(Cause.COORDINATOR, Confidence.POSSIBLE, evidence=("the same members with the same topics",))
    line = "the same members with the same topics: one of them joined again, of its own accord or for new metadata"
    return Verdict(Cause.REJOIN, Confidence.POSSIBLE, evidence=(line,))


def _grown(
    before: Mapping[tuple[str, int], str], new: frozenset[tuple[str, int]] | set[tuple[str, int]]
) -> set[tuple[str, int]]:
    """Of newly assigned partitions those that have a higher number than any that their topic had."""
    highest: dict[str, int] = {}
    for topic, partition in before:
        highest[topic] = max(partition, highest.get(topic, -1))
    return {(topic, partition) for topic, partition in new if partition > highest.get(topic, partition)}


def named(places: Any) -> str:
    """Partitions for people: the first few by name."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(places)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def seconds(ms: int) -> str:
    """A duration for people."""
    return f"{ms} ms" if abs(ms) < 1_000 else f"{ms / 1_000:.1f} s".replace(".0 s", " s")

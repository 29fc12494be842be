"""Why a classic group rebalanced: inferred from the records around the rebalance.

The log has no reasons in it, only the group as it was when a rebalance ended. Some causes follow from that: a member
that was not there before has joined. Others show in the timing: a session that expired was silent for at least the
session timeout, because a commit extends it (GroupMetadataManager.validateOffsetCommit) and so does the end of a join
phase, for every member (completeClassicGroupJoin); a member seen more recently than that did not expire. A commit in a
transaction extends no session: the last heartbeat may be older. Everything else is called possible, or unknown.

Some things look the same in a log: a dynamic member that closes, unsubscribes, or is removed by an admin (each is a
LeaveGroup); a client that left on its own after max.poll.interval.ms, and one that died, if the intervals are similar;
a leader that rejoined for new metadata, and an application that asked for a rebalance."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgm.clients.table import EAGER
from kgm.history.causes.framework_causes import framework_verdict
from kgm.history.causes.libraries import rejoins_after_restart
from kgm.history.causes.verdict import (
    COORDINATOR_MOVED,
    SHOWN,
    Cause,
    Confidence,
    Departure,
    MissingMember,
    ReturnedMember,
    Verdict,
    departed_who,
    doubted,
    joined_verdict,
    member_who,
    partitions_text,
    resubscribed_verdict,
    seconds,
    static_departure,
    weakest,
    who,
)
from kgm.history.reconstruct.classic_snapshots import (
    ChangeKind,
    MemberChange,
    Rebalance,
    Snapshot,
    SnapshotKind,
    TopicPartition,
)
from kgm.history.row_parts import Involvement
from kgm.model.client_library import ClientLibrary
from kgm.text.wording import many

#: The longest time between heartbeats, by default (heartbeat.interval.ms); the other members learn of a rebalance from
#: the response to their next one.
HEARTBEAT_MS = 3_000
_SLACK_MS = 2_000
#: A record is written slightly after the coordinator restarts a session's timer.
_WRITTEN_WITHIN_MS = 500
#: A member that commits at least this many times per session timeout is missed before its session expires.
_OFTEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceContext:
    """A rebalance to explain. unassigned: partitions that the previous rebalance took from a member and has not yet
    given to another; unassigned_known: whether these are all of them. returning: the identities of members that joined
    and may have been there before, long ago or under another name. converted: whether the group used the consumer
    protocol until the previous record. whole: no record is missing since the group was created. leader_returned_at:
    when, in ms, another process took the place of the static leader without a rebalance; None if none has, in this
    generation. libraries: the client libraries of `previous`, by identity; looked up only where a departure or the
    leader's return needs them."""

    previous: Snapshot
    snapshot: Snapshot
    rebalance: Rebalance
    changes: Sequence[MemberChange]
    departures: Sequence[Departure]
    returned: Sequence[ReturnedMember]
    unassigned: frozenset[TopicPartition]
    coordinator_moved: bool
    returning: Collection[str] = ()
    converted: bool = False
    unassigned_known: bool = True
    whole: bool = True
    leader_returned_at: int | None = None
    libraries: Mapping[str, ClientLibrary] = field(default_factory=dict)


def departure(missing: MissingMember, at: int) -> Departure:
    """How a member left that was gone no later than `at`, in ms (the end of the join phase)."""
    return doubted(_departure(missing, at))


def _departure(missing: MissingMember, at: int) -> Departure:
    record = missing.change.member.record
    session = record.session_timeout
    static = record.group_instance_id is not None

    if at < 0:
        return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, "the record has no timestamp")
    signs = [since for since in (missing.last_commit, missing.joined) if since is not None]
    if max(signs, default=at) > at + _WRITTEN_WITHIN_MS:
        why = "an earlier record has a later time, as if the clock was set back: nothing shows how it left"
        return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, why)
    unheard = HEARTBEAT_MS if missing.in_transaction else 0
    for since, what, early in (
        (missing.last_commit, "it committed", unheard + _WRITTEN_WITHIN_MS),
        (missing.joined, "a generation began with it", _WRITTEN_WITHIN_MS),
    ):
        if since is not None and at - since < session - early:
            ago = seconds(max(at - since, 0))
            why = f"{what} {ago} before, so its session timeout of {seconds(session)} had not passed"
            if static:
                return static_departure(missing, at - since, why, missed=_missed(missing, at), is_classic=True)
            return _left(missing, at - since, f"{why}: it left")
    if missing.last_commit is not None:
        return _silent(missing, at - missing.last_commit)
    if static:
        why = "it never committed: its session expired, or it was removed, or it left when it was closed"
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, "it never committed, so nothing shows how it left")


def _left(missing: MissingMember, silence: int, why: str) -> Departure:
    """How a dynamic member left whose session had not expired. A silence that is shorter than the session and about as
    long as max.poll.interval.ms is what a member shows that does not poll."""
    most, cadence = missing.change.member.record.rebalance_timeout, missing.cadence_ms
    if most <= 0 or silence < most - _SLACK_MS:
        return missing.departed(Cause.LEAVE, Confidence.LIKELY, why)
    regular = cadence is not None and _OFTEN * cadence <= silence
    slack = HEARTBEAT_MS + _SLACK_MS + (2 * cadence if cadence is not None and regular else 0)
    either = f"its max.poll.interval.ms is {seconds(most)}, after which it leaves by itself; or it was closed then"
    cause = Cause.MAX_POLL if regular and silence <= most + slack else Cause.LEAVE
    return missing.departed(cause, Confidence.POSSIBLE, f"{why}; {either}")


def _missed(missing: MissingMember, at: int) -> bool:
    """Whether a member had already stopped when the join phase that ended at `at` began: it committed regularly, and
    commits are missing. A join phase takes as long as the other members need to send their next heartbeat."""
    last, cadence = missing.last_commit, missing.cadence_ms
    if last is None or cadence is None:
        return False
    return at - last > 2 * cadence + HEARTBEAT_MS + _SLACK_MS


def _silent(missing: MissingMember, silence: int) -> Departure:
    """How a member left whose session may have expired. An expiry is likely if the silence is about as long as the
    session timeout, give or take a heartbeat and the commits that were due; for a dynamic member only if it committed
    regularly enough to be missed, because otherwise it may have left after a silence that long."""
    record = missing.change.member.record
    session, most, cadence = record.session_timeout, record.rebalance_timeout, missing.cadence_ms
    regular = cadence is not None and cadence <= session
    slack = HEARTBEAT_MS + _SLACK_MS + (2 * cadence if cadence is not None and regular else 0)
    why = f"silent for {seconds(silence)}, its session timeout is {seconds(session)}"
    if cadence is not None:
        why = f"{why}; before that, it committed every {seconds(cadence)}"
    static = record.group_instance_id is not None
    if silence <= session + slack:
        if not static and regular and silence >= most - _SLACK_MS:
            why = f"{why}; its max.poll.interval.ms is {seconds(most)}, after which it would leave by itself"
            return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
        sure = Confidence.LIKELY if regular or static else Confidence.POSSIBLE
        if missing.coordinator_moved:
            why = f"{why}; the coordinator has moved since, and sessions started again: it may also have been removed"
            sure = Confidence.POSSIBLE
        elif static and cadence is not None and _OFTEN * cadence >= session:
            # Its last heartbeat is not known well enough: it may have been removed before its session was over.
            why = f"{why}; an admin may have removed it shortly before: the record shows the end of the join phase only"
            sure = Confidence.POSSIBLE
        return missing.departed(Cause.SESSION_EXPIRY, sure, why)
    if regular and most <= silence <= most + slack:
        return missing.departed(
            Cause.MAX_POLL, Confidence.POSSIBLE, f"{why}; its max.poll.interval.ms is {seconds(most)}"
        )
    if regular or static:
        return missing.departed(Cause.SESSION_EXPIRY, Confidence.POSSIBLE, why)
    return missing.departed(Cause.DEPARTURE, Confidence.POSSIBLE, f"{why}: too few commits to tell how it left")


def explain_rebalance(context: RebalanceContext) -> Verdict:
    """The cause of a rebalance."""
    if not context.rebalance.complete:
        return Verdict(
            Cause.UNKNOWN, Confidence.UNKNOWN, evidence=("records in between are missing: compaction removed them",)
        )
    if context.snapshot.kind is SnapshotKind.EMPTY:
        verdict = _all_gone(context)
    elif context.changes:
        verdict = _changed_members(context)
    else:
        verdict = _same_members(context)
    return _with_notes(verdict, context)


def _with_notes(verdict: Verdict, context: RebalanceContext) -> Verdict:
    notes = list(verdict.evidence)
    if context.rebalance.lost_rounds:
        count = context.rebalance.lost_rounds
        notes.append(f"{many(count, 'earlier rebalance')} never completed")
    if context.coordinator_moved:
        notes.append(COORDINATOR_MOVED)
    return replace(verdict, evidence=tuple(notes))


def _all_gone(context: RebalanceContext) -> Verdict:
    departures = context.departures
    told = [each for each in departures if each.cause is not Cause.DEPARTURE]
    also = tuple(dict.fromkeys(each.cause for each in told))
    evidence = ("the group has no members left", *(each.evidence for each in departures[:SHOWN]))
    people = tuple(map(departed_who, departures))
    # Others may have joined and left again, in rounds that never completed.
    proved = departures and not context.rebalance.lost_rounds
    sure = weakest(Confidence.CERTAIN if proved else Confidence.LIKELY, *(each.confidence for each in told))
    return Verdict(Cause.ALL_GONE, sure, people, evidence, also)


def _changed_members(context: RebalanceContext) -> Verdict:
    returned = {each.change.identity for each in context.returned}
    back = {each.old_member_id for each in context.returned}
    departures = [each for each in context.departures if each.missing.change.member.record.member_id not in back]
    joined = [each for each in context.changes if each.kind is ChangeKind.JOINED and each.identity not in returned]
    resubscribed = [each for each in context.changes if each.kind is ChangeKind.RESUBSCRIBED]
    parts: list[Verdict] = []
    is_dated = all(each.dated for each in context.returned)
    if context.returned and is_dated:
        parts.append(_bounce(context))
    if departures and joined and not context.returned and _is_rollout(departures, joined):
        parts.append(_replacement(departures, joined))
    else:
        if joined:
            came = joined_verdict(joined, context.returning)
            parts.append(came if context.whole else _maybe_before(came))
        parts += _departure_verdicts(departures)
    if resubscribed:
        stayed = context.previous.members.keys() & context.snapshot.members.keys()
        parts.append(resubscribed_verdict(resubscribed, len(stayed)))
    if context.converted:
        parts.append(_converted())
    if context.returned and not is_dated:
        parts.append(_bounce(context))
    return _together(parts, context)


def _maybe_before(came: Verdict) -> Verdict:
    """The verdict that members joined, for a log that does not start with the group's creation."""
    line = "earlier records of the group are missing: whoever joined may have been a member before"
    return replace(came, confidence=weakest(came.confidence, Confidence.POSSIBLE), evidence=(*came.evidence, line))


def _together(parts: Sequence[Verdict], context: RebalanceContext) -> Verdict:
    """Several causes in one rebalance: the log does not show which of them started it."""
    first = parts[0]
    confidence = weakest(*(each.confidence for each in parts))
    causes = tuple(dict.fromkeys(each.cause for each in parts))
    if len(causes) > 1:
        confidence = weakest(
            confidence, Confidence.POSSIBLE if first.cause is Cause.SUBSCRIPTION else Confidence.LIKELY
        )
    if context.rebalance.lost_rounds:
        confidence = weakest(confidence, Confidence.LIKELY)
    return Verdict(
        first.cause, confidence, tuple(each for part in parts for each in part.who),
        tuple(line for part in parts for line in part.evidence), causes[1:],
    )  # fmt: skip


def _bounce(context: RebalanceContext) -> Verdict:
    is_clear = all(each.unique and each.dated for each in context.returned)
    sure = Confidence.LIKELY if is_clear else Confidence.POSSIBLE
    lines = []
    for each in context.returned[:SHOWN]:
        static = each.change.member.record.group_instance_id is not None
        same = "the group instance id is the same" if static else "client id and host are the same"
        away = "" if each.absent_ms is None else f" after {seconds(each.absent_ms)}"
        before = "" if each.dated else "; brokers before 2.6.1 do not record when that was, so it may be long ago"
        lines.append(f"{each.old_member_id} came back as {each.change.identity}{away}: {same}{before}")
    people = tuple(who(each.change, Involvement.RETURNED) for each in context.returned)
    return Verdict(Cause.BOUNCE, sure, people, tuple(lines))


def _departure_verdicts(departures: Sequence[Departure]) -> list[Verdict]:
    """One verdict for each way in which members left, the most certain first."""
    by_cause: dict[Cause, list[Departure]] = {}
    for each in sorted(departures, key=lambda each: each.confidence.rank):
        by_cause.setdefault(each.cause, []).append(each)
    return [
        Verdict(
            cause, same[0].confidence, tuple(map(departed_who, same)),
            tuple(each.evidence for each in same[:SHOWN]),
        )
        for cause, same in by_cause.items()
    ]  # fmt: skip


def _is_rollout(departures: Sequence[Departure], joined: Sequence[MemberChange]) -> bool:
    went = sorted(each.missing.change.member.record.client_id for each in departures)
    return went == sorted(each.member.record.client_id for each in joined)


def _replacement(departures: Sequence[Departure], joined: Sequence[MemberChange]) -> Verdict:
    people = (
        *(departed_who(each) for each in departures), *(who(each) for each in joined),
    )  # fmt: skip
    line = f"{len(departures)} members left and {len(joined)} joined with the same client ids, on other hosts"
    return Verdict(Cause.REPLACEMENT, Confidence.POSSIBLE, people, (line, *(each.evidence for each in departures)))


def _same_members(context: RebalanceContext) -> Verdict:
    previous, snapshot = context.previous, context.snapshot
    if context.converted:
        return _converted()
    if previous.protocol != snapshot.protocol:
        line = f"the assignor changed from {previous.protocol} to {snapshot.protocol}"
        return Verdict(Cause.ASSIGNOR, Confidence.LIKELY, evidence=(line,))
    told = framework_verdict(previous, snapshot)
    if told is not None:
        return told
    before, after = previous.owners, snapshot.owners
    new = after.keys() - before.keys()
    added = _added_partitions(before, new - context.unassigned)
    if added and not context.unassigned_known and snapshot.protocol not in EAGER:
        line = f"partitions without owners in the group's first record now have owners: {partitions_text(added)}"
        return Verdict(Cause.COOPERATIVE, Confidence.POSSIBLE, evidence=(line, "the members are the same"))
    if added:
        line = f"new partitions are assigned: {partitions_text(added)}"
        return Verdict(Cause.PARTITIONS, Confidence.LIKELY, evidence=(line, "the members are the same"))
    if snapshot.protocol not in EAGER and new and new <= context.unassigned:
        return _second_round(context, before, after)
    if not context.rebalance.lost_rounds:
        return _rejoin(context, before, after)
    line = "the same members with the same topics; a member may have come and gone in between"
    return Verdict(Cause.ROUNDS, Confidence.POSSIBLE, evidence=(line,))


def _converted() -> Verdict:
    line = "the group had just become a classic one, which makes its members join again"
    return Verdict(Cause.CONVERSION, Confidence.LIKELY, evidence=(line,))


def _second_round(
    context: RebalanceContext, before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> Verdict:
    new = after.keys() - before.keys()
    line = f"partitions revoked in the previous rebalance have owners now: {partitions_text(new)}"
    takers = sorted({after[place] for place in new})
    people = tuple(member_who(context.snapshot.members[taker], Involvement.TOOK_OVER) for taker in takers)
    return Verdict(Cause.COOPERATIVE, Confidence.LIKELY, people, (line, "the members are the same"))


def _rejoin(
    context: RebalanceContext, before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> Verdict:
    gone = before.keys() - after.keys()
    if gone and context.snapshot.protocol in EAGER:
        line = f"the same members with the same topics, and no longer assigned: {partitions_text(gone)}"
        return Verdict(Cause.PARTITIONS, Confidence.POSSIBLE, evidence=(line,))
    if context.coordinator_moved:
        return Verdict(Cause.COORDINATOR, Confidence.POSSIBLE, evidence=("the same members with the same topics",))
    by_leader = _leader_rejoin(context)
    if by_leader is not None:
        return by_leader
    line = "the same members with the same topics: one of them joined again, by itself or because metadata changed"
    return Verdict(Cause.REJOIN, Confidence.POSSIBLE, evidence=(line,))


def _leader_rejoin(context: RebalanceContext) -> Verdict | None:
    """The verdict if the static leader was restarted shortly before. None if it was not, or if its library does not
    rejoin in that case."""
    previous = context.previous
    leader = previous.leading
    library = context.libraries.get(leader.identity) if leader is not None else None
    if leader is None or library is None or context.leader_returned_at is None:
        return None
    since = context.snapshot.joined_at - context.leader_returned_at
    if not rejoins_after_restart(library, previous.protocol) or not 0 <= since <= HEARTBEAT_MS + _SLACK_MS:
        return None
    line = (
        f"{leader.identity}, the leader, was replaced {seconds(since)} before without a rebalance; after that, "
        f"{library.name} computes the assignment again, and rejoins if it differs"
    )
    people = (member_who(leader, Involvement.JOINED_AGAIN),)
    return Verdict(Cause.REJOIN, Confidence.LIKELY, people, (line, "the members are the same"))


def _added_partitions(before: Mapping[TopicPartition, str], new: Collection[TopicPartition]) -> set[TopicPartition]:
    """The newly assigned partitions whose number is higher than any that their topic had before."""
    highest: dict[str, int] = {}
    for topic, partition in before:
        highest[topic] = max(partition, highest.get(topic, -1))
    return {(topic, partition) for topic, partition in new if partition > highest.get(topic, partition)}

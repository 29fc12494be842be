"""The verdict about a rebalance: its cause, how certain that is, who is involved, and the evidence."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kgm.clients.table import left_when_closed
from kgm.history.causes.libraries import leaves_when_closed
from kgm.history.reconstruct.classic_snapshots import MemberChange, SnapshotMember
from kgm.history.row_parts import Involvement, Who
from kgm.model.client_library import ClientLibrary
from kgm.records.messages.group_metadata_value import MemberMetadata

#: A process that is back within this time was bounced; one that takes longer is a new one.
RETURN_WITHIN_MS = 600_000
#: Part of the evidence where a later leader epoch shows another coordinator since the group's previous rebalance.
COORDINATOR_MOVED = "the leader epoch rose: another broker became the coordinator, or the same one restarted"
#: The evidence names this many of a long list of members or partitions.
SHOWN = 8


class Cause(StrEnum):
    """Why a rebalance happened."""

    JOIN = "join"
    #: A clean LeaveGroup: closed, unsubscribed, or a dynamic member that an admin removed.
    LEAVE = "leave"
    SESSION_EXPIRY = "session-expiry"
    #: The client left on its own because its application did not poll within max.poll.interval.ms.
    MAX_POLL = "max-poll"
    #: A static member, which does not leave on its own, was removed.
    REMOVAL = "admin-removal"
    #: The member is gone, and nothing shows how it left.
    DEPARTURE = "departure"
    #: The same process, judging by its ids, left and came back.
    BOUNCE = "bounce"
    #: Members with one client id left on one host and joined on another: a rollout.
    REPLACEMENT = "replacement"
    SUBSCRIPTION = "subscription-change"
    COOPERATIVE = "cooperative-round"
    #: Kafka Streams: at a scheduled time, its members check whether tasks have caught up on their destinations.
    PROBING = "probing"
    #: Connect: the delay is over for which a lost worker's connectors and tasks were held back.
    DELAY = "delay-ended"
    #: Kafka Streams with `group.protocol=streams`: members have a different topology than before.
    TOPOLOGY = "topology-change"
    PARTITIONS = "partition-change"
    ASSIGNOR = "assignor-change"
    #: Consumer protocol: partitions, racks or ids of subscribed topics changed; the log does not show which.
    METADATA = "metadata-change"
    #: A member of the group joined again: a leader with new metadata, or an application that asked for it.
    REJOIN = "rejoin"
    COORDINATOR = "coordinator-move"
    #: The group changed between the classic and the consumer protocol.
    CONVERSION = "conversion"
    ALL_GONE = "all-gone"
    #: Members joined and did not send SyncGroup in time; only a broker's log shows it.
    SYNC_TIMEOUT = "sync-timeout"
    #: Rounds that never completed, for which no record shows who took part.
    ROUNDS = "unfinished-rounds"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How certain a cause is, most certain first."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"

    @property
    def rank(self) -> int:
        """0 for the most certain."""
        return _CONFIDENCES.index(self)


_CONFIDENCES = list(Confidence)


class GroupEventKind(StrEnum):
    """What happens to a group without a rebalance."""

    ABSORBED = "absorbed-bounce"
    #: A static member of the consumer protocol stopped and keeps its place in the group (member epoch -2).
    AWAY = "away"
    REMOVED = "group-removed"
    CONVERTED = "converted"


@dataclass(frozen=True, slots=True)
class Verdict:
    """also: further causes of the same rebalance. confidence: how certain all of them are together."""

    cause: Cause
    confidence: Confidence
    who: tuple[Who, ...] = ()
    evidence: tuple[str, ...] = ()
    also: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingMember:
    """A member that is no longer in the group. last_commit: the last commit for any of its partitions while it had
    them; cadence_ms: the average time between its commits; each is None if there were no commits, or too few. joined:
    when the last join phase with it ended, which is when the coordinator starts the sessions of all members; None if no
    record shows it. in_transaction: whether the last commit was part of a transaction, which extends no session.
    coordinator_moved: whether another coordinator has loaded the group since, which starts all sessions again. in_lull:
    whether the other members have not committed since either, although they did before. library: the client library
    that it seems to use; None if that was not looked up."""

    change: MemberChange
    last_commit: int | None
    cadence_ms: int | None
    joined: int | None = None
    in_transaction: bool = False
    coordinator_moved: bool = False
    in_lull: bool = False
    library: ClientLibrary | None = None

    def departed(self, cause: Cause, confidence: Confidence, why: str) -> "Departure":
        """The departure of this member, with the reason as evidence."""
        evidence = f"{self.change.identity} is gone; {why}"
        return Departure(missing=self, cause=cause, confidence=confidence, evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """How a member left."""

    missing: MissingMember
    cause: Cause
    confidence: Confidence
    evidence: str


#: How a member left that was silent, judging by its commits.
_SILENT = frozenset((Cause.SESSION_EXPIRY, Cause.REMOVAL, Cause.MAX_POLL))


def doubted(found: Departure) -> Departure:
    """A departure that was judged by missing commits: at most possible if those of the other members are missing,
    too."""
    if not found.missing.in_lull or found.cause not in _SILENT:
        return found
    evidence = f"{found.evidence}; nobody in the group committed in that time, so its silence shows nothing"
    return replace(found, confidence=weakest(found.confidence, Confidence.POSSIBLE), evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedMember:
    """A member that joined, and the member id that it replaces: gone in this rebalance, or in an earlier one. unique:
    whether no other member had the same client id and host. dated: whether it came back with this rebalance, and not
    before it."""

    change: MemberChange
    old_member_id: str
    absent_ms: int | None
    unique: bool
    dated: bool = True


#: A static member that leaves on its own commits, and is gone within this time.
_LEAVES_WITHIN_MS = 500


def static_departure(
    missing: MissingMember, silence: int, why: str, *, missed: bool, is_classic: bool
) -> Departure:  # fmt: skip
    """How a static member left whose session had not expired: an admin removed it, or it was closed with the option to
    leave the group (KIP-1092), or after its program had unsubscribed. silence: for how long nothing was heard from it,
    in ms; missed: whether it had stopped some time before, because commits that were due are missing. is_classic:
    whether it was a member by the classic protocol."""
    if missed:
        return missing.departed(
            Cause.REMOVAL, Confidence.LIKELY, f"{why}: it had stopped before, so an admin removed it"
        )
    leaves = leaves_when_closed(missing.library, is_classic=is_classic)
    if leaves is not None and missing.library is not None:
        text = missing.library.text
        if leaves:
            line = f"{why}: static members of {text} leave when they are closed"
            return missing.departed(Cause.LEAVE, Confidence.LIKELY, line)
        line = f"{why}: an admin removed it, as static members of {text} do not leave when they are closed"
        return missing.departed(Cause.REMOVAL, Confidence.LIKELY, line)
    either = f"{why}: an admin removed it, or {left_when_closed(missing.library, is_classic=is_classic)}"
    cause = Cause.LEAVE if silence <= _LEAVES_WITHIN_MS else Cause.REMOVAL
    return missing.departed(cause, Confidence.POSSIBLE, either)


def session_of(record: MemberMetadata) -> int | None:
    """The session timeout of a member in ms, None if it is not known."""
    return record.session_timeout if record.session_timeout >= 0 else None


def who(change: MemberChange, what: Involvement | None = None) -> Who:
    """The member of a change. what: what it did; None: the kind of the change."""
    return member_who(change.member, what or Involvement(change.kind.value))


def departed_who(departure: Departure) -> Who:
    """A member that is gone, and how it left."""
    return who(departure.missing.change, Involvement(departure.cause.value))


def member_who(member: SnapshotMember, what: Involvement) -> Who:
    """A member, and what it did."""
    record = member.record
    return Who(
        seat=member.identity, what=what.value, member_id=record.member_id, client_id=record.client_id,
        client_host=record.client_host,
    )  # fmt: skip


def joined_verdict(joined: Sequence[MemberChange], returning: Collection[str] = ()) -> Verdict:
    """The verdict about members that were not there before. returning: the identities of those that may have been
    there, long ago or under another name."""
    lines = tuple(
        f"{each.identity} joined; it, or another process with its client id and host, was a member before"
        if each.identity in returning
        else f"{each.identity} is new"
        for each in joined[:SHOWN]
    )
    new = any(each.identity not in returning for each in joined)
    sure = Confidence.CERTAIN if new else Confidence.POSSIBLE
    return Verdict(Cause.JOIN, sure, tuple(who(each) for each in joined), lines)


def resubscribed_verdict(changes: Sequence[MemberChange], stayed: int) -> Verdict:
    """The verdict about members that subscribe to other topics than before. stayed: how many members were there before
    and after. If all of them dropped or added the same topics, the topics may be the reason: clients drop topics that
    are deleted, and those with a pattern add what is created."""
    lines = tuple(f"{each.identity} subscribes to other topics" for each in changes[:SHOWN])
    sure = Confidence.CERTAIN
    dropped, added = _same_topics(changes) if len(changes) == stayed else (frozenset(), frozenset())
    if bool(dropped) != bool(added):
        did, what = ("dropped", "deleted") if dropped else ("added", "created")
        names = ", ".join(sorted(dropped or added)[:SHOWN])
        lines = (*lines, f"all members {did} the same topics, which may have been {what}: {names}")
        sure = Confidence.LIKELY
    return Verdict(Cause.SUBSCRIPTION, sure, tuple(who(each) for each in changes), lines)


def _same_topics(changes: Sequence[MemberChange]) -> tuple[frozenset[str], frozenset[str]]:
    """The topics (dropped, added) by each of the members; none if they differ, or are not known."""
    pairs = set()
    for each in changes:
        old, new = each.old_topics, each.member.topics
        pairs.add((frozenset[str](), frozenset[str]()) if old is None or new is None else (old - new, new - old))
    return pairs.pop() if len(pairs) == 1 else (frozenset(), frozenset())


def topology_verdict(changes: Sequence[MemberChange]) -> Verdict:
    """The verdict about members of a streams group that have a different topology than before."""
    lines = tuple(f"{each.identity} has another topology" for each in changes[:SHOWN])
    return Verdict(Cause.TOPOLOGY, Confidence.CERTAIN, tuple(who(each) for each in changes), lines)


def weakest(*confidences: Confidence) -> Confidence:
    """The least certain: what several causes of one rebalance have together."""
    return max(confidences, key=lambda each: each.rank)


def partitions_text(places: Iterable[tuple[str, int]]) -> str:
    """`orders-0, orders-1 and 3 more`."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(places)]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def seconds(ms: int) -> str:
    """A duration for people: `250 ms`, `1.5 s`."""
    return f"{ms} ms" if abs(ms) < 1_000 else f"{ms / 1_000:.1f} s".replace(".0 s", " s")

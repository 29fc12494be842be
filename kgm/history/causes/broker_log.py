"""Why a rebalance began, in the words of the broker that was the coordinator: lines of its log beside the history.

A coordinator logs `Preparing to rebalance group G in state S with old generation N (reason: ...)` once for each
generation, with the client's reason inside (KIP-800); before that, which members failed or left. Of a group of the
consumer protocol it logs who joined, left or was fenced, and then to which epoch it bumped the group
(GroupMetadataManager, 3.x and 4.x). Group and generation say which rebalance is meant. What the broker logs turns
inference into fact, and grades it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kgm.history.causes.verdict import Cause, Confidence
from kgm.history.rows import RebalanceRow

#: The column `source` of a rebalance that a broker's log explains.
BROKER_LOG = "broker log"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReason:
    """Why a group left a generation (classic), or came to an epoch (consumer). member: the member id that the line
    names, if it names one."""

    group_id: str
    consumer: bool
    generation: int
    cause: Cause
    reason: str
    member: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGrade:
    """How often an inferred cause of a confidence was what the broker logged (`right`), one of several causes that came
    together (`also`), or another one (`wrong`)."""

    cause: str
    confidence: str
    right: int
    also: int
    wrong: int


_REBALANCE = re.compile(
    r"Preparing to rebalance group (?P<group>.*) in state \w+ with old generation (?P<generation>-?\d+) "
    r"(?:\([^()]*\) )?\(reason: (?P<reason>.*?)\)\.?(?: \([\w.]+\))?\s*$"
)
_BUMPED = re.compile(r"\[GroupId (?P<group>.*?)\] Bumped group epoch to (?P<epoch>\d+)\b")
_LEFT_BY_REQUEST = r"has left group through explicit `LeaveGroup` request; client reason: (?P<reason>.*)$"
_LEFT = re.compile(rf"\[Group (?P<group>.*?)\] Member (?P<member>.*) {_LEFT_BY_REQUEST}")
#: Lines about members of consumer groups, and the cause of the epoch that follows.
_MEMBERS = tuple(
    (re.compile(r"\[GroupId (?P<group>.*?)\] " + pattern), cause)
    for pattern, cause in (
        (rf"(?:Dynamic|Static) member (?P<member>\S*)(?: with instance id .*)? {_LEFT_BY_REQUEST}", Cause.REMOVAL),
        (r"Member (?P<member>\S+) fenced .* because (?P<reason>.*session expired.*)$", Cause.SESSION_EXPIRY),
        (r"Member (?P<member>\S+) fenced .* because (?P<reason>it failed to transition.*)$", Cause.MAX_POLL),
        (r"Member (?P<member>\S+) left the consumer group", Cause.LEAVE),
        (r"Static member (?P<member>\S+) with instance id (?!.* temporarily left).* left the consumer", Cause.LEAVE),
        (r"Member (?P<member>\S+) joins the consumer group", Cause.JOIN),
        (r"Static member (?P<member>\S+) with instance id .* joins the consumer group", Cause.JOIN),
        (r"Member (?P<member>\S+) updated its subscribed (?:topics|regex) to", Cause.SUBSCRIPTION),
        (r"Received updated regular expressions based on the context of member (?P<member>\S+):", Cause.SUBSCRIPTION),
    )
)  # fmt: skip
#: A coordinator's own reasons, by first match: (pattern, cause).
_REASONS = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (r"Adding new member (?P<member>.*) with group instance id ", Cause.JOIN),
        (r"removing member (?P<member>.*) on heartbeat expiration", Cause.SESSION_EXPIRY),
        (r"explicit `?LeaveGroup`? request", Cause.LEAVE),
        (r"on pending sync request expiration", Cause.SYNC_TIMEOUT),
        (r"static member (?P<member>.*) with instance id .*change of protocol", Cause.BOUNCE),
        (r"Updating metadata for static member (?P<member>.*) with instance id ", Cause.BOUNCE),
        (r"from consumer to classic", Cause.CONVERSION),
        (r"Freshly-loaded group", Cause.COORDINATOR),
        (r"when storing group assignment", Cause.ROUNDS),
    )
)  # fmt: skip
_REJOINED = re.compile(r"(?:Leader|Updating metadata for member) (?P<member>.*?) (?:re-joining group )?during ")
_CLIENT = re.compile(r"client reason: (?P<reason>.*)$")
#: Reasons of clients for joining again or leaving (the Java client's; others give none), by first match.
_CLIENTS = (
    ("need to revoke partitions", Cause.COOPERATIVE), ("cached metadata has changed", Cause.PARTITIONS),
    ("subscription has changed", Cause.SUBSCRIPTION), ("does not match the current subscription", Cause.SUBSCRIPTION),
    ("poll timeout has expired", Cause.MAX_POLL), ("removed by an admin", Cause.REMOVAL),
)  # fmt: skip
#: What inference may call a cause that the broker calls so: something more specific, or the same in other words.
_SAME = {
    Cause.JOIN: {Cause.JOIN, Cause.BOUNCE, Cause.REPLACEMENT, Cause.CONVERSION},
    Cause.LEAVE: {Cause.LEAVE, Cause.REMOVAL, Cause.MAX_POLL},
    Cause.REMOVAL: {Cause.REMOVAL, Cause.LEAVE},
    Cause.PARTITIONS: {Cause.PARTITIONS, Cause.SUBSCRIPTION, Cause.METADATA},
    Cause.METADATA: {Cause.PARTITIONS, Cause.SUBSCRIPTION, Cause.METADATA},
    Cause.REJOIN: {
        Cause.REJOIN, Cause.COOPERATIVE, Cause.PARTITIONS, Cause.SUBSCRIPTION, Cause.ASSIGNOR, Cause.COORDINATOR,
    },
}  # fmt: skip
#: Causes of which a broker's log says no more than inference does, if that agrees.
_VAGUE = {Cause.JOIN, Cause.LEAVE, Cause.PARTITIONS, Cause.METADATA, Cause.REJOIN}


def parse(lines: Iterable[str]) -> Iterator[BrokerReason]:
    """What a broker's log says of rebalances, in its order; all other lines are skipped."""
    left: dict[tuple[str, str], str] = {}
    pending: dict[str, list[BrokerReason]] = defaultdict(list)
    for line in lines:
        if "ebalance" in line and (found := _REBALANCE.search(line)):
            yield _classic(found, left)
        elif found := _LEFT.search(line):
            left[found["group"], found["member"]] = found["reason"]
        elif "[GroupId " in line:
            if found := _BUMPED.search(line):
                yield from _bumped(found["group"], int(found["epoch"]), pending.pop(found["group"], []))
            elif (reason := _member(line)) is not None:
                pending[reason.group_id].append(reason)


def _classic(match: re.Match[str], left: dict[tuple[str, str], str]) -> BrokerReason:
    reason, group = match["reason"], match["group"]
    cause, member = _cause(reason)
    if cause is Cause.LEAVE:
        words = [left[group, name] for name in _leavers(reason) if (group, name) in left]
        causes = {_client(word) or Cause.LEAVE for word in words}
        if len(causes) == 1:
            cause = causes.pop()
        reason = "; client reason: ".join([reason, *dict.fromkeys(words)])
        member = next(iter(_leavers(reason)), None)
    return BrokerReason(
        group_id=group, consumer=False, generation=int(match["generation"]), cause=cause, reason=reason, member=member
    )


def _leavers(reason: str) -> list[str]:
    inside = re.search(r"request for \((.*?)\) members", reason)
    return [] if inside is None else inside[1].split(", ")


def _cause(reason: str) -> tuple[Cause, str | None]:
    for pattern, cause in _REASONS:
        if found := pattern.search(reason):
            return cause, found.groupdict().get("member")
    if found := _REJOINED.search(reason):
        words = _CLIENT.search(reason)
        return (words and _client(words["reason"])) or Cause.REJOIN, found["member"]
    return Cause.UNKNOWN, None


def _client(words: str) -> Cause | None:
    return next((cause for text, cause in _CLIENTS if text in words), None)


def _member(line: str) -> BrokerReason | None:
    for pattern, cause in _MEMBERS:
        if found := pattern.search(line):
            parts = found.groupdict()
            reason = line[found.start() :].strip()
            meant = _client(parts.get("reason") or "") or cause
            return BrokerReason(
                group_id=found["group"], consumer=True, generation=-1, cause=meant, reason=reason,
                member=parts.get("member"),
            )  # fmt: skip
    return None


def _bumped(group: str, epoch: int, facts: list[BrokerReason]) -> Iterator[BrokerReason]:
    if not facts:
        reason = f"bumped group epoch to {epoch}"
        yield BrokerReason(group_id=group, consumer=True, generation=epoch, cause=Cause.METADATA, reason=reason)
    for each in facts:
        yield BrokerReason(
            group_id=group, consumer=True, generation=epoch, cause=each.cause, reason=each.reason, member=each.member
        )


def explained(rows: Iterable[RebalanceRow], reasons: Iterable[BrokerReason]) -> list[RebalanceRow]:
    """Rebalances, in the order of their records, as a broker's log explains them; one that it does not mention stays as
    it is."""
    known = _by_generation(reasons)
    return [_explained(row, known) for row in rows]


_Generation = tuple[str, bool, int]


def _by_generation(reasons: Iterable[BrokerReason]) -> dict[_Generation, list[BrokerReason]]:
    known: dict[_Generation, list[BrokerReason]] = defaultdict(list)
    for each in reasons:
        known[each.group_id, each.consumer, each.generation].append(each)
    return known


def _of(row: RebalanceRow, known: dict[_Generation, list[BrokerReason]]) -> list[BrokerReason]:
    """The reasons for the group and generation of a rebalance."""
    consumer = row.group_type == "consumer"
    return known.get((row.group_id, consumer, row.to_generation if consumer else row.from_generation), [])


def _explained(row: RebalanceRow, known: dict[_Generation, list[BrokerReason]]) -> RebalanceRow:
    reasons = _of(row, known)
    meant = list(_meant(row, reasons))
    if not meant:
        return row
    reasons[:] = [each for each in reasons if each not in meant]
    return _merged(row, meant)


def _meant(row: RebalanceRow, reasons: list[BrokerReason]) -> list[BrokerReason]:
    """Those of the reasons for this group and generation that mean this rebalance: a group that was removed and is
    created again counts from the beginning."""
    if row.group_type == "consumer" or len(reasons) < 2:
        return reasons
    names = {each.member_id for each in row.who}
    return [each for each in reasons if each.member in names][:1] or reasons[:1]


def _merged(row: RebalanceRow, reasons: list[BrokerReason]) -> RebalanceRow:
    main = reasons[0]
    if main.cause is Cause.UNKNOWN:
        return replace(row, reason=main.reason)
    inferred = [*([] if row.inferred_cause is None else [row.inferred_cause]), *row.also]
    logged = [_most_specific(each, inferred) for each in reasons]
    cause = row.cause if row.cause == Cause.ALL_GONE.value else logged[0]
    left_out = {cause, Cause.UNKNOWN.value, Cause.DEPARTURE.value}
    also = tuple(each for each in dict.fromkeys([*logged, *inferred]) if each not in left_out)
    return replace(
        row, cause=cause, confidence=Confidence.CERTAIN.value, also=also, source=BROKER_LOG,
        reason="; ".join(dict.fromkeys(each.reason for each in reasons)),
    )  # fmt: skip


def _same(cause: Cause) -> set[str]:
    return {each.value for each in _SAME.get(cause, {cause})}


def _most_specific(reason: BrokerReason, inferred: Sequence[str]) -> str:
    """The broker's cause, or an inferred one that means the same and says more."""
    if reason.cause not in _VAGUE:
        return reason.cause.value
    same = _same(reason.cause)
    return next((each for each in inferred if each in same), reason.cause.value)


def grades(rows: Iterable[RebalanceRow], reasons: Iterable[BrokerReason]) -> list[CauseGrade]:
    """How good inference was where the broker's log tells. rows: before `explained`."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    known = _by_generation(reasons)
    for row in rows:
        meant = [each for each in _meant(row, _of(row, known)) if each.cause is not Cause.UNKNOWN]
        if meant and row.inferred_cause is not None and row.inferred_cause != Cause.UNKNOWN.value:
            counts[row.inferred_cause, row.inferred_confidence or ""][_grade(row, meant)] += 1
    return [
        CauseGrade(cause=cause, confidence=sure, right=seen["right"], also=seen["also"], wrong=seen["wrong"])
        for (cause, sure), seen in sorted(counts.items())
    ]


def _grade(row: RebalanceRow, reasons: list[BrokerReason]) -> str:
    same = {cause for each in reasons for cause in _same(each.cause)}
    if row.inferred_cause in same:
        return "right"
    if row.inferred_cause == Cause.ALL_GONE.value:
        return "right" if row.members_after == 0 else "wrong"
    return "also" if same & set(row.also) else "wrong"

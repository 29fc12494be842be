"""Why a rebalance began, in the words of the broker that was the coordinator: lines of its log beside the history.

A coordinator says `Preparing to rebalance group G in state S with old generation N (reason: ...)` once for each
generation, with the client's reason inside (KIP-800); before it, who failed or left. Of a group of the consumer
protocol it says who joined, left or was fenced, and then to which epoch it bumped the group (GroupMetadataManager, 3.x
and 4.x). Group and generation say which rebalance is meant. What it says turns inference into fact, and grades it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kgm.history.causes.classic_causes import Cause, Confidence
from kgm.history.rows import Row

SOURCE = "broker log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Why a group left a generation (classic), or came to an epoch (consumer). member: whom it names, if anybody."""

    group_id: str
    consumer: bool
    generation: int
    cause: Cause
    reason: str
    member: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How often an inferred cause of a confidence was what the broker says (`right`), one of several causes that came
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
_TOLD_TO = r"has left group through explicit `LeaveGroup` request; client reason: (?P<reason>.*)$"
_LEFT = re.compile(rf"\[Group (?P<group>.*?)\] Member (?P<member>.*) {_TOLD_TO}")
#: Lines about members of consumer groups, and what they mean for the epoch that follows.
_MEMBERS = tuple(
    (re.compile(r"\[GroupId (?P<group>.*?)\] " + pattern), cause)
    for pattern, cause in (
        (rf"(?:Dynamic|Static) member (?P<member>\S*)(?: with instance id .*)? {_TOLD_TO}", Cause.REMOVAL),
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
#: Reasons of a coordinator, first match: (pattern, cause).
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
#: Reasons of clients for joining again or leaving (Java's words; others give none), first match.
_CLIENTS = (
    ("need to revoke partitions", Cause.COOPERATIVE), ("cached metadata has changed", Cause.PARTITIONS),
    ("subscription has changed", Cause.SUBSCRIPTION), ("does not match the current subscription", Cause.SUBSCRIPTION),
    ("poll timeout has expired", Cause.MAX_POLL), ("removed by an admin", Cause.REMOVAL),
)  # fmt: skip
#: What inference may call something that the broker calls so: finer, or the same in other words.
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
#: What a broker's words do not say better than inference does, if that agrees.
_VAGUE = {Cause.JOIN, Cause.LEAVE, Cause.PARTITIONS, Cause.METADATA, Cause.REJOIN}


def parse(lines: Iterable[str]) -> Iterator[Said]:
    """What a broker's log says of rebalances, in its order; all other lines are passed over."""
    left: dict[tuple[str, str], str] = {}
    pending: dict[str, list[Said]] = defaultdict(list)
    for line in lines:
        if "ebalance" in line and (found := _REBALANCE.search(line)):
            yield _classic(found, left)
        elif found := _LEFT.search(line):
            left[found["group"], found["member"]] = found["reason"]
        elif "[GroupId " in line:
            if found := _BUMPED.search(line):
                yield from _bumped(found["group"], int(found["epoch"]), pending.pop(found["group"], []))
            elif (said := _member(line)) is not None:
                pending[said.group_id].append(said)


def _classic(found: re.Match[str], left: dict[tuple[str, str], str]) -> Said:
    reason, group = found["reason"], found["group"]
    cause, member = _cause(reason)
    if cause is Cause.LEAVE:
        words = [left[group, name] for name in _leavers(reason) if (group, name) in left]
        causes = {_client(word) or Cause.LEAVE for word in words}
        if len(causes) == 1:
            cause = causes.pop()
        reason = "; client reason: ".join([reason, *dict.fromkeys(words)])
        member = next(iter(_leavers(reason)), None)
    return Said(
        group_id=group, consumer=False, generation=int(found["generation"]), cause=cause, reason=reason, member=member
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


def _member(line: str) -> Said | None:
    for pattern, cause in _MEMBERS:
        if found := pattern.search(line):
            parts = found.groupdict()
            reason = line[found.start() :].strip()
            told = _client(parts.get("reason") or "") or cause
            return Said(
                group_id=found["group"], consumer=True, generation=-1, cause=told, reason=reason,
                member=parts.get("member"),
            )  # fmt: skip
    return None


def _bumped(group: str, epoch: int, facts: list[Said]) -> Iterator[Said]:
    if not facts:
        reason = f"bumped group epoch to {epoch}"
        yield Said(group_id=group, consumer=True, generation=epoch, cause=Cause.METADATA, reason=reason)
    for each in facts:
        yield Said(
            group_id=group, consumer=True, generation=epoch, cause=each.cause, reason=each.reason, member=each.member
        )


def explained(rows: Iterable[Row], said: Iterable[Said]) -> list[Row]:
    """Rows of `gold_rebalance`, in the order of their records, as a broker's log explains them; a row that it says
    nothing of stays as it is."""
    known: dict[tuple[str, bool, int], list[Said]] = defaultdict(list)
    for each in said:
        known[each.group_id, each.consumer, each.generation].append(each)
    return [_explained(row, known) for row in rows]


def _explained(row: Row, known: dict[tuple[str, bool, int], list[Said]]) -> Row:
    consumer = row["group_type"] == "consumer"
    told = known.get((row["group_id"], consumer, row["to_generation" if consumer else "from_generation"]), [])
    found = list(_meant(row, told))
    if not found:
        return row
    told[:] = [each for each in told if each not in found]
    return _merged(row, found)


def _meant(row: Row, told: list[Said]) -> list[Said]:
    """Those of what was said of this group and generation that mean this rebalance: a group that is made anew counts
    from the beginning."""
    if row["group_type"] == "consumer":
        return told
    if len(told) < 2:
        return told
    names = {each["member_id"] for each in row["who"]}
    return [each for each in told if each.member in names][:1] or told[:1]


def _merged(row: Row, found: list[Said]) -> Row:
    main = found[0]
    if main.cause is Cause.UNKNOWN:
        return row | {"reason": main.reason}
    inferred = [row["inferred_cause"], *row["also"]]
    told = [_finer(each, inferred) for each in found]
    cause = row["cause"] if row["cause"] == Cause.ALL_GONE.value else told[0]
    also = [each for each in dict.fromkeys([*told, *inferred]) if each not in {cause, "unknown", "departure"}]
    return row | {
        "cause": cause, "confidence": Confidence.CERTAIN.value, "also": also, "source": SOURCE,
        "reason": "; ".join(dict.fromkeys(each.reason for each in found)),
    }  # fmt: skip


def _finer(said: Said, inferred: list[str]) -> str:
    """The broker's cause, or what inference calls the same with more in it."""
    if said.cause in _VAGUE:
        same = {each.value for each in _SAME.get(said.cause, {said.cause})}
        return next((each for each in inferred if each in same), said.cause.value)
    return said.cause.value


def grades(rows: Iterable[Row], said: Iterable[Said]) -> list[Grade]:
    """How good inference was where the broker's log tells: rows of `gold_rebalance` before `explained`."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    known: dict[tuple[str, bool, int], list[Said]] = defaultdict(list)
    for each in said:
        known[each.group_id, each.consumer, each.generation].append(each)
    for row in rows:
        consumer = row["group_type"] == "consumer"
        told = known.get((row["group_id"], consumer, row["to_generation" if consumer else "from_generation"]), [])
        found = [each for each in _meant(row, told) if each.cause is not Cause.UNKNOWN]
        if found and row["inferred_cause"] != Cause.UNKNOWN.value:
            counts[row["inferred_cause"], row["inferred_confidence"]][_grade(row, found)] += 1
    return [
        Grade(cause=cause, confidence=sure, right=seen["right"], also=seen["also"], wrong=seen["wrong"])
        for (cause, sure), seen in sorted(counts.items())
    ]


def _grade(row: Row, found: list[Said]) -> str:
    same = {each.value for said in found for each in _SAME.get(said.cause, {said.cause})}
    if row["inferred_cause"] in same:
        return "right"
    if row["inferred_cause"] == Cause.ALL_GONE.value:
        return "right" if row["members_after"] == 0 else "wrong"
    return "also" if same & set(row["also"]) else "wrong"

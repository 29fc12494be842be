"""Why a rebalance began, in the words of the broker that was the coordinator: matches lines of its log to the history.

A coordinator logs `Preparing to rebalance group G in state S with old generation N (reason: ...)` once for each
generation, with the client's reason inside (KIP-800); before that, which members failed or left. For a group of the
consumer protocol it logs who joined, left or was fenced, and then the epoch to which it bumped the group
(GroupMetadataManager, 3.x and 4.x). Group and generation identify the rebalance. What the broker logs turns inference
into fact."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kgm.history.causes.log_clock import LogClock, LogTime, clocks, log_time, logged_text
from kgm.history.causes.verdict import Cause, Confidence
from kgm.history.rows import RebalanceRow

#: The value of the column `source` for a rebalance that a broker's log explains.
BROKER_LOG = "broker log"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReason:
    """Why a group left a generation (classic), or reached an epoch (consumer). member: the member id in the line, if it
    has one. broker: the broker whose log has the line; logged: when it was written, None if the line has no time."""

    group_id: str
    consumer: bool
    generation: int
    cause: Cause
    reason: str
    member: str | None = None
    broker: str = field(default="", compare=False)
    logged: LogTime | None = field(default=None, compare=False)


_PREPARING = "Preparing to rebalance group "
_OLD_GENERATION = re.compile(r" in state \w+ with old generation (?P<generation>-?\d{1,10}) (?:\([^()]*\) )?\(reason: ")
_REASON_ENDS = re.compile(r"\)\.?(?: \([\w.]+\))?\s*$")
_GROUP, _CONSUMER_GROUP = "[Group ", "[GroupId "
_BUMPED = re.compile(r"\] Bumped group epoch to (?P<epoch>\d{1,10})\b")
_LEFT_BY_REQUEST = " has left group through explicit `LeaveGroup` request; client reason: "


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberLine:
    """A line about a member of a consumer group. head: what follows the group id; then: texts that must follow in this
    order, with the last one matched at its rightmost occurrence; never: text that must not follow; reason_follows: the
    text after which the client's or the coordinator's reason starts."""

    head: re.Pattern[str]
    cause: Cause
    then: tuple[str, ...] = ()
    never: str | None = None
    reason_follows: str | None = None


#: Lines about members of consumer groups, and the cause of the epoch that follows.
_MEMBERS = tuple(
    _MemberLine(head=re.compile(r"\] " + head), cause=cause, then=then, never=never, reason_follows=reason_follows)
    for head, cause, then, never, reason_follows in (
        (r"(?:Dynamic|Static) member (?P<member>\S*)(?: with instance id|(?= has left group))", Cause.REMOVAL,
         (_LEFT_BY_REQUEST,), None, _LEFT_BY_REQUEST),
        (r"Member (?P<member>\S+) fenced ", Cause.SESSION_EXPIRY, (" because ", "session expired"), None, " because "),
        (r"Member (?P<member>\S+) fenced ", Cause.MAX_POLL, (" because it failed to transition",), None, " because "),
        (r"Member (?P<member>\S+) left the consumer group", Cause.LEAVE, (), None, None),
        (r"Static member (?P<member>\S+) with instance id ", Cause.LEAVE, (" left the consumer",),
         " temporarily left", None),
        (r"Member (?P<member>\S+) joins the consumer group", Cause.JOIN, (), None, None),
        (r"Static member (?P<member>\S+) with instance id ", Cause.JOIN, (" joins the consumer group",), None, None),
        (r"Member (?P<member>\S+) updated its subscribed (?:topics|regex) to", Cause.SUBSCRIPTION, (), None, None),
        (r"Received updated regular expressions based on the context of member (?P<member>\S+):", Cause.SUBSCRIPTION,
         (), None, None),
    )
)  # fmt: skip
#: A coordinator's own reasons; the first match wins: (texts in order, cause). If there are two texts or more, the
#: member id is between the first two.
_REASONS = (
    (("Adding new member ", " with group instance id "), Cause.JOIN),
    (("removing member ", " on heartbeat expiration"), Cause.SESSION_EXPIRY),
    (("explicit LeaveGroup request",), Cause.LEAVE),
    (("explicit `LeaveGroup` request",), Cause.LEAVE),
    (("on pending sync request expiration",), Cause.SYNC_TIMEOUT),
    (("static member ", " with instance id ", "change of protocol"), Cause.BOUNCE),
    (("Updating metadata for static member ", " with instance id "), Cause.BOUNCE),
    (("from consumer to classic",), Cause.CONVERSION),
    (("Freshly-loaded group",), Cause.COORDINATOR),
    (("when storing group assignment",), Cause.ROUNDS),
)
_REJOINS = re.compile(r"(?:Leader|Updating metadata for member) ")
_CLIENT = "client reason: "
#: Clients' reasons for rejoining or leaving (only the Java client gives any); the first match wins.
_CLIENTS = (
    ("need to revoke partitions", Cause.COOPERATIVE), ("cached metadata has changed", Cause.PARTITIONS),
    ("subscription has changed", Cause.SUBSCRIPTION), ("does not match the current subscription", Cause.SUBSCRIPTION),
    ("poll timeout has expired", Cause.MAX_POLL), ("removed by an admin", Cause.REMOVAL),
)  # fmt: skip
#: What inference may call the cause that the broker gives: something more specific, or the same in other words.
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
#: Causes about which a broker's log says no more than inference does, if the two agree.
_VAGUE = {Cause.JOIN, Cause.LEAVE, Cause.PARTITIONS, Cause.METADATA, Cause.REJOIN}


def parse(lines: Iterable[str], broker: str = "") -> Iterator[BrokerReason]:
    """What a broker's log says about rebalances, in log order; all other lines are skipped. The time for a line is
    linear in its length: names of groups and members, and clients' reasons, could be crafted to look like the words
    between them. broker: the name of the broker that wrote the log."""
    for reason, line in _parsed(lines):
        yield replace(reason, broker=broker, logged=log_time(line))


def _parsed(lines: Iterable[str]) -> Iterator[tuple[BrokerReason, str]]:
    """Pairs of a reason and the line that completed it."""
    left: dict[tuple[str, str], str] = {}
    pending: dict[str, list[BrokerReason]] = defaultdict(list)
    for line in lines:
        if _PREPARING in line and (reason := _classic(line, left)) is not None:
            yield reason, line
        elif (leaver := _leaver(line)) is not None:
            group, member, words = leaver
            left[group, member] = words
        elif _CONSUMER_GROUP in line:
            if bumped := _BUMPED.search(line, line.find(_CONSUMER_GROUP)):
                group = _between(line, _CONSUMER_GROUP, bumped.start())
                for each in _bumped(group, int(bumped["epoch"]), pending.pop(group, [])):
                    yield each, line
            elif (reason := _member(line)) is not None:
                pending[reason.group_id].append(reason)


def _between(line: str, start: str, end: int) -> str:
    """The text after the first `start`, up to a position."""
    return line[line.find(start) + len(start) : end]


def _classic(line: str, left: dict[tuple[str, str], str]) -> BrokerReason | None:
    """The reason in a line `Preparing to rebalance group`."""
    # The last one: a group's name may look like the words that follow it.
    matches = list(_OLD_GENERATION.finditer(line, line.find(_PREPARING)))
    ending = _REASON_ENDS.search(line, matches[-1].end()) if matches else None
    if ending is None:
        return None
    match = matches[-1]
    group, reason = _between(line, _PREPARING, match.start()), line[match.end() : ending.start()]
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


def _leaver(line: str) -> tuple[str, str, str] | None:
    """(group, member, the client's reason) from the line that reports that a member of a classic group left."""
    end = line.rfind(_LEFT_BY_REQUEST)
    start = line.find(_GROUP)
    middle = -1 if start < 0 else line.find("] Member ", start)
    if middle < 0 or end < middle + len("] Member "):
        return None
    words = line[end + len(_LEFT_BY_REQUEST) :].removesuffix("\n")
    return line[start + len(_GROUP) : middle], line[middle + len("] Member ") : end], words


def _leavers(reason: str) -> list[str]:
    _, _, inside = reason.partition("request for (")
    inside, ending, _ = inside.partition(") members")
    return inside.split(", ") if ending else []


def _places(text: str, words: Sequence[str], start: int = 0) -> list[int] | None:
    """The positions of words that must follow one another: the first word at its leftmost occurrence, the others as far
    to the right as possible; None if the text does not have them in this order."""
    first = text.find(words[0], start)
    places: list[int] = []
    end = len(text)
    for word in reversed(words[1:]):
        end = text.rfind(word, 0, end)
        if end < 0:
            return None
        places.insert(0, end)
    is_in_order = first >= 0 and (not places or first + len(words[0]) <= places[0])
    return [first, *places] if is_in_order else None


def _cause(reason: str) -> tuple[Cause, str | None]:
    for words, cause in _REASONS:
        places = _places(reason, words)
        if places is not None:
            member = reason[places[0] + len(words[0]) : places[1]] if len(words) > 1 else None
            return cause, member
    head = _REJOINS.search(reason)
    end = -1 if head is None else reason.find(" during ", head.end())
    if head is not None and end >= 0:
        _, found, words_of_client = reason.partition(_CLIENT)
        cause_of_client = _client(words_of_client) if found else None
        return cause_of_client or Cause.REJOIN, reason[head.end() : end].removesuffix(" re-joining group")
    return Cause.UNKNOWN, None


def _client(words: str) -> Cause | None:
    return next((cause for text, cause in _CLIENTS if text in words), None)


def _member(line: str) -> BrokerReason | None:
    start = line.find(_CONSUMER_GROUP)
    for shape in _MEMBERS:
        head = shape.head.search(line, start)
        if head is None or (shape.never is not None and line.find(shape.never, head.end()) >= 0):
            continue
        # What follows the head may begin with its last space.
        places = _places(line[head.end() - 1 :], ("", *shape.then)) if shape.then else []
        if places is None:
            continue
        words = "" if shape.reason_follows is None else line.rpartition(shape.reason_follows)[2]
        return BrokerReason(
            group_id=_between(line, _CONSUMER_GROUP, head.start()), consumer=True, generation=-1,
            cause=_client(words) or shape.cause, reason=line[start:].strip(), member=head["member"],
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
    """Rebalances, in the order of their records, as brokers' logs explain them; a rebalance that no log mentions stays
    as it is. A line from a different time is about another group of that name, or about the same one before it was
    removed."""
    rows = list(rows)
    logs = _BrokerLogs(rows, reasons)
    return [_explained(row, logs) for row in rows]


_Generation = tuple[str, bool, int]


class _BrokerLogs:
    """The reasons by group and generation, and the brokers' clocks."""

    def __init__(self, rows: Iterable[RebalanceRow], reasons: Iterable[BrokerReason]) -> None:
        self.known: dict[_Generation, list[BrokerReason]] = defaultdict(list)
        for each in reasons:
            self.known[each.group_id, each.consumer, each.generation].append(each)
        of_generation: dict[_Generation, list[RebalanceRow]] = defaultdict(list)
        for row in rows:
            of_generation[_generation(row)].append(row)
        self.clocks = clocks(
            (each.broker, each.logged, found[0].timestamp)
            for key, found in of_generation.items()
            if len(found) == 1
            for each in self.known.get(key, ())
            if each.logged is not None
        )

    def clock(self, reason: BrokerReason) -> LogClock:
        return self.clocks.get(reason.broker, LogClock())

    def of(self, row: RebalanceRow) -> list[BrokerReason]:
        """The reasons for a rebalance's group and generation whose times fit."""
        return [
            each
            for generation in _generations(row)
            for each in self.known.get(generation, ())
            if each.logged is None or self.clock(each).may_be(each.logged, row.timestamp)
        ]

    def use(self, row: RebalanceRow, meant: Sequence[BrokerReason]) -> None:
        """Mark these reasons as used: they are about this rebalance, and no other one."""
        for generation in _generations(row):
            of_generation = self.known[generation]
            of_generation[:] = [each for each in of_generation if not any(each is one for one in meant)]


def _generation(row: RebalanceRow) -> _Generation:
    has_epochs = row.group_type != "classic"
    return row.group_id, has_epochs, row.to_generation if has_epochs else row.from_generation


def _generations(row: RebalanceRow) -> list[_Generation]:
    """The generation that a broker's log gives reasons for, or each epoch that has the same target assignment."""
    group_id, has_epochs, last = _generation(row)
    first = row.from_generation + 1 if has_epochs and row.complete else last
    return [(group_id, has_epochs, number) for number in range(first, last + 1)]


def _explained(row: RebalanceRow, logs: _BrokerLogs) -> RebalanceRow:
    meant = list(_meant(row, logs.of(row)))
    if not meant:
        return row
    logs.use(row, meant)
    return _merged(row, meant, _when(row, meant[0], logs))


def _when(row: RebalanceRow, reason: BrokerReason, logs: _BrokerLogs) -> tuple[str, ...]:
    """When the broker logged the reason, as evidence."""
    if reason.logged is None:
        return ()
    clock = logs.clock(reason)
    offset_ms = clock.offset_of(reason.logged, row.timestamp)
    shown = "" if offset_ms is None or reason.logged.is_utc else f", the zone that {clock.shown_by} rebalances show"
    by = f" by {reason.broker}" if reason.broker else ""
    return (f"logged{by} at {logged_text(reason.logged, offset_ms)}{shown}",)


def _meant(row: RebalanceRow, reasons: list[BrokerReason]) -> list[BrokerReason]:
    """The reasons for this group and generation that are about this rebalance: a group that is removed and created
    again counts generations from the start."""
    if row.group_type != "classic" or len(reasons) < 2:
        return reasons
    names = {each.member_id for each in row.who}
    return [each for each in reasons if each.member in names][:1] or reasons[:1]


def _merged(row: RebalanceRow, reasons: list[BrokerReason], when: tuple[str, ...]) -> RebalanceRow:
    main, evidence = reasons[0], (*row.evidence, *when)
    if main.cause is Cause.UNKNOWN:
        return replace(row, reason=main.reason, evidence=evidence)
    inferred = [*([] if row.inferred_cause is None else [row.inferred_cause]), *row.also]
    logged = [_most_specific(each, inferred) for each in reasons]
    cause = row.cause if row.cause == Cause.ALL_GONE.value else logged[0]
    left_out = {cause, Cause.UNKNOWN.value, Cause.DEPARTURE.value}
    also = tuple(each for each in dict.fromkeys([*logged, *inferred]) if each not in left_out)
    return replace(
        row, cause=cause, confidence=Confidence.CERTAIN.value, also=also, source=BROKER_LOG, evidence=evidence,
        reason="; ".join(dict.fromkeys(each.reason for each in reasons)),
    )  # fmt: skip


def _same(cause: Cause) -> set[str]:
    return {each.value for each in _SAME.get(cause, {cause})}


def _most_specific(reason: BrokerReason, inferred: Sequence[str]) -> str:
    """The broker's cause, or an inferred cause that means the same and is more specific."""
    if reason.cause not in _VAGUE:
        return reason.cause.value
    same = _same(reason.cause)
    return next((each for each in inferred if each in same), reason.cause.value)

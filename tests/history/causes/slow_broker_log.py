"""What a broker's log says about rebalances, with one plain regular expression per kind of line: slow on hostile
lines."""

import re
from collections import defaultdict

from kgm.history.causes.broker_log import BrokerReason
from kgm.history.causes.broker_log import _bumped as bumped
from kgm.history.causes.broker_log import _client as of_client
from kgm.history.causes.verdict import Cause

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


def parse(lines):
    """What a broker's log says about rebalances, in the order of the log; all other lines are skipped."""
    left: dict[tuple[str, str], str] = {}
    pending: dict[str, list[BrokerReason]] = defaultdict(list)
    for line in lines:
        if "ebalance" in line and (match := _REBALANCE.search(line)):
            yield _classic(match, left)
        elif match := _LEFT.search(line):
            left[match["group"], match["member"]] = match["reason"]
        elif "[GroupId " in line:
            if match := _BUMPED.search(line):
                yield from bumped(match["group"], int(match["epoch"]), pending.pop(match["group"], []))
            elif (reason := _member(line)) is not None:
                pending[reason.group_id].append(reason)


def _classic(match: re.Match[str], left: dict[tuple[str, str], str]) -> BrokerReason:
    reason, group = match["reason"], match["group"]
    cause, member = _cause(reason)
    if cause is Cause.LEAVE:
        words = [left[group, name] for name in _leavers(reason) if (group, name) in left]
        causes = {of_client(word) or Cause.LEAVE for word in words}
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
        if match := pattern.search(reason):
            return cause, match.groupdict().get("member")
    if match := _REJOINED.search(reason):
        words = _CLIENT.search(reason)
        return (words and of_client(words["reason"])) or Cause.REJOIN, match["member"]
    return Cause.UNKNOWN, None


def _member(line: str) -> BrokerReason | None:
    for pattern, cause in _MEMBERS:
        if match := pattern.search(line):
            parts = match.groupdict()
            reason = line[match.start() :].strip()
            meant = of_client(parts.get("reason") or "") or cause
            return BrokerReason(
                group_id=match["group"], consumer=True, generation=-1, cause=meant, reason=reason,
                member=parts.get("member"),
            )  # fmt: skip
    return None

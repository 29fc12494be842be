"""Decides whether verdicts are right, from what was done to the members of a group and from what its broker logged.
What was done comes first: a verdict is right if each member that it names did what the verdict says, or if nothing else
was done to the group. Clients also do things unasked, for example when a busy machine makes them miss a session: then
the broker's log decides."""

import re
from collections import defaultdict
from dataclasses import dataclass

from kgm.history.causes.broker_log import parse
from kgm.history.row_tables import read_rows
from kgm.history.rows import RebalanceRow
from tests.history.truth.grading import grades

#: What a verdict says about the members that it names, by its cause.
_OF_MEMBERS = {
    "join": "joined", "bounce": "returned", "absorbed-bounce": "returned", "subscription-change": "resubscribed",
    "leave": "leave", "session-expiry": "session-expiry", "max-poll": "max-poll", "admin-removal": "admin-removal",
    "away": "away", "replaced": "returned",
}  # fmt: skip
#: What coordinators log when the session of a member of a classic group expires, also in the middle of a rebalance.
_FAILED = re.compile(r"Member (\S+) in group \S+ has failed")
_DEPARTURES = frozenset({"leave", "session-expiry", "max-poll", "admin-removal"})


@dataclass
class Act:
    """What was done to a group between two times (ms). expected: the cause that must be found, None if any is allowed;
    members: what a verdict may say about each member, by name; causes: what it may say about the group."""

    group: str
    since: int
    until: int
    expected: str | None
    members: dict[str, frozenset[str]]
    causes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A judged verdict: right, wrong, or None if that is not known."""

    row: dict
    act: Act
    cause: str
    confidence: str
    right: bool | None


class Judge:
    """Judges the verdicts of one run. names: members' names, by group and member id. replaced_unseen: whether the
    broker writes no record when a static member is replaced without a rebalance (before Kafka 2.6.1)."""

    def __init__(self, acts, names, log, *, replaced_unseen=False):
        self.names, self.replaced_unseen = names, replaced_unseen
        self.acts, self.reasons = defaultdict(list), defaultdict(list)
        for act in acts:
            self.acts[act.group].append(act)
        self.failed = {match[1] for line in log if (match := _FAILED.search(line))}
        for reason in parse(log):
            self.reasons[reason.group_id].append(reason)

    def judge(self, tables):
        """Judge every verdict of `gold_rebalance` and `gold_event`, then those about the ends of tenures."""
        rows = {(row.partition, row.offset): row for row in read_rows(RebalanceRow, tables["gold_rebalance"])}
        verdicts = []
        for row in tables["gold_rebalance"].to_pylist():
            logged = rows[row["partition"], row["offset"]]
            verdicts.append(self._verdict(row, row["cause"], row["confidence"], logged))
        verdicts += [self._verdict(row, row["event"], row["confidence"]) for row in tables["gold_event"].to_pylist()]
        ends = []
        for row in tables["silver_seat"].to_pylist():
            if row["to_offset"] is not None:
                who = {name: row[name] for name in ("seat", "member_id", "client_id")}
                ended = row | {"timestamp": row["to_timestamp"], "who": [who | {"what": row["end_cause"]}]}
                ends.append(self._verdict(ended, row["end_cause"], row["end_confidence"]))
        return [each for each in verdicts if each is not None], [each for each in ends if each is not None]

    def _verdict(self, row, cause, confidence, logged=None):
        act = next((each for each in reversed(self.acts[row["group_id"]]) if each.since <= row["timestamp"]), None)
        if act is None or row["timestamp"] > act.until or confidence == "unknown":
            return None  # in a step that was not completed
        right = self._was_done(act, row, cause) or self._was_logged(act, row, cause, logged)
        return Judged(row=row, act=act, cause=cause, confidence=confidence, right=right)

    def _name(self, row, who):
        group, name = row["group_id"], who["client_id"]
        return name.removeprefix(f"{group}-") if name != "app" else self.names.get((group, who["member_id"]))

    def _of(self, act, row, who):
        """What a verdict may say about a member, by what was done to it."""
        name = self._name(row, who)
        if name is None:  # it never had an assignment
            return frozenset().union(*act.members.values())
        return act.members.get(name, frozenset())

    def _was_done(self, act, row, cause):
        if cause == "departure":
            gone = [who for who in row["who"] if who["what"] == cause]
            return all(self._of(act, row, who) & _DEPARTURES for who in gone)
        if cause not in _OF_MEMBERS:
            return cause in act.causes
        what = _OF_MEMBERS[cause]
        people = [who for who in row["who"] if who["what"] in {what, cause}]
        if cause == "replaced" and self.replaced_unseen:
            past = [each for each in self.acts[act.group] if each.since <= act.since]
            return all(any(what in self._of(each, row, who) for each in past) for who in people)
        return bool(people) and all(what in self._of(act, row, who) for who in people)

    def _was_logged(self, act, row, cause, logged):
        """Whether the broker's log supports the verdict, and nothing that was done to its members contradicts it.
        logged: the row of a rebalance, None for the end of a member."""
        done = {what for who in row["who"] for what in self._of(act, row, who)}
        if (cause in _DEPARTURES and done & _DEPARTURES) or (cause == "bounce" and "joined" in done):
            return False
        reasons = self.reasons[row["group_id"]]
        people = {who["member_id"] for who in row["who"]}
        if cause == "session-expiry" and people and people <= self.failed:
            return True
        if logged is None:
            return cause in {each.cause for each in reasons if each.member in people}
        generation = row["to_generation"] if row["group_type"] == "consumer" else row["from_generation"]
        causes = {each.cause for each in reasons if each.generation == generation}
        same = {cause, "join"} if cause == "bounce" else {cause}
        (grade,) = grades([logged], reasons) or [None]
        return grade is not None and bool(grade.right) and (bool(same & causes) or cause == "all-gone")

    def recall(self, tables):
        """(act, whether its cause was found) for each act that expects one."""
        by_group = defaultdict(list)
        for name, cause in (("gold_rebalance", "cause"), ("gold_event", "event")):
            for row in tables[name].to_pylist():
                by_group[row["group_id"]].append((row["timestamp"], {row[cause], *row.get("also", ())}, row["who"]))
        for acts in self.acts.values():
            for act in acts:
                if act.expected is not None:
                    within = [each for each in by_group[act.group] if act.since <= each[0] <= act.until]
                    wanted = {act.expected, _OF_MEMBERS.get(act.expected)}
                    yield act, any(wanted & (causes | {who["what"] for who in people}) for _, causes, people in within)

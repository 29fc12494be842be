"""Watches members for signs of life, and decides which of them may be removed.

`GuardWatch` polls a group for a while: committed offsets (which move when a member commits) and end offsets, the
group's records in `__consumer_offsets` (which show rebalances, and commits that change no offset), and at the end which
members are still there. `liveness.Observation` turns that into a verdict for each member. `decide` compares the
verdicts with what the operator allowed.

kgm watches for the length of the window, or until all verdicts are certain; by default, only briefly if nothing more
can be learned. A longer window proves more: five commit intervals prove that a member is silent, a session timeout that
it is alive.

A verdict covers only the time before it. Right before a request is sent, `GuardWatch.look_again` compares the group
with what the verdict was based on: its type, the id, epoch and commits of each member, and the log since then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kgm.client import fresh_describe
from kgm.client.admin_client import AdminClient
from kgm.client.offsets_topic.last_rebalance import other_assignors_with
from kgm.client.offsets_topic.member_activity import ActivityRecord, GroupActivity, RebalanceRecord
from kgm.model.assignment import Partitions, count
from kgm.model.errors import KgmError, NotFoundError, RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.removal.liveness import (
    ENOUGH_COMMITS,
    NO_MEMBER,
    SESSION_MARGIN_MS,
    Liveness,
    LivenessVerdict,
    Observation,
    commit_interval,
)
from kgm.operations.removal.plan import RemovalPlan
from kgm.operations.removal.request import RemovalRequest

#: How long kgm watches by default: a little longer than the 5 s between automatic commits of Java's and librdkafka's
#: consumers.
WINDOW_MS: Final = 6_000
#: The longest that kgm watches by default, used if the log suggests that it will see a member miss enough commits for
#: proof: five automatic commits of Java's and librdkafka's consumers, and a little more.
LONGEST_WINDOW_MS: Final = 30_000
#: If a member has read all records and gets no new ones, watching longer than this shows nothing more.
_IDLE_MS: Final = 1_200
_POLL_S: Final = 0.4
#: The shortest sleep: a remainder too short to move a clock must not be slept over and over.
_SHORTEST_SLEEP_S: Final = 0.001
#: The budget of one poll of offsets and log, in ms, and the largest share of the command's remaining time that it may
#: be. A request that was not answered is not repeated if less than the minimum, in ms, is left for it.
_REQUEST_MS: Final = 5_000
_REQUEST_SHARE: Final = 0.6
_LEAST_REQUEST_MS: Final = 500
ASSUME_STOPPED: Final = "--assume-stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """Verdicts by member id, for the members to be removed and others that were watched with them.

    left: members that left the group in the meantime. replaced: members whose instance id belongs to another member by
    now. seen: the ids of all members that any description has shown.
    Session timeouts by member id, also of members that were not watched, and the group's rebalance timeout are in ms,
    as far as they are known from the group's log or the broker. proofs_ms: how long kgm has to watch a member for a
    verdict that is certain (`Observation.proof_ms`), by member id."""

    liveness: Mapping[str, Liveness]
    watched_ms: int = 0
    left: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    session_timeouts_ms: Mapping[str, int] = field(default_factory=dict)
    rebalance_timeout_ms: int | None = None
    proofs_ms: Mapping[str, int] = field(default_factory=dict)

    def verdict_of(self, member_id: str) -> LivenessVerdict:
        """`unknown` for a member that was not watched."""
        return self.liveness[member_id].verdict if member_id in self.liveness else LivenessVerdict.UNKNOWN


class GuardWatch:
    """Watches these members of a group, and those in `also` without extending the watch for them: call `run`, and then
    `look_again` before a request is sent. Reads only. `run` treats what cannot be read as missing evidence.
    stop_when_alive: stop watching once one member is seen alive.

    The budget of the cluster client is renewed for each poll, so that watching does not use it up."""

    def __init__(
        self, cluster: AdminClient, group: GroupSnapshot, member_ids: Iterable[str], *, also: Iterable[str] = (),
        window_ms: int | None = None, stop_when_alive: bool = True, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        member_ids, also = set(member_ids), set(also)
        self._cluster, self._group = cluster, group
        self._window_ms, self._stop_when_alive, self._now_s = window_ms, stop_when_alive, clock
        self._began_s = self._ended_s = clock()
        self._is_silent = group.group_id in cluster.offsets.unread_groups
        self._activity = GroupActivity(cluster, group.group_id)
        self._past: list[ActivityRecord] = []
        self._last_rebalance: RebalanceRecord | None = None
        self._left: set[str] = set()
        self._replaced: set[str] = set()
        self._seen = {member.member_id for member in group.members}
        #: The last description; None if the group could not be described again.
        self._latest: GroupSnapshot | None = group
        self._missing: list[str] = []
        #: When the group's log was last seen to take records.
        self._writable_s = self._began_s
        self._committed = {
            (row.topic, row.partition): row.committed
            for row in group.offsets
            if row.topic not in cluster.offsets.denied_topics
        }
        watched = [member for member in group.members if member.member_id in member_ids | also]
        self._observations = {member.member_id: self._observation(member) for member in watched}
        self._targets = [self._observations[member.member_id] for member in watched if member.member_id in member_ids]

    def _observation(self, member: MemberSnapshot) -> Observation:
        return Observation(
            member=member, began_s=self._began_s, owned=self._owned(member), committed=dict(self._committed),
            denied_topics=self._cluster.offsets.denied_topics, session_timeout_ms=self._group.session_of(member),
        )  # fmt: skip

    def _owned(self, member: MemberSnapshot) -> Partitions | None:
        """What the member owns; None if not known, as brokers up to 3.x describe assignments only in a Stable group."""
        if self._group.type == "classic" and self._group.state != "Stable" and not count(member.assignment):
            return None
        return member.assignment

    def run(self) -> GuardReport:
        """Watch, and return the verdicts."""
        if not self._targets or all(one.member.status == "away" for one in self._targets):
            self._begin_request()
            self._activity.begin(self._cluster.deadline)
        else:
            self._watch()
        self._cluster.go_on()
        self._ended_s = self._now_s()
        return self._report()

    def _watch(self) -> None:
        self._begin_request()
        self._read_past()
        while True:
            self._poll()
            if self._is_over():
                break
            self._cluster.deadline.pause(max(_SHORTEST_SLEEP_S, min(_POLL_S, self._remaining_s())))
        try:
            self._describe_again()
        except KgmError as error:
            self._disturb(f"the group could not be described again: {error.message}")

    def look_again(self) -> GuardReport:
        """The verdicts on everything seen so far, immediately before a request is sent: this includes signs of life
        since `run`, and whatever interrupts a silence.

        Raises RefusedError if the group now has a different type, another KgmError if it cannot be described: nothing
        may be sent then."""
        self._poll()
        self._describe_again()
        self._cluster.go_on()
        return self._report()

    @property
    def latest(self) -> GroupSnapshot | None:
        """The group as it was described last, without offsets after the first time, and with what the log has shown of
        its earlier assignors. None if it could not be described again, or is gone."""
        if self._latest is None or self._latest.type != "classic" or self._activity.unreadable_because is not None:
            return self._latest
        generations = (
            (one.assignor, {name for row in one.members.values() for name in (row.member_id, row.group_instance_id)})
            for one in self._past
            if isinstance(one, RebalanceRecord)
        )
        return replace(self._latest, earlier_assignors=other_assignors_with(self._latest, generations))

    @property
    def is_outdated(self) -> bool:
        """Whether more time has passed since `run`, or since the watch was repeated, than it watched for: what was seen
        then no longer supports a verdict."""
        return 0 < self._bound_ms < (self._now_s() - self._ended_s) * 1000

    def note_repeated(self) -> None:
        """Note that another watch has just been through: a retry soon after it takes no third one."""
        self._ended_s = self._now_s()

    def _begin_request(self) -> None:
        """Renew the budget for the next request: only a share of the command's remaining time, so that a request that
        is not answered leaves time for others that are."""
        self._cluster.go_on()
        self._cluster.go_on(min(_REQUEST_MS, self._cluster.deadline.remaining() * 1000 * _REQUEST_SHARE))

    @property
    def _watched_ms(self) -> float:
        return (self._now_s() - self._began_s) * 1000

    def _report(self) -> GuardReport:
        now_s = self._now_s()
        for one in self._observations.values():
            one.missing = [*one.missing, *self._missing]
        self._missing = []
        last = self._last_rebalance
        recorded = {} if last is None else {name: one.session_timeout_ms for name, one in last.members.items()}
        sessions = recorded | {
            member_id: one.session_timeout_ms
            for member_id, one in self._observations.items()
            if one.session_timeout_ms is not None
        }
        timeouts = [one.rebalance_timeout_ms for one in last.members.values()] if last is not None else []
        return GuardReport(
            liveness={member_id: one.verdict(now_s) for member_id, one in self._observations.items()},
            watched_ms=round(self._watched_ms),
            left=frozenset(self._left),
            replaced=frozenset(self._replaced),
            seen=frozenset(self._seen),
            session_timeouts_ms=sessions,
            rebalance_timeout_ms=max(timeouts, default=None),
            proofs_ms={
                member_id: proof_ms
                for member_id, one in self._observations.items()
                if (proof_ms := one.proof_ms(now_s)) is not None
            },
        )

    # -- the past

    def _read_past(self) -> None:
        self._past = self._activity.read_back(self._is_enough, self._cluster.deadline)
        self._note_timeouts(self._past)
        if self._activity.unreadable_because is not None:
            self._missing.append(f"its commit interval is not known: {self._activity.unreadable_because}")
        if self._group.type == "classic" and self._group.state != "Stable":
            self._missing.append(
                f"the group is rebalancing ({self._group.state}), and members commit nothing meanwhile"
            )
        self._fetch_session_timeout()
        for one in self._observations.values():
            self._take_past(one)

    def _is_enough(self, records: Sequence[ActivityRecord]) -> bool:
        """Whether the records so far show how often each member commits and, for a classic group, the timeouts."""
        if self._group.type == "classic" and not any(isinstance(one, RebalanceRecord) for one in records):
            return False
        intervals = [commit_interval(one.member.member_id, one.owned or {}, records)[0] for one in self._targets]
        return all(interval is not None and interval.commits >= ENOUGH_COMMITS for interval in intervals)

    def _note_timeouts(self, records: Iterable[ActivityRecord]) -> None:
        for record in records:
            if isinstance(record, RebalanceRecord):
                self._last_rebalance = record
        if self._last_rebalance is None:
            return
        for member_id, one in self._observations.items():
            recorded = self._last_rebalance.members.get(member_id)
            if recorded is not None:
                one.session_timeout_ms = recorded.session_timeout_ms
                if one.owned is None and count(recorded.assignment):
                    one.owned = recorded.assignment

    def _fetch_session_timeout(self) -> None:
        """Read the session timeout that the broker sets for a consumer group (KIP-848), if no description had it."""
        if self._group.type != "consumer" or self._group.session_timeout_ms is not None:
            return
        timeout_ms = self._cluster.session_timeout_ms(self._group.group_id, self._group.type)
        for one in self._observations.values():
            one.session_timeout_ms = timeout_ms

    def _take_past(self, one: Observation) -> None:
        interval, last_ms = commit_interval(one.member.member_id, one.owned or {}, self._past)
        one.interval, one.last_commit_ms = interval, last_ms
        one.read_s, one.uncommitted_ms = self._now_s(), self._uncommitted_ms(last_ms)
        if interval is None and self._activity.unreadable_because is None and one.owned and count(one.owned):
            one.missing.append("the group's log does not show how often it commits")
        if one.session_timeout_ms is None:
            one.missing.append("its session timeout is not known")

    def _uncommitted_ms(self, last_ms: int | None) -> int:
        """How much later than a commit the coordinator's newest record is; after a rebalance, or another coordinator
        with another clock, how much later than that."""
        newest, restarted = self._activity.newest_ms, self._restarted_ms
        if newest is None or restarted is None or last_ms is None:
            return 0
        return max(0, newest - max(restarted, last_ms))

    @property
    def _restarted_ms(self) -> int | None:
        """When a rebalance or a new coordinator last restarted all sessions, by the coordinator's clock; None: not
        known."""
        began = self._activity.epoch_began_ms
        if began is None or self._last_rebalance is None:
            return began
        return max(began, self._last_rebalance.at_ms)

    # -- polling

    def _poll(self) -> None:
        self._begin_request()
        if self._is_silent and self._cluster.deadline.remaining() * 1000 < _LEAST_REQUEST_MS:
            self._disturb("offsets could not be read: no broker has answered")
        else:
            self._poll_offsets()
        self._poll_log(self._now_s())
        self._see_heartbeats_without_commits()

    def _poll_offsets(self) -> None:
        pairs = {pair for one in self._observations.values() for pair in one.pairs}
        try:
            committed = self._cluster.committed_offsets(self._group.group_id)
            # Records after the start of an open transaction are waiting for its end, not for the member.
            ends = self._cluster.end_offsets(pairs, is_stable=True) if pairs else {}
        except KgmError as error:
            self._disturb(f"offsets could not be read: {error.message}")
            self._is_silent = True
            self._begin_request()
        else:
            self._is_silent = False
            for one in self._observations.values():
                one.see_offsets(committed, ends, self._now_s())

    def _poll_log(self, now_s: float) -> None:
        if self._activity.unreadable_because is not None:
            return
        records = self._activity.read_on(self._cluster.deadline)
        self._note_timeouts(records)
        for one in self._observations.values():
            one.see_records(records, now_s)
        if self._activity.unreadable_because is not None:
            self._disturb(f"the group's log could not be read any further: {self._activity.unreadable_because}")
        elif self._activity.has_moved:
            self._activity.has_moved = False
            self._disturb("the coordinator moved while kgm watched")
        self._see_writability(now_s)

    def _see_writability(self, now_s: float) -> None:
        """Note whether commits can be written: if not, that nobody commits proves nothing."""
        log = self._activity.writability(self._cluster.deadline)
        if log is None:
            return
        if log.takes_records or (log.takes_records is None and self._activity.has_grown):
            self._writable_s = now_s
        for one in self._observations.values():
            one.see_writability(log, self._writable_s, now_s)

    def _see_heartbeats_without_commits(self) -> None:
        """Note members that send heartbeats without committing: if a member is still in the group more than a session
        timeout after its last commit, it has sent heartbeats since, unless a rebalance or a new coordinator restarted
        its session."""
        newest, restarted = self._activity.newest_ms, self._restarted_ms
        if newest is None or restarted is None:
            return
        for one in self._observations.values():
            last_ms, session_ms = one.last_commit_ms, one.session_timeout_ms
            if last_ms is None or session_ms is None or one.interval is None:
                continue
            due_ms = one.interval.longest_ms + session_ms + SESSION_MARGIN_MS
            if restarted <= last_ms and newest - last_ms > due_ms:
                one.heartbeats_without_commits = True

    def _disturb(self, why: str) -> None:
        now_s = self._now_s()
        for one in self._observations.values():
            one.disturbed(why, now_s)

    def _describe_again(self) -> None:
        """Describe the group again, to see which members are still there after watching. Raises KgmError."""
        self._cluster.go_on()
        # One description is not enough to conclude that a member is gone.
        names = [one.member.group_instance_id for one in self._observations.values()]
        after: GroupSnapshot | None
        self._latest = None
        try:
            after = fresh_describe.describe_fresh(
                self._cluster, self._group.group_id, [name for name in names if name is not None],
                describe=partial(self._cluster.describe_group, offsets=False),
            )  # fmt: skip
        except NotFoundError:
            after = None
        if after is not None and after.members and after.type != self._group.type:
            raise RefusedError(
                f"group {after.group_id!r} has become a {after.type} group since kgm first described it",
                facts=(f"it was a {self._group.type} group",), group_id=after.group_id,
            )  # fmt: skip
        self._latest = after
        now_s = self._now_s()
        if self._cluster.brokers.has_moved(self._group.group_id, self._began_s):
            self._disturb("the coordinator moved while kgm watched")
        elif after is not None and after.type == "classic" and after.state != "Stable":
            self._disturb(f"the group is rebalancing ({after.state})")
        members = {member.member_id: member for member in after.members} if after is not None else {}
        self._seen |= members.keys()
        holders = {
            one.group_instance_id: one.member_id for one in members.values() if one.group_instance_id is not None
        }
        for member_id, one in self._observations.items():
            holder = holders.get(one.member.group_instance_id or "")
            if member_id in members:
                one.see_epoch(members[member_id])
                one.see_still_member(now_s)
            elif holder is not None:
                one.see_return(holder)
                self._replaced.add(member_id)
            else:
                self._left.add(member_id)

    # -- when to stop

    @property
    def _bound_ms(self) -> int:
        if self._window_ms is not None:
            return self._window_ms
        overdue = [one.overdue_ms(self._activity.newest_ms, self._now_s()) for one in self._targets]
        worth_ms = [ms for ms in overdue if ms is not None and ms <= LONGEST_WINDOW_MS]
        return max([WINDOW_MS, *worth_ms])

    def _remaining_s(self) -> float:
        return max(0.0, (self._bound_ms - self._watched_ms) / 1000)

    def _is_over(self) -> bool:
        now_s, watched_ms = self._now_s(), self._watched_ms
        if watched_ms >= self._bound_ms:
            return True
        if self._stop_when_alive and any(one.sign_of_life for one in self._targets):
            return True
        undecided = [one for one in self._targets if one.verdict(now_s).verdict is LivenessVerdict.UNKNOWN]
        if not undecided:
            return True
        is_quiet = not any(one.waiting or one.interval is not None for one in undecided)
        return self._window_ms is None and is_quiet and watched_ms >= _IDLE_MS


# -- what may be removed -----------------------------------------------------------------------------------------------


def decide(request: RemovalRequest, plan: RemovalPlan, report: GuardReport) -> RefusedError | None:
    """Why the removal is refused; None if every member may be removed.

    Each flag allows one verdict: `allow_live` members that are alive, `assume_stopped` members whose verdict is
    `unknown`. One member that may not be removed stops the whole batch: removing only the others now would cost a
    second rebalance later."""
    alive = _with(plan, report, LivenessVerdict.ALIVE) if not request.allow_live else []
    unknown = _with(plan, report, LivenessVerdict.UNKNOWN) if not request.assume_stopped else []
    if not alive and not unknown:
        return None
    parts = []
    if alive:
        parts.append(f"{_listed(alive)} {'is' if len(alive) == 1 else 'are'} alive")
    if unknown:
        parts.append(f"it is not known whether {_listed(unknown)} {'is' if len(unknown) == 1 else 'are'} alive")
    facts = [f"{one.identity}: {_verdict(report, one)}" for one in (*alive, *unknown)]
    return RefusedError(
        f"nothing was removed from group {plan.group_id!r}: {', and '.join(parts)}",
        facts=facts, group_id=plan.group_id,
    )  # fmt: skip


def _with(plan: RemovalPlan, report: GuardReport, verdict: LivenessVerdict) -> list[MemberSnapshot]:
    """Members to be removed that have this verdict."""
    return [member for member in plan.members if report.verdict_of(member.member_id) is verdict]


def _verdict(report: GuardReport, member: MemberSnapshot) -> str:
    liveness = report.liveness.get(member.member_id, NO_MEMBER)
    return f"{liveness.verdict}: {liveness.why}"


def _listed(members: Sequence[MemberSnapshot]) -> str:
    shown = [member.identity for member in members[:8]]
    rest = len(members) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def missing_flags(request: RemovalRequest, plan: RemovalPlan, report: GuardReport) -> tuple[str, ...]:
    """The flags that the request lacks for removing these members."""
    verdicts = {report.verdict_of(member_id) for member_id in plan.member_ids}
    flags = []
    if LivenessVerdict.ALIVE in verdicts and not request.allow_live:
        flags.append("--allow-live")
    if LivenessVerdict.UNKNOWN in verdicts and not request.assume_stopped:
        flags.append(ASSUME_STOPPED)
    return tuple(flags)


def proof_window_ms(plan: RemovalPlan, report: GuardReport) -> int | None:
    """How long to watch, in ms, until it is known of each member whether it is alive; None if no time is known to be
    enough."""
    unknown = _with(plan, report, LivenessVerdict.UNKNOWN)
    known = [report.proofs_ms[member.member_id] for member in unknown if member.member_id in report.proofs_ms]
    return max(known) if known and len(known) == len(unknown) else None

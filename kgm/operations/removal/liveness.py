"""Is a member's process alive? The verdict on one member, and the evidence for it.

No Kafka API shows when a member last sent a heartbeat. Only this can be observed:

- `alive`: it committed, rejoined or reported while kgm watched, or it was still a member after a whole session timeout
  of watching, which takes heartbeats.
- `stopped`: it left with the intention to return (member epoch -2, KIP-848); or kgm saw records arrive for it and then
  no commit for at least five times its own commit interval, which the group's log shows, nor for five times as long as
  what it may have polled at once takes it at its usual pace, and nothing indicates that it still sent heartbeats. Many
  consumers commit once they have handled what they polled: a burst of records makes them silent for much longer than
  usual, and slow handlers are often slower then.
- `unknown`: everything else. Evidence that is not available (a rebalance in progress, an old broker, no permission, a
  coordinator that has just moved) is reported as missing; it never counts as evidence that a member has stopped. Nor
  does silence while the group's partition of `__consumer_offsets` takes no records: nobody can commit then.

Only times from kgm's own clock or the coordinator's count. The timestamps of records come from their producers
(CreateTime): a record that a mirror or a replay has just written can be years old. Nor does the distance to the end of
a partition show that records are waiting: transaction markers have offsets, and no consumer commits them.

This module is pure: times are arguments, and no request is sent here. `guard` does the watching."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kgm.client.offsets_topic.member_activity import (
    ActivityRecord,
    CommitRecord,
    DepartureRecord,
    MemberRecord,
    RebalanceRecord,
)
from kgm.client.offsets_topic.writability import Writability
from kgm.model.assignment import Partitions, count
from kgm.model.snapshot import MemberSnapshot
from kgm.text.wording import many

#: A member is silent once it has missed this many of its own commits.
SILENT_INTERVALS = 5
#: The shortest silence that counts: a consumer that commits every record can pause for longer than five records take.
SHORTEST_SILENCE_MS = 10_000
#: The minimum number of intervals between commits from which to derive a commit interval.
LEAST_INTERVALS = 3
#: The number of commits of each member to read from the log.
ENOUGH_COMMITS = 12
#: The longest delay until a coordinator expires a session and kgm notices it.
SESSION_MARGIN_MS = 1_000
#: The time until the next watch begins, if an operator follows a hint.
_UNTIL_NEXT_WATCH_MS = 30_000

Offsets = Mapping[tuple[str, int], int]


class LivenessVerdict(enum.StrEnum):
    """What is known about a member's process."""

    ALIVE = "alive"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """A verdict and its evidence: sentences, the decisive one first.

    was_seen: the coordinator itself reports it; any other `stopped` is inferred from silence."""

    verdict: LivenessVerdict
    evidence: tuple[str, ...]
    was_seen: bool = False

    @property
    def why(self) -> str:
        return "; ".join(self.evidence)


#: For an id that no member has.
NO_MEMBER = Liveness(verdict=LivenessVerdict.UNKNOWN, evidence=("no member has this id",))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInterval:
    """How often a member commits: the longest of the intervals between its commits that the log shows. record_ms: how
    long a record took it on average, waiting for records included, in ms; None if the commits do not show it."""

    longest_ms: int
    commits: int
    record_ms: float | None = None

    @property
    def silence_ms(self) -> int:
        """How long kgm must see the member be silent before it counts as stopped, in ms."""
        return max(SILENT_INTERVALS * self.longest_ms, SHORTEST_SILENCE_MS)


def commit_interval(
    member_id: str, owned: Partitions, records: Sequence[ActivityRecord]
) -> tuple[CommitInterval | None, int | None]:
    """(a member's commit interval, the time of its last commit in ms by the coordinator's clock), from its group's
    records up to now, without a gap, oldest first. owned: what the member owns now.

    A commit does not name its member, so a commit is attributed to the member while the log shows it as the owner of
    the partition. If time goes backward, another coordinator with a different clock has taken over: no interval spans
    that. Each value is None if the records do not show it; an interval takes at least `LEAST_INTERVALS`."""
    mine: Partitions | None = owned
    if any(isinstance(one, RebalanceRecord) for one in records):
        mine = None  # who owned what before the first rebalance in the records is not known
    times: list[int] = []
    intervals: list[int] = []
    offsets: dict[tuple[str, int], int] = {}
    handled = 0

    def close() -> None:
        intervals.extend(after - before for before, after in pairwise(sorted(set(times))))
        times.clear()
        offsets.clear()

    last: int | None = None
    for record in records:
        match record:
            case CommitRecord(at_ms=at_ms, topic=topic, partition=partition, offset=offset):
                if mine is not None and partition in mine.get(topic, ()):
                    if last is not None and at_ms < last:
                        close()
                    times.append(at_ms)
                    last = at_ms
                    handled += max(0, offset - offsets.get((topic, partition), offset))
                    offsets[topic, partition] = offset
            case RebalanceRecord(members=members):
                close()
                mine = members[member_id].assignment if member_id in members else None
            case MemberRecord(member_id=reported):
                if reported == member_id:  # its partitions may have changed
                    close()
            case DepartureRecord():
                pass
    close()
    if len(intervals) < LEAST_INTERVALS:
        return None, last
    record_ms = sum(intervals) / handled if handled else None
    return CommitInterval(longest_ms=max(intervals), commits=len(intervals) + 1, record_ms=record_ms), last


@dataclass(slots=True, kw_only=True)
class Observation:
    """What kgm sees of one member while it watches. Names that end in _s are times by a monotonic clock, in seconds.

    owned: the partitions it owns; None if not known. committed: the offsets that kgm saw first, None where nothing was
    committed; a partition that is not in it has not been read yet. denied_topics: topics whose offsets brokers do not
    show. missing: evidence that is not available, in words."""

    member: MemberSnapshot
    began_s: float
    owned: Partitions | None
    committed: dict[tuple[str, int], int | None]
    denied_topics: Collection[str] = ()
    interval: CommitInterval | None = None
    session_timeout_ms: int | None = None
    last_commit_ms: int | None = None
    #: For how long it had committed nothing when kgm had read the log, in ms by the coordinator's clock.
    uncommitted_ms: int = 0
    #: When kgm had read the log.
    read_s: float | None = None
    missing: list[str] = field(default_factory=list)
    #: Since when records that kgm saw arrive have been waiting for it without a break.
    waiting_since_s: float | None = None
    #: The end offsets that kgm last saw, and the lagging partitions whose end it saw move.
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    grown: set[tuple[str, int]] = field(default_factory=set)
    waiting: int = 0
    #: How many records waited when it must have polled for the last time, whether that time has come, and for how long
    #: it had committed nothing by then, in ms.
    backlog: int = 0
    has_polled: bool = False
    backlog_ms: float = 0.0
    #: How many records kgm saw arrive, and since when it has looked.
    arrived: int = 0
    looks_since_s: float | None = None
    lagging: list[tuple[str, int]] = field(default_factory=list)
    #: Partitions whose end offset could not be read.
    endless: list[tuple[str, int]] = field(default_factory=list)
    #: The time since which only its own heartbeats can have kept its session alive.
    session_since_s: float = 0.0
    #: Whether it sends heartbeats without committing: it is still a member a session timeout after its last commit.
    heartbeats_without_commits: bool = False
    sign_of_life: str | None = None
    was_disturbed: str | None = None
    #: Why commits cannot be written now, or may not be; None while they can.
    unwritable_because: str | None = None
    #: The latest time at which commits are known to have been written; None while they can be.
    writable_until_s: float | None = None

    def __post_init__(self) -> None:
        self.session_since_s = self.began_s

    @property
    def pairs(self) -> list[tuple[str, int]]:
        owned = self.owned or {}
        return [(topic, partition) for topic in sorted(owned) for partition in owned[topic]]

    # -- observations

    def see_offsets(self, committed: Offsets, ends: Offsets, now_s: float) -> None:
        """Note the current committed and end offsets. ends: the offsets up to which records can be read."""
        waiting, self.lagging = 0, []
        self.looks_since_s = now_s if self.looks_since_s is None else self.looks_since_s
        self.endless = [pair for pair in self.pairs if pair not in ends]
        for pair in self.pairs:
            if pair[0] in self.denied_topics:
                continue
            now, end = committed.get(pair), ends.get(pair)
            before = self.committed.setdefault(pair, now)
            if now is not None and now != before:
                topic, partition = pair
                was = "nothing" if before is None else str(before)
                self._note_life(f"it committed offset {now} of {topic}-{partition} while kgm watched, after {was}")
            if end is None:
                continue
            if end > self.ends.setdefault(pair, end):
                self.grown.add(pair)
                self.arrived += end - self.ends[pair]
            self.ends[pair] = end
            if now is not None and end > now:
                waiting += end - now
                self.lagging.append(pair)
        self.waiting = waiting
        self.grown.intersection_update(self.lagging)
        if not self.grown:
            self.waiting_since_s = None
        elif self.waiting_since_s is None:
            self.waiting_since_s, self.backlog, self.has_polled = now_s, 0, False
        self._note_backlog(now_s)

    def _note_backlog(self, now_s: float) -> None:
        """Note what waits for it until an interval after kgm saw records arrive. If it had polled anything before, and
        polled again later than that, it would have committed."""
        if self.waiting_since_s is None or self.interval is None or self.has_polled:
            return
        if self.waiting >= self.backlog:
            self.backlog, self.backlog_ms = self.waiting, self._uncommitted_ms(now_s)
        self.has_polled = (now_s - self.waiting_since_s) * 1000 > self.interval.longest_ms

    def see_records(self, records: Iterable[ActivityRecord], now_s: float) -> None:
        """Note what was written to the group's log while kgm watches."""
        pairs = set(self.pairs)
        for record in records:
            match record:
                case CommitRecord(topic=topic, partition=partition):
                    if (topic, partition) in pairs:
                        self._note_life(f"it committed {topic}-{partition} while kgm watched, as the group's log shows")
                case MemberRecord(member_id=member_id, member_epoch=epoch):
                    if member_id == self.member.member_id:
                        suffix = "" if epoch is None else f", at member epoch {epoch}"
                        self._note_life(f"it reported to the coordinator while kgm watched{suffix}")
                case RebalanceRecord(generation=generation, members=members):
                    self.see_rebalance(generation, present=self.member.member_id in members, now_s=now_s)
                case DepartureRecord():  # no sign of life
                    pass

    def see_rebalance(self, generation: int, *, present: bool, now_s: float) -> None:
        """Note that a rebalance ended, or that a static member was replaced: sessions were restarted, and partitions
        changed."""
        if present and self.member.group_instance_id is None:
            # A dynamic member that does not rejoin is removed.
            self._note_life(f"it rejoined for generation {generation} while kgm watched")
        self.disturbed("the group rebalanced while kgm watched", now_s)

    def disturbed(self, why: str, now_s: float) -> None:
        """Start over: silence up to now does not count, and the coordinator may have restarted its session."""
        self.was_disturbed = why
        self.session_since_s = self.read_s = now_s
        self.uncommitted_ms = 0
        self.waiting_since_s = None
        self.grown.clear()

    def see_writability(self, log: Writability, writable_s: float, now_s: float) -> None:
        """Note whether commits can be written. writable_s: when that was last seen. While they cannot, the coordinator
        cannot record either that a session has expired."""
        takes = log.takes_records
        self.unwritable_because = None if takes else log.why_not
        self.writable_until_s = None if takes else writable_s
        if takes is False:
            self.disturbed("commits could not be written while kgm watched", now_s)

    def see_epoch(self, member: MemberSnapshot) -> None:
        """Note the member epoch as it is described now."""
        if member.member_epoch is not None and self.member.member_epoch is not None:
            if member.status == "away":
                return
            if self.member.status == "away":
                self._note_life(
                    "it had left with the intention to return (member epoch -2), and is subscribed again "
                    f"at member epoch {member.member_epoch}"
                )
            elif member.member_epoch != self.member.member_epoch:
                self._note_life(
                    f"its member epoch went from {self.member.member_epoch} to {member.member_epoch} while kgm watched"
                )

    def see_still_member(self, now_s: float) -> None:
        """Note that it is still a member, under the same member id; after a whole session timeout, that proves
        heartbeats."""
        if self.session_timeout_ms is None:
            return
        watched_ms = (now_s - self.session_since_s) * 1000
        if watched_ms >= self.session_timeout_ms + SESSION_MARGIN_MS:
            self._note_life(
                f"it is still a member after {watched_ms / 1000:.0f} s of watching, "
                f"and its session timeout is {_seconds(self.session_timeout_ms)}"
            )

    def see_return(self, new_member_id: str) -> None:
        """Note that its instance id now belongs to another member."""
        self._note_life(f"it came back as member {new_member_id} while kgm watched")

    def _note_life(self, sentence: str) -> None:
        if self.sign_of_life is None:
            self.sign_of_life = sentence

    # -- the verdict

    def silence_ms(self, now_s: float) -> float:
        """How long it has committed nothing since kgm saw records arrive for it, in ms; only as long as commits are
        known to have been written."""
        if self.waiting_since_s is None:
            return 0.0
        until_s = now_s if self.writable_until_s is None else self.writable_until_s
        return max(0.0, (until_s - self.waiting_since_s) * 1000)

    def is_silent(self, now_s: float) -> bool:
        """Whether it has missed enough of its own commits to count as stopped."""
        if self.interval is None or self.heartbeats_without_commits:
            return False
        batch_ms = self._batch_ms(now_s)
        if batch_ms is None or self._uncommitted_ms(now_s) < batch_ms:
            return False
        return self.silence_ms(now_s) >= self.interval.silence_ms

    def _batch(self, now_s: float) -> int | None:
        """The most records that it can have polled at once since its last commit: those that came while it handled what
        it had polled before, and a burst. A burst is what waited that does not follow from the time since its last
        commit, at the rate at which records arrive and at which it used to handle them, whichever is lower. None if its
        commits do not show that rate."""
        if self.interval is None or self.interval.record_ms is None:
            return None
        per_ms = min(1 / self.interval.record_ms, self._arrivals_per_ms(now_s))
        burst = max(0.0, self.backlog - per_ms * self.backlog_ms)
        return max(1, round(burst + per_ms * self.interval.longest_ms))

    def _arrivals_per_ms(self, now_s: float) -> float:
        looked_ms = 0.0 if self.looks_since_s is None else (now_s - self.looks_since_s) * 1000
        return self.arrived / looked_ms if looked_ms > 0 else 0.0

    def _batch_ms(self, now_s: float) -> float | None:
        """For how long it must commit nothing so that it cannot be at work on what it has polled; None if that is not
        known."""
        batch = self._batch(now_s)
        if batch is None or self.interval is None or self.interval.record_ms is None:
            return None
        return SILENT_INTERVALS * batch * self.interval.record_ms

    def _uncommitted_ms(self, now_s: float) -> float:
        """For how long, at least, it has committed nothing; only as long as commits are known to have been written."""
        until_s = now_s if self.writable_until_s is None else self.writable_until_s
        since_s = self.began_s if self.read_s is None else self.read_s
        return self.uncommitted_ms + max(0.0, (until_s - since_s) * 1000)

    def overdue_ms(self, newest_ms: int | None, now_s: float) -> int | None:
        """How long kgm would have to watch it, in ms from `began_s`, to see whether it is silent for long enough. None
        unless, by the coordinator's clock, it has already not committed for that long. newest_ms: the latest time by
        that clock.

        This only shows how long it is worth watching. It is not evidence: records may not have waited all that time."""
        if None in (self.interval, newest_ms, self.last_commit_ms, self.waiting_since_s) or self.sign_of_life:
            return None
        assert self.interval is not None
        assert newest_ms is not None
        assert self.last_commit_ms is not None
        assert self.waiting_since_s is not None
        batch_ms = self._batch_ms(now_s)
        is_overdue = newest_ms - self.last_commit_ms >= self.interval.silence_ms
        if self.heartbeats_without_commits or not is_overdue or batch_ms is None:
            return None
        silent_ms = (self.waiting_since_s - self.began_s) * 1000 + self.interval.silence_ms
        return round(max(silent_ms, batch_ms - self.uncommitted_ms))

    def proof_ms(self, now_s: float) -> int | None:
        """How long, in ms, kgm has to watch to know for certain whether it is alive; None if no time is known to be
        enough. After its session timeout it is still a member only if it has sent heartbeats. If records are waiting
        for a member whose commit interval is known, silence may be proof sooner."""
        if self.unwritable_because is not None:
            return None
        windows = []
        if self.session_timeout_ms is not None:
            windows.append(self.session_timeout_ms + 2 * SESSION_MARGIN_MS)
        batch_ms = self._batch_ms(now_s)
        is_telling = self.waiting_since_s is not None and not self.heartbeats_without_commits
        if self.interval is not None and self.interval.record_ms is not None and batch_ms is not None and is_telling:
            if not self.uncommitted_ms:  # the log has no time before a watch, so its backlog counts as a burst
                later_ms = _UNTIL_NEXT_WATCH_MS + self.interval.longest_ms
                backlog = self.waiting + self._arrivals_per_ms(now_s) * later_ms
                batch_ms = SILENT_INTERVALS * backlog * self.interval.record_ms
            needed_ms = max(self.interval.silence_ms, round(batch_ms) - self.uncommitted_ms)
            windows.append(needed_ms + 2 * SESSION_MARGIN_MS)
        return min(windows, default=None)

    def verdict(self, now_s: float) -> Liveness:
        """The verdict on everything seen so far."""
        if self.sign_of_life is not None:
            return Liveness(verdict=LivenessVerdict.ALIVE, evidence=(self.sign_of_life,))
        if self.member.status == "away":
            sentence = "it left with the intention to return (member epoch -2)"
            return Liveness(verdict=LivenessVerdict.STOPPED, evidence=(sentence,), was_seen=True)
        if self.interval is not None and self.is_silent(now_s):
            polled = many(self._batch(now_s) or 0, "record")
            sentence = (
                f"it committed nothing for {self.silence_ms(now_s) / 1000:.0f} s after kgm saw records arrive "
                f"({self.waiting} wait); before that, it committed at least every "
                f"{_seconds(self.interval.longest_ms)} ({self.interval.commits} commits in the group's log), and at "
                f"its pace {polled} that it may have polled would be handled"
            )
            return Liveness(verdict=LivenessVerdict.STOPPED, evidence=(sentence,))
        return Liveness(verdict=LivenessVerdict.UNKNOWN, evidence=self._why_unknown(now_s))

    def _why_unknown(self, now_s: float) -> tuple[str, ...]:
        if self.unwritable_because is not None:
            return (self.unwritable_because, *self.missing)
        evidence = []
        unread = [pair for pair in self.pairs if pair not in self.committed]
        if self.owned is not None and not count(self.owned):
            evidence.append("it owns no partitions, so it commits nothing")
        elif unread:
            evidence.append(f"the committed offsets of {many(len(unread), 'partition')} that it owns could not be read")
        elif self.owned is not None and all(self.committed[pair] is None for pair in self.pairs):
            evidence.append("nothing was ever committed for its partitions")
        elif self.heartbeats_without_commits:
            evidence.append("it stopped committing longer ago than its session timeout, so it sent heartbeats since")
        elif self.waiting:
            evidence.append(self._what_is_seen_waiting(now_s))
        elif self.endless:
            evidence.append(f"the end offsets of {many(len(self.endless), 'partition')} that it owns could not be read")
        elif self.owned is not None:
            evidence.append("caught up; no commit expected")
        if self.was_disturbed is not None:
            evidence.append(self.was_disturbed)
        return (*evidence, *self.missing) or ("no sign of life was seen",)

    def _what_is_seen_waiting(self, now_s: float) -> str:
        """The evidence if records are waiting, but its silence is not proof, or not yet."""
        waits = f"{many(self.waiting, 'record')} {'waits' if self.waiting == 1 else 'wait'} for it"
        if self.waiting_since_s is None:
            return f"{waits}, and none arrived while kgm watched, so it is not known since when"
        seen = f"it committed nothing for {self.silence_ms(now_s) / 1000:.1f} s after kgm saw records arrive"
        if self.interval is None:
            return f"{seen} ({self.waiting} wait)"
        batch, batch_ms = self._batch(now_s), self._batch_ms(now_s)
        if batch is None or batch_ms is None:
            return f"{seen} ({self.waiting} wait); its commits do not show how long a record takes it"
        if self._uncommitted_ms(now_s) < batch_ms > self.interval.silence_ms:
            polled = f"it may have polled {many(batch, 'record')} at once"
            since = f"{_seconds(round(batch_ms))} after its last commit"
            return f"{seen} ({self.waiting} wait); {polled}, so that is proof only {since}"
        often = f"as it commits at least every {_seconds(self.interval.longest_ms)}"
        return f"{seen} ({self.waiting} wait); {often}, that is proof only after {_seconds(self.interval.silence_ms)}"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3g} s" if ms < 1_000_000 else f"{ms // 1000} s"

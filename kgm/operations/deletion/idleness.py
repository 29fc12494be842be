"""Whether a group, or its committed offsets for a topic, are idle.

The log of the group's coordinator has each commit with the time at which the coordinator wrote it, including commits
without a member: a consumer that assigns its own partitions commits to a group that is always empty. Offsets in a
transaction are in use while it is open, however old they are: it may still commit them. Where the log cannot be read,
kgm polls the committed offsets: if records are waiting and no offset changes, nothing is being committed. If no records
are waiting, nothing is known, because a commit of the same offset changes nothing.

Ages are measured with this machine's clock; commit times come from the coordinator's."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from kgm.client.admin_client import AdminClient
from kgm.client.offsets_topic.member_activity import ActivityRecord, CommitRecord, GroupActivity, RebalanceRecord
from kgm.client.requests import Offsets
from kgm.model.snapshot import GroupSnapshot
from kgm.text.durations import show_age
from kgm.text.names import in_order
from kgm.text.wording import some


class IdleVerdict(enum.StrEnum):
    """active: it was in use within the period that matters. idle: it was not. unknown: there is no evidence for
    either."""

    ACTIVE = "active"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """A verdict and the reasons for it. last_ms: when the last sign of use was written, in ms by the coordinator's
    clock; None if that is not known."""

    verdict: IdleVerdict
    evidence: tuple[str, ...]
    last_ms: int | None = None

    @property
    def why(self) -> str:
        return "; ".join(self.evidence)


#: For a group that does not exist, or that may not be deleted regardless of its commits.
NOT_LOOKED: Final = Idleness(verdict=IdleVerdict.UNKNOWN, evidence=("not looked at",))


def wall_clock_ms() -> float:
    """The time by this machine's clock, in ms since the epoch."""
    return time.time() * 1000


class IdleWatch:
    """The evidence that one group is in use, read once and then watched."""

    def __init__(
        self, cluster: AdminClient, group: GroupSnapshot, topics: Collection[str], idle_ms: int, *,
        now_ms: Callable[[], float],
    ) -> None:  # fmt: skip
        self._cluster, self._group_id, self._topics, self._idle_ms = cluster, group.group_id, topics, idle_ms
        self._now_ms = now_ms
        self._activity = GroupActivity(cluster, group.group_id, with_open=True)
        self._last: dict[str | None, ActivityRecord] = {}
        self._open: dict[str | None, list[CommitRecord]] = {}
        self._waiting_since_ms: dict[str | None, float] = {}
        self._committed: Offsets = committed_of(group)
        self._disturbed: dict[str | None, str] = {}

    def read(self) -> None:
        """Read the group's log backward as far as needed. Raises nothing: what cannot be read is missing evidence."""
        self._note(self._activity.read_back(self._is_enough, self._cluster.deadline.part(0.5)))

    def _is_enough(self, records: Sequence[ActivityRecord]) -> bool:
        since_ms = self._activity.known_since_ms
        found = dict(self._last_of(records))
        return found.keys() >= self._subjects or (since_ms is not None and since_ms <= self._now_ms() - self._idle_ms)

    @property
    def _subjects(self) -> set[str | None]:
        """The topics that matter, or None for the whole group."""
        return {*self._topics} or {None}

    def _last_of(self, records: Sequence[ActivityRecord]) -> list[tuple[str | None, ActivityRecord]]:
        if not self._topics:
            return [(None, one) for one in records]
        return [(one.topic, one) for one in records if isinstance(one, CommitRecord) and one.topic in self._topics]

    def _note(self, records: Sequence[ActivityRecord]) -> None:
        for subject, record in self._last_of(records):
            before = self._last.get(subject)
            # A commit counts from the end of its transaction on, which may be after later records.
            if before is None or _used_ms(record) >= _used_ms(before):
                self._last[subject] = record
            if isinstance(record, CommitRecord) and record.is_open:
                self._open.setdefault(subject, []).append(record)

    @property
    def is_readable(self) -> bool:
        return self._activity.unreadable_because is None

    def knows(self) -> bool:
        """Whether there is a verdict on every topic that matters, or on the whole group."""
        return all(self.verdict(one).verdict is not IdleVerdict.UNKNOWN for one in self._subjects)

    def poll(self) -> None:
        """Read the committed offsets and the end offsets once more. Raises KgmError."""
        committed = self._cluster.committed_offsets(self._group_id)
        ends = self._cluster.end_offsets(committed)
        for subject in self._subjects:
            mine = {pair for pair in {*committed, *self._committed} if subject is None or pair[0] == subject}
            changed = sorted(pair for pair in mine if committed.get(pair) != self._committed.get(pair))
            if changed:
                names = some(f"{topic}-{number}" for topic, number in changed)
                self._disturbed.setdefault(subject, f"committed offsets changed while kgm watched: {names}")
            if any(ends.get(pair, 0) > committed.get(pair, 0) for pair in mine & committed.keys()):
                self._waiting_since_ms.setdefault(subject, self._now_ms())

    def look_again(self, group: GroupSnapshot, topics: Collection[str]) -> str | None:
        """What has been committed for these topics, or for all, since the verdicts, in words; None if nothing. group:
        as described now."""
        if self.is_readable:
            records = [
                record
                for topic, record in self._last_of(self._activity.read_on(self._cluster.deadline))
                if topic is None or topic in topics
            ]
            # A member that is there has joined after the last one left, and says more.
            if records and not (_is_without_members(records[-1]) and group.members):
                return self._words(records[-1])
            if not self.is_readable:
                return f"its log can no longer be read: {self._activity.unreadable_because}"
        now = committed_of(group)
        for topic, partition in sorted({*now, *self._committed}):
            then, since = (one.get((topic, partition)) for one in (self._committed, now))
            if then != since and (not topics or topic in topics):
                return f"the committed offset of {topic}-{partition} was {_shown(then)}, and is {_shown(since)} now"
        return None

    def verdict(self, topic: str | None) -> Idleness:
        """The verdict on the whole group (None), or on its committed offsets for a topic."""
        now_ms = self._now_ms()
        if topic in self._disturbed:
            return Idleness(verdict=IdleVerdict.ACTIVE, evidence=(self._disturbed[topic],))
        last, since_ms = self._last.get(topic), self._activity.known_since_ms
        by_age = self._by_age(last, now_ms) if self.is_readable and last is not None else None
        if by_age is not None and by_age.verdict is IdleVerdict.ACTIVE:
            return by_age
        if self.is_readable and (why := self.why_open(topic)) is not None:
            last_ms = None if by_age is None else by_age.last_ms
            return Idleness(verdict=IdleVerdict.UNKNOWN, evidence=(why,), last_ms=last_ms)
        if by_age is not None:
            return by_age
        if self.is_readable and since_ms is not None and since_ms <= now_ms - self._idle_ms:
            back = "its log has no commit" if not since_ms else f"no commit in the last {show_age(now_ms - since_ms)}"
            return Idleness(verdict=IdleVerdict.IDLE, evidence=(f"{back} (the coordinator's log)",))
        return self._by_waiting(topic, now_ms)

    def why_open(self, topic: str | None) -> str | None:
        """Which offsets are in an open transaction that may still commit them, in words; None if there are none."""
        mine = self._open.get(topic)
        if mine:
            names = some(in_order({f"{one.topic}-{one.partition}" for one in mine}))
            ago = show_age(self._now_ms() - mine[-1].at_ms)
            return f"a transaction is open with offsets of {names}, written {ago} ago (the coordinator's log)"
        if not self._activity.has_read_open:
            return "an open transaction began before what could be read of its log"
        return None

    def _by_age(self, last: ActivityRecord, now_ms: float) -> Idleness:
        age_ms = now_ms - _used_ms(last)
        verdict = IdleVerdict.IDLE if age_ms >= self._idle_ms else IdleVerdict.ACTIVE
        words = f"{self._words(last)} (the coordinator's log)"
        return Idleness(verdict=verdict, evidence=(words,), last_ms=_used_ms(last))

    def _words(self, record: ActivityRecord) -> str:
        ago = f"{show_age(self._now_ms() - _used_ms(record))} ago"
        match record:
            case CommitRecord(committed_ms=None):
                state = "is open" if record.is_open else "was aborted"
                return f"a transaction that {state} wrote an offset of {record.topic}-{record.partition} {ago}"
            case CommitRecord():
                return f"its last commit was {ago}, of {record.topic}-{record.partition}"
            case RebalanceRecord(generation=0) if not record.members:  # a consumer has asked for a member id
                return f"it was created {ago}"
            case RebalanceRecord() if not record.members:
                return f"its last member left {ago}"
            case _:
                return f"its members last changed {ago}"

    def _by_waiting(self, topic: str | None, now_ms: float) -> Idleness:
        since_ms = self._waiting_since_ms.get(topic)
        watched_ms = 0.0 if since_ms is None else now_ms - since_ms
        if since_ms is not None and watched_ms >= self._idle_ms:
            evidence = f"records waited for {show_age(watched_ms)}, and no committed offset changed (seen by kgm)"
            return Idleness(verdict=IdleVerdict.IDLE, evidence=(evidence,))
        why = self._activity.unreadable_because
        if why is None:
            read_ms = self._activity.known_since_ms
            back = "nothing" if read_ms is None else f"only the last {show_age(now_ms - read_ms)}"
            why = f"{back} of its log could be read in the time and size allowed"
        watched = f"records wait, and no offset changed for the {show_age(watched_ms)} that kgm watched"
        seen = [] if since_ms is None else [watched]
        return Idleness(verdict=IdleVerdict.UNKNOWN, evidence=("the time of its last commit is not known", why, *seen))


def _used_ms(record: ActivityRecord) -> int:
    """When the record shows that the group was in use, in ms of the coordinator's clock."""
    committed_ms = record.committed_ms if isinstance(record, CommitRecord) else None
    return record.at_ms if committed_ms is None else committed_ms


def _is_without_members(record: ActivityRecord) -> bool:
    return isinstance(record, RebalanceRecord) and not record.members


def watch_for(
    cluster: AdminClient, watches: Sequence[IdleWatch], window_ms: int, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Poll the committed offsets of groups whose log gave no verdict, for as long as the operator said. Raises
    KgmError.

    The budget of the cluster client is renewed for each poll."""
    blind = [one for one in watches if not one.knows()]
    if not blind or not window_ms:
        return
    end_s = clock() + window_ms / 1000
    while True:
        cluster.go_on()
        for one in blind:
            one.poll()
        rest_s = end_s - clock()
        if rest_s <= 0:
            break
        cluster.deadline.sleep(min(1.0, rest_s))
    cluster.go_on()


def committed_of(group: GroupSnapshot, topic: str | None = None) -> Offsets:
    """The group's committed offsets, for all topics or for one."""
    return {
        (row.topic, row.partition): row.committed
        for row in group.offsets
        if row.committed is not None and topic in (None, row.topic)
    }


def _shown(offset: int | None) -> str:
    return "none" if offset is None else str(offset)

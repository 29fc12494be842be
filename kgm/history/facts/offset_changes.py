"""What happened to the committed offsets of one group: commits, jumps back, resets, and why offsets are gone.

A commit has no author. While a group has members, a broker accepts commits only from its members, and while it has
none, only from others; transactional ones at any time. A tombstone has no reason either: offsets expire, are deleted by
an admin (DeleteOffsets, DeleteGroups), or are deleted with their topic. What the records rule out is left out, and if
more than one reason remains, the reason is unknown."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import Final, TypeAlias

from kgm.history.causes.verdict import Confidence
from kgm.history.rows import CommitRow, OwnerRow
from kgm.text.durations import show_duration

Place: TypeAlias = tuple[str, int]
#: The lowest possible value of offsets.retention.minutes, in ms.
LEAST_RETENTION_MS: Final = 60_000
#: Brokers look for expired offsets every ten minutes (offsets.retention.check.interval.ms). An offset that was deleted
#: within two of these intervals after the retention has probably expired.
_SOON_MS: Final = 1_200_000
_NO_ID: Final = bytes(16)


class OffsetChangeKind(StrEnum):
    """What happened."""

    COMMITTED = "committed"
    #: A commit below the one before it, by a member, in a transaction, or by an unknown client.
    JUMPED_BACK = "jumped-back"
    #: A commit in a group of consumers while it had no members.
    RESET = "reset"
    EXPIRED = "expired"
    TOPIC_DELETED = "topic-deleted"
    OFFSETS_DELETED = "offsets-deleted"
    GROUP_DELETED = "group-deleted"
    #: The offset is gone, and the records do not show why.
    TOMBSTONED = "tombstoned"


class Committer(StrEnum):
    """Who committed, as far as the records show."""

    MEMBER = "member"
    #: An admin tool, or a consumer that assigns its own partitions.
    OUTSIDER = "not-a-member"
    TRANSACTION = "transaction"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoment:
    """The state of a group from a record on. members: None once its record is deleted. empty_ms: since when a classic
    group of consumers has been empty; None if offset retention counts from each commit. complete: whether no earlier
    record of the group can be missing."""

    offset: int
    timestamp: int
    members: int | None
    empty_ms: int | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """What a broker reports now, or what the user gave. retention_ms: offsets.retention.minutes, in ms; topics: the id
    of each topic that is known to exist (None: not reported); absent: the topics that do not exist; starts: the log
    start offset of each partition, or the committed offset if the whole log is before it."""

    retention_ms: int | None = None
    topics: Mapping[str, bytes | None] = field(default_factory=dict)
    absent: Collection[str] = ()
    starts: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """One thing that happened to a committed offset, or consecutive commits. before: the offset before it; after: the
    last offset, None if it is gone; commits: how many; offset: of the first record in `__consumer_offsets`; seat: the
    identity that owned the partition."""

    topic: str
    topic_partition: int
    what: OffsetChangeKind
    before: int | None
    after: int | None
    commits: int
    first_ms: int
    last_ms: int
    by: Committer | None
    seat: str | None
    confidence: Confidence
    evidence: tuple[str, ...]
    partition: int
    offset: int

    @property
    def place(self) -> Place:
        """Topic and partition."""
        return self.topic, self.topic_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOffset:
    """A committed offset that still exists at the end. expires_ms: when it expires if nothing changes; None if it does
    not expire, or if that is unknown; rule: the reason in words; lost: how many records the log no longer has that the
    group has not read, None if unknown. confirmed: False if the record that deleted it may be missing."""

    topic: str
    topic_partition: int
    committed: int
    committed_ms: int
    expires_ms: int | None
    rule: str
    lost: int | None
    confirmed: bool = True


class OffsetFold:
    """Goes through the commits of a group. moments, owners: of the same group, for the whole time. unconfirmed_until:
    as in `HistoryOrigin`."""

    def __init__(
        self, moments: Iterable[GroupMoment], owners: Iterable[OwnerRow], view: BrokerView, *,
        unconfirmed_until: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        self._unconfirmed_until = unconfirmed_until or {}
        self._moments = sorted(moments, key=_offset)
        self._first_members = next((one.offset for one in self._moments if one.members), None)
        self._deleted_ms = {one.timestamp for one in self._moments if one.members is None}
        self._owners: dict[Place, list[OwnerRow]] = {}
        for row in sorted(owners, key=_from_offset):
            if row.topic is not None:
                self._owners.setdefault((row.topic, row.topic_partition), []).append(row)
        self._view = view
        self._held: dict[Place, CommitRow] = {}
        #: The offset of each partition's last tombstone.
        self._deleted: dict[Place, int] = {}
        self._changes: dict[Place, list[OffsetChange]] = {}

    def feed(self, commits: Iterable[CommitRow]) -> None:
        """Process all commits and tombstones that count."""
        for (tombstone, _), rows in groupby(sorted(commits, key=_order), key=_write):
            if tombstone:
                self._delete(list(rows))
            else:
                for row in rows:
                    self._commit(row)

    def changes(self) -> list[OffsetChange]:
        """The changes by topic and partition, oldest first."""
        return [change for place in sorted(self._changes) for change in self._changes[place]]

    def held(self) -> list[HeldOffset]:
        """The offsets that still exist, by topic and partition."""
        return [self._last(self._held[place]) for place in sorted(self._held)]

    # -- commits

    def _commit(self, row: CommitRow) -> None:
        place = row.topic, row.topic_partition
        at, _ = _order(row)
        held = self._held.get(place)
        if (held is not None and held.offset > row.offset) or self._deleted.get(place, -1) > row.offset:
            # Written in a transaction that ended after a later commit outside of it, or after a tombstone: Kafka keeps
            # that commit, and a tombstone removes pending commits too (OffsetMetadataManager.replay).
            return
        self._held[place] = row
        by, seat, confidence, evidence = self._author(row, place, at)
        before, after = None if held is None else held.committed_offset, row.committed_offset
        what, is_back = OffsetChangeKind.COMMITTED, before is not None and after is not None and after < before
        if before is not None and by is Committer.OUTSIDER and self._had_members(at):
            what, confidence = OffsetChangeKind.RESET, Confidence.LIKELY
            evidence = f"{evidence}: an admin tool, or a consumer that assigns its partitions itself"
        elif is_back:
            what = OffsetChangeKind.JUMPED_BACK
        made = self._changes.setdefault(place, [])
        same = (what, by, seat, confidence, (evidence,))
        if made and not is_back and (made[-1].what, *_said(made[-1])) == same:
            made[-1] = replace(made[-1], after=after, commits=made[-1].commits + 1, last_ms=row.timestamp)
            return
        made.append(
            OffsetChange(
                topic=row.topic, topic_partition=row.topic_partition, what=what, before=before, after=after, commits=1,
                first_ms=row.timestamp, last_ms=row.timestamp, by=by, seat=seat, confidence=confidence,
                evidence=(evidence,), partition=row.partition, offset=row.offset,
            )
        )  # fmt: skip

    def _author(self, row: CommitRow, place: Place, at: int) -> tuple[Committer, str | None, Confidence, str]:
        if row.txn is not None:
            return Committer.TRANSACTION, None, Confidence.CERTAIN, "committed in a transaction"
        if not self._moments:
            return Committer.OUTSIDER, None, Confidence.POSSIBLE, "no record of the group tells of members"
        moment, following = self._around(at)
        is_sure = following is None or following.complete
        if moment is None and not is_sure:
            return Committer.UNKNOWN, None, Confidence.UNKNOWN, "records of the group are missing: did it have members?"
        confidence = Confidence.CERTAIN if is_sure else Confidence.LIKELY
        if moment is None or not moment.members:
            return Committer.OUTSIDER, None, confidence, "the group had no members"
        owner = self._owner(place, at)
        if owner is None:
            return Committer.MEMBER, None, confidence, "the group had members"
        return Committer.MEMBER, owner.seat, confidence, f"the group had members, and {owner.seat} owned the partition"

    # -- tombstones

    def _delete(self, rows: Sequence[CommitRow]) -> None:
        """Process tombstones that were written together."""
        places = [(row.topic, row.topic_partition) for row in rows]
        gone = [self._held.pop(place, None) for place in places]
        self._deleted.update(zip(places, (row.offset for row in rows), strict=True))
        for row, place, held in zip(rows, places, gone, strict=True):
            is_partial = any(topic == row.topic for topic, _ in self._held)
            what, confidence, evidence = self._reason(row, held, is_partial=is_partial)
            self._changes.setdefault(place, []).append(
                OffsetChange(
                    topic=row.topic, topic_partition=row.topic_partition, what=what,
                    before=None if held is None else held.committed_offset, after=None, commits=0,
                    first_ms=row.timestamp, last_ms=row.timestamp, by=None, seat=None, confidence=confidence,
                    evidence=evidence, partition=row.partition, offset=row.offset,
                )
            )  # fmt: skip

    def _reason(
        self, row: CommitRow, held: CommitRow | None, *, is_partial: bool
    ) -> tuple[OffsetChangeKind, Confidence, tuple[str, ...]]:
        is_same = self._is_same_topic(row.topic, held)
        owner = self._owner((row.topic, row.topic_partition), row.offset)
        if owner is not None and not is_partial and is_same is not True:
            said = f"{owner.seat} owned it: Kafka neither expires nor lets an admin delete what a member subscribes to"
            confidence = Confidence.LIKELY if is_same is None else Confidence.CERTAIN
            return OffsetChangeKind.TOPIC_DELETED, confidence, (said, *_topic_words(is_same))
        started = None if held is None else self._retention_start(held, row.offset)
        if started is None:
            said = "it is unknown when its retention began: earlier records are missing"
            return OffsetChangeKind.TOMBSTONED, Confidence.UNKNOWN, (said,)
        if held is not None and (asked_ms := _asked_expiry(held)) is not None and row.timestamp >= asked_ms:
            return OffsetChangeKind.EXPIRED, Confidence.LIKELY, ("after the time that the commit asked for",)
        since_ms, rule = started
        idle_ms, retention_ms = row.timestamp - since_ms, self._view.retention_ms
        words = f"{show_duration(idle_ms)} after {rule}"
        if idle_ms >= LEAST_RETENTION_MS and retention_ms is None:
            said = f"{words}: it may have expired; offsets.retention.minutes is unknown"
            return OffsetChangeKind.TOMBSTONED, Confidence.UNKNOWN, (said,)
        if retention_ms is not None and idle_ms >= retention_ms:
            is_soon = idle_ms <= retention_ms + _SOON_MS
            said = f"{words}; offsets.retention.minutes is {retention_ms // 60_000}"
            return OffsetChangeKind.EXPIRED, Confidence.LIKELY if is_soon else Confidence.POSSIBLE, (said,)
        # The retention may have been different then; it was at least one minute.
        confidence = Confidence.CERTAIN if idle_ms < LEAST_RETENTION_MS else Confidence.LIKELY
        not_expired = f"{words}: too early to expire"
        if row.timestamp in self._deleted_ms:
            return OffsetChangeKind.GROUP_DELETED, confidence, (not_expired, "the group's record was deleted with it")
        if is_partial or is_same is True:
            kept = "offsets of other partitions of the topic were kept" if is_partial else _topic_words(is_same)[0]
            return OffsetChangeKind.OFFSETS_DELETED, confidence, (not_expired, kept)
        if is_same is False:
            return OffsetChangeKind.TOPIC_DELETED, Confidence.LIKELY, (not_expired, *_topic_words(is_same))
        said = "DeleteOffsets, or the topic was deleted: the records do not show which"
        return OffsetChangeKind.TOMBSTONED, Confidence.UNKNOWN, (not_expired, said)

    def _is_same_topic(self, topic: str, held: CommitRow | None) -> bool | None:
        """Whether the topic of the commit still exists; None if that is unknown: no broker was asked, or the name could
        be that of a new topic."""
        if topic in self._view.absent:
            return False
        now, then = self._view.topics.get(topic), None if held is None else held.topic_id
        return None if now is None or then is None or then == _NO_ID else now == then

    # -- retention

    def _retention_start(self, held: CommitRow, at: int) -> tuple[int, str] | None:
        """(when the retention of an offset starts, the same in words), provided that no member subscribes to the topic;
        None if it is not known."""
        moment, following = self._around(at)
        if moment is None and following is not None and not following.complete:
            return None
        if moment is not None and moment.members == 0 and moment.empty_ms is not None:
            return moment.empty_ms, "the group became empty"
        time = held.commit_timestamp
        return None if time is None else (time, "the last commit")

    def _last(self, row: CommitRow) -> HeldOffset:
        expires_ms, rule = self._expiry(row)
        start, committed = self._view.starts.get((row.topic, row.topic_partition)), row.committed_offset or 0
        return HeldOffset(
            topic=row.topic, topic_partition=row.topic_partition, committed=committed, committed_ms=row.timestamp,
            expires_ms=expires_ms, rule=rule, lost=None if start is None else max(start - committed, 0),
            confirmed=self._is_confirmed(row),
        )  # fmt: skip

    def _is_confirmed(self, row: CommitRow) -> bool:
        return row.offset >= self._unconfirmed_until.get(row.partition, 0)

    def _expiry(self, row: CommitRow) -> tuple[int | None, str]:
        if not self._is_confirmed(row):
            return None, "it may be gone: compaction has removed later records"
        asked_ms, retention_ms = _asked_expiry(row), self._view.retention_ms
        if asked_ms is not None:
            return asked_ms, "the time that the commit asked for"
        if self._moments and self._moments[-1].members:
            return None, "not while a member subscribes to the topic"
        started = self._retention_start(row, self._moments[-1].offset + 1 if self._moments else row.offset)
        if started is None:
            return None, "unknown"
        since_ms, rule = started
        return None if retention_ms is None else since_ms + retention_ms, f"offsets.retention.minutes after {rule}"

    # -- the group

    def _around(self, at: int) -> tuple[GroupMoment | None, GroupMoment | None]:
        """The group according to the last record before an offset, and according to the next one."""
        number = bisect_left(self._moments, at, key=_offset)
        return (
            self._moments[number - 1] if number else None,
            self._moments[number] if number < len(self._moments) else None,
        )

    def _had_members(self, at: int) -> bool:
        return self._first_members is not None and self._first_members < at

    def _owner(self, place: Place, at: int) -> OwnerRow | None:
        owners = self._owners.get(place, ())
        number = bisect_left(owners, at, key=_from_offset)
        last = owners[number - 1] if number else None
        return last if last is not None and (last.to_offset is None or at < last.to_offset) else None


def _offset(moment: GroupMoment) -> int:
    return moment.offset


def _from_offset(row: OwnerRow) -> int:
    return row.from_offset


def _order(row: CommitRow) -> tuple[int, int]:
    """The sort key of a commit: commits in a transaction count from its marker on."""
    return row.offset if row.visible_offset is None else row.visible_offset, row.offset


def _write(row: CommitRow) -> tuple[bool, int]:
    """Tombstones that are written together share a timestamp."""
    return row.tombstone, row.timestamp if row.tombstone else 0


def _asked_expiry(row: CommitRow) -> int | None:
    """The expiry time that a commit asked for; clients before 2.1 could ask for one. None if it did not."""
    return None if row.expire_timestamp is None or row.expire_timestamp < 0 else row.expire_timestamp


def _said(change: OffsetChange) -> tuple[Committer | None, str | None, Confidence, tuple[str, ...]]:
    return change.by, change.seat, change.confidence, change.evidence


def _topic_words(is_same: bool | None) -> tuple[str, ...]:  # noqa: FBT001
    if is_same is None:
        return ()
    return ("the topic still exists, with the same id" if is_same else "the topic with that id is gone",)

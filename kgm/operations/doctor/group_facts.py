"""Everything that is known about one group, for the checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kgm.client.offsets_topic.group_tail import RecordedGroup
from kgm.client.offsets_topic.member_activity import CommitRecord
from kgm.client.offsets_topic.writability import Writability
from kgm.history.rows import AlarmRow, TimeoutAdviceRow
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.deletion.idleness import Idleness
from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.doctor.known_removals import KnownRemoval
from kgm.operations.doctor.own_commits import OwnCommits
from kgm.operations.groups.rebalance_wait import RebalanceWait
from kgm.text.names import natural
from kgm.text.wording import group_command


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAbsence:
    """A consumer-group member that left the group and came back under the same member id. rebalance_timeout_ms: the
    timeout it joins with, which is its max.poll.interval.ms; None if no record has it."""

    member_id: str
    left_ms: int
    back_ms: int
    rebalance_timeout_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One group. earlier: the description taken `window_ms` before `group`, if there was one.

    recorded: the group's records while it was a classic group, oldest first; rebalances_ms: when its rebalances ended,
    according to its log, oldest first. commits: the commits in its log, read only if members are known to have
    been absent; commits_since_ms: the time since when they are complete, None if the log could not be read;
    takeovers_ms: by when other coordinators had taken over since then, oldest first. removals: those in this machine's
    audit log. min_session_timeout_ms, max_session_timeout_ms (of classic members), max_size (members): what the broker
    allows. retention_ms: the retention of offsets of an empty group; None if the broker does not report it. wait: what
    a rebalancing group is waiting for, according to its log. idleness: for a group without members; None if it was not
    read. vanished_topics: topics that members used to subscribe to and that do not exist. unwritable: the group's
    partition of `__consumer_offsets`, if it took no records. absences: of members of a consumer group.
    own_commits: of the owners that committed nothing between the two descriptions, as far as they are known.
    stable_ends: the last stable offsets (KIP-98) of partitions with lag; marker_ends: partitions where only transaction
    markers are left to read. consumer_settings: settings of a consumer that will join, by Kafka's names. advice,
    alarms: from the built history in folder `history`."""

    group: GroupSnapshot
    now_ms: int
    earlier: GroupSnapshot | None = None
    window_ms: int = 0
    recorded: Sequence[RecordedGroup] = ()
    rebalances_ms: Sequence[int] = ()
    commits: Sequence[CommitRecord] = ()
    commits_since_ms: int | None = 0
    takeovers_ms: Sequence[int] = ()
    removals: Sequence[KnownRemoval] = ()
    min_session_timeout_ms: int | None = None
    max_session_timeout_ms: int | None = None
    max_size: int | None = None
    retention_ms: int | None = None
    absences: Sequence[MemberAbsence] = ()
    wait: RebalanceWait | None = None
    idleness: Idleness | None = None
    undescribed_topics: frozenset[str] = frozenset()
    vanished_topics: frozenset[str] = frozenset()
    unwritable: Writability | None = None
    stable_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    marker_ends: frozenset[tuple[str, int]] = frozenset()
    consumer_settings: Mapping[str, str] = field(default_factory=dict)
    supports_consumer_protocol: bool = False
    own_commits: Mapping[str, OwnCommits] = field(default_factory=dict)
    advice: Sequence[TimeoutAdviceRow] = ()
    alarms: Sequence[AlarmRow] = ()
    history: str | None = None
    #: The members in order of identity, derived from `group`.
    static: tuple[MemberSnapshot, ...] = field(init=False)
    dynamic: tuple[MemberSnapshot, ...] = field(init=False)

    def __post_init__(self) -> None:
        members = sorted(self.group.members, key=lambda member: natural(member.identity))
        static = tuple(member for member in members if member.group_instance_id is not None)
        dynamic = tuple(member for member in members if member.group_instance_id is None)
        object.__setattr__(self, "static", static)
        object.__setattr__(self, "dynamic", dynamic)

    def has_to_read(self, row: OffsetSnapshot) -> bool:
        """Whether the partition has records waiting that a consumer can read: not records in or behind an open
        transaction, and not if only transaction markers are left."""
        place = (row.topic, row.partition)
        return bool(row.lag) and place not in self.marker_ends and not self.is_held_up(row)

    def is_held_up(self, row: OffsetSnapshot) -> bool:
        """Whether everything before an open transaction in the partition is committed."""
        stable_end = self.stable_ends.get((row.topic, row.partition))
        if stable_end is None or row.end is None or stable_end >= row.end:
            return False
        return row.committed is not None and row.committed >= stable_end

    def finding(
        self, check: str, severity: Severity, message: str, *evidence: str, about: Iterable[str] = (),
        run: Sequence[str] = (),
    ) -> Finding:  # fmt: skip
        """A finding for this group. run: the next command as words, without `kgm`; the group is inserted after the
        first word."""
        return Finding(
            group_id=self.group.group_id,
            check=check,
            severity=severity,
            message=message,
            evidence=evidence,
            about=tuple(about),
            next_command=group_command(run[0], self.group.group_id, *run[1:]) if run else None,
        )

"""Runs the doctor over the groups of a cluster: what it requests, and what it finds."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from kgm.client import AdminClient
from kgm.client.failures import UnreadSettings
from kgm.client.in_parts import PART, KeptGroups, in_parts
from kgm.client.lag_times import with_commit_ages
from kgm.client.offsets_topic.group_tail import RawRecord, RecordedGroup, RecordedTarget, all_decoded
from kgm.client.offsets_topic.member_activity import CommitRecord, GroupActivity
from kgm.client.poller import completed_from_record
from kgm.client.topic_log.committed_topics import MOST_GROUPS
from kgm.model.errors import (
    AuthenticationError,
    AuthorizationError,
    KgmError,
    NotFoundError,
    PartialError,
)
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.change.carrying_out import Phase, no_phase
from kgm.operations.deletion.idleness import Idleness, IdleWatch
from kgm.operations.deletion.request import IDLE_MS
from kgm.operations.deletion.targets import group_impediment
from kgm.operations.doctor import (
    activity,
    assignment,
    history_findings,
    identity,
    newcomers,
    poll_intervals,
    recent_records,
)
from kgm.operations.doctor.check_names import UNAVAILABLE
from kgm.operations.doctor.coordinator_records import LOG_SHARE, CoordinatorRecords
from kgm.operations.doctor.findings import Finding, IgnoredFinding, Severity, SkippedChecks, could_not_run
from kgm.operations.doctor.group_facts import GroupFacts, MemberAbsence
from kgm.operations.doctor.history_findings import HistoryFacts
from kgm.operations.doctor.known_removals import KnownRemoval
from kgm.operations.doctor.lookups import OffsetsPartitions, WaitingPartitions, vanished_topics
from kgm.operations.doctor.own_commits import OwnCommitsQueries
from kgm.operations.groups.rebalance_wait import read_rebalance_wait
from kgm.operations.groups.refused_sessions import MAX_SESSION, MIN_SESSION
from kgm.operations.groups.selection import select_groups
from kgm.operations.groups.unread import UnreadKind, by_reason, unread
from kgm.operations.settings.ignored_checks import IgnoredCheck
from kgm.protocol.apis import ApiKey
from kgm.text.names import in_order, natural
from kgm.text.shell import shell_word
from kgm.text.whole_numbers import whole_number

_CHECKS: Final = (
    *identity.CHECKS,
    *assignment.CHECKS,
    *activity.CHECKS,
    *recent_records.CHECKS,
    *poll_intervals.CHECKS,
    *newcomers.CHECKS,
    *history_findings.CHECKS,
)
_RETENTION: Final = "offsets.retention.minutes"
#: The commits of at most this many groups are read, because each one takes time and bytes.
_MOST_LOGS: Final = 10
_CHECK_OF_IDLE: Final = "idle-group"
_CHECK_OF_POLLS: Final = "max-poll-exceeded"
#: Brokers 4.0 and later enable consumer groups with this feature; the setting exists in every version that can have
#: them.
_GROUP_VERSION: Final = "group.version"
_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
_CHECKS_OF_COMMITS: Final = ("session-too-short", "max-poll-exceeded")
_CHECK_OF_RETENTION: Final = "offsets-expire-soon"
_CHECKS_OF_LIMITS: Final = ("group-full", "rejoins-refused")
#: The logs of at most this many memberless groups are read back for commits, because each one takes time and bytes.
_MOST_IDLE: Final = 20
#: The setting that limits the number of members, by group type.
_MAX_SIZES: Final = {"classic": "group.max.size", "consumer": "group.consumer.max.size"}
_CHECKS_OF_ENDS: Final = (
    "committed-beyond-end", "empty-with-lag", "nothing-committed", "records-lost", "stalled-owner", "stalled-partition",
    "growing-lag",
)  # fmt: skip
_CHECKS_OF_OFFSETS: Final = {
    UnreadKind.END: _CHECKS_OF_ENDS,
    UnreadKind.COMMITTED: (*_CHECKS_OF_ENDS, "offsets-expire-soon", "offsets-of-other-topics"),
    UnreadKind.OTHER_COMMITTED: ("offsets-of-other-topics",),
}
_CHECKS_OF_WINDOW: Final = ("growing-lag", "stalled-owner", "stalled-partition", "rebalancing")
#: Checks that compare both descriptions, if there are two.
_CHECKS_OF_BOTH: Final = frozenset({*_CHECKS_OF_WINDOW, "double-owners", "unowned-partitions", "unsubscribed-owner"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """findings: most severe first, without the ignored ones. group_ids: the groups that were examined. unseen: why
    there may be groups that should have been examined."""

    group_ids: tuple[str, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[SkippedChecks, ...]
    errors: tuple[KgmError, ...]
    window_ms: int
    history: str | None
    ignored: tuple[IgnoredFinding, ...] = ()
    unseen: AuthorizationError | None = None

    def missing(self, asked: Collection[str] = ()) -> tuple[SkippedChecks, ...]:
        """The checks that should have run and could not. asked: the checks that the operator named; empty for all."""
        return tuple(one for one in self.skipped if not one.is_choice and (asked or not one.is_optional))

    def unread(self, asked: Collection[str]) -> PartialError | AuthorizationError | None:
        """Why the absence of findings proves nothing: not all groups are visible, or checks are `missing`; None if it
        is conclusive."""
        missing = self.missing(asked)
        return could_not_run(missing) if self.unseen is None and missing else self.unseen


def run_checks(facts: GroupFacts) -> list[Finding]:
    """All findings of one group, the most severe first."""
    findings = [finding for check in _CHECKS for finding in check(facts)]
    return sorted(findings, key=lambda one: (one.severity.rank, one.check))


def diagnose(
    cluster: AdminClient,
    names: Sequence[str] = (),
    pattern: str | None = None,
    *,
    window_ms: int,
    history: HistoryFacts | None = None,
    removals: Sequence[KnownRemoval] = (),
    checks: Collection[str] = (),
    ignored: Sequence[IgnoredCheck] = (),
    consumer_settings: Mapping[str, str] | None = None,
    phase: Phase = no_phase,
) -> Diagnosis:
    """Examine the named groups and those that match the pattern; all groups if neither is given.

    removals: those recorded in this machine's audit log. checks: the names of the checks to report; empty means all. A
    coordinator that does not answer is always reported. consumer_settings: settings of a consumer that will join the
    group named by its group.id, or the only group examined. Groups are described again `window_ms` later where a second
    look shows more; 0 means never. Raises KgmError when no broker answers."""
    needs_both = not checks or not _CHECKS_OF_BOTH.isdisjoint(checks)
    group_ids, is_skipped = [], False
    held: KeptGroups[_Described] = KeptGroups()
    with phase("examining groups"):
        selection = select_groups(cluster, names, pattern, all_groups=not names and pattern is None)
        queries = _ClusterQueries(
            cluster=cluster,
            window_ms=window_ms,
            history=history,
            removals=removals,
            consumer_settings=consumer_settings or {},
            errors=list(selection.errors),
            waiting=WaitingPartitions(cluster),
            partitions=OffsetsPartitions(cluster),
            records=CoordinatorRecords(cluster),
            own_commits=OwnCommitsQueries(cluster),
            joined_group=_joined_group(consumer_settings or {}, selection.group_ids),
        )

        def described_once() -> Iterator[tuple[_Described, None]]:
            nonlocal is_skipped
            for described in queries.described(selection.group_ids):
                group_ids.append(described.group.group_id)
                is_busy = needs_both and _changes_with_time(described.group)
                if is_busy and window_ms:
                    held.put(described.group.group_id, described)
                    continue
                is_skipped = is_skipped or is_busy
                yield described, None

        queries.examine(described_once())
    queries.skipped += queries.records.skipped
    if is_skipped:
        queries.skipped.append(
            SkippedChecks(checks=_CHECKS_OF_WINDOW, why="groups were described once (--window 0s)", is_choice=True)
        )
    if held.group_ids:
        with phase("waiting for commits"):
            cluster.deadline.sleep(window_ms / 1000)
            queries.examine(queries.described_again(held))
    queries.skipped += [*queries.skipped_of_groups, *queries.own_commits.skipped, *queries.partitions.skipped]
    cluster.name_similar_groups(queries.errors)
    queries.skipped += [*queries.without_settings(), *queries.without_offsets()]
    findings, passed_over = _sorted(queries.findings, checks, ignored)
    return Diagnosis(
        group_ids=tuple(in_order(group_ids)),
        findings=findings,
        ignored=passed_over,
        skipped=tuple(_of_checks(one, checks) for one in queries.skipped if not checks or {*one.checks} & {*checks}),
        errors=tuple(queries.errors),
        window_ms=window_ms,
        history=None if history is None else history.folder,
        unseen=selection.unseen,
    )


def _joined_group(consumer_settings: Mapping[str, str], group_ids: Sequence[str]) -> str | None:
    """The group that a consumer with these settings would join: the one they name, or the only one examined."""
    return consumer_settings.get("group.id") or (group_ids[0] if len(group_ids) == 1 else None)


def _sorted(
    findings: Iterable[Finding], checks: Collection[str], ignored: Sequence[IgnoredCheck]
) -> tuple[tuple[Finding, ...], tuple[IgnoredFinding, ...]]:
    """(findings to report, most severe first; ignored findings)."""
    wanted = [one for one in findings if not checks or one.check in {*checks, UNAVAILABLE}]
    wanted.sort(key=lambda one: (one.severity.rank, natural(one.group_id), one.check, one.message))
    pairs = [(one, _reason_to_ignore(one, ignored)) for one in wanted]
    reported = tuple(finding for finding, reason in pairs if reason is None)
    return reported, tuple(IgnoredFinding(finding=finding, reason=reason) for finding, reason in pairs if reason)


def _reason_to_ignore(finding: Finding, ignored: Sequence[IgnoredCheck]) -> str | None:
    for one in ignored:
        if one.check == finding.check and fnmatch.fnmatchcase(finding.group_id, one.group):
            return one.reason
    return None


def _of_checks(skipped: SkippedChecks, checks: Collection[str]) -> SkippedChecks:
    """The skipped checks, limited to the requested ones."""
    names = tuple(name for name in skipped.checks if not checks or name in checks)
    return replace(skipped, checks=names)


class _Described(NamedTuple):
    """A group, and what its coordinator recorded about it."""

    group: GroupSnapshot
    records: Sequence[RawRecord]


@dataclass(slots=True, kw_only=True)
class _ClusterQueries:
    """The requests to the cluster, and what they have returned so far."""

    cluster: AdminClient
    window_ms: int
    history: HistoryFacts | None
    removals: Sequence[KnownRemoval]
    consumer_settings: Mapping[str, str]
    errors: list[KgmError]
    waiting: WaitingPartitions
    partitions: OffsetsPartitions
    records: CoordinatorRecords
    own_commits: OwnCommitsQueries
    joined_group: str | None
    findings: list[Finding] = field(default_factory=list)
    skipped: list[SkippedChecks] = field(default_factory=list)
    skipped_of_groups: list[SkippedChecks] = field(default_factory=list)
    _has_consumer_protocol: bool | None = None
    #: By (broker id, setting name).
    _limits: dict[tuple[int, str], int | None] = field(default_factory=dict)
    _logs_read: int = 0
    _without_retention: set[UnreadSettings] = field(default_factory=set)
    _without_limits: set[UnreadSettings] = field(default_factory=set)
    _idle_groups: int = 0

    def described(self, group_ids: Sequence[str]) -> Iterator[_Described]:
        """Describe the groups, in an order of its own. A coordinator that does not answer becomes a finding; a missing
        group or permission, an error."""
        group_ids = self.records.in_log_order(group_ids)
        records: Mapping[str, Sequence[RawRecord]] = {}

        def ask(part: Sequence[str]) -> list[GroupSnapshot | KgmError]:
            nonlocal records
            answers = self.cluster.describe_groups(part, most_searched=MOST_GROUPS)
            present = [answer.group_id for answer in answers if isinstance(answer, GroupSnapshot)]
            records = self.records.read(present)  # only now, so that the log is not older
            self.partitions.look_at(present)
            return answers

        for group_id, answer in zip(group_ids, in_parts(self.cluster, group_ids, ask), strict=True):
            if not isinstance(answer, KgmError):
                yield _Described(answer, records.get(group_id, ()))
            elif isinstance(answer, NotFoundError | AuthenticationError | AuthorizationError):
                self.errors.append(answer)
            else:
                self.findings.append(_coordinator_unavailable(group_id, answer))

    def described_again(self, held: KeptGroups[_Described]) -> Iterator[tuple[_Described, GroupSnapshot | None]]:
        """(first, later) descriptions of each group; later is None if the group could not be described again."""
        errors: dict[str, KgmError] = {}
        group_ids = held.group_ids
        describe = partial(self.cluster.describe_groups, most_searched=MOST_GROUPS)
        answers = in_parts(self.cluster, group_ids, describe)
        for group_id, answer in zip(group_ids, answers, strict=True):
            first = held.take(group_id)
            assert first is not None  # each was put there once
            if isinstance(answer, KgmError):
                errors[group_id] = answer
                yield first, None
            else:
                yield first, answer
        for why, names in by_reason(errors):
            text = f"group {names} could not be described again ({why})"
            self.skipped.append(SkippedChecks(checks=_CHECKS_OF_WINDOW, why=text))

    def examine(self, groups: Iterable[tuple[_Described, GroupSnapshot | None]]) -> None:
        """Run all checks on each group, given its first description and its second one, if any."""
        pairs = iter(groups)
        while some := list(islice(pairs, PART)):
            self.waiting.look_at([later or first.group for first, later in some])
            self.partitions.look_at([later.group_id for _, later in some if later is not None])
            for (first, records), later in some:
                facts = self._facts(first, later, all_decoded(first.group_id, records))
                silent = activity.silent_owners(facts)
                own_commits = self.own_commits.of(facts.group, silent, facts.window_ms, facts.now_ms)
                self.findings += run_checks(replace(facts, own_commits=own_commits))

    def _facts(
        self, first: GroupSnapshot, later: GroupSnapshot | None, logged: Sequence[RecordedGroup | RecordedTarget]
    ) -> GroupFacts:
        latest, now_ms = later or first, round(time.time() * 1000)
        if recorded := [one for one in logged if isinstance(one, RecordedGroup)]:
            latest = completed_from_record(latest, recorded[-1].group)
        if latest.state == "Empty" and latest.offsets and self._may_read_log("commits-without-members"):
            (latest,) = with_commit_ages(self.cluster, [latest])
        history = self.history
        were_absent = recent_records.has_absences(recorded)
        has_sessions = latest.type == "classic" and bool(latest.members)
        is_told_by_commits = were_absent or self._is_told_by_commits(recorded, now_ms)
        commits, commits_since_ms, takeovers_ms = (
            self._commits(latest.group_id, since_ms=recorded[0].at_ms) if is_told_by_commits else ((), 0, ())
        )
        return GroupFacts(
            group=latest,
            now_ms=now_ms,
            earlier=None if later is None else first,
            window_ms=self.window_ms,
            recorded=recorded,
            rebalances_ms=recent_records.rebalances_ms(logged),
            commits=commits,
            commits_since_ms=commits_since_ms,
            takeovers_ms=takeovers_ms,
            removals=[one for one in self.removals if one.is_of(self.cluster.cluster_id, latest.group_id)],
            min_session_timeout_ms=self._limit(latest, MIN_SESSION) if has_sessions else None,
            max_session_timeout_ms=self._limit(latest, MAX_SESSION) if has_sessions or were_absent else None,
            max_size=self._limit(latest, _MAX_SIZES.get(latest.type)) if latest.members else None,
            retention_ms=self._retention_ms(latest) if latest.state == "Empty" and latest.offsets else None,
            absences=self._absences(latest, now_ms),
            wait=None if later is None else read_rebalance_wait(self.cluster, latest, seen_for_ms=self.window_ms),
            idleness=self._idleness(latest, now_ms),
            undescribed_topics=self.cluster.offsets.undescribed_topics,
            vanished_topics=vanished_topics(self.cluster, latest, recorded),
            unwritable=self.partitions.unwritable_of(latest.group_id),
            stable_ends=self.waiting.stable_ends,
            consumer_settings=self.consumer_settings if latest.group_id == self.joined_group else {},
            marker_ends=self.waiting.marker_ends_of(latest.group_id),
            supports_consumer_protocol=self._supports_consumer_protocol(latest.group_id),
            advice=[] if history is None else [one for one in history.advice if one.group_id == latest.group_id],
            alarms=[] if history is None else [one for one in history.alarms if one.group_id == latest.group_id],
            history=None if history is None else history.folder,
        )

    def _commits(self, group_id: str, *, since_ms: int) -> tuple[Sequence[CommitRecord], int | None, Sequence[int]]:
        """(the commits in the group's log since `since_ms`, as far back as they could be read; how far back that is, in
        ms; `GroupActivity.takeovers_ms`)."""
        activity = GroupActivity(self.cluster, group_id)
        records = activity.read_back(
            lambda records: bool(records) and records[0].at_ms < since_ms, self.cluster.deadline.part(LOG_SHARE)
        )
        known_since_ms = activity.known_since_ms
        if known_since_ms is None or known_since_ms > since_ms:
            why = activity.unreadable_because or "it is too long to be read back to its oldest rebalance"
            is_optional = activity.unreadable_because is None
            why = f"log of group {group_id}: {why}"
            skipped = SkippedChecks(checks=_CHECKS_OF_COMMITS, why=why, is_optional=is_optional)
            self.skipped_of_groups.append(skipped)
        commits = [record for record in records if isinstance(record, CommitRecord)]
        return commits, known_since_ms, activity.takeovers_ms

    def _absences(self, group: GroupSnapshot, now_ms: int) -> Sequence[MemberAbsence]:
        """Absences of members of a consumer group, unless the limit on logs to read has been reached."""
        if group.type != "consumer" or not group.members or not self._may_read_log(_CHECK_OF_POLLS):
            return ()
        since_ms = now_ms - poll_intervals.RECENT_MS
        activity = GroupActivity(self.cluster, group.group_id, with_departures=True)
        records = activity.read_back(
            lambda read: bool(read) and read[0].at_ms < since_ms, self.cluster.deadline.part(LOG_SHARE)
        )
        if activity.unreadable_because is not None:
            why = f"log of group {group.group_id}: {activity.unreadable_because}"
            self.skipped_of_groups.append(SkippedChecks(checks=(_CHECK_OF_POLLS,), why=why))
        return poll_intervals.absences(records, since_ms)

    def _idleness(self, group: GroupSnapshot, now_ms: int) -> Idleness | None:
        """Whether a group that could be deleted is idle; None if it could not be, or if its log is not read."""
        if group_impediment(group) is not None:
            return None
        self._idle_groups += 1
        if self._idle_groups > _MOST_IDLE:
            why = f"the logs of more than {_MOST_IDLE} groups without members are not read"
            if self._idle_groups == _MOST_IDLE + 1:
                self.skipped_of_groups.append(SkippedChecks(checks=(_CHECK_OF_IDLE,), why=why, is_optional=True))
            return None
        watch = IdleWatch(self.cluster, group, (), IDLE_MS, now_ms=lambda: now_ms)
        watch.read()
        return watch.verdict(None)

    def _is_told_by_commits(self, recorded: Sequence[RecordedGroup], now_ms: int) -> bool:
        """Whether members left recently whose commits may show why. Finding out means reading one log per group."""
        if not poll_intervals.has_recent_departures(recorded, now_ms):
            return False
        return self._may_read_log(_CHECK_OF_POLLS)

    def _may_read_log(self, check: str) -> bool:
        """Whether the commits of one more group may be read; if not, the check is recorded as skipped."""
        self._logs_read += 1
        if self._logs_read > _MOST_LOGS:
            why = f"the logs of more than {_MOST_LOGS} groups are not read"
            self.skipped_of_groups.append(SkippedChecks(checks=(check,), why=why, is_optional=True))
        return self._logs_read <= _MOST_LOGS

    def without_settings(self) -> list[SkippedChecks]:
        """The checks that need broker settings that could not be read."""
        skipped = []
        of_retention = (_CHECK_OF_RETENTION,)
        for checks, reasons in ((of_retention, self._without_retention), (_CHECKS_OF_LIMITS, self._without_limits)):
            # Nothing but the limits needs this right.
            skipped += [
                SkippedChecks(
                    checks=checks, why=f"the broker's settings {one.why}",
                    is_optional=one.is_denied and checks == _CHECKS_OF_LIMITS,
                )
                for one in sorted(reasons)
            ]  # fmt: skip
        return skipped

    def without_offsets(self) -> list[SkippedChecks]:
        """The checks that need offsets that could not be read: finding nothing there proves nothing."""
        return [
            SkippedChecks(checks=_CHECKS_OF_OFFSETS[one.kind], why=one.text)
            for one in unread(self.cluster)
            if one.kind in _CHECKS_OF_OFFSETS
        ]

    def _retention_ms(self, group: GroupSnapshot) -> int | None:
        minutes = self._broker_number(group, _RETENTION, self._without_retention)
        return None if minutes is None else minutes * 60_000

    def _limit(self, group: GroupSnapshot, name: str | None) -> int | None:
        """What the coordinator's broker allows, which is asked once; None if it does not report that."""
        if name is None or group.coordinator is None:
            return None
        place = group.coordinator.id, name
        if place not in self._limits:
            self._limits[place] = self._broker_number(group, name, self._without_limits)
        return self._limits[place]

    def _broker_number(self, group: GroupSnapshot, name: str, unread: set[UnreadSettings]) -> int | None:
        """A numeric setting of the coordinator's broker; None if the broker does not report it. unread: collects the
        reasons why it could not be read."""
        text = self.cluster.broker_settings(group.group_id, [name]).get(name)
        if one := self.cluster.unread_broker_settings.get(group.group_id):
            unread.add(one)
        return whole_number(text)

    def _supports_consumer_protocol(self, group_id: str) -> bool:
        """Whether consumer groups are enabled on the brokers. Brokers 3.7 to 3.9 advertise the APIs either way, so only
        a setting shows it. The answer is cached."""
        if self._has_consumer_protocol is None:
            try:
                has_api, level = self.cluster.brokers.on_any(
                    lambda one: (one.supports(ApiKey.CONSUMER_GROUP_HEARTBEAT), one.features.get(_GROUP_VERSION, 0)),
                    self.cluster.deadline,
                )
            except KgmError:
                return False
            protocols = self.cluster.broker_settings(group_id, [_PROTOCOLS]) if has_api and not level else {}
            self._has_consumer_protocol = bool(has_api and level) or "consumer" in protocols.get(_PROTOCOLS, "")
        return self._has_consumer_protocol


def _changes_with_time(group: GroupSnapshot) -> bool:
    """Whether a second description shows more: records are waiting for members, or the group is not stable."""
    if not group.members:
        return False
    return group.state != "Stable" or any(row.lag for row in group.offsets)


def _coordinator_unavailable(group_id: str, error: KgmError) -> Finding:
    return Finding(
        group_id=group_id,
        check=UNAVAILABLE,
        severity=Severity.ERROR,
        message=error.message,
        evidence=error.facts,
        next_command=f"kgm config test -g {shell_word(group_id)}",
    )

"""The groups of a cluster, read in large slices and then refreshed, within a bound on processor time.

A round reads the wanted groups (those on the screen), those whose state changed in the listing, and then the groups
that were read longest ago, as many as its share of a core allows. Lag in time takes one fetch per lagging partition, so
a round reads it for the wanted groups first, then for those with the largest lag."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from kgm.client import AdminClient
from kgm.client.failures import refuse_other_cluster
from kgm.client.group_listing import ListedGroup, Listing
from kgm.client.lag_times import KnownTimes, unread_records, with_lag_times
from kgm.client.offsets_topic.fleet_log import WINDOW_MS, FleetLog, LoggedGroup
from kgm.model.changes import REBALANCING
from kgm.model.errors import KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.selection import unseen_groups
from kgm.operations.groups.unread import Unread, UnreadKind, undescribed, unread
from kgm.operations.top.rows import FleetRow
from kgm.records.rebalances import most_between
from kgm.text.names import natural

#: The maximum number of groups in a slice.
_SLICE: Final = 500
#: How often groups are listed, in ms.
_LISTING_MS: Final = 5_000
#: The processor time of a round, as a share of the interval between rounds.
_SHARE: Final = 0.07
#: The share of a round's time, and of its processor time, that reading the log may take.
_LOG_SHARE: Final = 0.3
#: How many records are fetched per round to find out how old they are, and how many ages are remembered.
_MOST_FETCHES: Final = 100
_MOST_TIMES: Final = 200_000
_AWAY: Final = "away"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """Which groups: those whose id matches the pattern; None for all. round_ms: the interval between rounds."""

    pattern: str | None = None
    round_ms: int = 1_000


@dataclass(slots=True)
class _Past:
    """What earlier rounds saw of a group. members: (at_ms, number of members while stable), largest first; rebalances:
    (at_ms, the least number, the most that the epochs allow; a classic group may have had any number)."""

    since_ms: int
    state: str | None = None
    member_ids: frozenset[str] = frozenset()
    epoch: int | None = None
    members: deque[tuple[int, int]] = field(default_factory=deque)
    rebalances: deque[tuple[int, int, int]] = field(default_factory=deque)

    def observe(self, group: GroupSnapshot, now_ms: int) -> int | None:
        """Take a new description. Returns the largest number of members it had in the hour before; None if it was not
        seen before."""
        self._count(group, now_ms)
        most = self._most_members(now_ms)
        if group.state == "Stable":
            present = sum(member.status != _AWAY for member in group.members)
            while self.members and self.members[-1][1] <= present:
                self.members.pop()
            self.members.append((now_ms, present))
        return most

    def _most_members(self, now_ms: int) -> int | None:
        while self.members and self.members[0][0] < now_ms - WINDOW_MS:
            self.members.popleft()
        return self.members[0][1] if self.members else None

    def _count(self, group: GroupSnapshot, now_ms: int) -> None:
        """Count rebalances by epochs, or for a classic group by their visible effects."""
        member_ids = frozenset(member.member_id for member in group.members)
        count = most = 0
        if self.state is not None:
            if group.assignment_epoch is not None:
                before = self.epoch
                if before is not None and before != group.assignment_epoch:
                    count, most = 1, most_between(before, group.assignment_epoch)
            elif group.state in REBALANCING:
                count = 0 if self.state in REBALANCING else 1
            elif member_ids != self.member_ids and self.state not in REBALANCING:
                count = 1
        self.state, self.member_ids, self.epoch = group.state, member_ids, group.assignment_epoch
        if count:
            self.rebalances.append((now_ms, count, max(count, most)))
        while self.rebalances and self.rebalances[0][0] < now_ms - WINDOW_MS:
            self.rebalances.popleft()


class Fleet:
    """The groups of one cluster. clock: seconds since the epoch; cpu_clock: processor time of this process, in
    seconds."""

    def __init__(
        self, cluster: AdminClient, request: FleetRequest, *, clock: Callable[[], float] = time.time,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        #: All listed groups, sorted by name.
        self.rows: dict[str, FleetRow] = {}
        self.listing = Listing(groups=(), errors=())
        #: Why there may be groups that are not listed.
        self.unseen: KgmError | None = None
        self._request, self._clock, self._cpu_clock = request, clock, cpu_clock
        self._log = FleetLog(cluster, clock=clock)
        self._past: dict[str, _Past] = {}
        self._times: KnownTimes = {}
        self._listed: Mapping[str, ListedGroup] = {}
        self._listed_at_ms: int | None = None
        #: Groups whose state changed in the latest listing and that have not been read since.
        self._changed: list[str] = []
        #: The groups in the order in which they were last read, oldest first.
        self._turns: deque[str] = deque()
        #: The processor time for reading one group, in seconds.
        self._group_cost_s = 0.0005

    @property
    def log_unreadable_because(self) -> str | None:
        return self._log.unreadable_because

    @property
    def is_filling(self) -> bool:
        """Whether some groups have not been read yet."""
        return bool(self._turns) and self.rows[self._turns[0]].read_at_ms is None

    def read_all(self, on_progress: Callable[[int, int], None] = lambda *_: None) -> None:
        """Read every group once. Raises KgmError when no broker answers, or another cluster does."""
        self._list(self._now_ms())
        self._log.read(self.cluster.deadline.part(_LOG_SHARE))
        while self.is_filling:
            self._read([self._turns[at] for at in range(min(_SLICE, self._unread()))], most_fetches=None)
            on_progress(len(self.rows) - self._unread(), len(self.rows))

    def read_round(self, wanted: Sequence[str] = (), *, budget_ms: int) -> None:
        """Read the wanted groups and some others. Raises KgmError when no broker answers, or another cluster
        does; the rows then stay as they are. budget_ms: how long the round may take."""
        self.cluster.renew(budget_ms)
        now_ms = self._now_ms()
        if self._listed_at_ms is None or now_ms - self._listed_at_ms >= _LISTING_MS:
            with self.cluster.brokers.in_a_hurry():  # the rounds are what asks again
                self._list(now_ms)
        began_s, share_s = self._cpu_clock(), self._request.round_ms / 1000 * _SHARE
        is_bounded = not self.is_filling  # groups never read before are read as soon as possible
        self._log.read(
            self.cluster.deadline.part(_LOG_SHARE),
            lambda: is_bounded and self._cpu_clock() - began_s > share_s * _LOG_SHARE,
        )
        slice_ = self._next(wanted, share_s - (self._cpu_clock() - began_s))
        began_s = self._cpu_clock()
        self._read(slice_, most_fetches=_MOST_FETCHES, first=set(wanted))
        if slice_:
            self._group_cost_s = (self._group_cost_s + (self._cpu_clock() - began_s) / len(slice_)) / 2

    def unread(self) -> list[Unread]:
        """What the cluster did not report, and what is unknown as a result."""
        errors = {row.group_id: row.error for row in self.rows.values() if row.error is not None}
        told = [*unread(self.cluster), *undescribed(errors, "members and lag are unknown")]
        if self._log.unreadable_because is not None:
            consequence = "the age of commits is unknown, rebalances and members are counted from kgm's first poll"
            told.append(Unread(kind=UnreadKind.RECORDS, text=self._log.unreadable_because, consequence=consequence))
        return told

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _unread(self) -> int:
        return sum(row.read_at_ms is None for row in self.rows.values())

    def _list(self, now_ms: int) -> None:
        """List the groups. Raises KgmError when no broker answers. If only some answer, the groups of the others are
        kept."""
        self.listing = self.cluster.list_groups()
        self.unseen = unseen_groups(self.cluster, sees_some=bool(self.listing.groups))
        self._listed_at_ms = now_ms
        pattern = self._request.pattern
        listed = {
            row.group_id: row for row in self.listing.groups if pattern is None or fnmatchcase(row.group_id, pattern)
        }
        self._listed = {**(self._listed if self.listing.errors else {}), **listed}
        self._changed = [
            group_id
            for group_id, one in listed.items()
            if one.state is not None and group_id in self.rows and self.rows[group_id].state not in (None, one.state)
        ]
        if self._listed.keys() == self.rows.keys():
            return
        rows = {group_id: self.rows.get(group_id) or _listed_row(self._listed[group_id]) for group_id in self._listed}
        new = [group_id for group_id in rows if group_id not in self.rows]
        self.rows = {group_id: rows[group_id] for group_id in sorted(rows, key=natural)}
        self._turns = deque([*new, *(group_id for group_id in self._turns if group_id in rows)])
        self._past = {group_id: past for group_id, past in self._past.items() if group_id in rows}
        self._log.keep(rows.keys())

    def _next(self, wanted: Sequence[str], budget_s: float) -> list[str]:
        """The groups to read in this round."""
        first = [group_id for group_id in wanted if group_id in self.rows]
        changed, self._changed = self._changed[:_SLICE], self._changed[_SLICE:]
        room = len(first) + len(changed)
        # At least one more, so that every group gets its turn however many are on the screen.
        count = _SLICE if self.is_filling else min(_SLICE, max(round(budget_s / self._group_cost_s), room + 1))
        others = (self._turns[at] for at in range(min(len(self._turns), count)))
        return list(dict.fromkeys([*first, *changed, *others]))[:count]

    def _read(self, group_ids: Sequence[str], *, most_fetches: int | None, first: Iterable[str] = ()) -> None:
        if not group_ids:
            return
        answers = self.cluster.describe_groups(group_ids, is_brief=True)
        refuse_other_cluster(answers)
        groups = [answer for answer in answers if not isinstance(answer, KgmError)]
        groups = self._with_times(groups, most_fetches, set(first))
        now_ms = self._now_ms()
        found = {group.group_id: self._row(group, now_ms) for group in groups}
        for group_id, answer in zip(group_ids, answers, strict=True):
            if isinstance(answer, KgmError):
                found[group_id] = _undescribed_row(self._listed[group_id], answer, now_ms)
        read = set(group_ids)
        self._turns = deque([*(group_id for group_id in self._turns if group_id not in read), *group_ids])
        self.rows = {group_id: found.get(group_id, row) for group_id, row in self.rows.items()}

    def _with_times(
        self, groups: list[GroupSnapshot], most_fetches: int | None, first: set[str]
    ) -> list[GroupSnapshot]:
        if len(self._times) > _MOST_TIMES:
            self._times.clear()
        behind = [(group, lag) for group in groups if (lag := group.lag)]
        order = [one for one, _ in sorted(behind, key=lambda pair: (pair[0].group_id not in first, -pair[1]))]
        chosen, left = [], most_fetches
        for group in order:
            fetches = unread_records(group, self._times)
            if left is None or fetches <= left:
                chosen.append(group)
                left = None if left is None else left - fetches
        if not chosen:
            return groups
        timed = {group.group_id: group for group in with_lag_times(self.cluster, chosen, self._times)}
        return [timed.get(group.group_id, group) for group in groups]

    def _row(self, group: GroupSnapshot, now_ms: int) -> FleetRow:
        past = self._past.setdefault(group.group_id, _Past(now_ms))
        logged = self._log.of(group.group_id)
        most_seen = past.observe(group, now_ms)
        away = sum(member.status == _AWAY for member in group.members)
        known = [count for count in (most_seen, logged.most_members) if count is not None]
        present = len(group.members) - away
        commit_age_ms, commit_age_least_ms = _commit_age_ms(group, logged)
        rebalances, since_ms, is_exact = _rebalances(past, logged, now_ms, is_classic=group.type == "classic")
        lag = group.lag
        return FleetRow(
            group_id=group.group_id,
            type=group.type,
            state=group.state,
            protocol_type=group.protocol_type,
            assignor=group.assignor,
            members=len(group.members),
            missing=max(*known, present) - present if known else away or None,
            lag=lag,
            lag_ms=None if lag is None else group.lag_ms,
            commit_age_ms=commit_age_ms,
            commit_age_least_ms=commit_age_least_ms,
            rebalances=rebalances,
            rebalances_since_ms=since_ms,
            rebalances_exact=is_exact,
            read_at_ms=now_ms,
        )


def _commit_age_ms(group: GroupSnapshot, logged: LoggedGroup) -> tuple[int | None, int | None]:
    """(how long ago it last committed, or the minimum if that is not known); in ms."""
    if logged.read_ms is None or logged.known_since_ms is None or group.type == "share":  # share groups do not commit
        return None, None
    if logged.committed_ms is not None:
        return max(logged.read_ms - logged.committed_ms, 0), None
    has_committed = any(offset.committed is not None for offset in group.offsets)
    return None, logged.read_ms - logged.known_since_ms if has_committed else None


def _rebalances(
    past: _Past, logged: LoggedGroup, now_ms: int, *, is_classic: bool
) -> tuple[int | None, int | None, bool | None]:
    """(number, since when, whether it is exact), from the log if it can be read, else from what was seen; all None
    after a single look."""
    if logged.rebalances_since_ms is not None:
        return logged.rebalances, logged.rebalances_since_ms, logged.are_all_known
    since_ms = max(past.since_ms, now_ms - WINDOW_MS)
    if since_ms == now_ms:
        return None, None, None
    is_exact = not is_classic and all(least == most for _, least, most in past.rebalances)
    return sum(least for _, least, _ in past.rebalances), since_ms, is_exact


def _listed_row(listed: ListedGroup) -> FleetRow:
    return FleetRow(group_id=listed.group_id, type=listed.type, state=listed.state, protocol_type=listed.protocol_type)


def _undescribed_row(listed: ListedGroup, error: KgmError, now_ms: int) -> FleetRow:
    is_gone = isinstance(error, NotFoundError)  # it will be missing from the next listing
    return replace(
        _listed_row(listed), state="Dead" if is_gone else listed.state, read_at_ms=now_ms,
        error=None if is_gone else error,
    )  # fmt: skip

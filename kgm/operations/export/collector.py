"""Collects what monitoring needs to know about groups, by polling the cluster periodically.

A failed collection is data too: the groups that could not be described are missing from it, and never carry values of
an earlier one. Counters continue from where they were. New groups are watched from then on, deleted groups are
forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice

from kgm.client import AdminClient
from kgm.client.failures import refuse_other_cluster
from kgm.client.in_parts import PART, KeptGroups
from kgm.client.poller import GroupPoller, PolledGroup
from kgm.model.errors import KgmError, NotFoundError
from kgm.operations.doctor.diagnosis import diagnose
from kgm.operations.doctor.findings import Finding, checks_of
from kgm.operations.export.series import ExportedGroup, GroupSeries
from kgm.operations.groups.selection import select_groups
from kgm.operations.watch.watched_group import WatchedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """Which groups: the named ones and those that match the pattern; all groups if neither is given.

    budget_ms: how long one collection may take. findings_every_ms: how often the doctor examines the groups, starting
    with the first collection; None: never. with_times: also collect lag in time. max_series: the limit for one
    collection. is_once: this collection will not be compared with another one, so no group has to be kept."""

    names: Sequence[str] = ()
    pattern: str | None = None
    budget_ms: int = 30_000
    findings_every_ms: int | None = None
    with_times: bool = False
    max_series: int = 50_000
    is_once: bool = False

    def no_series(self) -> GroupSeries:
        """The series of a collection before any group is added."""
        return GroupSeries(most=self.max_series, has_times=self.with_times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What one collection saw. at_s: seconds since the epoch. findings: from the latest examination; None before the
    first one, or if it failed. not_run: the checks that it should have made and could not, by name. errors: why groups
    could not be described, and why offsets, and with them lag, could not be read, or that no group is visible. unseen:
    why there may be groups that are not visible. is_up: whether the cluster answered. log_unread_because: why
    rebalances since the last collection may be missed, or be counted only by a later one. has_read_log: whether the
    groups' log was read; a single one reads it for classic groups only."""

    at_s: float
    duration_s: float
    is_up: bool
    cluster_id: str | None
    series: GroupSeries
    errors: tuple[KgmError, ...] = ()
    findings: tuple[Finding, ...] | None = None
    not_run: tuple[str, ...] = ()
    unseen: KgmError | None = None
    log_unread_because: str | None = None
    has_read_log: bool = False


def no_collection(request: ExportRequest, error: KgmError) -> Collection:
    """What a collection sees of a cluster that does not answer."""
    return Collection(
        at_s=time.time(), duration_s=0.0, is_up=False, cluster_id=None, series=request.no_series(), errors=(error,)
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class GroupCollector:
    """Collects from one cluster. clock: monotonic, in seconds."""

    cluster: AdminClient
    request: ExportRequest
    clock: Callable[[], float] = time.monotonic
    _watched: KeptGroups[WatchedGroup] = field(default_factory=KeptGroups)
    _poller: GroupPoller | None = None
    _findings: tuple[Finding, ...] | None = None
    _not_run: tuple[str, ...] = ()
    _examined_at_s: float | None = None
    _log_unread_because: str | None = None
    _has_read_log: bool = False

    def collect(self) -> Collection:
        """The groups as they are now. Never raises: see `Collection.errors`."""
        began_s, request = self.clock(), self.request
        self.cluster.renew(request.budget_ms)
        self.cluster.offsets.forget_failures()
        series = request.no_series()
        errors: list[KgmError] = []
        is_up, unseen = True, None
        self._log_unread_because, self._has_read_log = None, False
        try:
            all_groups = not request.names and request.pattern is None
            # A broker that has just died is asked again by the next collection, if there is one.
            with nullcontext() if request.is_once else self.cluster.brokers.in_a_hurry():
                selection = select_groups(self.cluster, request.names, request.pattern, all_groups=all_groups)
            errors += selection.errors
            unseen = selection.unseen
            if unseen is not None and not selection.group_ids and not errors:
                errors.append(unseen)  # otherwise an exporter without rights would look like a cluster without groups
            # Groups of a broker that did not answer are not gone.
            known = self._watched.group_ids if selection.errors else ()
            failed = self._observe(list(dict.fromkeys([*selection.group_ids, *known])), series)
            refuse_other_cluster(failed)
            errors += [*failed, *self.cluster.offsets.failures()]
            self._forget_gone(failed)
            self._examine(series.group_ids)
        except KgmError as error:
            errors.append(error)
            is_up = False
            series = request.no_series()
        return Collection(
            at_s=time.time(),
            duration_s=self.clock() - began_s,
            is_up=is_up,
            cluster_id=self.cluster.cluster_id,
            series=series,
            errors=tuple(errors),
            findings=self._findings if is_up else None,
            not_run=self._not_run if is_up else (),
            unseen=unseen,
            log_unread_because=self._log_unread_because,
            has_read_log=self._has_read_log,
        )

    def _observe(self, group_ids: Sequence[str], series: GroupSeries) -> list[KgmError]:
        """Describe the groups, and read what was recorded about them since the last collection. Returns what failed."""
        if self._poller is None:
            budget_ms = self.request.budget_ms
            self._poller = GroupPoller(self.cluster, group_ids, budget_ms=budget_ms, is_packed=True)
        else:
            self._poller.follow(group_ids)
        errors: list[KgmError] = []
        # The time to read records of topics would count toward the time of the descriptions.
        is_kept = self.request.with_times or not self.request.is_once
        polls = self._poller.poll_in_turn() if is_kept else self._poller.poll_once()
        rows = self._observed(polls, errors)
        while part := list(islice(rows, PART)):
            for row in self._with_times(part):
                series.add(row)
        return errors

    def _observed(self, polls: Iterator[tuple[str, PolledGroup]], errors: list[KgmError]) -> Iterator[ExportedGroup]:
        """Each group that could be described. errors: receives an error for each of the others."""
        before, self._watched = self._watched, KeptGroups()
        for group_id, polled in polls:
            self._note_log(polled)
            watched = before.take(group_id) or WatchedGroup(group_id=group_id)
            most_more = watched.count.more
            watched.observe(polled, round(self.clock() * 1000))
            if (polled.skipped or watched.count.more > most_more) and (doubt := watched.rebalances_doubt) is not None:
                self._log_unread_because = self._log_unread_because or doubt.why
            # Only screens need these, and the names of dynamic members would pile up.
            watched.last_events.clear()
            if not self.request.is_once:
                self._watched.put(group_id, watched)
            if isinstance(polled.seen, KgmError):
                errors.append(polled.seen)
            else:
                yield ExportedGroup(snapshot=polled.seen, rebalances=watched.rebalances, handovers=watched.handovers)

    def _note_log(self, polled: PolledGroup) -> None:
        """Remember whether the log was read for this group."""
        why = polled.log_unread_because if self.request.is_once else polled.count_unread_because
        self._log_unread_because = self._log_unread_because or why
        is_needed = not isinstance(polled.seen, KgmError) and (
            polled.seen.type == "classic" or not self.request.is_once
        )
        self._has_read_log = self._has_read_log or (is_needed and why is None)

    def _with_times(self, exported: list[ExportedGroup]) -> list[ExportedGroup]:
        if not self.request.with_times:
            return exported
        from kgm.client.lag_times import with_lag_times

        timed = with_lag_times(self.cluster, [one.snapshot for one in exported])
        return [replace(one, snapshot=snapshot) for one, snapshot in zip(exported, timed, strict=True)]

    def _forget_gone(self, failed: Sequence[KgmError]) -> None:
        """Drop the findings of groups that no longer exist, since the last examination may be minutes old."""
        gone = {error.group_id for error in failed if isinstance(error, NotFoundError)}
        present = {*self._watched.group_ids} - gone
        if any(one.group_id not in present for one in self._findings or ()):
            self._findings = tuple(one for one in self._findings or () if one.group_id in present)

    def _examine(self, group_ids: Sequence[str]) -> None:
        """Run the doctor if it is due. Raises KgmError."""
        every_ms, now_s = self.request.findings_every_ms, self.clock()
        if every_ms is None:
            return
        if self._examined_at_s is not None and (now_s - self._examined_at_s) * 1000 < every_ms:
            return
        self._findings, self._not_run = None, ()
        self._examined_at_s = now_s
        if not group_ids:
            self._findings = ()
            return
        found = diagnose(self.cluster, group_ids, window_ms=0)
        self._findings, self._not_run = found.findings, checks_of(found.missing())

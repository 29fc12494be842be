"""Deleting groups, or committed offsets of topics: check, decide, check again right before each request, send, and
check afterwards.

`prepare` only reads: it describes the groups, reads in their coordinators' logs when each last committed, and decides.
One group that may not be deleted stops the whole batch. `execute` goes through the groups one by one. The second check
must find each as it was: with the same type, no member that matters, and the same commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kgm.client.admin_client import AdminClient
from kgm.client.topic_log.committed_topics import MOST_GROUPS
from kgm.client.transport.brokers import TAKEOVER_S
from kgm.model.errors import ErrorCode, KgmError, NotFoundError, PartialError, RefusedError, UnsupportedError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.audit.audit_log import DELETION, AuditTrail
from kgm.operations.change.carrying_out import (
    INTERRUPTED_LOOK_MS,
    LOOK_MS,
    RETURN_POLL_S,
    Phase,
    StaleVerdictError,
    carried_out,
    no_phase,
)
from kgm.operations.change.operator import HumanOperator, signed
from kgm.operations.change.record import ChangeRecord
from kgm.operations.change.report import ChangeReport, PreparedChange, summary_of
from kgm.operations.change.result import Result, has_changed
from kgm.operations.change.sender import ChangeSender
from kgm.operations.deletion.idleness import (
    NOT_LOOKED,
    Idleness,
    IdleVerdict,
    IdleWatch,
    committed_of,
    wall_clock_ms,
    watch_for,
)
from kgm.operations.deletion.outcome import DeletionResult, Later, absent, not_sent, outcome
from kgm.operations.deletion.request import DeletionRequest
from kgm.operations.deletion.send import GroupDeleter, OffsetDeleter
from kgm.operations.deletion.targets import DeletionTarget, targets_of
from kgm.operations.groups.selection import select_groups
from kgm.protocol.apis import ApiKey
from kgm.text.names import in_order
from kgm.text.wording import some

#: How long kgm waits for a commit that recreates a deleted group that was only assumed to be idle: consumers commit
#: every 5 s by default. `--guard-window` does not shorten it: it may be short because the operator vouches for a group.
_RETURN_MS: Final = 6_000
#: How often to describe a group afterwards, at most, until two descriptions in a row agree.
_MOST_LOOKS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDeletion(PreparedChange[DeletionResult]):
    """What would be deleted, and whether it may be. watches: the watches that gave the verdicts, by group id."""

    request: DeletionRequest
    targets: tuple[DeletionTarget, ...]
    idleness: Mapping[DeletionTarget, Idleness]
    watches: Mapping[str, IdleWatch] = field(default_factory=dict, repr=False, compare=False)

    @property
    def present(self) -> tuple[DeletionTarget, ...]:
        return tuple(one for one in self.targets if one.is_there)

    def forbidding(self, error: RefusedError) -> PreparedDeletion:
        """A copy in which the error's group may no longer be deleted, for the reasons in the error's facts."""
        why = "; ".join(error.facts)
        now = {
            one: replace(one, impediment=why) if one.group_id == error.group_id and one.is_there else one
            for one in self.targets
        }
        idleness = {now[one]: idle for one, idle in self.idleness.items()}
        return replace(self, targets=tuple(now.values()), idleness=idleness, refusal=error)

    def why_not(self, target: DeletionTarget) -> str | None:
        """Why the target may not be deleted; None if it may."""
        if target.impediment is not None:
            return target.impediment
        idle = self.idleness.get(target, NOT_LOOKED)
        is_allowed = idle.verdict is IdleVerdict.IDLE or (
            idle.verdict is IdleVerdict.UNKNOWN and self.request.assume_idle
        )
        return None if is_allowed else f"{idle.verdict}: {idle.why}"

    @property
    def results(self) -> list[DeletionResult]:
        rows = []
        for target in self.targets:
            why, idle = self.why_not(target), self.idleness.get(target, NOT_LOOKED)
            if not target.is_there and target.impediment is None:
                rows.append(absent(target))
            elif why is None:
                rows.append(DeletionResult(target=target, result=Result.PLANNED, idleness=idle))
            else:
                rows.append(DeletionResult(target=target, result=Result.REFUSED, idleness=idle, note=why))
        return rows

    def summary(self, results: Sequence[DeletionResult], code: int, *, is_dry_run: bool) -> KgmError:
        rest = [one for one in results if one.result not in (Result.REMOVED, Result.PLANNED)]
        told = {one.target.group_id for one in rest}
        done = sum(one.result is Result.REMOVED for one in results)
        if is_dry_run and not rest:
            message = "not all that was named exists"
        elif is_dry_run:
            message = f"{len(rest)} of {len(results)} would not be deleted"
        elif done:
            message = f"{done} of {len(results)} were deleted"
        elif code == PartialError.exit_code:
            message = "the outcome is unknown"
        else:
            message = "nothing was deleted"
        missing = [one for one in self.errors if one.group_id not in told]
        return summary_of(message, code, rest, missing, told.pop() if len(told) == 1 else None)


# -- before ------------------------------------------------------------------------------------------------------------


def prepare(
    cluster: AdminClient, request: DeletionRequest, *, phase: Phase = no_phase,
    clock: Callable[[], float] = time.monotonic, now_ms: Callable[[], float] = wall_clock_ms,
) -> PreparedDeletion:  # fmt: skip
    """What would be deleted. Reads only; looking for commits for `window_ms` does not count against the budget.

    Raises KgmError if no broker answers, RefusedError if the broker does not support the request, OtherClusterError if
    a connection leads to another cluster, now or until the deletion is done."""
    cluster.bind_to_cluster()
    selection = select_groups(cluster, request.group_ids, request.pattern)
    groups, errors = _described(cluster, selection.group_ids)
    errors = [*selection.errors, *errors]
    if request.ignore_missing:
        errors = [one for one in errors if not isinstance(one, NotFoundError)]
    cluster.name_similar_groups(errors)
    targets = targets_of(request, selection.group_ids, groups)
    watches: dict[str, IdleWatch] = {}
    for target in targets:
        if target.is_there and target.group is not None and target.impediment is None:
            _check_supported(cluster, target)
            if target.group_id not in watches:
                topics = {one.topic for one in targets if one.group_id == target.group_id and one.topic is not None}
                watches[target.group_id] = IdleWatch(cluster, target.group, topics, request.idle_ms, now_ms=now_ms)
    with phase("reading when the groups committed"):
        for watch in watches.values():
            cluster.go_on()
            watch.read()
    with phase("looking for commits"):
        watch_for(cluster, [*watches.values()], request.window_ms or 0, clock=clock)
    cluster.go_on()
    warnings = _warnings(cluster, targets, selection.unseen, is_of_offsets=request.is_of_offsets)
    prepared = PreparedDeletion(
        request=request, targets=tuple(targets), errors=tuple(errors), watches=watches,
        idleness={one: watches[one.group_id].verdict(one.topic) for one in targets if one.group_id in watches},
        warnings=(*warnings, *(_warnings_of_open(targets, watches) if request.assume_idle else ())),
    )  # fmt: skip
    return replace(prepared, refusal=_refusal(prepared))


def _described(cluster: AdminClient, group_ids: Sequence[str]) -> tuple[dict[str, GroupSnapshot], list[KgmError]]:
    """The groups that exist, and an error for each that does not. A missing group is looked up twice: a coordinator
    that has just taken over may not show it yet. Raises any other KgmError."""
    answers = cluster.describe_groups(group_ids, with_ends=False, most_searched=MOST_GROUPS)
    found = dict(zip(group_ids, answers, strict=True))
    missing = [group_id for group_id, one in found.items() if isinstance(one, NotFoundError)]
    if missing:
        cluster.deadline.sleep(TAKEOVER_S)
        found |= dict(zip(missing, cluster.describe_groups(missing, with_ends=False), strict=True))
    failed = [one for one in found.values() if isinstance(one, KgmError)]
    for error in failed:
        if not isinstance(error, NotFoundError):
            raise error
    return {group_id: one for group_id, one in found.items() if isinstance(one, GroupSnapshot)}, failed


def _check_supported(cluster: AdminClient, target: DeletionTarget) -> None:
    """Raises RefusedError if the broker does not support the request."""
    api, since = (ApiKey.DELETE_GROUPS, "1.1") if target.topic is None else (ApiKey.OFFSET_DELETE, "2.4")
    try:
        cluster.version_of(api, target.group_id, cluster.deadline)
    except UnsupportedError as error:
        raise RefusedError(
            f"nothing was deleted: {error.message} (Kafka {since})", facts=error.facts, group_id=target.group_id,
            hint="a group without members expires after offsets.retention.minutes",
            kafka_error=ErrorCode.UNSUPPORTED_VERSION,
        ) from error  # fmt: skip


def _warnings(
    cluster: AdminClient, targets: Sequence[DeletionTarget], unseen: KgmError | None, *, is_of_offsets: bool
) -> list[str]:
    warnings = [] if unseen is None else [unseen.message]
    incomplete = cluster.offsets.incomplete_groups
    if incomplete:
        known = in_order({topic for one in incomplete.values() for topic in one.topics})
        has = f"has committed offsets of {some(known)}, which" if known else "may have committed offsets of topics that"
        fate = "they are left alone" if is_of_offsets else "they are deleted with the group"
        warnings.append(
            f"group {some(in_order(incomplete))} {has} this login cannot see (DESCRIBE on the topics): {fate}"
        )
    unread = {one.group_id for one in targets} & cluster.offsets.unread_groups.keys()
    if unread:
        warnings.append(f"the committed offsets of group {some(sorted(unread))} could not be read")
    return warnings


def _warnings_of_open(targets: Sequence[DeletionTarget], watches: Mapping[str, IdleWatch]) -> list[str]:
    watched = [(one, watches[one.group_id]) for one in targets if one.group_id in watches]
    return [
        f"{one.id}: {why}: what it has not committed yet is deleted too"
        for one, watch in watched
        if watch.is_readable and (why := watch.why_open(one.topic)) is not None
    ]


def _refusal(prepared: PreparedDeletion) -> RefusedError | None:
    refused = [one for one in prepared.results if one.result is Result.REFUSED]
    if not refused:
        return None
    which = repr(refused[0].target.id) if len(refused) == 1 else f"{len(refused)} of {len(prepared.targets)}"
    return RefusedError(
        f"nothing was deleted: {which} may not be deleted", facts=[f"{one.target.id}: {one.note}" for one in refused],
        group_id=refused[0].target.group_id,
    )  # fmt: skip


# -- doing it ----------------------------------------------------------------------------------------------------------


def execute(
    cluster: AdminClient, prepared: PreparedDeletion, *, operator: HumanOperator, audit: AuditTrail | None,
    phase: Phase = no_phase, sleep: Callable[[float], None] | None = None, clock: Callable[[], float] = time.monotonic,
) -> ChangeReport[DeletionResult]:  # fmt: skip
    """Check again, delete, check afterwards, and return the result for each id. audit: None to write no record.

    Raises KgmError only if nothing can have changed: RefusedError if a guard forbids it or the intent cannot be
    recorded (StaleVerdictError if a group is not as it was), others if no request was sent, or if one was answered with
    an error and the group is still there. After a request was sent, Ctrl-C leads to a report as well, or to a
    PartialError if there is no report yet."""
    if prepared.refusal is not None:
        raise prepared.refusal
    if not prepared.present:
        return prepared.report(prepared.results)
    names = some(dict.fromkeys(one.group_id for one in prepared.present))
    record = ChangeRecord(
        audit, operator, cluster, action=DELETION, nothing="nothing was deleted",
        reason=signed(prepared.request.reason, operator),
        rows=[_recorded(one, prepared.idleness.get(one, NOT_LOOKED)) for one in prepared.present],
    )  # fmt: skip
    run = _Deletion(cluster, prepared, record, phase, sleep, clock)
    return carried_out(
        run.run, lambda: run.was_sent, record, unknown=f"what was deleted of group {names}",
        hint="kgm list", group_id=prepared.present[0].group_id,
    )  # fmt: skip


def _recorded(target: DeletionTarget, idleness: Idleness) -> dict[str, Any]:
    """What the audit log records about a target. It includes the offsets so that they can be committed again."""
    return {
        "group_id": target.group_id, "topic": target.topic, "offsets": target.rows,
        "verdict": str(idleness.verdict), "evidence": [*idleness.evidence],
    }  # fmt: skip


class _Deletion:
    """Runs a deletion, from the first request to the outcome in the audit log."""

    def __init__(
        self, cluster: AdminClient, prepared: PreparedDeletion, record: ChangeRecord, phase: Phase,
        sleep: Callable[[float], None] | None, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._cluster, self._prepared, self._record, self._phase = cluster, prepared, record, phase
        self._sleep, self._now_s = sleep or time.sleep, clock
        self._senders: dict[str, ChangeSender[DeletionTarget]] = {}
        self._by_group: dict[str, list[DeletionTarget]] = {}
        for target in prepared.present:
            self._by_group.setdefault(target.group_id, []).append(target)
        self._interrupted = False
        #: The error that ended the run, which is why the groups after that one were left alone.
        self._stopped: KgmError | None = None

    @property
    def was_sent(self) -> bool:
        return any(one.was_sent for one in self._senders.values())

    def run(self) -> ChangeReport[DeletionResult]:
        for group_id, targets in self._by_group.items():
            try:
                self._cluster.go_on()
                self._change(group_id, targets)
            except KeyboardInterrupt:
                if not self.was_sent:
                    raise
                self._interrupted, self._stopped = True, KgmError("interrupted")
            except KgmError as error:
                if not self.was_sent:
                    raise
                self._stopped = error
            if self._stopped is not None:
                break
        results = self._results()
        unchanged = self._nothing_changed(results)
        if unchanged is not None and not self._interrupted:
            raise unchanged
        results = self._wait_for_returns(results)
        present = [one for one in results if one.target.is_there]
        self._record.write_results([(one.result, one.error, one.note) for one in present])
        return self._prepared.report(
            results, interrupted=self._interrupted, unrecorded_because=self._record.unwritten_because
        )

    def _change(self, group_id: str, targets: list[DeletionTarget]) -> None:
        """Raises KgmError if nothing was sent for this group, or if the broker refused a whole request."""
        with self._phase("looking again"):
            there = self._look_again(group_id, targets)
        kind = OffsetDeleter if self._prepared.request.is_of_offsets else GroupDeleter

        def before_retry(batch: list[DeletionTarget]) -> list[DeletionTarget]:
            return self._look_again(group_id, batch)

        sender = self._senders[group_id] = kind(self._cluster, group_id, sleep=self._sleep, before_retry=before_retry)
        sender.send(there)
        if sender.last_error is not None and not sender.codes.keys() >= {*there}:
            raise sender.last_error

    def _look_again(self, group_id: str, targets: list[DeletionTarget]) -> list[DeletionTarget]:
        """The targets that still exist, unchanged. Raises StaleVerdictError if one has changed, another KgmError if
        that cannot be determined: nothing may be sent then."""
        (group,) = self._cluster.describe_groups([group_id], with_ends=False)
        if isinstance(group, NotFoundError):
            return []
        if isinstance(group, KgmError):
            raise group
        before, topics = targets[0].group, tuple(one.topic for one in targets if one.topic is not None)
        assert before is not None
        changes = []
        if group.type != before.type:
            changes.append(f"it was a {before.type} group, and is a {group.type} group now")
        elif group.protocol_type != before.protocol_type:
            was, now = (one.protocol_type or "none" for one in (before, group))
            changes.append(f"its protocol type was {was}, and is {now} now")
        again = targets_of(
            replace(self._prepared.request, topics=topics, is_stale=False), [group_id], {group_id: group}
        )
        changes += [one.impediment for one in again if one.impediment is not None]
        there = [one for one, now in zip(targets, again, strict=True) if now.is_there]
        if there and (commit := self._prepared.watches[group_id].look_again(group, topics)) is not None:
            changes.append(commit)
        if changes:
            raise StaleVerdictError(
                RefusedError(f"group {group_id!r} is no longer as it was", facts=changes, group_id=group_id)
            )
        return there

    def _results(self) -> list[DeletionResult]:
        """The result for each id, from the answers and from what exists now."""
        later: dict[str, Later] = {}
        results = []
        for target in self._prepared.targets:
            idle, sender = self._prepared.idleness.get(target, NOT_LOOKED), self._senders.get(target.group_id)
            if not target.is_there:
                results.append(absent(target))
            elif sender is None:
                assert self._stopped is not None
                kind = Result.REFUSED if isinstance(self._stopped, RefusedError) else Result.FAILED
                why = "; ".join((self._stopped.message, *self._stopped.facts))
                results.append(not_sent(target, idle, kind, why))
            else:
                if target.group_id not in later:
                    later[target.group_id] = self._look(target.group_id)
                results.append(outcome(target, idle, sender, later[target.group_id]))
        return results

    def _look(self, group_id: str) -> Later:
        """What exists now. Two descriptions in a row must agree, as the first can come from an outdated coordinator."""
        remaining_ms = round(self._cluster.deadline.remaining() * 1000)
        self._cluster.renew(INTERRUPTED_LOOK_MS if self._interrupted else max(remaining_ms, LOOK_MS))
        previous: Later | None = None
        try:
            for _ in range(_MOST_LOOKS):
                now = self._look_once(group_id)
                if now.unseen is not None or (previous is not None and _shown(now) == _shown(previous)):
                    return now
                previous = now
        except KeyboardInterrupt:
            self._interrupted = True
            return Later(unseen="kgm was interrupted")
        return Later(unseen="two descriptions in a row did not agree")

    def _look_once(self, group_id: str) -> Later:
        group: GroupSnapshot | KgmError
        try:
            (group,) = self._cluster.describe_groups([group_id], with_ends=False)
        except KgmError as error:  # no broker answers, or another cluster does
            group = error
        if isinstance(group, NotFoundError):
            return Later()
        if isinstance(group, KgmError):
            return Later(unseen=f"the group could not be described afterwards ({group.message})", because=group)
        unread = self._cluster.offsets.unread_groups.get(group_id)
        if unread is not None and self._prepared.request.is_of_offsets:
            return Later(
                unseen=f"its committed offsets could not be read afterwards ({unread.message})", because=unread
            )
        return Later(group=group)

    def _nothing_changed(self, results: Sequence[DeletionResult]) -> KgmError | None:
        """The first error with which a whole request was answered, if nothing was changed; None otherwise."""
        if has_changed(results):
            return None
        errors = [one.not_carried_out("the group is still there") for one in self._senders.values()]
        return next((one for one in errors if one is not None), None)

    def _wait_for_returns(self, results: list[DeletionResult]) -> list[DeletionResult]:
        """A consumer that is not a member recreates the group with its next commit. If the coordinator's log shows that
        a group is idle, that is certain; wait for those that are only assumed to be."""
        assumed = {one.target for one in results if one.idleness.verdict is IdleVerdict.UNKNOWN}
        end_s = self._now_s() + _RETURN_MS / 1000
        with self._phase("waiting for commits"):
            while (
                not self._interrupted
                and self._now_s() < end_s
                and any(one.result is Result.REMOVED and one.target in assumed for one in results)
            ):
                try:
                    self._sleep(min(RETURN_POLL_S, max(0.0, end_s - self._now_s())))
                    results = self._results()
                except KeyboardInterrupt:
                    self._interrupted = True
        return results


def _shown(later: Later) -> tuple[bool, dict[tuple[str, int], int]]:
    return later.group is None, {} if later.group is None else committed_of(later.group)

"""The result of each member: the broker's responses, compared with the description of the group afterwards."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kgm.client.failures import RETRIABLE
from kgm.model.assignment import Partitions
from kgm.model.errors import ErrorCode, KgmError, UnreachableError, error_name
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.removal.liveness import NO_MEMBER, Liveness
from kgm.operations.removal.plan import RemovalPlan, Target
from kgm.operations.removal.send import LeaveGroupSender


class Result(enum.StrEnum):
    """The result for one id.

    planned: it would be removed. removed: it is gone. returned: it was removed and has rejoined. absent: no member has
    the id. refused: by a guard or the broker. failed: it was not removed. unknown: it may have been removed."""

    PLANNED = "planned"
    REMOVED = "removed"
    RETURNED = "returned"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResult:
    """The result for one id. error: Kafka's error code, 0 for none; note: an explanation, or None.

    in_doubt: a request for it may have been carried out, whatever the result is."""

    target: Target
    result: Result
    liveness: Liveness = NO_MEMBER
    error: int = 0
    note: str | None = None
    in_doubt: bool = False

    @property
    def partitions_freed(self) -> Partitions:
        is_gone = self.result in (Result.REMOVED, Result.PLANNED)
        return self.target.member.assignment if is_gone and self.target.member is not None else {}


def absent_result(target: Target, note: str | None = None) -> MemberResult:
    note = note or f"no member has this {target.kind.value}"
    return MemberResult(target=target, result=Result.ABSENT, error=ErrorCode.UNKNOWN_MEMBER_ID, note=note)


def planned_results(plan: RemovalPlan, liveness: Mapping[str, Liveness]) -> list[MemberResult]:
    """The results of a dry run that nothing refuses."""
    return [
        absent_result(target)
        if target.member is None
        else MemberResult(target=target, result=Result.PLANNED, liveness=_of(target.member, liveness))
        for target in plan.targets
    ]


def _of(member: MemberSnapshot, liveness: Mapping[str, Liveness]) -> Liveness:
    return liveness.get(member.member_id, NO_MEMBER)


def results_of_run(
    plan: RemovalPlan, sender: LeaveGroupSender, after: GroupSnapshot | None, liveness: Mapping[str, Liveness]
) -> list[MemberResult]:
    """One result for each id, in the order of the request. after: the group afterwards, without members if it is gone,
    None if it could not be described."""
    return [
        absent_result(target)
        if target.member is None
        else _outcome(target, target.member, plan, sender, after, liveness)
        for target in plan.targets
    ]


def _outcome(
    target: Target, member: MemberSnapshot, plan: RemovalPlan, sender: LeaveGroupSender, after: GroupSnapshot | None,
    liveness: Mapping[str, Liveness],
) -> MemberResult:  # fmt: skip
    code = sender.codes.get(target)
    in_doubt = target in sender.in_doubt
    is_there = after is not None and any(one.member_id == member.member_id for one in after.members)
    successor = _successor(member, after)

    def result(kind: Result, note: str | None = None, error: int | None = None) -> MemberResult:
        return MemberResult(
            target=target, result=kind, liveness=_of(member, liveness), error=(code or 0) if error is None else error,
            note=note, in_doubt=in_doubt,
        )  # fmt: skip

    match code:
        case ErrorCode.NONE if is_there:
            return result(Result.RETURNED, _still_there(plan))
        case ErrorCode.NONE if successor is not None:
            note = f"its process is alive: it rejoined as member {successor.member_id}"
            return result(Result.RETURNED, note)
        case ErrorCode.NONE:
            return result(Result.REMOVED, None if after is not None else "the group could not be described afterwards")
        case ErrorCode.UNKNOWN_MEMBER_ID if is_there and plan.group is not None and plan.group.type == "consumer":
            note = "this broker cannot remove members of consumer groups (KAFKA-18188; Kafka 4.0 can)"
            return result(Result.REFUSED, note)
        case ErrorCode.UNKNOWN_MEMBER_ID if is_there:
            return result(Result.FAILED, "it is still in the group")
        case ErrorCode.UNKNOWN_MEMBER_ID if in_doubt and after is None:
            return result(Result.UNKNOWN, f"{_doubt(target, sender)}, and the group cannot be described; {_SAFE}")
        case ErrorCode.UNKNOWN_MEMBER_ID if in_doubt:
            note = f"{_doubt(target, sender)}; it was there before and is gone"
            return result(Result.REMOVED, _rejoined(note, successor), error=0)
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return absent_result(target, "it left by itself before the request arrived")
        case ErrorCode.FENCED_INSTANCE_ID if after is not None and successor is None and not is_there:
            note = "the broker answered that another member has its instance id, and none has it now"
            return result(Result.UNKNOWN, f"{note}; {_SAFE}")
        case ErrorCode.FENCED_INSTANCE_ID:
            note = "the member that was seen is gone, and another one has its instance id"
            return result(Result.REFUSED, _rejoined(note, successor))
        case None:
            return _unanswered(result, target, sender, after, is_there=is_there, successor=successor)
        case _ if is_there:
            return result(Result.FAILED, f"the broker answered {error_name(code)}")
        case _:
            gone = "the group could not be described afterwards" if after is None else "it is not in the group any more"
            return result(Result.UNKNOWN, f"the broker answered {error_name(code)}; {gone}")


def _still_there(plan: RemovalPlan) -> str:
    """A member of a consumer group keeps its member id when it joins again; of a classic group it gets another one."""
    if plan.group is not None and plan.group.type == "consumer":
        return "its process is alive: it joined again"
    return "the broker answered that it was removed, and it is still in the group: the coordinator may have moved"


_SAFE = "running the command again is safe"


def _doubt(target: Target, sender: LeaveGroupSender) -> str:
    """Why the effect of a request is not known."""
    if target in sender.lost or sender.refusal is None:
        return "an answer was lost"
    return f"the broker first answered {error_name(sender.refusal.kafka_error)}"


class _MakeResult(Protocol):
    def __call__(self, kind: Result, note: str | None = None, error: int | None = None) -> MemberResult: ...


def _unanswered(
    result: _MakeResult, target: Target, sender: LeaveGroupSender, after: GroupSnapshot | None, *, is_there: bool,
    successor: MemberSnapshot | None,
) -> MemberResult:  # fmt: skip
    if target not in sender.in_doubt:
        error = sender.last_error
        if after is not None and not is_there:
            return absent_result(target, "it left by itself; no request for it was sent")
        why = f": {error.message}" if error is not None else ""
        return result(Result.FAILED, f"no request for it was sent{why}", error.kafka_error if error is not None else 0)
    if target in sender.lost:
        if after is not None and not is_there:
            return result(Result.REMOVED, _rejoined("its answer was lost; it was there before and is gone", successor))
        seen = "it is still in the group, but the request may yet be carried out" if is_there else "the answer was lost"
        return result(Result.UNKNOWN, f"{seen}; {_SAFE}")
    if sender.refusal is None:  # the response does not contain this member
        if after is None:
            return result(Result.UNKNOWN, f"the broker's answer does not mention it; {_SAFE}")
        if not is_there:
            note = "the broker's answer does not mention it; it was there before and is gone"
            return result(Result.REMOVED, _rejoined(note, successor))
        return result(Result.FAILED, "the broker's answer does not mention it")
    kafka_error = sender.refusal.kafka_error
    answered = error_name(kafka_error)
    if is_there:
        return result(Result.FAILED, f"the broker answered {answered}, and it is still in the group", kafka_error)
    gone = "the group could not be described afterwards" if after is None else "it is not in the group any more"
    return result(Result.UNKNOWN, f"the broker answered {answered}; {gone}; {_SAFE}", kafka_error)


def _successor(member: MemberSnapshot, after: GroupSnapshot | None) -> MemberSnapshot | None:
    """The member that now has the instance id under another member id."""
    if after is None or member.group_instance_id is None:
        return None
    holders = (one for one in after.members if one.group_instance_id == member.group_instance_id)
    return next((one for one in holders if one.member_id != member.member_id), None)


def _rejoined(text: str, successor: MemberSnapshot | None) -> str:
    return text if successor is None else f"{text}: rejoined as member {successor.member_id}, which was left alone"


def exit_code(results: Sequence[MemberResult], *, ignore_missing: bool) -> int:
    """0 all done · 3 all absent · 6 refused and nothing changed · 7 partial, returned or unknown · 1 all failed."""
    done = {Result.REMOVED, Result.PLANNED} | ({Result.ABSENT} if ignore_missing else set())
    rest = {one.result for one in results if one.result not in done}
    if not rest:
        return 0
    if rest & {Result.UNKNOWN, Result.RETURNED} or has_changed(results) or Result.PLANNED in _kinds(results):
        return 7
    if Result.FAILED in rest:
        return 1
    return 6 if Result.REFUSED in rest else 3


def has_changed(results: Sequence[MemberResult]) -> bool:
    """Whether anything was changed, or may have been."""
    changing = {Result.REMOVED, Result.RETURNED, Result.UNKNOWN}
    return any(one.result in changing or one.in_doubt for one in results)


def _kinds(results: Sequence[MemberResult]) -> set[Result]:
    return {one.result for one in results}


def nothing_changed(results: Sequence[MemberResult], sender: LeaveGroupSender) -> KgmError | None:
    """The error that a whole request was answered with, where a later description shows every member that it named
    with the same member id as before; None otherwise."""
    error = sender.refusal
    if error is None or sender.lost or sender.codes:
        return None
    named = [one for one in results if one.target in sender.in_doubt]
    if not named or any(one.result is not Result.FAILED for one in named):
        return None
    fact = "nothing was changed: every member is still in the group"
    if error.kafka_error not in RETRIABLE:
        error.facts = (*error.facts, fact)
        return error
    return UnreachableError(
        f"the coordinator of group {error.group_id!r} took no LeaveGroup within the time allowed",
        facts=(*error.facts, fact), group_id=error.group_id, hint="try again, or with a longer --timeout",
        kafka_error=error.kafka_error,
    )  # fmt: skip

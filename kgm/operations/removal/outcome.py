"""The result for each member: the broker's responses, compared with the description of the group afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kgm.model.assignment import Partitions
from kgm.model.errors import ErrorCode, KgmError, RefusedError, error_name
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.change.result import Judgement, OneResult, Result, running_again
from kgm.operations.removal.guard import GuardReport
from kgm.operations.removal.liveness import NO_MEMBER, Liveness
from kgm.operations.removal.plan import RemovalPlan, Target
from kgm.operations.removal.send import LeaveGroupSender


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResult(OneResult):
    """The result for one member."""

    target: Target
    liveness: Liveness = NO_MEMBER
    #: Whether it was `returned` by a new coordinator, which does not know of its removal, and not by its process.
    is_kept: bool = False

    @property
    def partitions_freed(self) -> Partitions:
        is_gone = self.result in (Result.REMOVED, Result.PLANNED)
        return self.target.member.assignment if is_gone and self.target.member is not None else {}


def absent_result(target: Target) -> MemberResult:
    meant = "" if target.similar is None else f"; did you mean {target.similar!r}?"
    kind = "member id" if target.named.member_id else "group instance id"
    note = f"no member has this {kind}{meant}"
    return MemberResult(target=target, result=Result.ABSENT, error=ErrorCode.UNKNOWN_MEMBER_ID, note=note)


def planned_results(plan: RemovalPlan, liveness: Mapping[str, Liveness]) -> list[MemberResult]:
    """The results of a dry run if nothing is refused."""
    return [
        absent_result(target)
        if target.member is None
        else MemberResult(target=target, result=Result.PLANNED, liveness=_of(target.member, liveness))
        for target in plan.targets
    ]


def _of(member: MemberSnapshot, liveness: Mapping[str, Liveness]) -> Liveness:
    return liveness.get(member.member_id, NO_MEMBER)


def results_of_run(
    plan: RemovalPlan, sender: LeaveGroupSender, after: GroupSnapshot | KgmError, before: GuardReport
) -> list[MemberResult]:
    """One result for each id, in the order of the request. after: the group afterwards, without members if it is gone;
    or the error if it could not be described. before: the guard's last report before the request."""
    results = [
        absent_result(target)
        if target.member is None
        else _outcome(_Evidence.of(target, target.member, plan, sender, after), before.liveness)
        for target in plan.targets
    ]
    return results if isinstance(after, KgmError) else _with_new_ids(results, after, before)


def _with_new_ids(results: Sequence[MemberResult], after: GroupSnapshot, before: GuardReport) -> list[MemberResult]:
    """The results, with `returned` for each removed dynamic member whose client seems to have joined again. The group
    gives it a new member id, so it is known only by its client id and host: each dynamic member that nobody saw before
    the request stands for one that had the same."""
    new: dict[tuple[str, str], list[str]] = {}
    for one in after.members:
        if one.group_instance_id is None and one.member_id not in before.seen:
            new.setdefault((one.client_id, one.client_host), []).append(one.member_id)
    judged = []
    for result in results:
        member, same = result.target.member, None
        if result.result is Result.REMOVED and member is not None and member.group_instance_id is None:
            same = new.get((member.client_id, member.client_host))
        judged.append(result if not same else replace(result, result=Result.RETURNED, note=_joined_since(same.pop(0))))
    return judged


def _joined_since(member_id: str) -> str:
    return f"its process seems to be alive: member {member_id} has joined since, with its client id and from its host"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What is known about one member after a request.

    code: the broker's answer for it; None without an answer. in_doubt: a request for it may have been carried out
    without such an answer. after: the group afterwards; None if it could not be described, and `unseen` says why.
    again: what to say about running the command again. is_there: whether it is in the group
    afterwards; successor: another member that has its instance id by then."""

    target: Target
    code: int | None
    in_doubt: bool
    is_consumer: bool
    after: GroupSnapshot | None
    unseen: str
    again: str
    is_there: bool
    successor: MemberSnapshot | None
    sender: LeaveGroupSender

    @classmethod
    def of(
        cls, target: Target, member: MemberSnapshot, plan: RemovalPlan, sender: LeaveGroupSender,
        after: GroupSnapshot | KgmError,
    ) -> _Evidence:  # fmt: skip
        group = None if isinstance(after, KgmError) else after
        return cls(
            target=target, code=sender.codes.get(target), in_doubt=target in sender.in_doubt,
            is_consumer=plan.group is not None and plan.group.type == "consumer", after=group,
            unseen=f"the group could not be described afterwards ({after.message})"
            if isinstance(after, KgmError)
            else "",
            again=running_again(after if isinstance(after, KgmError) else None),
            is_there=group is not None and any(one.member_id == member.member_id for one in group.members),
            successor=_successor(member, group), sender=sender,
        )  # fmt: skip

    @property
    def is_gone(self) -> bool:
        """Whether a description shows that neither it nor another member with its instance id is in the group."""
        return self.after is not None and not self.is_there and self.successor is None

    @property
    def was_left_alone(self) -> bool:
        """Whether an answer without an error does not mention it, and it is still there: a coordinator answers once it
        has removed members, so nothing more will happen to it."""
        is_answered = self.target not in self.sender.lost and self.sender.refusal is None
        return self.code is None and self.in_doubt and is_answered and self.is_there

    @property
    def doubt(self) -> str:
        """Why the effect of a request is not known."""
        refusal = self.sender.refusal
        if self.target in self.sender.lost or refusal is None:
            return "an answer was lost"
        return f"the broker first answered {error_name(refusal.kafka_error)}"


def _outcome(seen: _Evidence, liveness: Mapping[str, Liveness]) -> MemberResult:
    assert seen.target.member is not None
    result, note, error = _judged(seen)
    return MemberResult(
        target=seen.target, result=result, liveness=_of(seen.target.member, liveness), error=error, note=note,
        in_doubt=seen.in_doubt and not seen.was_left_alone,
        is_kept=result is Result.RETURNED and seen.is_there and not seen.is_consumer,
    )  # fmt: skip


def _judged(seen: _Evidence) -> Judgement:
    match seen.code:
        case None if not seen.in_doubt:
            return _not_sent(seen)
        case None:
            return _unanswered(seen)
        case ErrorCode.NONE:
            return _answered_removed(seen)
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return _answered_absent(seen)
        case ErrorCode.FENCED_INSTANCE_ID:
            return _answered_fenced(seen)
        case code if seen.is_there:
            return Result.FAILED, f"the broker answered {error_name(code)}", code
        case code:
            gone = seen.unseen or "it is no longer in the group"
            return Result.UNKNOWN, f"the broker answered {error_name(code)}; {gone}; {seen.again}", code


def _answered_removed(seen: _Evidence) -> Judgement:
    """The broker says that the member was removed. That was its intention: if a coordinator fails before the rebalance
    has ended, its successor still has the member. So the removal counts only once a description shows it."""
    code = int(ErrorCode.NONE)
    if seen.after is None:
        return Result.UNKNOWN, f"the broker answered that it was removed, but {seen.unseen}; {seen.again}", code
    if seen.is_there:
        return Result.RETURNED, _still_there(seen), code
    if seen.successor is not None:
        note = f"its process is alive: it rejoined as member {seen.successor.member_id}"
        return Result.RETURNED, note, code
    return Result.REMOVED, None, code


def _answered_absent(seen: _Evidence) -> Judgement:
    code = int(ErrorCode.UNKNOWN_MEMBER_ID)
    if seen.after is None:
        why = f"{seen.doubt}; " if seen.in_doubt else ""
        return (
            Result.UNKNOWN,
            f"{why}the broker answered that it is not a member, but {seen.unseen}; {seen.again}",
            code,
        )
    if seen.is_there and seen.is_consumer and seen.in_doubt:
        note = (
            f"{seen.doubt}, then the broker answered that it is not a member, but it is in the group: it may have "
            "rejoined"
        )
        return Result.UNKNOWN, note, code
    if seen.is_there and seen.is_consumer:
        note = "this broker cannot remove members of consumer groups (KAFKA-18188; Kafka 4.0 can)"
        return Result.REFUSED, note, code
    if seen.is_there:
        return Result.FAILED, "it is still in the group", code
    if seen.in_doubt:
        return _seen_gone(seen, f"{seen.doubt}; it was there before and is gone")
    if seen.successor is not None:
        note = "it left on its own before the request arrived"
        return Result.REFUSED, f"{note}: {_left_alone(seen.successor)}", code
    return Result.ABSENT, "it left on its own before the request arrived", code


def _answered_fenced(seen: _Evidence) -> Judgement:
    """The broker says that another member has its instance id. After a request whose effect is not known, that member
    may have joined after the removal was done."""
    code = int(ErrorCode.FENCED_INSTANCE_ID)
    why = f"{seen.doubt}, then the broker" if seen.in_doubt else "the broker"
    answered = f"{why} answered that another member has its instance id"
    if seen.after is None:
        return Result.UNKNOWN, f"{answered}; {seen.unseen}; {seen.again}", code
    if seen.is_there and seen.in_doubt:
        return Result.UNKNOWN, f"{answered}, and it is in the group; {seen.again}", code
    if seen.is_there:
        return Result.REFUSED, f"{answered}, and it is still in the group", code
    if seen.successor is None:
        return Result.UNKNOWN, f"{answered}, but no member has it now; {seen.again}", code
    if seen.in_doubt:
        return _seen_gone(seen, f"{seen.doubt}; it is gone")
    note = "the member that was seen is gone, and another one has its instance id"
    return Result.REFUSED, f"{note}: {_left_alone(seen.successor)}", code


def _seen_gone(seen: _Evidence, note: str) -> Judgement:
    """The result if a request may have removed it, and a description shows that it is gone."""
    code = int(seen.code or ErrorCode.NONE)
    if seen.successor is None:
        return Result.REMOVED, note, int(ErrorCode.NONE)
    return Result.RETURNED, f"{note}: {_left_alone(seen.successor)}", code


def _left_alone(successor: MemberSnapshot) -> str:
    return f"rejoined as member {successor.member_id}, which was left alone"


def _still_there(seen: _Evidence) -> str:
    """The note for a member that is still there. A member of a consumer group keeps its member id when it rejoins; a
    member of a classic group gets a new one."""
    if seen.is_consumer:
        return "its process is alive: it joined again"
    return (
        "the broker answered that it was removed, but then the coordinator moved, and the new one still has it under "
        f"the same member id; {seen.again}"
    )


def _not_sent(seen: _Evidence) -> Judgement:
    """The result if no request for it has reached the broker."""
    error = seen.sender.last_error
    if seen.is_gone:
        return Result.ABSENT, "it left on its own; no request for it was sent", int(ErrorCode.UNKNOWN_MEMBER_ID)
    if isinstance(error, RefusedError):  # a guard stopped what was left, after a request for others
        return Result.REFUSED, f"no request for it was sent: {'; '.join(error.facts) or error.message}", 0
    why = f": {error.message}" if error is not None else ""
    return Result.FAILED, f"no request for it was sent{why}", error.kafka_error if error is not None else 0


def _unanswered(seen: _Evidence) -> Judgement:
    """The result if a request may have been carried out, but no answer says so."""
    code = int(ErrorCode.NONE)
    if seen.target in seen.sender.lost:
        if seen.after is None:
            return Result.UNKNOWN, f"the answer was lost, and {seen.unseen}; {seen.again}", code
        if seen.is_there:
            note = "it is still in the group, but the request may still take effect"
            return Result.UNKNOWN, f"{note}; {seen.again}", code
        return _seen_gone(seen, "its answer was lost; it was there before and is gone")
    refusal = seen.sender.refusal
    if refusal is None:  # the response does not contain this member
        silent = "the broker's answer does not mention it"
        if seen.after is None:
            return Result.UNKNOWN, f"{silent}, and {seen.unseen}; {seen.again}", code
        if not seen.was_left_alone:
            return _seen_gone(seen, f"{silent}; it was there before and is gone")
        return Result.FAILED, silent, code
    answered = f"the broker answered {error_name(refusal.kafka_error)}"
    if seen.is_there:
        return Result.FAILED, f"{answered}, and it is still in the group", refusal.kafka_error
    gone = seen.unseen or "it is no longer in the group"
    if seen.successor is not None:
        gone = f"it is gone: {_left_alone(seen.successor)}"
    return Result.UNKNOWN, f"{answered}; {gone}; {seen.again}", refusal.kafka_error


def _successor(member: MemberSnapshot, after: GroupSnapshot | None) -> MemberSnapshot | None:
    """The member that now has the instance id, with a different member id."""
    if after is None or member.group_instance_id is None:
        return None
    holders = (one for one in after.members if one.group_instance_id == member.group_instance_id)
    return next((one for one in holders if one.member_id != member.member_id), None)


def nothing_changed(results: Sequence[MemberResult], sender: LeaveGroupSender) -> KgmError | None:
    """The error with which a whole request was answered, if a later description shows every member that the request
    named, with the same member id as before; None otherwise."""
    named = [one for one in results if one.target in sender.in_doubt]
    if not named or any(one.result is not Result.FAILED for one in named):
        return None
    return sender.not_carried_out("every member is still in the group")

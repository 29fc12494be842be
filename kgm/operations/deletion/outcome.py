"""The result of each deletion: the broker's answers, compared with what exists afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kgm.client.requests import Offsets
from kgm.model.errors import ErrorCode, KgmError, error_name
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.change.result import Judgement, OneResult, Result, running_again
from kgm.operations.change.sender import ChangeSender
from kgm.operations.deletion.idleness import NOT_LOOKED, Idleness, committed_of
from kgm.operations.deletion.targets import DeletionTarget
from kgm.text.timestamps import rfc3339

#: The errors with which the broker refuses a deletion, and why: nothing was deleted.
_REFUSALS: Final = {
    ErrorCode.NON_EMPTY_GROUP: "a member joined before the request arrived",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member subscribes to the topic",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist, so Kafka does not delete its offsets",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult(OneResult):
    """The result for a group, or for the offsets of a topic."""

    target: DeletionTarget
    idleness: Idleness = NOT_LOOKED

    @property
    def last_use_at(self) -> str | None:
        """When the coordinator wrote the last sign of use, as RFC 3339; None if that is not known."""
        return None if self.idleness.last_ms is None else rfc3339(self.idleness.last_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What exists after a request. group: None if it is gone, or if it could not be described and `unseen` says why;
    because: the error behind that, if there is one."""

    group: GroupSnapshot | None = None
    unseen: str | None = None
    because: KgmError | None = None

    @property
    def again(self) -> str:
        """What to say about running the command again."""
        return running_again(self.because)

    def offsets(self, target: DeletionTarget) -> Offsets:
        return {} if self.group is None else committed_of(self.group, target.topic)

    def has(self, target: DeletionTarget) -> bool:
        """Whether what was to be deleted, or something in its place, exists."""
        return self.group is not None and (target.topic is None or bool(self.offsets(target)))


def absent(target: DeletionTarget, note: str | None = None) -> DeletionResult:
    missing = "the group does not exist" if target.group is None else "the group has no committed offset of the topic"
    return DeletionResult(
        target=target, result=Result.ABSENT, error=ErrorCode.GROUP_ID_NOT_FOUND if target.group is None else 0,
        note=note or missing,
    )  # fmt: skip


def not_sent(target: DeletionTarget, idleness: Idleness, result: Result, why: str) -> DeletionResult:
    return DeletionResult(target=target, result=result, idleness=idleness, note=f"no request for it was sent: {why}")


def outcome(
    target: DeletionTarget, idleness: Idleness, sender: ChangeSender[DeletionTarget], later: Later
) -> DeletionResult:
    """The result for a target whose request was about to be sent, or was sent."""
    result, note, error = _judged(target, sender, later)
    is_refused_whole = result is Result.FAILED and target not in sender.lost
    return DeletionResult(
        target=target, result=result, idleness=idleness, error=error, note=note,
        in_doubt=target in sender.in_doubt and not is_refused_whole,
    )  # fmt: skip


def _judged(target: DeletionTarget, sender: ChangeSender[DeletionTarget], later: Later) -> Judgement:
    code, in_doubt = sender.codes.get(target), target in sender.in_doubt
    match code:
        case None if not in_doubt:
            error: KgmError | None = sender.last_error
            if later.unseen is None and not later.has(target):
                return Result.ABSENT, "it was gone before a request was sent", int(ErrorCode.GROUP_ID_NOT_FOUND)
            why = "" if error is None else f": {error.message}"
            return Result.FAILED, f"no request for it was sent{why}", 0 if error is None else error.kafka_error
        case None:
            return _unanswered(target, sender, later)
        case ErrorCode.NONE:
            answer, returned = "that it was deleted", "it is there again: something committed or joined since"
            return _deleted(target, later, answer, returned)
        case ErrorCode.GROUP_ID_NOT_FOUND if in_doubt:
            return _deleted(
                target, later, ErrorCode.GROUP_ID_NOT_FOUND.name, "an answer was lost, and it is there again"
            )
        case ErrorCode.GROUP_ID_NOT_FOUND if later.unseen is None and not later.has(target):
            return Result.ABSENT, "it was gone before the request arrived", code
        case refusal if refusal in _REFUSALS:
            return _refused(target, refusal, later, in_doubt=in_doubt)
        case _ if later.has(target):
            return Result.FAILED, f"the broker answered {error_name(code)}", code
        case _:
            gone = later.unseen or "it is no longer there"
            return Result.UNKNOWN, f"the broker answered {error_name(code)}; {gone}; {later.again}", code


def _deleted(target: DeletionTarget, later: Later, answer: str, returned: str) -> Judgement:
    """The broker says that it deleted the target, or that it is gone after a lost answer. A later description must
    confirm that."""
    if later.unseen is not None:
        return Result.UNKNOWN, f"the broker answered {answer}, but {later.unseen}; {later.again}", 0
    return (Result.RETURNED, returned, 0) if later.has(target) else (Result.REMOVED, None, 0)


def _refused(target: DeletionTarget, code: int, later: Later, *, in_doubt: bool) -> Judgement:
    """After a lost answer, the first request may have been carried out, and the refusal may be about a group that was
    created since: its offsets then differ."""
    why = f"the broker answered {error_name(code)}: {_REFUSALS[ErrorCode(code)]}"
    if not in_doubt or _is_as_before(target, later):
        return Result.REFUSED, why, code
    return Result.UNKNOWN, f"an answer was lost; then {why}; {later.again}", code


def _unanswered(target: DeletionTarget, sender: ChangeSender[DeletionTarget], later: Later) -> Judgement:
    """The result if a request may have been carried out, but no answer says so."""
    refusal = sender.refusal
    is_gone = later.unseen is None and not later.has(target)
    if target in sender.lost or refusal is None:
        if is_gone:
            return Result.REMOVED, "its answer was lost; it was there before and is gone", 0
        there = later.unseen or "it is still there, but the request may still take effect"
        return Result.UNKNOWN, f"the answer was lost, and {there}; {later.again}", 0
    answered, code = f"the broker answered {error_name(refusal.kafka_error)}", refusal.kafka_error
    if later.unseen is None and not is_gone:
        return Result.FAILED, f"{answered}, and it is still there", code
    return Result.UNKNOWN, f"{answered}; {later.unseen or 'it is no longer there'}; {later.again}", code


def _is_as_before(target: DeletionTarget, later: Later) -> bool:
    return later.unseen is None and later.has(target) and later.offsets(target) == target.offsets

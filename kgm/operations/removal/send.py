"""LeaveGroup, sent until it is answered or the time runs out, and what is known of each member afterwards.

A LeaveGroup request is not idempotent on the wire (the second answer is UNKNOWN_MEMBER_ID), but it is in effect. So a
request whose answer was lost is sent again, with the described member id: a process that took over the instance id
meanwhile is answered FENCED_INSTANCE_ID instead of being evicted. A member of a consumer group (KIP-848) may come back
under the same member id, so `before_retry` looks first whom a second request would remove.

Once a request may have reached the broker, kgm no longer claims that nothing has changed: a broker that has removed the
member may still send a response that cannot be decoded, or an error code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kgm.client.admin_client import AdminClient
from kgm.client.failures import RETRIABLE, ConnectError, LostError, from_code
from kgm.client.leave_group import LeaveAnswer, MemberToRemove
from kgm.client.transport.brokers import backoff
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError, RefusedError, UnreachableError
from kgm.operations.removal.plan import BATCH_VERSION, Target

#: LeaveGroup with a reason (KIP-800, Kafka 3.2).
REASON_VERSION = 5
#: The share of the budget for sending; the rest is for describing the group afterwards.
_SENDING_SHARE = 0.75


#: Called with the members of a request before it is sent again; returns those for which it may be. Raises RefusedError
#: if nothing may be sent, another KgmError if that is not known.
BeforeRetry: TypeAlias = Callable[[list[Target]], list[Target]]


class LeaveGroupSender:
    """The requests of one removal. The fields have what is known at any time, also after an exception or Ctrl-C.

    codes: the error code of each member that was answered. in_doubt: members in a request that may have reached the
    broker without such an answer. lost: of these, those with an answer that was lost or cannot be understood; the
    others were answered with an error for the whole request. last_error: why the last attempt failed; refusal: the last
    error that a whole request was answered with."""

    def __init__(
        self, cluster: AdminClient, group_id: str, *, reason: str, evict: bool,
        sleep: Callable[[float], None] | None = None, before_retry: BeforeRetry | None = None,
    ) -> None:  # fmt: skip
        self.codes: dict[Target, int] = {}
        self.in_doubt: set[Target] = set()
        self.lost: set[Target] = set()
        self.last_error: KgmError | None = None
        self.refusal: KgmError | None = None
        self.version: int | None = None
        self._cluster, self._group_id, self._reason, self._evict = cluster, group_id, reason, evict
        self._sleep = sleep
        self._before_retry = before_retry

    @property
    def was_sent(self) -> bool:
        """Whether a LeaveGroup may have reached the broker."""
        return bool(self.codes or self.in_doubt)

    def send(self, targets: Sequence[Target]) -> None:
        """Raises KgmError if no request was sent at all; otherwise the fields have what is known."""
        deadline = self._cluster.deadline.part(_SENDING_SHARE)
        try:
            is_batch = self._cluster.leave_version(self._group_id, deadline) >= BATCH_VERSION
            for batch in [list(targets)] if is_batch else [[target] for target in targets]:
                self._send_batch(batch, deadline)
        except KgmError as error:
            self.last_error = error
            if not self.was_sent:
                raise

    def _send_batch(self, batch: list[Target], deadline: Deadline) -> None:
        attempt = 0
        while True:
            try:
                rest = batch if attempt == 0 or self._before_retry is None else self._before_retry(batch)
            except RefusedError:
                raise
            except KgmError as failure:
                error: KgmError | None = failure
            else:
                error = self._attempt(rest, deadline, is_first=attempt == 0) if rest else None
            if error is None:
                return
            self.last_error = error
            if deadline.expired:
                if self.was_sent:
                    return
                raise UnreachableError(
                    f"LeaveGroup for group {self._group_id!r} could not be sent within the time allowed",
                    facts=(f"last: {error.message}", *error.facts, "nothing was changed"), group_id=self._group_id,
                    hint="try a longer --timeout", kafka_error=error.kafka_error,
                )  # fmt: skip
            (self._sleep or deadline.sleep)(backoff(attempt))
            attempt += 1

    def _attempt(self, batch: list[Target], deadline: Deadline, *, is_first: bool) -> KgmError | None:
        """None when the batch is answered, else the error to retry after. Raises errors that a retry cannot fix."""
        members = {self._member_to_remove(target, is_first=is_first): target for target in batch}
        fresh = {target for target in batch if target not in self.in_doubt}
        self.in_doubt |= fresh  # until it is known that the request was not sent
        try:
            answer = self._cluster.leave_group(self._group_id, list(members), reason=self._reason, deadline=deadline)
        except LostError as error:
            self._look_up_again()
            if error.sent:
                self.lost.update(batch)
            else:
                self.in_doubt -= fresh
            return error
        except ConnectError as error:
            self._look_up_again()
            self.in_doubt -= fresh
            return error
        except KgmError as error:  # from looking up the coordinator: nothing was sent
            self.in_doubt -= fresh
            if error.kafka_error not in RETRIABLE:
                raise
            self._look_up_again()
            return error
        except BaseException:  # Ctrl-C, or a bug: the response is not read
            self.lost.update(batch)
            raise
        return self._take(answer, members, fresh)

    def _look_up_again(self) -> None:
        self._cluster.brokers.forget_coordinators([self._group_id])

    def _member_to_remove(self, target: Target, *, is_first: bool) -> MemberToRemove:
        """Without a member id, which removes any holder of the instance id, only in the first request, and only if the
        operator allowed it."""
        is_by_instance = target.named.group_instance_id is not None
        return target.named if self._evict and is_first and is_by_instance else target.to_remove

    def _take(self, answer: LeaveAnswer, members: dict[MemberToRemove, Target], fresh: set[Target]) -> KgmError | None:
        self.version = answer.version
        code = answer.error_code
        if code:
            error = from_code(
                code, f"members of group {self._group_id!r} cannot be removed", broker=answer.broker, api="LeaveGroup",
                operation="READ", group_id=self._group_id,
            )  # fmt: skip
            self.refusal = error
            if code not in RETRIABLE:
                raise error
            self._look_up_again()
            return error
        self.codes.update((members[member], code) for member, code in answer.codes.items())
        self.in_doubt -= fresh & self.codes.keys()
        return None

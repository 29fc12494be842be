"""LeaveGroup, sent until it is answered or the time runs out.

A LeaveGroup request is not idempotent on the wire (the second answer is UNKNOWN_MEMBER_ID), but it is in effect. So a
request whose answer was lost is sent again, with the described member id: if another process took over the instance id
in the meantime, the answer is FENCED_INSTANCE_ID, and it is not evicted. A process that was paused can resume with the
same member id, and a member of a consumer group (KIP-848) can come back with it, so `before_retry` first checks whom a
second request would remove."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kgm.client.admin_client import AdminClient
from kgm.client.leave_group import MemberToRemove
from kgm.client.transport.deadline import Deadline
from kgm.operations.change.sender import BeforeRetry, ChangeAnswer, ChangeSender
from kgm.operations.removal.plan import BATCH_VERSION, Target
from kgm.protocol.apis import ApiKey

#: LeaveGroup with a reason (KIP-800, Kafka 3.2).
REASON_VERSION = 5


class LeaveGroupSender(ChangeSender[Target]):
    """The requests of one removal. evict: the first request names members by their instance ids alone."""

    api = "LeaveGroup"

    def __init__(
        self, cluster: AdminClient, group_id: str, *, reason: str, evict: bool,
        sleep: Callable[[float], None] | None = None, before_retry: BeforeRetry[Target] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cluster, group_id, sleep=sleep, before_retry=before_retry)
        self._reason, self._evict = reason, evict

    @property
    def _failure(self) -> str:
        return f"members of group {self._group_id!r} cannot be removed"

    def _right(self, _code: int) -> str:
        return "READ"

    def _batches(self, targets: Sequence[Target], deadline: Deadline) -> list[list[Target]]:
        is_batch = self._cluster.version_of(ApiKey.LEAVE_GROUP, self._group_id, deadline) >= BATCH_VERSION
        return [list(targets)] if is_batch else [[target] for target in targets]

    def _request(self, batch: Sequence[Target], deadline: Deadline, *, is_first: bool) -> ChangeAnswer[Target]:
        members = {self._member_to_remove(target, is_first=is_first): target for target in batch}
        answer = self._cluster.leave_group(self._group_id, list(members), reason=self._reason, deadline=deadline)
        return ChangeAnswer(
            error_code=answer.error_code, codes={members[one]: code for one, code in answer.codes.items()},
            version=answer.version, broker=answer.broker,
        )  # fmt: skip

    def _member_to_remove(self, target: Target, *, is_first: bool) -> MemberToRemove:
        """The member as the request names it. Only the first request may leave out the member id, which removes any
        holder of the instance id, and only if the operator allowed it."""
        is_by_instance = target.named.group_instance_id is not None
        return target.named if self._evict and is_first and is_by_instance else target.to_remove

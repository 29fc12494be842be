"""DeleteGroups and OffsetDelete, sent until they are answered or the time runs out.

The coordinator decides by its latest state: it refuses to delete a group with a member (NON_EMPTY_GROUP) and the
offsets of a topic to which a member subscribes (GROUP_SUBSCRIBED_TO_TOPIC). It does not check when a group last
committed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from kgm.client.delete_groups import DeleteAnswer, delete_group, delete_offsets
from kgm.client.failures import RETRIABLE
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import ErrorCode
from kgm.operations.change.sender import ChangeAnswer, ChangeSender
from kgm.operations.deletion.targets import DeletionTarget

#: Errors for the whole request; any other error is about its target.
_WHOLE = RETRIABLE | {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


class _DeletionSender(ChangeSender[DeletionTarget]):
    """Each request has one target, so that its errors are about that target."""

    def _batches(self, targets: Sequence[DeletionTarget], _deadline: Deadline) -> list[list[DeletionTarget]]:
        return [[target] for target in targets]

    def _request(
        self, batch: Sequence[DeletionTarget], deadline: Deadline, *, is_first: bool  # noqa: ARG002
    ) -> ChangeAnswer[DeletionTarget]:  # fmt: skip
        (target,) = batch
        answer = self._cluster.send_change(self._group_id, lambda one: self._ask(one, target, deadline), deadline)
        is_whole = answer.error_code in _WHOLE
        return ChangeAnswer(
            error_code=answer.error_code if is_whole else 0, codes={} if is_whole else {target: answer.error_code},
            version=answer.version, broker=answer.broker,
        )  # fmt: skip

    @abstractmethod
    def _ask(self, connection: BrokerConnection, target: DeletionTarget, deadline: Deadline) -> DeleteAnswer: ...


class GroupDeleter(_DeletionSender):
    """DeleteGroups for one group."""

    api = "DeleteGroups"

    @property
    def _failure(self) -> str:
        return f"group {self._group_id!r} cannot be deleted"

    def _right(self, _code: int) -> str:
        return "DELETE"

    def _ask(self, connection: BrokerConnection, _target: DeletionTarget, deadline: Deadline) -> DeleteAnswer:
        return delete_group(connection, self._group_id, deadline)


class OffsetDeleter(_DeletionSender):
    """OffsetDelete for topics of one group."""

    api = "OffsetDelete"

    @property
    def _failure(self) -> str:
        return f"committed offsets of group {self._group_id!r} cannot be deleted"

    def _right(self, code: int) -> str:
        return "READ" if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else "DELETE"

    def _ask(self, connection: BrokerConnection, target: DeletionTarget, deadline: Deadline) -> DeleteAnswer:
        return delete_offsets(connection, self._group_id, target.partitions, deadline)

"""A request that changes something, sent until it is answered or the time runs out, and what is known afterwards.

Once a request may have reached the broker, kgm no longer claims that nothing has changed: a broker that has acted on it
can still send a response that cannot be decoded, or an error code. A request whose answer was lost, or was an
error that says to try again, is sent again, after `before_retry` has checked what a second request would do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeAlias, TypeVar

from kgm.client.admin_client import AdminClient
from kgm.client.failures import RETRIABLE, ConnectError, LostError, from_code
from kgm.client.transport.brokers import backoff
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError, RefusedError, UnreachableError

#: The share of the budget for sending; the rest is for describing the group afterwards.
_SENDING_SHARE = 0.75

#: The target of a request: a member, a group, or a topic of a group.
T = TypeVar("T")

#: Called with the targets of a request before it is sent again; returns those for which it may be sent. Raises
#: RefusedError if nothing may be sent, another KgmError if that cannot be determined.
BeforeRetry: TypeAlias = Callable[[list[T]], list[T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAnswer(Generic[T]):
    """What the coordinator answered: an error for the whole request, and an error code for each target it contains."""

    error_code: int
    codes: Mapping[T, int]
    version: int
    broker: str


class ChangeSender(ABC, Generic[T]):
    """The requests that make one change to a group. The fields show what is known at any time, even after an exception
    or Ctrl-C.

    codes: the error code of each target that has one in an answer. in_doubt: targets of a request that may have
    reached the broker but brought no code for them; a code in a later answer does not remove the doubt, but a look
    before a retry can (`see_not_carried_out`). lost: the targets in doubt because an answer was lost or could not
    be decoded; for the others, the answer was an error for the whole request. last_error: why the last attempt
    failed. refusal: the last error for a whole request."""

    #: The name of the request.
    api: ClassVar[str]

    def __init__(
        self, cluster: AdminClient, group_id: str, *, sleep: Callable[[float], None] | None = None,
        before_retry: BeforeRetry[T] | None = None,
    ) -> None:  # fmt: skip
        self.codes: dict[T, int] = {}
        self.in_doubt: set[T] = set()
        self.lost: set[T] = set()
        self.last_error: KgmError | None = None
        self.refusal: KgmError | None = None
        self.version: int | None = None
        self._cluster, self._group_id = cluster, group_id
        self._sleep = sleep
        self._before_retry = before_retry

    @abstractmethod
    def _request(self, batch: Sequence[T], deadline: Deadline, *, is_first: bool) -> ChangeAnswer[T]:
        """Send one request, once (`AdminClient.send_change`)."""

    @property
    @abstractmethod
    def _failure(self) -> str:
        """What failed if the broker refuses the request, as the start of an error message."""

    @abstractmethod
    def _right(self, code: int) -> str:
        """The operation for which permission is missing if the broker answers with this error."""

    def _batches(self, targets: Sequence[T], _deadline: Deadline) -> list[list[T]]:
        """The targets of each request. Raises KgmError."""
        return [list(targets)]

    @property
    def was_sent(self) -> bool:
        """Whether a request may have reached the broker."""
        return bool(self.codes or self.in_doubt)

    def send(self, targets: Sequence[T]) -> None:
        """Raises KgmError if no request was sent at all; otherwise the fields show what is known."""
        deadline = self._cluster.deadline.part(_SENDING_SHARE)
        try:
            for batch in self._batches(targets, deadline):
                self._send_batch(batch, deadline)
        except KgmError as error:
            self.last_error = error
            if not self.was_sent:
                raise

    def _send_batch(self, batch: list[T], deadline: Deadline) -> None:
        attempt = 0
        while True:
            try:
                rest = batch if attempt == 0 or self._before_retry is None else self._before_retry(batch)
            except RefusedError:
                raise
            except KgmError as failure:
                error: KgmError | None = failure
            else:
                if not rest:
                    return
                # The look may have taken all the time: what is sent then brings nothing but doubt.
                is_late = attempt > 0 and deadline.expired
                error = self.last_error if is_late else self._attempt(rest, deadline, is_first=attempt == 0)
            if error is None:
                return
            self.last_error = error
            if deadline.expired:
                if self.was_sent:
                    return
                raise self.not_carried_out("what it names is still there") or UnreachableError(
                    f"{self.api} for group {self._group_id!r} could not be sent within the time allowed",
                    facts=(f"last: {error.message}", *error.facts, "nothing was changed"), group_id=self._group_id,
                    hint="try a longer --timeout", kafka_error=error.kafka_error,
                )  # fmt: skip
            (self._sleep or deadline.sleep)(backoff(attempt))
            attempt += 1

    def _attempt(self, batch: list[T], deadline: Deadline, *, is_first: bool) -> KgmError | None:
        """None if the batch was answered, else the error to retry after. Raises errors that a retry cannot fix."""
        fresh = {target for target in batch if target not in self.in_doubt}
        self.in_doubt |= fresh  # until it is known that the request was not sent
        try:
            answer = self._request(batch, deadline, is_first=is_first)
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
        except BaseException:  # Ctrl-C, or a bug: the response will not be read
            self.lost.update(batch)
            raise
        return self._take(answer, fresh)

    def see_not_carried_out(self, targets: Iterable[T]) -> None:
        """Note that a later look shows these targets as they were. An error for the whole request says that nothing was
        done, so they are no longer in doubt, unless an answer was lost."""
        self.in_doubt -= set(targets) - self.lost

    def _look_up_again(self) -> None:
        self._cluster.brokers.forget_coordinators([self._group_id])

    def _take(self, answer: ChangeAnswer[T], fresh: set[T]) -> KgmError | None:
        self.version = answer.version
        code = answer.error_code
        if code:
            error = from_code(
                code, self._failure, broker=answer.broker, api=self.api, operation=self._right(code),
                group_id=self._group_id,
            )  # fmt: skip
            self.refusal = error
            if code not in RETRIABLE:
                raise error
            self._look_up_again()
            return error
        self.codes.update(answer.codes)
        self.in_doubt -= fresh & self.codes.keys()
        return None

    def not_carried_out(self, fact: str) -> KgmError | None:
        """The error for the whole request, if that is the only answer and none was lost; None otherwise. fact: what a
        later description shows that proves that nothing was changed."""
        error = self.refusal
        if error is None or self.lost or self.codes:
            return None
        fact = f"nothing was changed: {fact}"
        if error.kafka_error not in RETRIABLE:
            error.facts = (*error.facts, fact)
            return error
        return UnreachableError(
            f"the coordinator of group {self._group_id!r} did not accept {self.api} within the time allowed",
            facts=(*error.facts, fact), group_id=self._group_id, hint="try again, or with a longer --timeout",
            kafka_error=error.kafka_error,
        )  # fmt: skip

"""Errors between kgm and a broker: the only place that maps Kafka error codes to `KgmError`."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from kgm.model.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    KgmError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
    error_name,
)
from kgm.text.shell import shell_word

#: The coordinator is another broker, or will be: look it up again.
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
#: Retry: nothing has been done.
RETRIABLE = MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REBOOTSTRAP_REQUIRED,
}  # fmt: skip
_AUTHENTICATION = {
    ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SECURITY_DISABLED,
}  # fmt: skip
_AUTHORIZATION = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
}


class ConnectError(UnreachableError):
    """No connection was established, so no request was sent."""


class LostError(UnreachableError):
    """The connection ended, or time ran out, while a request was in flight.

    sent: at least the last byte of the request was handed to the network, so the broker may have acted on it."""

    def __init__(self, message: str, *, sent: bool, facts: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, facts=facts, hint=hint)
        self.sent = sent


class WrongProtocolError(UnreachableError):
    """The server expects TLS or HTTP, not the Kafka protocol in plaintext. Retrying does not help."""


class BadAnswerError(BrokerError):
    """A response that violates the protocol: a frame of impossible length, the wrong correlation id."""

    code = "BAD_ANSWER"


class MissingGroupError(NotFoundError):
    """The cluster has no such group, or does not show it to this principal."""


class OtherClusterError(RefusedError):
    """A connection leads to a different cluster than kgm started with; nothing but Metadata was sent to it."""

    code = "OTHER_CLUSTER"

    def __init__(self, address: str, *, expected: str | None, found: str | None) -> None:
        nameless = "one without an id"
        super().__init__(
            f"another cluster answers at {address}: {found or nameless}, not {expected or nameless}",
            facts=("kgm asks for the cluster's id on each connection before it sends anything else on it",),
            hint="check where the address leads now: a port-forward, a DNS name, a virtual address",
        )  # fmt: skip


def refuse_other_cluster(answers: Iterable[object]) -> None:
    """Raises OtherClusterError if it is one of these answers: what the others say is of before."""
    error = next((one for one in answers if isinstance(one, OtherClusterError)), None)
    if error is not None:
        raise error


def refuse_evidence_of_other_cluster(
    what: str, recorded: str | None, answering: str | None, hint: str | None = None
) -> None:
    """Raises RefusedError if what was recorded is of a cluster other than the one that answers: a group of the same
    name there is another group. An id that is not known, None, is not another one."""
    if None not in (recorded, answering) and recorded != answering:
        raise RefusedError(
            f"nothing was done: {what} is about cluster {recorded}, and this is {answering}",
            hint=hint or "check --bootstrap-server and --profile",
        )


class UnreadSettings(NamedTuple):
    """Why settings could not be read. why: the part of the sentence after "they". is_denied: a right is missing."""

    why: str
    is_denied: bool

    @classmethod
    def of(cls, error: KgmError) -> Self:
        """error: about a group if its settings were asked for, about no group if those of a broker were."""
        if isinstance(error, AuthorizationError):
            resource = "cluster" if error.group_id is None else "group"
            return cls(f"cannot be read without DESCRIBE_CONFIGS on the {resource}", is_denied=True)
        return cls(f"could not be read ({error.reason})", is_denied=False)


def from_code(
    code: int, doing: str, *, broker: str = "", api: str = "", operation: str = "DESCRIBE", group_id: str | None = None,
    text: str | None = None, hint: str | None = None,
) -> KgmError:  # fmt: skip
    """The error for a Kafka error code. doing: what failed, in terms the user knows; operation: the right it takes;
    hint: for a failed login."""
    facts = [f"{api or 'the broker'}{' at ' + broker if broker else ''} answered {error_name(code)}"]
    if text:
        facts.append(f"the broker says: {text}")
    if code in _AUTHORIZATION:
        return _authorization(code, doing, facts, operation, group_id)
    if code in _AUTHENTICATION:
        return AuthenticationError(doing, facts=facts, hint=hint, group_id=group_id, kafka_error=code)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return not_found(group_id or "", facts)
    if code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_ASSIGNOR):
        return UnsupportedError(doing, facts=facts, group_id=group_id, kafka_error=code)
    return BrokerError(doing, facts=facts, group_id=group_id, kafka_error=code)


def is_temporary(error: KgmError) -> bool:
    """Whether the same request might succeed later."""
    return isinstance(error, UnreachableError) or error.kafka_error in RETRIABLE


def is_retriable(result: object) -> bool:
    """Whether this is an error after which kgm asks again within the same command: nobody was reached, or what was
    reached refused for the moment."""
    if isinstance(result, (LostError, ConnectError)):
        return True
    return isinstance(result, KgmError) and result.kafka_error in RETRIABLE


def not_mentioned(group_id: str, broker: str) -> BadAnswerError:
    """The error for a group that is missing from a response."""
    return BadAnswerError(f"the response of broker {broker} does not contain group {group_id!r}", group_id=group_id)


def not_found(group_id: str, facts: list[str] | tuple[str, ...] = ()) -> MissingGroupError:
    """The error for a group that the cluster does not have, or does not show to this principal."""
    return MissingGroupError(f"group {group_id!r} does not exist", facts=facts, group_id=group_id, hint="kgm list")


def grant_hint(right: str) -> str:
    """The hint after an authorization error. right: the options of kafka-acls that name it. A DENY outweighs every
    ALLOW, and brokers do not say whether one is the reason."""
    return f"unless an ACL denies it (kafka-acls --list): kafka-acls --add --allow-principal User:NAME {right}"


def _authorization(code: int, doing: str, facts: list[str], operation: str, group_id: str | None) -> AuthorizationError:
    kind = _AUTHORIZATION[ErrorCode(code)]
    resource = f"Group {group_id!r}" if kind == "Group" and group_id is not None else kind
    hint = None
    if kind == "Group" and group_id is not None:
        named = f"--group {shell_word(group_id)}" if not group_id.startswith("-") else f"--group={shell_word(group_id)}"
        right = f"--operation {operation.capitalize()} {named}"
        hint = grant_hint(right)
    facts.append(f"the principal needs {operation} on {resource}")
    return AuthorizationError(doing, facts=facts, hint=hint, group_id=group_id, kafka_error=code)

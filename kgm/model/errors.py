"""The one tree of errors. Each leaf has the exit code that runbooks rely on (cli.md section 3 of the design notes)."""

from collections.abc import Sequence
from typing import ClassVar

from kgm.model.error_code import ErrorCode, error_name

__all__ = [
    "AuthenticationError", "AuthorizationError", "BrokerError", "ConditionNotMet", "DecodeError", "EncodeError",
    "ErrorCode", "KgmError", "NotFoundError", "PartialError", "RefusedError", "UnreachableError",
    "UnsupportedError", "UsageError", "error_name",
]  # fmt: skip


class KgmError(Exception):
    """Something that kgm tells a person.

    message: what failed, with the names that the user typed. facts: lines of evidence (broker, API, Kafka's error name
    in capitals). hint: a command that can be run, or what to try. code: machine-readable, as in the JSON `errors`."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "INTERNAL"

    def __init__(
        self, message: str, *, facts: Sequence[str] = (), hint: str | None = None, group_id: str | None = None,
        kafka_error: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = message
        self.facts = tuple(facts)
        self.hint = hint
        self.group_id = group_id
        self.kafka_error = kafka_error

    @property
    def json_code(self) -> str:
        """The Kafka error's name where there is one, otherwise the class's own code."""
        return error_name(self.kafka_error) or self.code


class DecodeError(KgmError):
    """Bytes that are no message of the kind that was expected."""

    code = "DECODE_ERROR"


class EncodeError(KgmError):
    """A message that cannot be written at the version asked for."""

    code = "ENCODE_ERROR"


class BrokerError(KgmError):
    """The broker answered with an error that has no exit code of its own."""

    code = "BROKER_ERROR"


class UnsupportedError(BrokerError):
    """The broker does not speak the API version that the command needs."""

    code = "UNSUPPORTED_VERSION"


class UsageError(KgmError):
    """The command line, or a file it names, is not understood."""

    exit_code = 2
    code = "USAGE"


class NotFoundError(KgmError):
    """A group, an instance id or a file is not there."""

    exit_code = 3
    code = "NOT_FOUND"


class AuthenticationError(KgmError):
    """The cluster does not accept who we are."""

    exit_code = 4
    code = "AUTHENTICATION"


class AuthorizationError(KgmError):
    """The principal lacks a right; the facts name the ACL."""

    exit_code = 4
    code = "AUTHORIZATION"


class UnreachableError(KgmError):
    """No broker answered within the budget, and nothing was changed."""

    exit_code = 5
    code = "UNREACHABLE"


class RefusedError(KgmError):
    """A guard said no, or the operator did; nothing was changed."""

    exit_code = 6
    code = "REFUSED"


class PartialError(KgmError):
    """Some of it was done and some not, or the outcome is unknown."""

    exit_code = 7
    code = "PARTIAL"


class ConditionNotMet(KgmError):  # noqa: N818  (a result of `wait` and of gates, not a failure)
    """A gate, an expectation or a wait was not met."""

    exit_code = 8
    code = "CONDITION_NOT_MET"

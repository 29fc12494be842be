"""The tree of errors. Each leaf has the exit code that runbooks rely on (docs/exit-codes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kgm.model.error_code import ErrorCode, error_name

__all__ = [
    "AuthenticationError", "AuthorizationError", "BrokerError", "ConditionNotMet", "DecodeError",
    "EncodeError", "ErrorCode", "KgmError", "MissingFileError", "NotFoundError", "OutputError",
    "PartialError", "RefusedError", "TimedOutError", "UnreachableError", "UnsupportedError",
    "UsageError", "error_name",
]  # fmt: skip


class KgmError(Exception):
    """An error that is reported to the user.

    message: what failed, with the names that the user typed. facts: lines of evidence (broker, API, Kafka's error name
    in capitals). hint: a command to run, or something to try. code: machine-readable, as in the JSON `errors`."""

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
        """The name of the Kafka error if there is one, otherwise the code of the class."""
        return error_name(self.kafka_error) or self.code

    @property
    def reason(self) -> str:
        """A few words for use in a sentence: the name of the Kafka error if there is one, otherwise the message."""
        return error_name(self.kafka_error) or self.message


class DecodeError(KgmError):
    """Bytes are not a message of the expected kind."""

    code = "DECODE_ERROR"


class EncodeError(KgmError):
    """A message cannot be encoded at the requested version."""

    code = "ENCODE_ERROR"


class OutputError(KgmError):
    """The result cannot be written: a full disk, a closed descriptor."""

    code = "OUTPUT"


class BrokerError(KgmError):
    """The broker has returned an error without an exit code of its own."""

    code = "BROKER_ERROR"


class UnsupportedError(BrokerError):
    """The broker does not support the API version that the command needs."""

    code = "UNSUPPORTED_VERSION"


class UsageError(KgmError):
    """The command line, or a file that it names, is not valid."""

    exit_code = 2
    code = "USAGE"


class MissingFileError(UsageError):
    """A file, directory or profile that the user names does not exist, or does not contain what it should. Must never
    be mistaken for a group or member that is not in the cluster."""

    code = "FILE_NOT_FOUND"


class NotFoundError(KgmError):
    """A group or an instance id does not exist."""

    exit_code = 3
    code = "NOT_FOUND"


class AuthenticationError(KgmError):
    """The cluster does not accept the credentials."""

    exit_code = 4
    code = "AUTHENTICATION"


class AuthorizationError(KgmError):
    """The principal lacks a right; the facts name the ACL."""

    exit_code = 4
    code = "AUTHORIZATION"


class UnreachableError(KgmError):
    """No broker has answered in time, and nothing was changed."""

    exit_code = 5
    code = "UNREACHABLE"


class TimedOutError(KgmError):
    """The time limit of the command has passed, and nothing was changed."""

    exit_code = 5
    code = "TIMED_OUT"


class RefusedError(KgmError):
    """A guard has refused, or the operator has declined; nothing was changed."""

    exit_code = 6
    code = "REFUSED"


class PartialError(KgmError):
    """Part of the work was done and part was not, or the outcome is unknown."""

    exit_code = 7
    code = "PARTIAL"


class ConditionNotMet(KgmError):  # noqa: N818  (a result of `wait` and of gates, not a failure)
    """The condition of a gate, an expectation or a wait was not met."""

    exit_code = 8
    code = "CONDITION_NOT_MET"

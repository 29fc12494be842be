"""Exit codes are a contract with runbooks."""

from kgm.model import errors
from kgm.model.errors import ErrorCode, KgmError, error_name

CONTRACT = {
    "KgmError": 1, "BrokerError": 1, "DecodeError": 1, "EncodeError": 1, "UnsupportedError": 1, "UsageError": 2,
    "NotFoundError": 3, "MissingFileError": 2, "AuthenticationError": 4, "AuthorizationError": 4, "TimedOutError": 5, "UnreachableError": 5, "RefusedError": 6,
    "PartialError": 7, "ConditionNotMet": 8, "OutputError": 1,
}  # fmt: skip


def test_each_error_has_the_exit_code_of_the_contract():
    classes = {
        name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, KgmError)
    }
    assert {name: cls.exit_code for name, cls in classes.items()} == CONTRACT


def test_names_of_kafka_errors():
    assert error_name(0) is None
    assert error_name(82) == "FENCED_INSTANCE_ID"
    assert error_name(30_000) == "ERROR_30000"
    assert ErrorCode.UNKNOWN_MEMBER_ID == 25
    assert KgmError("x", kafka_error=25).json_code == "UNKNOWN_MEMBER_ID"
    assert errors.UsageError("x").json_code == "USAGE"

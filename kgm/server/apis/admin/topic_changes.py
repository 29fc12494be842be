"""What the APIs share that create, grow and delete topics: room for more, and changes that could not be saved."""

from typing import Protocol

from kgm.model.errors import ErrorCode
from kgm.server.cluster.cluster import EmbeddedCluster

#: An error of one row of a response, and its text; NONE without one.
RowError = tuple[ErrorCode, str | None]
NO_ERROR: RowError = (ErrorCode.NONE, None)
#: Why an internal topic is not changed.
INTERNAL_TOPIC: RowError = (ErrorCode.POLICY_VIOLATION, "kgm serve keeps its internal topics as they are.")


class ResultRow(Protocol):
    """A row of a response."""

    error_code: int
    error_message: str | None


def room_error(cluster: EmbeddedCluster, *, topics: int = 0, partitions: int = 0) -> RowError:
    """POLICY_VIOLATION if the server has no room for so many more."""
    if cluster.has_room(topics=topics, partitions=partitions):
        return NO_ERROR
    limits = cluster.limits
    most = f"{limits.max_topics} topics and {limits.max_partitions} partitions"
    return ErrorCode.POLICY_VIOLATION, f"kgm serve has room for {most}."


def set_storage_error(row: ResultRow, error: OSError) -> None:
    """The change of this row could not be saved."""
    row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, error.strerror or str(error)

"""What the APIs that create, grow and delete topics share: errors for too little room and for changes not saved."""

from typing import Protocol

from kgm.model.errors import ErrorCode
from kgm.server.cluster.cluster import EmbeddedCluster

#: The error of one row of a response, and its text; (NONE, None) if there is no error.
RowError = tuple[ErrorCode, str | None]
NO_ERROR: RowError = (ErrorCode.NONE, None)
#: The error for an attempt to change an internal topic.
INTERNAL_TOPIC: RowError = (ErrorCode.POLICY_VIOLATION, "kgm serve keeps its internal topics as they are.")


class ResultRow(Protocol):
    """One row of a response."""

    error_code: int
    error_message: str | None


def room_error(cluster: EmbeddedCluster, *, topics: int = 0, partitions: int = 0) -> RowError:
    """POLICY_VIOLATION if the server has no room for this many more topics or partitions."""
    if cluster.has_room(topics=topics, partitions=partitions):
        return NO_ERROR
    limits = cluster.limits
    most = f"{limits.max_topics} topics and {limits.max_partitions} partitions"
    return ErrorCode.POLICY_VIOLATION, f"kgm serve has room for {most}."


def set_storage_error(row: ResultRow, error: OSError) -> None:
    """Report that the change of this row could not be saved."""
    row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, error.strerror or str(error)

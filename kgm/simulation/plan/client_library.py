"""Which client library a member uses, and the heartbeat interval it most likely has."""

import enum

#: Kafka's default for `heartbeat.interval.ms`.
HEARTBEAT_INTERVAL_MS = 3_000


class Library(enum.Enum):
    """A client library."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


def guess_library(client_library: str | None, client_id: str, member_id: str) -> Library | None:
    """The library of a described member: what `describe` found out, or else what the client id that a library chooses
    by default shows (`rdkafka`, `consumer-GROUP-1`). None if neither tells."""
    name = (client_library or "").lower()
    if "rdkafka" in name or client_id == "rdkafka" or member_id.startswith("rdkafka-"):
        return Library.LIBRDKAFKA
    if "java" in name or client_id.startswith("consumer-"):
        return Library.JAVA
    return None


def usual_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's default, or half of a session timeout that is shorter than twice the default."""
    return min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 2)

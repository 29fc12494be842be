"""Which client library's consumer is played for a member, and the heartbeat interval it most likely has."""

import enum

from kgm.model.client_library import PLAYED, ClientLibrary

#: Kafka's default for `heartbeat.interval.ms`.
HEARTBEAT_INTERVAL_MS = 3_000


class Library(enum.Enum):
    """A client library whose consumers kgm plays."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


def played_as(library: ClientLibrary | None) -> Library | None:
    """The library whose consumers kgm plays in place of this one's. None if it plays those of another, for want of its
    own: Java's, which most libraries follow."""
    name = None if library is None else library.name
    return Library(name) if name in PLAYED else None


def usual_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's default, or half of a session timeout that is shorter than twice the default."""
    return min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 2)

"""Which client library's consumer is played for a member, and the heartbeat interval it most likely has."""

import enum

from kgm.model.client_library import ClientLibrary

#: Kafka's default for `heartbeat.interval.ms`.
HEARTBEAT_INTERVAL_MS = 3_000


class Library(enum.Enum):
    """A client library whose consumers kgm plays."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    FRANZ_GO = "franz-go"
    SARAMA = "sarama"
    KAFKA_GO = "kafka-go"
    KAFKAJS = "kafkajs"
    PLATFORMATIC = "platformatic"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"


_BY_NAME = {library.value: library for library in Library}


def played_as(library: ClientLibrary | None) -> Library | None:
    """The library whose consumers kgm plays for it. None if it is not known, or is none of those that kgm knows: then
    it plays Java's, which most libraries follow."""
    return None if library is None or library.name is None else _BY_NAME.get(library.name)


def usual_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's default, or half of a session timeout that is shorter than twice the default; never 0."""
    return max(1, min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 2))

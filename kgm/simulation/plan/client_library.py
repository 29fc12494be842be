"""Which client library's consumer is played for a member, what it does in a rebalance, and its heartbeat interval."""

import enum
from typing import Final

from kgm.assignors import is_cooperative
from kgm.model.client_library import FRANZ_GO, ClientLibrary
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

STICKY: Final = "sticky"
#: Kafka's default for `heartbeat.interval.ms`.
HEARTBEAT_INTERVAL_MS = 3_000
#: A third of the default of `session.timeout.ms`.
_LONGEST_HEARTBEAT_INTERVAL_MS = 15_000


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


#: With a cooperative assignor these keep their partitions in a rebalance, whatever else is in their settings:
#: librdkafka refuses to combine it with an eager one (rd_kafka_assignors_init), and franz-go goes by the one that is
#: chosen (handleJoinResp).
KEEPING: Final = frozenset((Library.LIBRDKAFKA, Library.FRANZ_GO))
_BY_NAME = {library.value: library for library in Library}


def played_as(library: ClientLibrary | None) -> Library | None:
    """The library whose consumers kgm plays for this one. None if it is unknown, or not one that kgm plays; then kgm
    plays Java's, which most libraries imitate."""
    return None if library is None or library.name is None else _BY_NAME.get(library.name)


def consumer_of(library: Library | None, assignor: str) -> Library:
    """The library whose consumers are played in a group with this assignor: Java's for one that is not known, and for
    librdkafka with `sticky`, which it does not have."""
    if library is None or (library is Library.LIBRDKAFKA and assignor == STICKY):
        return Library.JAVA
    return library


def may_forget(snapshot: GroupSnapshot, stated: str | None = None) -> bool:
    """Whether members may fail to report in a rebalance which partitions they had, although the assignor asks for it.

    With an eager assignor next to a cooperative one in their settings, as in an upgrade, they give up all partitions,
    whichever of the two the group has chosen (Java: ConsumerCoordinator), except in `KEEPING`; a member that names some
    has kept them. With `sticky` only franz-go forgets (revoke), and its version 1.15 does not; which version a member
    runs cannot be seen. For a cooperative group, a snapshot that lacks what subscriptions name is no evidence that
    members forget. stated: the assignor that an operator names as the only one."""
    assignor = stated or snapshot.assignor
    if snapshot.type != "classic" or assignor is None:
        return False
    if assignor == STICKY:
        clients = [member.client_library for member in snapshot.members]
        return any(client is not None and FRANZ_GO in client.candidates for client in clients)
    return not stated and is_cooperative(assignor) and any(map(is_nameless, snapshot.members))


def is_nameless(member: MemberSnapshot) -> bool:
    """Whether a member may have given up all partitions when it joined: it has some now, but named none that it
    kept."""
    keeps = played_as(member.client_library) in KEEPING
    return member.names_owned is False and bool(member.assignment) and not keeps


def usual_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's default, or half the session timeout if that is less; never 0."""
    return max(1, min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 2))


def longest_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """The longest that is likely to be configured: a third of the session timeout, which Kafka's documentation
    recommends as the limit (ConsumerConfig, heartbeat.interval.ms), but no more than a third of the default one."""
    return min(session_timeout_ms // 3, _LONGEST_HEARTBEAT_INTERVAL_MS)

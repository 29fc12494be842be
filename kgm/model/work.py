"""What a member runs besides partitions: the tasks of Kafka Streams, the connectors and tasks of Connect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The protocol type of Connect's workers, and the assignor of Kafka Streams, whose members use the protocol type of
#: consumers (StreamsPartitionAssignor.name).
CONNECT_PROTOCOL_TYPE: Final = "connect"
STREAMS_ASSIGNOR: Final = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberWork:
    """The work of one member of a framework. None: not known, or the framework does not have it.

    process_id: Streams' id of the process that the member is a thread of. user_endpoint: `application.server` of
    Streams; the URL of a Connect worker. active_tasks, standby_tasks, warmup_tasks: `SUBTOPOLOGY_PARTITION`; classic
    groups of Streams list warm-up tasks as standby tasks. active_tasks of a Connect worker: `CONNECTOR-NUMBER`.
    connectors: those that run on a Connect worker themselves. The target fields: what the coordinator of a streams
    group (KIP-1071) intends to assign to it. topology_epoch: the epoch of the topology that a member of a streams group
    has. client_tags: `client.tag.*` of Streams as `KEY=VALUE`. metadata_version: the version in which a thread of a
    classic group of Streams writes its user data, which depends on its release and its `upgrade.from`."""

    process_id: str | None = None
    user_endpoint: str | None = None
    active_tasks: tuple[str, ...] | None = None
    standby_tasks: tuple[str, ...] | None = None
    warmup_tasks: tuple[str, ...] | None = None
    connectors: tuple[str, ...] | None = None
    target_active_tasks: tuple[str, ...] | None = None
    target_standby_tasks: tuple[str, ...] | None = None
    target_warmup_tasks: tuple[str, ...] | None = None
    topology_epoch: int | None = None
    client_tags: tuple[str, ...] | None = None
    metadata_version: int | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The client tags by key."""
        return {key: value for key, _, value in (one.partition("=") for one in self.client_tags or ())}


#: The keys of a member's work in JSON that are texts, those that are lists of texts, and those that are numbers.
TEXT_KEYS: Final = ("process_id", "user_endpoint")
LIST_KEYS: Final = (
    "active_tasks", "standby_tasks", "warmup_tasks", "connectors", "target_active_tasks", "target_standby_tasks",
    "target_warmup_tasks", "client_tags",
)  # fmt: skip
NUMBER_KEYS: Final = ("topology_epoch", "metadata_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserData:
    """Describes the bytes that an assignor wrote into an assignment, without holding them. sha256: hexadecimal
    digits."""

    length: int
    sha256: str

    @classmethod
    def of(cls, data: bytes | None) -> UserData | None:
        """None for no bytes: a coordinator makes the same distinction (Kafka: ConsumerGroup.fromClassicGroup)."""
        if not data:
            return None
        from hashlib import sha256

        return cls(length=len(data), sha256=sha256(data).hexdigest())

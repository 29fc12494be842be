"""Groups whose assignment cannot be predicted: their members do not share partitions, or not by the rules of an
assignor.

No assignor of consumers is run for them. A Kafka Streams application is such a group, although its protocol type is
`consumer`: its assignor, `stream`, places tasks with their state and standbys based on what each member writes into its
user data (`SubscriptionInfo`: the process, the tasks that it has state for, how far behind each one is)."""

from typing import Final

from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import STREAMS_ASSIGNOR

_CONSUMER: Final = (None, "", "consumer")
_BY_TYPE: Final = {
    "streams": "is a streams group (KIP-1071): its coordinator places the tasks of a Kafka Streams application",
    "share": "is a share group (KIP-932): its members share partitions, and no member owns one",
}


def why_unsupported(group: GroupSnapshot) -> str | None:
    """Why the assignment of a group cannot be predicted; None if it can, for a group of consumers."""
    if group.type in _BY_TYPE:
        return _BY_TYPE[group.type]
    if group.type == "classic" and group.protocol_type not in _CONSUMER:
        if group.protocol_type == "connect":
            return "is a Kafka Connect group: its workers share connectors and tasks"
        return f"has protocol type {group.protocol_type}: its members are not consumers"
    if group.assignor == STREAMS_ASSIGNOR:
        return (
            f"is a Kafka Streams application: its assignor {STREAMS_ASSIGNOR!r} places tasks by what members write "
            "into their user data"
        )
    return None


def refuse_unsupported(group: GroupSnapshot) -> None:
    """Raises RefusedError for a group whose assignment cannot be predicted."""
    reason = why_unsupported(group)
    if reason is not None:
        raise RefusedError(
            f"group {group.group_id} {reason}",
            facts=("kgm can predict how consumers assign; here it would have to guess",),
            group_id=group.group_id,
        )


def refuse_streams(assignor: str) -> None:
    """Raises RefusedError if this is the name of Kafka Streams' assignor."""
    if assignor == STREAMS_ASSIGNOR:
        raise RefusedError(
            f"{STREAMS_ASSIGNOR!r} is the assignor of Kafka Streams: it places tasks by what members write into their "
            "user data",
            facts=("kgm can predict how consumers assign; here it would have to guess",),
        )


def refuse_to_migrate(group: GroupSnapshot) -> None:
    """Raises RefusedError for a group whose clients do not have the consumer protocol (KIP-848)."""
    if group.assignor == STREAMS_ASSIGNOR:
        raise RefusedError(
            f"group {group.group_id} cannot migrate to the consumer protocol: it is a Kafka Streams application",
            facts=("Kafka Streams supports group.protocol=classic and, from Kafka 4.2 on, streams (KIP-1071)",),
            group_id=group.group_id,
        )

"""Groups that are no consumer groups: what their members share out is not partitions, or not by an assignor's rules.

kgm says so rather than guess. A Kafka Streams application is such a group though its protocol type is `consumer`: its
assignor, named `stream`, places tasks with their state and standbys by what each member writes into its user data
(`SubscriptionInfo`: the process, the tasks it holds state of, how far behind each one is), and restarts move what that
says rather than what an outsider sees."""

from typing import Final

from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot

#: The protocol name of Streams' assignor (`StreamsPartitionAssignor`).
STREAMS: Final = "stream"
_CONSUMER: Final = (None, "", "consumer")
_BY_TYPE: Final = {
    "streams": "is a streams group (KIP-1071): its coordinator places the tasks of a Kafka Streams application",
    "share": "is a share group (KIP-932): its members share partitions, nobody owns one",
}


def why_foreign(group: GroupSnapshot) -> str | None:
    """Why no consumer assignor says who gets what in this group; None for a consumer group."""
    if group.type in _BY_TYPE:
        return _BY_TYPE[group.type]
    if group.type == "classic" and group.protocol_type not in _CONSUMER:
        if group.protocol_type == "connect":
            return "is a Kafka Connect group: its workers share out connectors and tasks"
        return f"has protocol type {group.protocol_type}: its members are no consumers"
    if group.assignor == STREAMS:
        return (
            f"is a Kafka Streams application: its assignor {STREAMS!r} places tasks by what members write into their "
            "user data"
        )
    return None


def refuse_foreign(group: GroupSnapshot) -> None:
    """Raises RefusedError for a group that is not one of consumers."""
    reason = why_foreign(group)
    if reason is not None:
        raise RefusedError(
            f"group {group.group_id} {reason}",
            facts=("kgm knows how consumers assign; here it would have to guess",),
            group_id=group.group_id,
        )


def refuse_streams(assignor: str) -> None:
    """Raises RefusedError for the name of Streams' assignor."""
    if assignor == STREAMS:
        raise RefusedError(
            f"{STREAMS!r} is the assignor of Kafka Streams: it places tasks by what members write into their user data",
            facts=("kgm knows how consumers assign; here it would have to guess",),
        )

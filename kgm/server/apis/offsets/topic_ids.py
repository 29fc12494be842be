"""Topics by id in offset requests; coordinators know them by name."""

from collections.abc import Callable
from typing import Any, TypeVar

from kgm.server.cluster.topics import Topics

Refused = TypeVar("Refused")

#: The version of OffsetCommit and OffsetFetch that first names topics by id (KIP-848, KIP-516).
BY_TOPIC_ID_FROM = 10
#: The version of the request that the coordinator gets instead.
BY_NAME = BY_TOPIC_ID_FROM - 1


def put_names(topics: list[Any], known: Topics, refuse: Callable[[Any], Refused]) -> tuple[list[Any], list[Refused]]:
    """Set the names of the topics in a request. Returns the topics that exist, and an error row for each of the
    others."""
    existing, refused = [], []
    for row in topics:
        topic = known.by_id(row.topic_id)
        if topic is None:
            refused.append(refuse(row))
        else:
            row.name = topic.name
            existing.append(row)
    return existing, refused


def put_ids(topics: list[Any], known: Topics) -> None:
    """Set the ids of the topics in a response, all of which exist."""
    for row in topics:
        topic = known.by_name(row.name)
        assert topic is not None, "the coordinator deletes the offsets of a topic with the topic"
        row.topic_id = topic.topic_id

"""Which client library a member runs on, as far as its ids show it."""

LIBRDKAFKA, JAVA = "librdkafka", "java"


def library_by_client_id(group_id: str, client_id: str) -> str | None:
    """By the client ids that libraries choose by default. None where the id tells nothing."""
    if client_id == "rdkafka":
        return LIBRDKAFKA
    for library in ("kafka-python", "aiokafka"):
        if client_id.startswith(f"{library}-"):
            return library
    # Java's default client.id is consumer-GROUP-N, and Streams' APP-UUID-StreamThread-N-consumer.
    is_default = client_id.startswith(f"consumer-{group_id}-") and client_id.rpartition("-")[2].isdigit()
    return JAVA if is_default or ("-StreamThread-" in client_id and client_id.endswith("-consumer")) else None


def library_of_consumer(group_id: str, client_id: str, member_id: str) -> str | None:
    """Of a member of a consumer group, which chooses its member id itself. Observed: librdkafka's are plain base64,
    where Java's are the URL-safe kind."""
    by_client_id = library_by_client_id(group_id, client_id)
    if by_client_id in (None, JAVA) and ("/" in member_id or "+" in member_id):
        return LIBRDKAFKA
    return by_client_id

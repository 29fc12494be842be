"""How much a server lets its clients use, and the parsing of broker settings by name (`--set`)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgm.coordinator.contract.scale_out_plan import is_plan
from kgm.coordinator.contract.settings import PER_GROUP, BrokerSettings
from kgm.model.errors import UsageError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that keep a server small no matter what its clients do. Most are Kafka's own settings; the defaults are
    lower where Kafka's are meant for a large cluster."""

    socket_request_max_bytes: int = MIB
    """The longest frame. A client that announces a longer one is disconnected before memory is allocated for it."""
    queued_max_request_bytes: int = 64 * MIB
    """Bytes of incomplete requests on all connections. Above this, the connection with the most is closed."""
    queued_max_response_bytes: int = 64 * MIB
    """Bytes of responses that clients have not read, on all connections. Above this, the connection with the most is
    closed."""
    max_connections: int = 1_000
    max_connections_per_ip: int = 2**31 - 1
    """No separate limit by default: the clients of a rehearsal often share an address."""
    connections_max_idle_ms: int = 600_000
    incomplete_request_max_ms: int = 10_000
    """How long a client can take to send its first request, or the rest of a request that it has started to send."""
    turn_max_ms: int = 4
    """How long requests are served in order of arrival; the rest are served in turn, by connection."""
    fetch_max_bytes: int = MIB
    """The largest Fetch response; a single batch is sent even if it is larger."""
    topic_max_bytes: int = 16 * MIB
    """Records stored per topic; the oldest batches are dropped."""
    total_max_bytes: int = 256 * MIB
    """Records stored for all topics together."""
    max_topics: int = 1_000
    max_partitions: int = 20_000
    """Partitions of all topics together that clients can create."""
    max_groups: int = 10_000
    group_members_max_bytes: int = 64 * MIB
    """Ids, subscriptions and assignments that all groups keep for their members, whether connected or not."""
    committed_offsets_max_bytes: int = 128 * MIB
    """Committed offsets of all groups, including those in open transactions, with their metadata."""
    open_transactions_max_bytes: int = 64 * MIB
    """Data that open transactions keep from being compacted in `__consumer_offsets` in memory. Above this, the
    transaction that has been open the longest ends as if it had timed out."""
    max_transactional_ids: int = 1_000
    max_transaction_partitions: int = 100_000
    """Partitions of all transactions together."""
    offsets_topic_segment_bytes: int = 4 * MIB
    """A partition of `__consumer_offsets` on disk is compacted by segment; the active segment is left out."""
    log_cleaner_backoff_ms: int = 15_000
    """How often the logs are checked for anything to compact."""
    log_cleaner_delete_retention_ms: int = 86_400_000
    """How long compaction keeps tombstones."""
    max_items: int = 30_000
    """Entries (groups, members, partitions) allowed in one request, and in one response."""


_SETTABLE = (
    "socket_request_max_bytes",
    "queued_max_request_bytes",
    "max_connections",
    "max_connections_per_ip",
    "connections_max_idle_ms",
    "incomplete_request_max_ms",
    "turn_max_ms",
    "fetch_max_bytes",
    "group_members_max_bytes",
    "committed_offsets_max_bytes",
    "offsets_topic_segment_bytes",
    "log_cleaner_backoff_ms",
    "log_cleaner_delete_retention_ms",
)
_PREFIX = "broker."
_HIGHEST = 2**31 - 1


def settings_from_overrides(
    overrides: Mapping[str, str], limits: Limits | None = None
) -> tuple[BrokerSettings, Limits]:
    """Settings by Kafka's dotted names, with or without a leading `broker.`. limits: the ones to override; None: the
    defaults.

    Raises UsageError for an unknown name, listing the known ones, and for an illegal value."""
    settable = {name.replace("_", "."): name for name in _SETTABLE}
    group_settings = BrokerSettings.names()
    for_groups: dict[str, str] = {}
    for_limits: dict[str, int] = {}
    for key, value in overrides.items():
        name = key.removeprefix(_PREFIX)
        if name in group_settings or is_plan(name):
            for_groups[name] = value
        elif name in settable:
            for_limits[settable[name]] = _positive(name, value)
        else:
            known = ", ".join(sorted([*group_settings, *PER_GROUP, *settable]))
            raise UsageError(f"kgm serve has no broker setting {key}", facts=(f"known: {known}",))
    settings = BrokerSettings.from_overrides(for_groups)
    if settings.custom_assignors:
        raise UsageError(f"kgm serve does not run the assignor {settings.custom_assignors[0]}")
    return settings, replace(limits or Limits(), **for_limits)


def _positive(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"broker setting {name} is not a whole number: {text!r}") from None
    if not 1 <= value <= _HIGHEST:
        raise UsageError(f"broker setting {name} is out of range: {text}", facts=("lowest: 1",))
    return value

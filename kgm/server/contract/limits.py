"""What one server lets its clients use, and the reading of `--set`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgm.coordinator.contract.scale_out_plan import is_plan
from kgm.coordinator.contract.settings import PER_GROUP, BrokerSettings
from kgm.model.errors import UsageError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that keep a server small whatever its clients do. The first five are Kafka's own settings, with lower
    defaults where Kafka's are made for a cluster."""

    socket_request_max_bytes: int = MIB
    """The longest frame; a client that announces a longer one is disconnected before anything is allocated."""
    queued_max_request_bytes: int = 64 * MIB
    """Bytes of unfinished requests over all connections; who would exceed it is disconnected."""
    max_connections: int = 1_000
    connections_max_idle_ms: int = 600_000
    fetch_max_bytes: int = MIB
    """The longest Fetch response; a single longer batch is still sent."""
    topic_max_bytes: int = 16 * MIB
    """Records kept of one topic; the oldest batches make room."""
    total_max_bytes: int = 256 * MIB
    """Records kept of all topics together."""
    max_topics: int = 1_000
    max_partitions: int = 20_000
    """Partitions of all topics together that clients may create."""
    max_groups: int = 10_000
    max_transactional_ids: int = 1_000
    offsets_topic_segment_bytes: int = 4 * MIB
    """A partition of `__consumer_offsets` on disk is compacted segment by segment, but for the one written to."""
    log_cleaner_backoff_ms: int = 15_000
    """How often it is looked whether there is something to compact."""
    log_cleaner_delete_retention_ms: int = 86_400_000
    """Compaction keeps tombstones for so long."""
    max_items: int = 30_000
    """Entries (groups, members, partitions) that one request may hold, and that one answer may list."""


_SETTABLE = (
    "socket_request_max_bytes",
    "queued_max_request_bytes",
    "max_connections",
    "connections_max_idle_ms",
    "fetch_max_bytes",
    "offsets_topic_segment_bytes",
    "log_cleaner_backoff_ms",
    "log_cleaner_delete_retention_ms",
)
_PREFIX = "broker."
_HIGHEST = 2**31 - 1


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def settings_from_overrides(overrides: Mapping[str, str]) -> tuple[BrokerSettings, Limits]:
    """Settings by Kafka's dotted names, with or without a leading `broker.`. Raises UsageError that lists the known."""
    limits = {_dotted(name): name for name in _SETTABLE}
    group = BrokerSettings.names()
    for_group: dict[str, str] = {}
    for_server: dict[str, int] = {}
    for key, value in overrides.items():
        name = key.removeprefix(_PREFIX)
        if name in group or is_plan(name):
            for_group[name] = value
        elif name in limits:
            for_server[limits[name]] = _positive(name, value)
        else:
            known = ", ".join(sorted([*group, *PER_GROUP, *limits]))
            raise UsageError(f"--set {key}: kgm serve knows no such broker setting", facts=(f"known: {known}",))
    return BrokerSettings.from_overrides(for_group), replace(Limits(), **for_server)


def _positive(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"broker setting {name} is not a whole number: {text!r}") from None
    if not 1 <= value <= _HIGHEST:
        raise UsageError(f"broker setting {name} is out of range: {text}", facts=("lowest: 1",))
    return value

"""What a cluster keeps beside its logs, over a restart."""

from collections.abc import Mapping
from dataclasses import dataclass

from kgm.server.apis.configs import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """topics: partitions by name. deletions: how often the topics of a name were deleted. assigned: replicas of the
    partitions of `__consumer_offsets` that were placed by hand. group_configs: what is set for single groups."""

    topics: Mapping[str, int]
    deletions: Mapping[str, int]
    assigned: Mapping[int, list[int]]
    group_configs: Values

"""What a cluster saves besides its logs, for the next start."""

from collections.abc import Mapping
from dataclasses import dataclass

#: Configurations of individual groups (config resource GROUP): values by group id and name.
GroupConfigs = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """topics: partition counts by name. deletions: how often a topic of each name was deleted. reassigned: the replicas
    of the partitions of `__consumer_offsets` that were reassigned."""

    topics: Mapping[str, int]
    deletions: Mapping[str, int]
    reassigned: Mapping[int, list[int]]
    group_configs: GroupConfigs

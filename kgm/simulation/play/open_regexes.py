"""Watches whether a consumer group (KIP-848) has regular expressions that the coordinator has not resolved yet."""

from kgm.coordinator.engine import Coordinator


class OpenRegexes:
    """The regular expressions of one group. are_open: whether one of them is still to be resolved, which any heartbeat
    of the group may begin."""

    def __init__(self, engine: Coordinator, group_id: str, *, has_regexes: bool) -> None:
        self._engine = engine
        self._group_id = group_id
        self._has_regexes = has_regexes
        self.are_open = False

    def begin(self) -> bool:
        """Look again. Whether `are_open` has become true."""
        if not self._has_regexes:
            return False
        were_open, group = self.are_open, self._engine.consumer_group(self._group_id)
        self.are_open = group is not None and not group.regexes.keys() <= group.resolved.keys()
        return self.are_open and not were_open

"""Watches newcomers that the coordinator holds back for a plan (`kgm.coordinator.classic.standby`): for the timeline,
and to know when a group that has spares is at rest."""

from collections.abc import Callable

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.classic_state import ClassicState

Note = Callable[[str, str, str], None]


class Standby:
    """Who is held back in one group. `plan` is None when there is none for it: then nobody ever is."""

    def __init__(self, engine: Coordinator, group_id: str, note: Note) -> None:
        self._engine = engine
        self._group_id = group_id
        self._note = note
        self.plan = engine.settings.plans.of(group_id)
        self.held: tuple[str, ...] = ()
        self.has_all = False

    def observe(self) -> None:
        """Note who is held back since the last time, and what has become of those who were."""
        view = self._engine.group(self._group_id)
        if view is None or self.plan is None:
            return
        members = {member.group_instance_id or member.member_id: member for member in view.members}
        before, self.held = self.held, view.held
        size = self.plan.target_size
        self.has_all = size is not None and len(members) >= size
        for name in (name for name in view.held if name not in before):
            self._note("held", self._why(len(members), view.held), name)
        for name in (name for name in before if name not in view.held):
            if name not in members:
                self._note(
                    "again", "has waited as long as it may without finding a place: it is told to join again", name
                )
            elif view.state == ClassicState.STABLE.value:
                self._note("swapped", "takes the place of a member that has gone, without a rebalance", name)
            else:
                self._note("let in", f"is let in, {len(members)} members now", name)

    def _why(self, there: int, held: tuple[str, ...]) -> str:
        assert self.plan is not None
        size = self.plan.target_size
        if size is None:
            return f"is held back until all pre-registered are there: {len(held)} wait"
        if self.has_all:
            return f"is a spare: the group has its {size} members"
        return f"is held back until there are {size}: {there} are members, {len(held)} wait"

"""Watches new members that the coordinator holds back for a planned scale-out (`kgm.coordinator.classic.standby`), to
fill the timeline, and to know when a group with spares is stable."""

from collections.abc import Callable

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.classic_state import ClassicState

#: (event, detail, member)
Note = Callable[[str, str, str], None]


class HeldNewcomers:
    """The new members that are held back in one group. `plan` is None if the group has no plan; then no member is ever
    held back."""

    def __init__(self, engine: Coordinator, group_id: str, note: Note) -> None:
        self._engine = engine
        self._group_id = group_id
        self._note = note
        self.plan = engine.settings.plans.of(group_id)
        self.held: tuple[str, ...] = ()
        self.is_complete = False
        """Whether the group has as many members as are planned."""

    def observe(self) -> None:
        """Note which members have been held back since the last call, and what became of the ones that were before."""
        view = self._engine.group(self._group_id)
        if view is None or self.plan is None:
            return
        members = {member.group_instance_id or member.member_id: member for member in view.members}
        before, self.held = self.held, view.held
        size = self.plan.target_size
        self.is_complete = size is not None and len(members) >= size
        for name in (name for name in view.held if name not in before):
            self._note("held", self._why(len(members), view.held), name)
        for name in (name for name in before if name not in view.held):
            if name not in members:
                self._note("again", "has waited for the longest time allowed and must join again", name)
            elif view.state == ClassicState.STABLE.value:
                self._note("swapped", "takes the place of a member that has left, without a rebalance", name)
            else:
                self._note("let in", f"is let in; the group has {len(members)} members", name)

    def _why(self, members: int, held: tuple[str, ...]) -> str:
        assert self.plan is not None
        size = self.plan.target_size
        if size is None:
            return f"waits until all pre-registered members have joined ({len(held)} waiting)"
        if self.is_complete:
            return f"is a spare: the group has its {size} members"
        return f"waits until the group has {size} members ({members} now, {len(held)} waiting)"

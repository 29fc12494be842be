"""What happens to one group while a test restarts its members."""

from collections.abc import Callable
from typing import Protocol, Self

from kgm.model.assignment import Move, owners
from kgm.model.changes import by_identity, knows_owners, owned
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot

Condition = Callable[[GroupSnapshot], bool]


class WatchedServer(Protocol):
    """What a watch needs from the server. observe: calls a function after each event, in the server's thread, until the
    function it returned is called."""

    def observe(self, group_id: str, see: Callable[[GroupSnapshot | None], None]) -> Callable[[], None]: ...

    def wait_for_group(
        self,
        group_id: str,
        condition: Condition,
        *,
        what: str,
        timeout_s: float,
        meanwhile: Callable[[], object] | None,
    ) -> GroupSnapshot: ...


class GroupWatch:
    """Sees every state of a group, from the moment the watch is created. A context manager; `close` ends it.

    before: the group at the start; None if it did not exist. rebalances: how often its generation or group epoch was
    raised. replaced: the identities of static members that came back with a new member id."""

    def __init__(self, server: WatchedServer, group_id: str) -> None:
        self.group_id = group_id
        self.before: GroupSnapshot | None = None
        self.rebalances = 0
        self.replaced: frozenset[str] = frozenset()
        self._server = server
        self._moves: dict[tuple[str, int], Move] = {}
        self._generation: int | None = None
        self._owners: dict[tuple[str, int], str] | None = None
        self.close = server.observe(group_id, self._see)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The partitions that were seen with a different owner than at the start, even if they have since returned to
        it, sorted by topic and partition. Members are compared by identity: a static member that restarts is the same
        owner."""
        return tuple(sorted(self._moves.values()))

    def wait_until_bounced(
        self, *identities: str, timeout_s: float = 30.0, meanwhile: Callable[[], object] | None = None
    ) -> GroupSnapshot:
        """Wait until these static members have been restarted, and the group is stable. If none are named, wait for all
        static members of `before`. meanwhile: see `EmbeddedServer.wait_for_group`.

        Raises ConditionNotMet after `timeout_s`, and UsageError if they were not there when the watch started."""
        before = () if self.before is None else self.before.members
        static = frozenset(member.identity for member in before if member.group_instance_id is not None)
        wanted = frozenset(identities) or static
        if not static or not wanted <= static:
            which = f"static members {', '.join(sorted(wanted - static))}" if wanted else "static members"
            raise UsageError(f"group {self.group_id} had no {which} when the watch started")
        return self._server.wait_for_group(
            self.group_id,
            lambda group: wanted <= self.replaced and is_stable(group),
            what=f"stable after a restart of {', '.join(sorted(wanted))}",
            timeout_s=timeout_s,
            meanwhile=meanwhile,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _see(self, group: GroupSnapshot | None) -> None:
        generation = None if group is None else group.generation if group.group_epoch is None else group.group_epoch
        if self._generation is None:  # the first look
            self.before, self._generation = group, generation or 0
        if group is None or generation is None:  # deleted, or its coordinator is moving
            return
        if generation != self._generation:
            # A lower one is from a group that was deleted and created again.
            self.rebalances += generation - self._generation if generation > self._generation else generation
            self._generation = generation
        if self.before is not None:
            former = by_identity(self.before)
            self.replaced |= {
                member.identity
                for member in group.members
                if member.identity in former and former[member.identity].member_id != member.member_id
            }
        if knows_owners(group):
            self._compare_owners(owners(owned(group)))

    def _compare_owners(self, now: dict[tuple[str, int], str]) -> None:
        if not self._owners:
            self._owners = now
            return
        for (topic, partition), owner in now.items():
            before = self._owners.get((topic, partition))
            if before is not None and before != owner:
                self._moves[topic, partition] = Move(
                    topic=topic, partition=partition, owner_before=before, owner_after=owner
                )


def is_stable(group: GroupSnapshot) -> bool:
    """Whether the group has members and each of them has its assignment."""
    return group.state == "Stable" and all(member.status == "stable" for member in group.members)

"""How a member of a streams group moves from its current to its target assignment (Kafka: CurrentAssignmentBuilder of
streams groups).

As in a consumer group (`consumer.reconciliation`), a member first gives up what it must in its current epoch, and then
gets what is free in the next one. An active task is free if no process has it as an active task, and the member's
process has no copy of it. A standby or warm-up task is free if the member's process has neither the active task nor a
copy."""

from collections.abc import Callable, Collection, Iterable, Mapping

from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import (
    NOTHING_HELD,
    HeldTasks,
    StreamsMember,
    TargetTasks,
    Tasks,
)
from kgm.records.member_states import TaskState

#: Whether the member can be given a task.
_IsFree = Callable[[tuple[str, int]], bool]


class UnknownTaskStateError(Exception):
    """The member is in a state from a later Kafka version and owns tasks: it must rejoin (FENCED_MEMBER_EPOCH)."""


def next_step(
    group: StreamsGroup, member: StreamsMember, target_epoch: int, target: TargetTasks, owned: TargetTasks | None
) -> StreamsMember:
    """The member after the next transition; the same object if there is none. owned: the tasks it reports as owned;
    None if it does not report any. Raises UnknownTaskStateError."""
    epoch = member.member_epoch
    match member.state:
        case TaskState.STABLE if epoch == target_epoch:
            return member
        case TaskState.UNREVOKED_TASKS:
            if _owns_any(owned, member.pending_revocation):
                return member
            epoch += 1
        case TaskState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise UnknownTaskStateError
            epoch = target_epoch
        case TaskState.STABLE | TaskState.UNRELEASED_TASKS:
            pass
    return _advance(group, member, epoch, target_epoch, target, owned)


def _owns_any(owned: TargetTasks | None, pending: HeldTasks) -> bool:
    """Whether the member may still own any of these: it reports so, or reports nothing."""
    if owned is None:
        return True
    return any(
        partition in pending_of_kind.get(name, ())
        for owned_of_kind, pending_of_kind in zip(owned, pending.kinds, strict=True)
        for name, partitions in owned_of_kind.items()
        for partition in partitions
    )


def _advance(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: TargetTasks,
    owned: TargetTasks | None,
) -> StreamsMember:
    """Give up what is not in the target; if there is nothing to give up, advance to the target epoch."""
    process_id = member.process_id

    def is_free(task: tuple[str, int]) -> bool:
        return task not in group.active and not group.has_copy(process_id, task)

    def is_free_for_copy(task: tuple[str, int]) -> bool:
        return group.active.get(task) != process_id and not group.has_copy(process_id, task)

    has = member.assigned
    active = _Difference(has.active, target.active, is_free)
    standby = _Difference(has.standby, target.standby, is_free_for_copy)
    warmup = _Difference(has.warmup, target.warmup, is_free_for_copy)
    kept_epochs = {name: {at: has.active[name][at] for at in those} for name, those in active.kept.items()}
    revoked = HeldTasks(
        {name: {at: has.active[name][at] for at in those} for name, those in active.revoked.items()},
        standby.revoked,
        warmup.revoked,
    )
    if revoked != NOTHING_HELD and _owns_any(owned, revoked):
        kept = HeldTasks(kept_epochs, standby.kept, warmup.kept)
        return _moved(member, TaskState.UNREVOKED_TASKS, epoch, kept, revoked)
    for name, those in active.gained.items():
        kept_epochs[name] = {**kept_epochs.get(name, {}), **dict.fromkeys(those, target_epoch)}
    held = HeldTasks(kept_epochs, _merged(standby.kept, standby.gained), _merged(warmup.kept, warmup.gained))
    is_blocked = active.is_blocked or standby.is_blocked or warmup.is_blocked
    state = TaskState.UNRELEASED_TASKS if is_blocked else TaskState.STABLE
    return _moved(member, state, target_epoch, held, NOTHING_HELD)


class _Difference:
    """What happens to the tasks of one kind. is_blocked: some tasks in the target are not free."""

    def __init__(self, has: Tasks, target: Tasks, is_free: _IsFree) -> None:
        self.kept: dict[str, frozenset[int]] = {}
        self.revoked: dict[str, frozenset[int]] = {}
        self.gained: dict[str, frozenset[int]] = {}
        self.is_blocked = False
        for name in {**target, **has}:
            before, wanted = frozenset(has.get(name, ())), frozenset(target.get(name, ()))
            missing = wanted - before
            free = frozenset(partition for partition in missing if is_free((name, partition)))
            self.is_blocked |= len(free) < len(missing)
            for rows, partitions in (
                (self.kept, before & wanted),
                (self.revoked, before - wanted),
                (self.gained, free),
            ):
                if partitions:
                    rows[name] = partitions


def _merged(one: Mapping[str, frozenset[int]], other: Mapping[str, frozenset[int]]) -> Tasks:
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in {**one, **other}}


def _moved(
    member: StreamsMember, state: TaskState, epoch: int, assigned: HeldTasks, pending: HeldTasks
) -> StreamsMember:
    return member._replace(
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=pending,
    )


def owns_only(assigned: HeldTasks, reported: Iterable[Iterable[tuple[str, Collection[int]]] | None]) -> bool:
    """Whether a member owns no more than it was assigned, according to what it reports for each kind of task:
    subtopologies with their partitions. False if it does not report a kind (None)."""
    return all(
        rows is not None and all(name in held and {*partitions} <= {*held[name]} for name, partitions in rows)
        for held, rows in zip(assigned.kinds, reported, strict=True)
    )

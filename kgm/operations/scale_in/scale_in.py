"""From a number of replicas to the members that leave, the prediction, and the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.bounce.units import UnitKind
from kgm.operations.kubernetes.ordinals import braced
from kgm.operations.kubernetes.pods import ListedPods
from kgm.operations.scale_in.replica_numbers import Replica, first_number, replicas_of
from kgm.simulation.bounce import DRAWS
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.simulation import SEED
from kgm.text.braces import as_list
from kgm.text.names import in_order, natural
from kgm.text.shell import shell_line
from kgm.text.wording import group_command


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOfPod:
    """A member whose pod or process will stop. why: where its ordinal comes from, in words."""

    member: MemberSnapshot
    pod: str
    ordinal: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleInCommands:
    """What to run, in this order, each only if the previous command succeeded.

    scale: stops the processes. remove: one LeaveGroup for all static members that are gone, subject to the guard of kgm
    remove-members; None if all are dynamic and leave on their own, or if `scale` removes them."""

    scale: str
    wait: str
    remove: str | None

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for line in (self.scale, self.wait, self.remove) if line is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleIn:
    """What a scale-in means for a group. first: the lowest ordinal. leaving: highest ordinal first, in the order in
    which the pods stop. without_member: pods of the StatefulSet, if they are known, without a member in the group."""

    group: GroupSnapshot
    stateful_set: str
    replicas: int
    first: int
    leaving: tuple[MemberOfPod, ...]
    staying: tuple[str, ...]
    without_member: tuple[str, ...]
    prediction: Prediction
    commands: ScaleInCommands


def plan_scale_in(
    group: BounceGroup, replicas: int, *, stateful_set: str | None = None, pods: ListedPods | None = None,
    first: int | None = None, ask_first: Callable[[str], int | None] = lambda _name: None,
    kubectl: tuple[str, ...] = ("kubectl",), draws: int = DRAWS, seed: int = SEED, unit: UnitKind = UnitKind.AUTO,
) -> ScaleIn:  # fmt: skip
    """The members whose replica is not one of the first `replicas`, and what happens to the group without them.

    stateful_set: the one to scale, if the group has members of several. pods: those that kubectl lists: each of the
    StatefulSet is a replica, with or without a member; None means that each member's instance id, or the host that it
    reports, has its replica's number. first: the number of the first replica; None: 0, or the lowest if none is
    missing. ask_first: returns where a StatefulSet begins, if that is known; called only if no replica has number 0.
    kubectl: the command with its options. unit: see `replicas_of`.

    Raises RefusedError if it is not certain which members leave, if none does, or if a replica is before the first;
    UsageError for a negative number."""
    if replicas < 0:
        raise UsageError(f"--to is {replicas}; the minimum is 0")
    if first is not None and first < 0:
        raise UsageError(f"--first is {first}; the minimum is 0")
    snapshot = group.snapshot
    pod_names = None if pods is None else pods.of_members(snapshot, {one.identity for one in snapshot.members})
    numbered = replicas_of(snapshot, pod_names, stateful_set=stateful_set, unit=unit)
    name = stateful_set or _only_set(snapshot, numbered)
    ours = {identity: replica for identity, replica in numbered.items() if replica.of == name}
    names = {one.number: one.name for one in ours.values()}
    without_member: tuple[str, ...] = ()
    if pods is not None:
        # The processes in these pods may not have joined, for example because they crash: they are replicas still.
        of_set = pods.of_stateful_set(name)
        without_member = tuple(pod for number, pod in sorted(of_set.items()) if number not in names)
        names |= of_set
    lowest = first_number(snapshot.group_id, names, first, lambda: ask_first(name))
    leaving = sorted(
        (
            MemberOfPod(member=member, pod=replica.name, ordinal=replica.number, why=replica.why)
            for member in snapshot.members
            if (replica := ours.get(member.identity)) is not None and replica.number >= lowest + replicas
        ),
        key=lambda one: (-one.ordinal, natural(one.member.identity)),
    )
    if not leaving:
        raise _none_leaves(snapshot, name, replicas, without_member)
    gone = {one.member.identity for one in leaving}
    static = [one for one in reversed(leaving) if one.member.group_instance_id is not None]
    request = BounceRequest(
        remove=tuple(one.member.identity for one in static),
        scale_in=tuple(one.member.identity for one in leaving if one not in static),
        unit=UnitKind.MEMBER,  # all members of each process are named
    )
    return ScaleIn(
        group=snapshot,
        stateful_set=name,
        replicas=replicas,
        first=lowest,
        leaving=tuple(leaving),
        staying=tuple(in_order(one.identity for one in snapshot.members if one.identity not in gone)),
        without_member=without_member,
        prediction=predict_bounce(group, request, draws=draws, seed=seed).predictions[0],
        commands=_commands(snapshot, name, replicas, leaving, kubectl)
        if pods is not None or all(one.is_pod for one in ours.values())
        else _commands_of_processes(snapshot, leaving),
    )


def _none_leaves(
    snapshot: GroupSnapshot, stateful_set: str, replicas: int, without_member: Sequence[str]
) -> RefusedError:
    return RefusedError(
        f"no member of group {snapshot.group_id!r} leaves when {stateful_set} has {replicas} replicas",
        facts=(
            f"members: {', '.join(in_order(one.identity for one in snapshot.members)) or 'none'}",
            *([f"pods without a member: {', '.join(without_member)}"] if without_member else []),
        ),
        group_id=snapshot.group_id,
    )


def _only_set(group: GroupSnapshot, numbered: Mapping[str, Replica]) -> str:
    sets = sorted({replica.of for replica in numbered.values()})
    if not sets:
        raise RefusedError(f"group {group.group_id!r} has no members", group_id=group.group_id)
    if len(sets) > 1:
        raise RefusedError(
            f"members of group {group.group_id!r} belong to several sets: {', '.join(sets)}",
            hint="name one: --statefulset NAME",
            group_id=group.group_id,
        )
    return sets[0]


def _commands(
    group: GroupSnapshot, name: str, replicas: int, leaving: list[MemberOfPod], kubectl: tuple[str, ...]
) -> ScaleInCommands:
    """The commands for pods. The members are alive now, so `remove` assumes nothing about them: the guard checks once
    the pods are gone."""
    pods = list(dict.fromkeys(f"pod/{one.pod}" for one in leaving))
    ids = [one.member.group_instance_id for one in reversed(leaving) if one.member.group_instance_id is not None]
    remove = None
    if ids:
        remove = group_command(
            "remove-members", group.group_id, "--instance-ids", braced(ids), "--reason", f"scale-in to {replicas}"
        )  # fmt: skip
    return ScaleInCommands(
        scale=shell_line([*kubectl, "scale", f"statefulset/{name}", f"--replicas={replicas}"]),
        wait=shell_line([*kubectl, "wait", "--for=delete", *pods, "--timeout=5m"]),
        remove=remove,
    )


def _commands_of_processes(group: GroupSnapshot, leaving: list[MemberOfPod]) -> ScaleInCommands:
    """The commands if the names are not pod names: kgm rollout stops and removes the members, with a command that the
    operator supplies."""
    static = [one.member.identity for one in reversed(leaving) if one.member.group_instance_id is not None]
    dynamic = [one.member.identity for one in reversed(leaving) if one.member.group_instance_id is None]
    words = [*(["--remove", as_list(static)] if static else []), *(["--scale-in", as_list(dynamic)] if dynamic else [])]
    left = len(group.members) - len(leaving)
    command = "CMD {host}" if dynamic else "CMD {instance_id}"
    return ScaleInCommands(
        scale=group_command("rollout", group.group_id, *words, "--exec-stop", command),
        wait=group_command("wait", group.group_id, "--for", f"members={left}"),
        remove=None,
    )

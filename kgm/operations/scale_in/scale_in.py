"""From a number of replicas to the members that go, the prediction, and the commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.kubernetes.ordinals import NumberedPod, braced
from kgm.simulation.bounce import DRAWS, SEED
from kgm.simulation.report.prediction import Prediction
from kgm.text.shell import shell_line
from kgm.text.wording import group_command


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOfPod:
    """A member whose pod goes."""

    member: MemberSnapshot
    pod: str
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleInCommands:
    """What to run, in this order. remove: one LeaveGroup for all static members that are gone; None if all are dynamic,
    and leave by themselves."""

    scale: str
    wait: str
    remove: str | None

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for line in (self.scale, self.wait, self.remove) if line is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleIn:
    """What a scale-in means for a group. leaving: highest ordinal first, as the pods stop."""

    group: GroupSnapshot
    stateful_set: str
    replicas: int
    leaving: tuple[MemberOfPod, ...]
    staying: tuple[str, ...]
    prediction: Prediction
    commands: ScaleInCommands


def plan_scale_in(
    group: BounceGroup, replicas: int, *, stateful_set: str | None = None, pods: Mapping[str, str] | None = None,
    kubectl: tuple[str, ...] = ("kubectl",), draws: int = DRAWS, seed: int = SEED,
) -> ScaleIn:  # fmt: skip
    """The members whose pod has a number of `replicas` or more, and what becomes of the group without them.

    stateful_set: of which the pods are, if members of several are in the group. pods: by identity; None: the instance
    id of each member is the name of its pod. kubectl: the command with its options.

    Raises RefusedError if it is not certain which members go, or none does; UsageError for a negative number."""
    if replicas < 0:
        raise UsageError(f"--to is {replicas}, the lowest is 0")
    snapshot = group.snapshot
    numbered = _numbered(snapshot, pods)
    name = stateful_set or _only_set(snapshot, numbered)
    leaving = sorted(
        (
            MemberOfPod(member=member, pod=f"{pod.stateful_set}-{pod.ordinal}", ordinal=pod.ordinal)
            for member in snapshot.members
            if (pod := numbered.get(member.identity)) is not None
            and pod.stateful_set == name
            and pod.ordinal >= replicas
        ),
        key=lambda one: (-one.ordinal, one.member.identity),
    )
    if not leaving:
        raise RefusedError(
            f"no member of group {snapshot.group_id!r} goes when StatefulSet {name} has {replicas} replicas",
            facts=(f"members: {', '.join(sorted(one.identity for one in snapshot.members)) or 'none'}",),
            group_id=snapshot.group_id,
        )
    gone = {one.member.identity for one in leaving}
    static = [one for one in reversed(leaving) if one.member.group_instance_id is not None]
    request = BounceRequest(
        remove=tuple(one.member.identity for one in static),
        scale_in=tuple(one.member.identity for one in leaving if one not in static),
    )
    return ScaleIn(
        group=snapshot,
        stateful_set=name,
        replicas=replicas,
        leaving=tuple(leaving),
        staying=tuple(sorted(one.identity for one in snapshot.members if one.identity not in gone)),
        prediction=predict_bounce(group, request, draws=draws, seed=seed).predictions[0],
        commands=_commands(snapshot.group_id, name, replicas, leaving, kubectl),
    )


def _numbered(group: GroupSnapshot, pods: Mapping[str, str] | None) -> dict[str, NumberedPod]:
    """By identity. Raises RefusedError for a member without a pod of a StatefulSet."""
    numbered = {}
    for member in group.members:
        name = member.group_instance_id if pods is None else pods.get(member.identity)
        pod = None if name is None else NumberedPod.of(name)
        if pod is None:
            what = "it is dynamic" if name is None else f"{name} is no name of a pod of a StatefulSet"
            raise RefusedError(
                f"it is not certain which members go: {member.identity}: {what}",
                hint="use the names of the pods as group.instance.id; --kubernetes asks kubectl for the pods",
                group_id=group.group_id,
            )
        numbered[member.identity] = pod
    return numbered


def _only_set(group: GroupSnapshot, numbered: Mapping[str, NumberedPod]) -> str:
    sets = sorted({pod.stateful_set for pod in numbered.values()})
    if not sets:
        raise RefusedError(f"group {group.group_id!r} has no members", group_id=group.group_id)
    if len(sets) > 1:
        raise RefusedError(
            f"members of group {group.group_id!r} are of several StatefulSets: {', '.join(sets)}",
            hint="name one: --statefulset NAME",
            group_id=group.group_id,
        )
    return sets[0]


def _commands(
    group_id: str, name: str, replicas: int, leaving: list[MemberOfPod], kubectl: tuple[str, ...]
) -> ScaleInCommands:
    pods = list(dict.fromkeys(f"pod/{one.pod}" for one in leaving))
    ids = [one.member.group_instance_id for one in reversed(leaving) if one.member.group_instance_id is not None]
    remove = None
    if ids:
        remove = group_command(
            "remove-members", group_id, "--instance-ids", braced(ids), "--assume-stopped", "--yes", "--reason",
            f"scale-in to {replicas}",
        )  # fmt: skip
    return ScaleInCommands(
        scale=shell_line([*kubectl, "scale", f"statefulset/{name}", f"--replicas={replicas}"]),
        wait=shell_line([*kubectl, "wait", "--for=delete", *pods, "--timeout=5m"]),
        remove=remove,
    )

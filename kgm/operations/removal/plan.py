"""The members that a request names: its ids and patterns, resolved against a description of the group."""

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from kgm.client.admin_client import AdminClient
from kgm.client.leave_group import MemberToRemove
from kgm.model.errors import ErrorCode, RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.removal.request import RemovalRequest
from kgm.text.names import closest, natural
from kgm.text.wording import group_command

#: LeaveGroup with instance ids and several members (KIP-345, Kafka 2.4).
BATCH_VERSION = 3


class IdKind(enum.Enum):
    """The kind of an id in a request."""

    INSTANCE = "group instance id"
    MEMBER = "member id"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """One id of a request, and the member that had it when the group was described. similar: the id of a member that
    was probably meant, where there is no member. Equal only to itself."""

    kind: IdKind
    id: str
    member: MemberSnapshot | None
    similar: str | None = None

    @property
    def to_remove(self) -> MemberToRemove:
        """The member as named in LeaveGroup: with its member id, so that a process that has taken over the instance id
        since is not evicted. Only for a target with a member."""
        assert self.member is not None
        if self.kind is IdKind.INSTANCE:
            return MemberToRemove(group_instance_id=self.id, member_id=self.member.member_id)
        return MemberToRemove(member_id=self.id)

    @property
    def instance_id(self) -> str | None:
        """Of the member, or as given in the request."""
        if self.member is not None:
            return self.member.group_instance_id
        return self.id if self.kind is IdKind.INSTANCE else None

    @property
    def member_id(self) -> str | None:
        """Of the member, or as given in the request."""
        if self.member is not None:
            return self.member.member_id
        return self.id if self.kind is IdKind.MEMBER else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """What is to be removed, in the order of the request. group: None when it does not exist; repeated: ids of members
    that were named before."""

    group_id: str
    group: GroupSnapshot | None
    targets: tuple[Target, ...]
    repeated: tuple[str, ...] = ()

    @property
    def present(self) -> tuple[Target, ...]:
        """Targets that are members of the group."""
        return tuple(target for target in self.targets if target.member is not None)

    @property
    def members(self) -> tuple[MemberSnapshot, ...]:
        """The members that are to be removed."""
        return tuple(target.member for target in self.targets if target.member is not None)

    @property
    def member_ids(self) -> frozenset[str]:
        return frozenset(member.member_id for member in self.members)

    def without(self, member_ids: Collection[str]) -> RemovalPlan:
        """The plan without members that have left: no member has their ids now."""
        targets = tuple(
            replace(target, member=None)
            if target.member is not None and target.member.member_id in member_ids
            else target
            for target in self.targets
        )
        return replace(self, targets=targets)


def resolve(request: RemovalRequest, group: GroupSnapshot | None) -> RemovalPlan:
    """Resolve the ids of a request against a snapshot, in the order of the request, each member once."""
    members = group.members if group is not None else ()
    by_instance = {member.group_instance_id: member for member in members if member.group_instance_id is not None}
    by_id = {member.member_id: member for member in members}
    targets = [Target(kind=IdKind.INSTANCE, id=name, member=by_instance.get(name)) for name in request.instance_ids]
    targets += [Target(kind=IdKind.MEMBER, id=name, member=by_id.get(name)) for name in request.member_ids]
    for name in request.identities:
        is_member_id = name not in by_instance and name in by_id
        kind, member = (IdKind.MEMBER, by_id[name]) if is_member_id else (IdKind.INSTANCE, by_instance.get(name))
        targets.append(Target(kind=kind, id=name, member=member))
    threads = [threads_of(name, members) for name in request.processes]
    matching = [[one for one in members if fnmatch.fnmatchcase(one.identity, glob)] for glob in request.patterns]
    for some in (*threads, *matching):
        for one in sorted(some, key=lambda one: natural(one.identity)):
            kind = IdKind.MEMBER if one.group_instance_id is None else IdKind.INSTANCE
            targets.append(Target(kind=kind, id=one.identity, member=one))
    distinct: dict[tuple[str, str], Target] = {}
    repeated: list[str] = []
    for target in targets:
        # Two ids of one member are one target; an id without a member is only itself.
        key = ("member", target.member.member_id) if target.member else (target.kind.value, target.id)
        if key in distinct:
            repeated.append(target.id)
        else:
            distinct[key] = target
    taken = {target.id for target in distinct.values()}
    ids = {IdKind.INSTANCE: by_instance.keys() - taken, IdKind.MEMBER: by_id.keys() - taken}
    return RemovalPlan(
        group_id=request.group_id, group=group, repeated=tuple(repeated),
        targets=tuple(
            one if one.member is not None else replace(one, similar=closest(one.id, ids[one.kind]))
            for one in distinct.values()
        ),
    )  # fmt: skip


def threads_of(process: str, members: Iterable[MemberSnapshot]) -> list[MemberSnapshot]:
    """The members that are threads of a process of Kafka Streams, which is named by its id or by one of its threads."""
    of_streams = [one for one in members if one.work is not None and one.work.process_id is not None]
    wanted = {one.work.process_id for one in of_streams if one.work and process in (one.identity, one.work.process_id)}
    return [one for one in of_streams if one.work and one.work.process_id in wanted]


def check_supported(cluster: AdminClient, plan: RemovalPlan) -> None:
    """Refuse what the broker or the group's type cannot do, before anything is sent. Raises RefusedError, KgmError."""
    group = plan.group
    if group is None:
        return
    if group.type == "streams":
        raise RefusedError(
            f"members of streams group {group.group_id!r} cannot be removed: it has no static members, and LeaveGroup "
            "is not for such groups (KIP-1071)",
            facts=("a process that is closed leaves at once; one that has crashed is removed when its session ends",),
            hint=f"stop the process, then {group_command('wait', group.group_id, '--for', 'stable')}",
            group_id=group.group_id,
        )
    if group.type not in ("classic", "consumer"):
        raise RefusedError(
            f"members of {group.type} group {group.group_id!r} cannot be removed by LeaveGroup",
            group_id=group.group_id, hint="stop the member; its session timeout removes it",
        )  # fmt: skip
    version = cluster.leave_version(group.group_id, cluster.deadline)
    static = [target.id for target in plan.targets if target.instance_id is not None]
    if version < BATCH_VERSION and static:
        raise RefusedError(
            f"this broker cannot remove static members: {', '.join(static)}", group_id=group.group_id,
            facts=(
                f"LeaveGroup: the broker supports up to v{version}; instance ids need v{BATCH_VERSION} (Kafka 2.4)",
            ),
            hint="dynamic members can be removed by --member-ids; static ones leave when their session times out",
            kafka_error=ErrorCode.UNSUPPORTED_VERSION,
        )  # fmt: skip

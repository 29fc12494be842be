"""The members that a request names: its ids and patterns, resolved against a description of the group."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from kgm.client.admin_client import AdminClient
from kgm.client.leave_group import MemberToRemove
from kgm.coordinator.contract.behavior import behavior_of
from kgm.model.errors import ErrorCode, RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.text.names import closest, natural
from kgm.text.wording import group_command

#: LeaveGroup with instance ids and several members (KIP-345, Kafka 2.4).
BATCH_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """One id of a request, and the member that had it when the group was described. named: the id, of either kind.
    similar: if there is no member, the id of one that was probably meant. Equal only to itself."""

    named: MemberToRemove
    member: MemberSnapshot | None
    similar: str | None = None

    @property
    def id(self) -> str:
        return self.named.id

    @property
    def to_remove(self) -> MemberToRemove:
        """The member as LeaveGroup names it: with its member id, so that a process that has since taken over the
        instance id is not evicted. Only for a target with a member."""
        assert self.member is not None
        return replace(self.named, member_id=self.member.member_id)

    @property
    def instance_id(self) -> str | None:
        """The member's; if there is no member, the one given in the request."""
        return self.named.group_instance_id if self.member is None else self.member.group_instance_id

    @property
    def member_id(self) -> str | None:
        """The member's; if there is no member, the one given in the request."""
        return (self.named.member_id or None) if self.member is None else self.member.member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """What to remove, in the order of the request. group: None if it does not exist; repeated: ids of members that the
    request had already named."""

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
        """The members to be removed."""
        return tuple(target.member for target in self.targets if target.member is not None)

    @property
    def member_ids(self) -> frozenset[str]:
        return frozenset(member.member_id for member in self.members)

    def without(self, member_ids: Collection[str]) -> RemovalPlan:
        """The plan after these members have left: their targets no longer have a member."""
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
    named = [_named(name, is_member_id=False) for name in request.instance_ids]
    named += [_named(name, is_member_id=True) for name in request.member_ids]
    named += [_named(name, is_member_id=name not in by_instance and name in by_id) for name in request.identities]
    threads = [threads_of(name, members) for name in request.processes]
    matching = [[one for one in members if fnmatch.fnmatchcase(one.identity, glob)] for glob in request.patterns]
    for some in (*threads, *matching):
        named += [
            _named(one.identity, is_member_id=one.group_instance_id is None)
            for one in sorted(some, key=lambda one: natural(one.identity))
        ]
    distinct: dict[MemberToRemove | str, Target] = {}
    repeated: list[str] = []
    for name in named:
        instance_id = name.group_instance_id
        member = by_id.get(name.member_id) if instance_id is None else by_instance.get(instance_id)
        # Two ids of one member are one target; an id without a member is only itself.
        key = name if member is None else member.member_id
        if key in distinct:
            repeated.append(name.id)
        else:
            distinct[key] = Target(named=name, member=member)
    taken = {target.id for target in distinct.values()}
    instance_ids, member_ids = by_instance.keys() - taken, by_id.keys() - taken
    targets = (
        one
        if one.member is not None
        else replace(one, similar=closest(one.id, member_ids if one.named.member_id else instance_ids))
        for one in distinct.values()
    )
    return RemovalPlan(group_id=request.group_id, group=group, targets=tuple(targets), repeated=tuple(repeated))


def _named(name: str, *, is_member_id: bool) -> MemberToRemove:
    return MemberToRemove(member_id=name) if is_member_id else MemberToRemove(group_instance_id=name)


def threads_of(process: str, members: Iterable[MemberSnapshot]) -> list[MemberSnapshot]:
    """The members that are threads of one Kafka Streams process. process: its id, or the identity of one thread."""
    of_streams = [one for one in members if one.work is not None and one.work.process_id is not None]
    wanted = {one.work.process_id for one in of_streams if one.work and process in (one.identity, one.work.process_id)}
    return [one for one in of_streams if one.work and one.work.process_id in wanted]


def check_supported(cluster: AdminClient, plan: RemovalPlan) -> None:
    """Refuse what the broker or the group's type does not support, before anything is sent. Raises RefusedError,
    KgmError."""
    group = plan.group
    if group is None:
        return
    if group.type == "streams":
        raise RefusedError(
            f"members of streams group {group.group_id!r} cannot be removed: it has no static members, and LeaveGroup "
            "is not for such groups (KIP-1071)",
            facts=("a process that is closed leaves immediately; a crashed one is removed when its session ends",),
            hint=f"stop the process, then {group_command('wait', group.group_id, '--for', 'stable')}",
            group_id=group.group_id,
        )
    if group.type not in ("classic", "consumer"):
        raise RefusedError(
            f"members of {group.type} group {group.group_id!r} cannot be removed by LeaveGroup",
            group_id=group.group_id, hint="stop the member; its session timeout removes it",
        )  # fmt: skip
    can_remove = [behavior_of(version).removes_consumer_members for version in group.kafka_versions or ()]
    if group.type == "consumer" and plan.present and can_remove and not any(can_remove):
        raise RefusedError(
            f"members of group {group.group_id!r} cannot be removed: brokers before Kafka 4.0 answer that members of "
            "consumer groups are not members (KAFKA-18188)",
            group_id=group.group_id, hint="stop the member; its session timeout removes it",
        )  # fmt: skip
    version = cluster.version_of(ApiKey.LEAVE_GROUP, group.group_id, cluster.deadline)
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

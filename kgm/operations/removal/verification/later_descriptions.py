"""The group after a LeaveGroup, described until the descriptions agree: only what they show counts as done.

One description can be wrong: a coordinator that has just taken over describes an outdated state (`fresh_describe`)."""

from __future__ import annotations

from kgm.client import fresh_describe
from kgm.client.admin_client import AdminClient
from kgm.client.failures import LostError
from kgm.model.errors import KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.removal.plan import RemovalPlan
from kgm.operations.removal.send import LeaveGroupSender

#: How often to describe the group, at most, until two descriptions in a row agree.
_MOST = 5
#: The time between two descriptions that disagree, in seconds.
_PAUSE_S = 0.1


class LaterDescriptions:
    """Describes a group after its removal was sent."""

    def __init__(self, cluster: AdminClient, plan: RemovalPlan, sender: LeaveGroupSender) -> None:
        self._cluster, self._plan, self._sender = cluster, plan, sender
        self._ids = {one.member_id for one in plan.members}
        self._names = {one.group_instance_id for one in plan.members if one.group_instance_id is not None}

    def describe(self) -> GroupSnapshot | KgmError:
        """The group now, without members if it is gone; or an error if it cannot be described, or if no two
        descriptions in a row agree."""
        previous: GroupSnapshot | None = None
        for _ in range(_MOST):
            try:
                described = self._once()
            except KgmError as error:
                return error
            if previous is not None and self._holders(described) == self._holders(previous):
                return described
            if previous is not None:
                self._cluster.deadline.sleep(_PAUSE_S)
            previous = described
        return LostError("two descriptions in a row do not agree", sent=True)

    def _holders(self, group: GroupSnapshot) -> set[tuple[str, str | None]]:
        """(member id, instance id) of members that were to be removed, or that have the instance id of one."""
        return {
            (one.member_id, one.group_instance_id)
            for one in group.members
            if one.member_id in self._ids or one.group_instance_id in self._names
        }

    def _once(self) -> GroupSnapshot:
        """Describe the group once; without members if it is gone. Raises KgmError."""
        cluster, group_id = self._cluster, self._plan.group_id
        try:
            brief = cluster.describe_members_of(group_id)
            doubtful = self._doubtful(brief)
            if doubtful:
                brief = fresh_describe.describe_fresh(
                    cluster, group_id, doubtful, shown_too=True, describe=cluster.describe_members_of
                )
            return brief
        except NotFoundError:
            return GroupSnapshot(group_id=group_id, type="classic", state="Dead")

    def _doubtful(self, brief: GroupSnapshot) -> list[str]:
        """Instance ids for which one description is not enough, because the answer was lost or contradicts it."""
        shown = {member.member_id for member in brief.members}
        instance_ids = []
        for target in self._plan.present:
            member = target.member
            if member is None or member.group_instance_id is None:
                continue
            is_clear = self._sender.codes.get(target) == 0 and target not in self._sender.in_doubt
            if not is_clear or member.member_id in shown:
                instance_ids.append(member.group_instance_id)
        return instance_ids

"""Groups that no simulation can start with."""

from typing import Final

from kgm.assignors.unsupported_groups import refuse_unsupported
from kgm.model.errors import NotFoundError, RefusedError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import STREAMS_ASSIGNOR

#: The one command that simulates a synthetic group: others, which refuse the same groups, do not have these options.
SYNTHETIC: Final = "kgm simulate-bounce --members N --topic NAME:PARTITIONS"


def refuse_unplayable(snapshot: GroupSnapshot) -> None:
    """Raises NotFoundError for a group that does not exist, RefusedError for one that cannot be simulated."""
    group_id = snapshot.group_id
    if snapshot.state == "Dead":
        raise NotFoundError(f"group {group_id} does not exist", group_id=group_id)
    if snapshot.type not in ("classic", "consumer") or (snapshot.members and snapshot.assignor != STREAMS_ASSIGNOR):
        refuse_unsupported(snapshot)
    if snapshot.classic_members:
        whose = "members of both" if len(snapshot.classic_members) < len(snapshot.members) else "classic members only"
        raise RefusedError(
            f"group {group_id} is migrating from the classic protocol to KIP-848, or back: it has {whose}",
            facts=(
                "kgm does not predict bounces of such a group: no prediction is better than a wrong one",
                f"of the classic protocol: {', '.join(snapshot.classic_members)}",
            ),
            hint=f"finish the migration, or simulate a synthetic group: {SYNTHETIC}",
            group_id=group_id,
        )
    away = [member.identity for member in snapshot.members if member.status == "away"]
    if away:
        raise RefusedError(
            f"group {group_id} has members that are away: {', '.join(away)}",
            facts=("it is not known when they went away, nor when the coordinator will remove them",),
            hint="try again when they are back, or remove them: kgm remove-members",
            group_id=group_id,
        )
    if snapshot.state not in ("Stable", "Empty"):
        raise RefusedError(
            f"group {group_id} is in state {snapshot.state}: it has no final assignment until it is Stable",
            hint="try again in a few seconds",
            group_id=group_id,
        )

"""Groups whose members run on known hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import Membership
from tests.simulation.groups import made_up


def placed(group_id: str, hosts: Sequence[str], *, membership=Membership.STATIC, **more: Any) -> GroupSnapshot:
    """A group with a member on each of these hosts, in this order."""
    group = made_up(len(hosts), membership=membership, **more)
    members = [replace(one, client_host=host) for one, host in zip(group.members, hosts, strict=True)]
    return replace(group, group_id=group_id, members=tuple(members))

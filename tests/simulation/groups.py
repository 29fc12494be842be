"""Groups to play with."""

from __future__ import annotations

from dataclasses import replace

from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.simulation.plan.bounce_plan import Membership
from kgm.simulation.plan.synthetic_group import synthetic_group

STATIC, DYNAMIC = Membership.STATIC, Membership.DYNAMIC


def made_up(members=3, partitions=12, membership=STATIC, assignor="range", *, library=None, **changes) -> GroupSnapshot:
    """A group over topic `t`; members are member-1.. or dynamic ones of one client id, by default Java's consumers."""
    group = synthetic_group(members, [TopicSnapshot(name="t", partitions=partitions)], membership, assignor)
    known = tuple(replace(m, client_library=stated_library(library or "java")) for m in group.members)
    return replace(group, members=known, **changes)


def ids(snapshot: GroupSnapshot, *positions: int) -> tuple[str, ...]:
    """Identities of members, all of them if no position is given."""
    everyone = [member.identity for member in snapshot.members]
    return tuple(everyone[position] for position in positions) if positions else tuple(everyone)


def member(name: str, *, static: bool = True, topics=("t",), **more) -> MemberSnapshot:
    return MemberSnapshot(
        member_id=f"{name}-uuid", group_instance_id=name if static else None, client_id=name, topics=topics,
        **{"client_library": stated_library("java"), **more},
    )  # fmt: skip

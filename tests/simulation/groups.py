"""Groups for tests to simulate."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

from kgm.java.hash_map import map_order
from kgm.java.timeline_hash_map import TimelineOrder
from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.model.uuids import uuid_text
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership
from kgm.simulation.plan.synthetic_group import newly_assigned, synthetic_group

STATIC, DYNAMIC = Membership.STATIC, Membership.DYNAMIC


def made_up(members=3, partitions=12, membership=STATIC, assignor="range", *, library=None, **changes) -> GroupSnapshot:
    """A group on topic `t`; members are member-1, member-2 and so on, or dynamic ones with one client id; Java
    consumers by default."""
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


#: The assignors of a mixed fleet; the broker's own with their protocol.
KINDS = tuple(
    (membership, assignor, protocol)
    for protocol, assignors in (
        (GroupProtocol.CLASSIC, ("range", "roundrobin", "sticky", "cooperative-sticky")),
        (GroupProtocol.CONSUMER, ("uniform", "range")),
    )
    for assignor in assignors
    for membership in Membership
)


def mixed_fleet(size: int, seed: int, *, members: tuple[int, int] = (2, 20), kinds=KINDS) -> list[GroupSnapshot]:
    """Groups of 1 to 3 topics, of each kind in turn, as brokers describe them. Each has names and member ids of its own;
    its first member runs on the host `gone`. members: the least and the most that a group has."""
    chance = random.Random(seed)
    return [_mixed(kinds[number % len(kinds)], chance, chance.randint(*members)) for number in range(size)]


def _mixed(kind: tuple[Membership, str, GroupProtocol], chance: random.Random, count: int) -> GroupSnapshot:
    membership, assignor, protocol = kind
    name = f"{chance.choice(('zeta', 'orders', 'a'))}-{chance.getrandbits(32):08x}"
    topics = [
        TopicSnapshot(name=f"{name}-{topic}", partitions=chance.randint(1, 30), topic_id=chance.randbytes(16))
        for topic in range(chance.randint(1, 3))
    ]
    made = synthetic_group(count, topics, membership, assignor, protocol)
    members = []
    for place, one in enumerate(made.members):
        instance_id = f"{name}-{place}" if membership is STATIC else None
        drawn = uuid.UUID(int=chance.getrandbits(128), version=4)
        is_classic = protocol is GroupProtocol.CLASSIC
        members.append(
            replace(
                one, member_id=f"{instance_id or name}-{drawn}" if is_classic else uuid_text(drawn.bytes),
                group_instance_id=instance_id, client_id=instance_id or name,
                client_host="/stays" if place else "/gone", client_library=stated_library("java"),
            )
        )  # fmt: skip
    group = newly_assigned(replace(made, group_id=name, members=tuple(members)))
    return _as_listed(group, protocol)


def _as_listed(group: GroupSnapshot, protocol: GroupProtocol) -> GroupSnapshot:
    """The group with the order that a broker reports: members joined in the order given."""
    by_id = {member.member_id: member for member in group.members}
    if protocol is GroupProtocol.CLASSIC:
        names = [*by_id]
        listed = [by_id[names[at]] for at in map_order(names)]
    else:
        order = TimelineOrder()
        for size in range(len(by_id)):
            order.put(size)
        listed = [replace(by_id[each], listed_target=by_id[each].assignment) for each in order.sorted(by_id)]
    return replace(group, members=tuple(replace(one, listed_at=at) for at, one in enumerate(listed)))

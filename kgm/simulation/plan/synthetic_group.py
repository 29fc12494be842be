"""A made-up group: `kgm simulate-bounce --members N --topic NAME:PARTITIONS`."""

import random
from collections.abc import Sequence
from dataclasses import replace

from kgm.assignors.contract import TopicSpec, refuse_too_many_partitions
from kgm.model.client_library import JAVA, stated_library
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, WhatIf
from kgm.simulation.plan.member_ids import new_classic_member_id, new_consumer_member_id
from kgm.simulation.plan.server_assignors import SERVER_ASSIGNORS
from kgm.simulation.plan.starting_group import CLASSIC_ASSIGNOR, starting_group_of, with_assignor_applied
from kgm.simulation.plan.timeouts import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS

_CLIENT_ID = "consumer"
_JAVA = stated_library(JAVA, "the operator, for a synthetic group")
#: Far more than the largest real groups have.
MOST_MEMBERS = 20_000


def synthetic_group(
    members: int,
    topics: Sequence[TopicSnapshot],
    membership: Membership = Membership.STATIC,
    assignor: str | None = None,
    protocol: GroupProtocol = GroupProtocol.CLASSIC,
) -> GroupSnapshot:
    """A Stable group whose members all subscribe to all topics; the same in every run. Static members are `member-1` to
    `member-N`. Dynamic members share one client id, as the replicas of a deployment do, so their ids sort in random
    order. The group has a committed offset, so that no broker deletes it while it is empty.

    Raises UsageError if there is no member or no topic, or if a topic is given twice."""
    if members < 1:
        raise UsageError(f"--members is {members}; the minimum is 1")
    if members > MOST_MEMBERS:
        raise UsageError(f"--members is {members}; the maximum is {MOST_MEMBERS}")
    if not topics:
        raise UsageError("a synthetic group needs topics", hint="--topic orders:12")
    if len({topic.name for topic in topics}) != len(topics):
        raise UsageError("a topic is given twice")
    refuse_too_many_partitions([TopicSpec(name=topic.name, partitions=topic.partitions) for topic in topics])
    chance = random.Random("kgm")  # noqa: S311  (a simulation)
    is_static, is_classic = membership is Membership.STATIC, protocol is GroupProtocol.CLASSIC
    width = len(str(members))
    names = [f"member-{number:0{width}}" for number in range(1, members + 1)]
    snapshot = GroupSnapshot(
        group_id="synthetic",
        type=protocol.value,
        state="Stable",
        protocol_type=PROTOCOL_TYPE,
        assignor=assignor or (CLASSIC_ASSIGNOR if is_classic else SERVER_ASSIGNORS[0]),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        generation=1 if is_classic else None,
        group_epoch=None if is_classic else 1,
        assignment_epoch=None if is_classic else 1,
        topics=tuple(topics),
        offsets=(OffsetSnapshot(topics[0].name, 0, 0, None, None, None, None),),
        members=tuple(
            MemberSnapshot(
                member_id=new_classic_member_id(name if is_static else _CLIENT_ID, chance)
                if is_classic
                else new_consumer_member_id(chance),
                group_instance_id=name if is_static else None,
                client_id=name if is_static else _CLIENT_ID,
                topics=tuple(topic.name for topic in topics),
                client_library=_JAVA,
                listed_at=place if is_classic else None,
            )
            for place, name in enumerate(names)
        ),
    )
    return newly_assigned(snapshot)


def newly_assigned(snapshot: GroupSnapshot) -> GroupSnapshot:
    """A made-up group, assigned by the assignor of its members' library."""
    assigned = with_assignor_applied(starting_group_of(snapshot, WhatIf())).members
    return replace(
        snapshot,
        members=tuple(
            replace(member, assignment=one.owned) for member, one in zip(snapshot.members, assigned, strict=True)
        ),
    )

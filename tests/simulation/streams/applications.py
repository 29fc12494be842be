"""Kafka Streams applications for tests to simulate."""

from __future__ import annotations

import uuid
from dataclasses import replace

from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.model.work import MemberWork
from tests.simulation.groups import member

PARTITIONS = 6
#: The members of a streams group: three processes with two threads each.
THREADS = tuple(f"m-{process}-{thread}" for process in (1, 2, 3) for thread in (1, 2))


def application(name="app", *, standbys=1, **changes) -> GroupSnapshot:
    """Three static processes with two threads each, on the hosts h1, h2 and h3. Subtopology 0 reads the topic and has
    no state; subtopology 1 has state, and a copy of each task in the next process."""
    members = []
    for place in range(PARTITIONS):
        process, number = divmod(place, 2)
        work = MemberWork(
            process_id=str(uuid.UUID(int=process)),
            active_tasks=(f"0_{place}", f"1_{place}"),
            standby_tasks=(f"1_{(place + 2) % PARTITIONS}",) * standbys,
        )
        thread = member(f"wr-{process + 1}-{number + 1}", status="stable", client_host=f"h{process + 1}", work=work)
        members.append(replace(thread, assignment={"t": (place,)}))
    group = GroupSnapshot(
        group_id=name, type="classic", state="Stable", protocol_type="consumer", assignor="stream",
        members=tuple(members), topics=(TopicSnapshot(name="t", partitions=PARTITIONS),), is_settled=True,
        session_timeout_ms=30_000, rebalance_timeout_ms=300_000,
    )  # fmt: skip
    return replace(group, **changes)


def streams_group(name="app", *, standbys=1, **changes) -> GroupSnapshot:
    """The application as a group of the streams protocol (KIP-1071): no member is static."""
    classic = application(name, standbys=standbys, type="streams", protocol_type="streams", assignor=None)
    members = tuple(
        replace(one, group_instance_id=None, member_id=thread)
        for one, thread in zip(classic.members, THREADS, strict=True)
    )
    epochs = {"group_epoch": 7, "assignment_epoch": 7, "topology_epoch": 0}
    return replace(classic, members=members, **{**epochs, "session_timeout_ms": 45_000, **changes})

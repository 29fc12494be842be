"""Random histories, in lockstep with Apache Kafka's own coordinator (4.3.0) in a JVM.

KGM_LOCKSTEP_SEEDS and KGM_LOCKSTEP_STEPS make it as long as you like."""

import base64
import os
import random
from collections import Counter

import pytest

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.harness import subscription

pytest.register_assert_rewrite("tests.coordinator.lockstep")

from tests.coordinator.lockstep import KafkasCoordinator, Lockstep  # noqa: E402

FIRST = int(os.environ.get("KGM_LOCKSTEP_FIRST", "0"))
SEEDS = int(os.environ.get("KGM_LOCKSTEP_SEEDS", "120"))
STEPS = int(os.environ.get("KGM_LOCKSTEP_STEPS", "120"))
APPEND_ERRORS = [
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR,
]  # fmt: skip
BLOBS = {
    "range": [subscription("orders"), subscription("orders", "payments"), b"x"],
    "roundrobin": [subscription("orders")],
    "sticky": [subscription("payments")],
}
OFFERS = [("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("range", "roundrobin", "sticky"), ("sticky",)]


class Walk:
    """One random history. It knows what a client may know, and now and then says something else."""

    def __init__(self, kafka, seed):
        self.random = random.Random(seed)
        r = self.random
        self.instances = r.sample(["a", "b", "c", "d"], r.randint(1, 4))
        self.groups = ["g"] if r.random() < 0.7 else ["g", "h"]
        self.failing = r.random() < 0.3
        self.step = Lockstep(kafka, **self.settings())

    def settings(self):
        r = self.random
        return {
            "group_initial_rebalance_delay_ms": r.choice([0, 3_000]),
            "group_max_size": r.choice([2**31 - 1, 2**31 - 1, 2, 3]),
            "offset_metadata_max_bytes": 8,
            "offsets_retention_minutes": r.choice([1, 10_080]),
        }

    def go(self, steps):
        actions = [
            (self.join, 30), (self.everybody_joins, 6), (self.sync, 25), (self.everybody_syncs, 10),
            (self.heartbeat, 14), (self.leave, 8), (self.commit, 6), (self.fetch, 1), (self.delete_offsets, 2),
            (self.look, 2), (self.delete_group, 1), (self.sleep, 22), (self.reload, 1),
        ]  # fmt: skip
        acts, weights = zip(*actions, strict=True)
        for act in self.random.choices(acts, weights, k=steps):
            self.group = self.random.choice(self.groups)
            act()

    # -- what is known

    def state(self):
        return self.step.answer["groups"].get(self.group)

    def members(self):
        group = self.state()
        return sorted(group["members"]) if group else []

    def some_id(self):
        r = self.random
        members, ids = self.members(), self.step.ids
        if members and r.random() < 0.75:
            return r.choice(members)
        if ids and r.random() < 0.8:
            return r.choice(ids[-6:])
        return r.choice(["", "stranger"])

    def instance_of(self, member_id):
        """The member's instance id, mostly; else none or another."""
        r = self.random
        group = self.state()
        own = group["members"].get(member_id, {}).get("instance") if group else None
        if own is None:
            own = member_id.split("-")[0] if member_id.split("-")[0] in self.instances else None
        return r.choices([own, None, r.choice(self.instances)], [80, 14, 6])[0]

    def generation(self):
        group = self.state()
        current = group["generation"] if group else 0
        return self.random.choices([current, current - 1, current + 1, -1], [90, 4, 3, 3])[0]

    def failure(self):
        return self.random.choice(APPEND_ERRORS) if self.failing and self.random.random() < 0.1 else None

    # -- requests

    def join(self, member_id=None, instance=None, offer=None):
        r = self.random
        version = r.choice([0, 1, 3, 4, 5, 6, 7, 8, 9, 9])
        if member_id is None:
            member_id = r.choices(["", self.some_id()], [55, 45])[0]
            instance = self.instance_of(member_id)
            if not member_id:
                instance = r.choices([None, r.choice(self.instances)], [40, 60])[0]
        if instance is not None:
            version = max(version, 5)
        if offer is None:
            offer = r.choices(OFFERS, [50, 20, 20, 8, 2])[0]
        known = self.state()["members"].get(member_id) if self.state() else None
        protocols = [(name, r.choices(BLOBS[name], [20, 4, 1][: len(BLOBS[name])])[0]) for name in offer]
        if known and r.random() < 0.6:
            protocols = [(name, base64.b64decode(blob)) for name, blob in known["protocols"]]
        message = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=r.choice([6_000, 10_000, 10_000, 30_000]),
            rebalance_timeout_ms=r.choice([5_000, 10_000, 60_000]),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=r.choices(["consumer", "connect", ""], [96, 3, 1])[0],
            protocols=[JoinGroupRequestProtocol(name=n, metadata=b) for n, b in protocols],
        )
        if not message.group_id or not r.random() < 0.99:
            message.protocols = []
        self.step.request(message, version, client_id=r.choice(["client", "client", ""]), fail=self.failure())

    def everybody_joins(self):
        group = self.state()
        if not group:
            return
        for member_id in self.random.sample(self.members(), len(self.members())):
            member = group["members"][member_id]
            self.join(member_id, member["instance"], tuple(name for name, _ in member["protocols"]))
        for pending in sorted(group["pending_joins"]):
            self.join(pending, None)

    def sync(self, member_id=None):
        r = self.random
        group = self.state()
        if member_id is None:
            member_id = self.some_id()
        instance = self.instance_of(member_id)
        version = r.choice([0, 1, 2, 3, 4, 5, 5])
        if instance is not None:
            version = max(version, 3)
        told_type, told_name = (group["protocol_type"], group["protocol"]) if group else ("consumer", "range")
        assignments = []
        if group and (group["leader"] == member_id or r.random() < 0.1):
            listed = [m for m in self.members() if r.random() < 0.9] + ["stranger"] * (r.random() < 0.1)
            assignments = [SyncGroupRequestAssignment(member_id=m, assignment=f"{m}!".encode()) for m in listed]
        message = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation(),
            member_id=member_id,
            group_instance_id=instance,
            assignments=assignments,
        )
        if version >= 5:
            message.protocol_type = r.choices([told_type or "consumer", "connect"], [97, 3])[0]
            message.protocol_name = r.choices([told_name or "range", "sticky"], [97, 3])[0]
        self.step.request(message, version, fail=self.failure())

    def everybody_syncs(self):
        for member_id in self.random.sample(self.members(), len(self.members())):
            if self.random.random() < 0.9:
                self.sync(member_id)

    def heartbeat(self):
        member_id = self.some_id()
        instance = self.instance_of(member_id)
        message = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation(), member_id=member_id, group_instance_id=instance
        )
        self.step.request(message, 4 if instance else self.random.choice([0, 2, 4]))

    def leave(self):
        r = self.random
        version = r.choice([0, 2, 3, 4, 5, 5])
        if version < 3:
            message = LeaveGroupRequest(group_id=self.group, member_id=self.some_id())
        else:
            identities = []
            for _ in range(r.choices([0, 1, 2, 3], [5, 60, 25, 10])[0]):
                member_id = self.some_id()
                instance = self.instance_of(member_id)
                if r.random() < 0.4:
                    member_id, instance = "", r.choice([*self.instances, "nobody"])
                identities.append(MemberIdentity(member_id=member_id, group_instance_id=instance))
            message = LeaveGroupRequest(group_id=self.group, members=identities)
        self.step.request(message, version, fail=self.failure())

    def commit(self):
        r = self.random
        version = r.choice([2, 4, 5, 7, 8, 9])
        member_id = self.some_id()
        instance = self.instance_of(member_id) if version >= 7 else None
        metadata = r.choices(["", "12345678", "123456789"], [80, 10, 10])[0]
        if self.state() is None:
            # Kafka creates a group in memory even if it stores nothing in it: that is not followed.
            metadata = ""
        rows = [
            OffsetCommitRequestPartition(
                partition_index=p, committed_offset=r.randint(-1, 99), committed_metadata=metadata
            )
            for p in r.sample(range(3), r.randint(1, 3))
        ]
        message = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation(),
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=r.choice(["orders", "payments"]), partitions=rows)],
        )
        if version <= 4:
            message.retention_time_ms = r.choice([-1, 5_000])
        self.step.request(message, version, fail=self.failure())

    def fetch(self):
        r = self.random
        version = r.choice([1, 2, 5, 7, 8, 9])
        everything = version >= 2 and r.random() < 0.5
        if version >= 8:
            topics = None if everything else [OffsetFetchRequestTopics(name="orders", partition_indexes=[2, 0, 9])]
            groups = [OffsetFetchRequestGroup(group_id=g, topics=topics) for g in (self.group, "none")]
            message = OffsetFetchRequest(groups=groups)
        else:
            topics = None if everything else [OffsetFetchRequestTopic(name="orders", partition_indexes=[2, 0, 9])]
            message = OffsetFetchRequest(group_id=self.group, topics=topics)
        self.step.request(message, version)

    def delete_offsets(self):
        topics = [
            OffsetDeleteRequestTopic(
                name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in (0, 1)]
            )
            for t in ("orders", "payments")
        ]
        message = OffsetDeleteRequest(group_id=self.group, topics=topics)
        self.step.request(message, 0, fail=self.failure())

    def look(self):
        r = self.random
        if r.random() < 0.5:
            groups = [r.choice(["g", "h", "none"]) for _ in range(2)]
            self.step.request(DescribeGroupsRequest(groups=groups), r.choice([0, 3, 4, 5, 6]))
        else:
            states = r.choice([[], ["stable", "Empty"], ["PreparingRebalance"]])
            types = r.choice([[], ["Classic"], ["consumer"], ["nonsense"]])
            self.step.request(ListGroupsRequest(states_filter=states, types_filter=types), 5)

    def delete_group(self):
        message = DeleteGroupsRequest(groups_names=["g", "none", "h"])
        self.step.request(message, self.random.choice([0, 1, 2]), fail=self.failure())

    def sleep(self):
        r = self.random
        deadline = self.step.runtime.next_deadline()
        choices = [1, 500, 3_000, 3_000, 6_000, 10_000]
        if deadline is not None:
            choices += [max(deadline - self.step.now, 0)] * 3 + [max(deadline - self.step.now - 1, 0)]
        if r.random() < 0.03:
            choices = [60_000, 300_000, 900_000]
        self.step.sleep(r.choice(choices), fail=self.failure())

    def reload(self):
        """A broker restarts, or another one takes over; sometimes with a lower limit."""
        if self.random.random() < 0.5:
            self.step.unload()
        self.step.reload(**self.settings())


@pytest.fixture(scope="module")
def kafka():
    coordinator = KafkasCoordinator()
    yield coordinator
    coordinator.close()


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(max(180, SEEDS * STEPS // 100))
def test_random_histories_are_kafkas(kafka):
    """Whatever the history, our coordinator does what Kafka's does."""
    seen = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        walk = Walk(kafka, seed)
        try:
            walk.go(STEPS)
        except AssertionError as difference:
            story = "\n".join(walk.step.trace[-40:])
            raise AssertionError(
                f"seed {seed}, after {len(walk.step.trace)} events\n{story}\n{difference}"
            ) from difference
        seen += walk.step.seen
    # The walk has been to the places that matter.
    for place in (
        "JoinGroupRequest NONE", "JoinGroupRequest MEMBER_ID_REQUIRED", "JoinGroupRequest FENCED_INSTANCE_ID",
        "JoinGroupRequest GROUP_MAX_SIZE_REACHED", "JoinGroupRequest INCONSISTENT_GROUP_PROTOCOL",
        "SyncGroupRequest NONE", "SyncGroupRequest REBALANCE_IN_PROGRESS", "SyncGroupRequest FENCED_INSTANCE_ID",
        "HeartbeatRequest REBALANCE_IN_PROGRESS", "HeartbeatRequest ILLEGAL_GENERATION",
        "LeaveGroupRequest NONE", "LeaveGroupRequest FENCED_INSTANCE_ID", "OffsetCommitRequest REBALANCE_IN_PROGRESS",
        "OffsetDeleteRequest GROUP_SUBSCRIBED_TO_TOPIC",
    ):  # fmt: skip
        assert seen[place] > 0, (place, seen)

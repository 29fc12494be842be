"""Random histories of one or two groups, for two coordinators in lockstep."""

import base64
import random

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
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
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.harness import subscription
from tests.coordinator.lockstep.driver import Lockstep

#: Long jumps of the clock, which only some timers notice.
LONG_MS = [60_000, 300_000, 600_000, 900_000]
GROUP_STATES = [
    "Empty", "empty", "STABLE", " Stable ", "PreparingRebalance", "completingrebalance", "Dead", "Reconciling", "", "sTATE"
]  # fmt: skip
GROUP_TYPES = ["Classic", "classic", "consumer", "Share", "nonsense", "", "streams"]
PRODUCERS = [(1_000, 0), (1_001, 3), (1_002, 0)]
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
    """One random history. It knows what a client can know, and now and then sends something else."""

    LOCKSTEP = Lockstep

    def __init__(self, kafka, seed):
        self.random, self.seed = random.Random(seed), seed
        r = self.random
        self.instances = r.sample(["a", "b", "c", "d"], r.randint(1, 4))
        self.groups = ["g"] if r.random() < 0.7 else ["g", "h"]
        self.failing = r.random() < 0.3
        self.step = self.LOCKSTEP(kafka, seed=seed, **self.settings())

    def settings(self):
        r = self.random
        return {
            "group_initial_rebalance_delay_ms": r.choice([0, 3_000]),
            "group_max_size": r.choice([2**31 - 1, 2**31 - 1, 2, 3]),
            "offset_metadata_max_bytes": 8,
            "offsets_retention_minutes": r.choice([1, 10_080]),
            "offsets_retention_check_interval_ms": r.choice([25_000, 600_000]),
        }

    def history(self, operations):
        """(the steps, and None or the difference that ended them). Every tenth walk is longer."""
        try:
            self.go(operations * (4 if self.seed % 10 == 0 else 1))
        except Exception as difference:  # noqa: BLE001  (whatever goes wrong in it)
            return self.step, difference
        return self.step, None

    def go(self, operations):
        """Do at least this many operations. How often each kind occurs is drawn for each walk, so that some walks get
        far with offsets, or with members that leave, of which an average walk would have few."""
        actions = self.actions()
        of_members = [self.everybody_joins, self.sync, self.everybody_syncs, self.heartbeat, self.leave]
        acts, usual = zip(*actions, strict=True)
        weights = [weight * self.random.choice([0.2, 1, 1, 4]) for weight in usual]
        if self.random.random() < 0.6:
            self.group = self.groups[0]
            self.form()
        while len(self.step.deeds) < operations:
            (act,) = self.random.choices(acts, weights)
            self.group = self.random.choice(self.groups)
            if not self.members() and act in of_members and self.random.random() < 0.4:
                act = self.form
            act()

    def actions(self):
        """The possible operations, and their weights."""
        return [
            (self.join, 30), (self.everybody_joins, 6), (self.sync, 25), (self.everybody_syncs, 10),
            (self.heartbeat, 12), (self.leave, 10), (self.commit, 8), (self.fetch, 5), (self.delete_offsets, 3),
            (self.commit_in_transaction, 8), (self.end_transaction, 5), (self.look, 4), (self.delete_groups, 3),
            (self.sleep, 22), (self.keep_alive, 10), (self.reload, 2),
        ]  # fmt: skip

    def form(self):
        """Usually a group forms, and usually becomes Stable."""
        for instance in self.instances:
            self.join("", instance)
        if self.random.random() < 0.5:
            self.join("", None)
        self.everybody_joins()
        for _ in range(2):
            if deadline := self.step.runtime.next_deadline():
                self.step.sleep(max(deadline - self.step.now, 0))
        self.everybody_syncs()

    # -- what a client knows

    def state(self):
        return self.step.answer["groups"].get(self.group)

    def members(self):
        group = self.state()
        return sorted(group["members"], key=self.step.ids.index) if group else []

    def some_id(self):
        r = self.random
        members, ids = self.members(), self.step.ids
        if members and r.random() < 0.75:
            return r.choice(members)
        if ids and r.random() < 0.8:
            return r.choice(ids[-6:])
        return r.choice(["", "stranger"])

    def instance_of(self, member_id):
        """Usually the member's instance id; else none or another."""
        r = self.random
        group = self.state()
        own = group["members"].get(member_id, {}).get("instance") if group else None
        if own is None:
            own = member_id.split("-")[0] if member_id.split("-")[0] in self.instances else None
        return r.choices([own, None, r.choice(self.instances)], [80, 14, 6])[0]

    def group_or_none(self):
        return self.group if self.random.random() < 0.995 else ""

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
            group_id=self.group_or_none(),
            session_timeout_ms=r.choices([6_000, 10_000, 30_000, 1_800_000, 5_999], [10, 20, 10, 2, 1])[0],
            rebalance_timeout_ms=r.choices([5_000, 10_000, 60_000, 600_000], [3, 5, 2, 1])[0],
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=r.choices(["consumer", "connect", ""], [96, 3, 1])[0],
            protocols=[JoinGroupRequestProtocol(name=n, metadata=b) for n, b in protocols],
        )
        if r.random() < 0.01:
            message.protocols = []
        self.step.request(message, version, client_id=r.choice(["client", "client", ""]), fail=self.failure())

    def everybody_joins(self):
        group = self.state()
        if not group:
            return
        for member_id in self.random.sample(self.members(), len(self.members())):
            member = group["members"][member_id]
            self.join(member_id, member["instance"], tuple(name for name, _ in member["protocols"]))
        for pending in sorted(group["pending_joins"], key=self.step.ids.index):
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
            assignments = [SyncGroupRequestAssignment(member_id=m, assignment=self.assigned_to(m)) for m in listed]
        message = SyncGroupRequest(
            group_id=self.group_or_none(),
            generation_id=self.generation(),
            member_id=member_id,
            group_instance_id=instance,
            assignments=assignments,
        )
        if version >= 5:
            message.protocol_type = r.choices([told_type or "consumer", "connect"], [97, 3])[0]
            message.protocol_name = r.choices([told_name or "range", "sticky", None], [96, 3, 1])[0]
        self.step.request(message, version, fail=self.failure())

    def assigned_to(self, member_id):
        return f"{member_id}!".encode()

    def everybody_syncs(self):
        for member_id in self.random.sample(self.members(), len(self.members())):
            if self.random.random() < 0.9:
                self.sync(member_id)

    def heartbeat(self):
        member_id = self.some_id()
        instance = self.instance_of(member_id)
        message = HeartbeatRequest(
            group_id=self.group_or_none(),
            generation_id=self.generation(),
            member_id=member_id,
            group_instance_id=instance,
        )
        self.step.request(message, self.random.choice([3, 4] if instance else [0, 1, 2, 3, 4]))

    def keep_alive(self):
        """Time passes, and the members heartbeat meanwhile."""
        self.step.sleep(self.random.choice([2_000, 3_000]))
        group = self.state()
        for member_id in self.members():
            instance = group["members"][member_id]["instance"]
            message = HeartbeatRequest(
                group_id=self.group, generation_id=group["generation"], member_id=member_id, group_instance_id=instance
            )
            self.step.request(message, 4)

    def leave(self):
        r = self.random
        version = r.choice([0, 1, 2, 3, 4, 5, 5])
        if version < 3:
            message = LeaveGroupRequest(group_id=self.group_or_none(), member_id=self.some_id())
        else:
            identities = []
            for _ in range(r.choices([0, 1, 2, 3, 5], [5, 55, 25, 10, 5])[0]):
                member_id = self.some_id()
                instance = self.instance_of(member_id)
                if r.random() < 0.4:
                    member_id, instance = "", r.choice([*self.instances, *self.instances, "nobody", None])
                identities.append(MemberIdentity(member_id=member_id, group_instance_id=instance))
                if version >= 5:
                    identities[-1].reason = r.choice([None, "", "restart"])
            message = LeaveGroupRequest(group_id=self.group, members=identities)
        self.step.request(message, version, fail=self.failure())

    def commit(self):
        r = self.random
        version = r.choice([2, 3, 4, 5, 6, 7, 8, 9])
        member_id = self.some_id() if self.members() or r.random() < 0.3 else ""
        instance = self.instance_of(member_id) if version >= 7 else None
        rows = [OffsetCommitRequestPartition(**row) for row in self.some_offsets(leader_epoch=version >= 6)]
        message = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation() if member_id else -1,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=r.choice(["orders", "orders", "payments"]), partitions=rows)],
        )
        if version <= 4:
            message.retention_time_ms = r.choice([-1, 5_000])
        self.step.request(message, version, fail=self.failure())

    def some_offsets(self, *, leader_epoch):
        r = self.random
        # Kafka creates a group in memory even if it stores nothing in it: kgm does not.
        odd = 10 if self.state() else 0
        return [
            {
                "partition_index": partition,
                "committed_offset": r.randint(-1, 99),
                "committed_leader_epoch": r.choice([-1, 7]) if leader_epoch else -1,
                "committed_metadata": r.choices(
                    ["", None, "12345678", "123456789", "\U0001f600" * 4], [80, 5, 5, odd, 5]
                )[0],
            }
            for partition in r.sample(range(2), r.randint(1, 2))
        ]

    def commit_in_transaction(self):
        r = self.random
        version = r.choice([0, 1, 2, 3, 4, 5])
        producer_id, producer_epoch = r.choice(PRODUCERS)
        rows = [TxnOffsetCommitRequestPartition(**row) for row in self.some_offsets(leader_epoch=version >= 2)]
        message = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=self.group_or_none(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=r.choice(["orders", "orders", "payments"]), partitions=rows)],
        )
        if version >= 3 and r.random() < 0.8:
            message.member_id = self.some_id()
            message.group_instance_id = self.instance_of(message.member_id)
            message.generation_id = self.generation()
        self.step.request(message, version, fail=self.failure())

    def end_transaction(self):
        r = self.random
        open_in = [int(producer_id) for producer_id in self.step.answer["pending"]]
        known = [producer for producer in PRODUCERS if producer[0] in open_in]
        self.step.marker(r.choice(known or PRODUCERS), commit=r.random() < 0.6)

    def fetch(self):
        r = self.random
        version = r.choice([1, 2, 3, 5, 6, 7, 7, 8, 9, 9])
        topic = r.choice(["orders", "payments"])
        everything = version >= 2 and r.random() < 0.5
        if version >= 8:
            topics = None if everything else [OffsetFetchRequestTopics(name=topic, partition_indexes=[2, 0, 1, 9])]
            groups = [OffsetFetchRequestGroup(group_id=g, topics=topics) for g in (self.group, "none")]
            message = OffsetFetchRequest(groups=groups)
        else:
            topics = None if everything else [OffsetFetchRequestTopic(name=topic, partition_indexes=[2, 0, 1, 9])]
            message = OffsetFetchRequest(group_id=self.group, topics=topics)
        if version >= 7:
            message.require_stable = r.random() < 0.7
        self.step.request(message, version)

    def delete_offsets(self):
        topics = [
            OffsetDeleteRequestTopic(
                name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in (0, 1)]
            )
            for t in ("orders", "payments")
        ]
        message = OffsetDeleteRequest(group_id=self.group_or_none(), topics=topics)
        self.step.request(message, 0, fail=self.failure())

    def look(self):
        r = self.random
        kind = r.choice(["describe", "describe", "list", "list", "list", "describe as a consumer group"])
        if kind == "list":
            version = r.choice([0, 2, 3, 4, 5, 5])
            message = ListGroupsRequest()
            if version >= 4 and r.random() < 0.7:
                message.states_filter = r.sample(GROUP_STATES, r.randint(1, 3))
            if version >= 5 and r.random() < 0.7:
                message.types_filter = r.sample(GROUP_TYPES, r.randint(1, 2))
            self.step.request(message, version)
            return
        groups = [r.choice(["g", "h", "none"]) for _ in range(2)]
        if kind == "describe":
            self.step.request(DescribeGroupsRequest(groups=groups), r.choice([0, 1, 2, 3, 4, 5, 6, 6]))
        else:
            message = ConsumerGroupDescribeRequest(group_ids=[*groups, ""])
            self.step.request(message, r.choice([0, 1]))

    def delete_groups(self):
        r = self.random
        names = r.sample(["g", "none", "h", ""], r.randint(1, 3))
        self.step.request(DeleteGroupsRequest(groups_names=names), r.choice([0, 1, 2]), fail=self.failure())

    def sleep(self):
        """Let a little time pass, or go to just before, at or after the end of some timer; now and then a long time."""
        r = self.random
        choices = [1, 500, 3_000, 6_000, 10_000]
        deadlines = list(self.step.engine.deadlines.values())
        if deadlines:
            soon = min(deadlines) - self.step.now
            choices += [soon] * 4 + [soon - 1]
        near = [deadline for deadline in deadlines if deadline - self.step.now < 70_000]
        if near:
            choices += [r.choice(near) - self.step.now + off for off in (-1, 0, 0, 1)]
        if r.random() < 0.05:
            choices = LONG_MS
        self.step.sleep(max(r.choice(choices), 0), fail=self.failure())

    def reload(self):
        """A broker restarts, or another one takes over; sometimes with a lower limit; sometimes after a cleaning."""
        if self.random.random() < 0.5:
            self.step.unload()
        self.step.reload(compact=self.random.random() < 0.3, **self.settings())

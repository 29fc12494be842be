"""Random histories of consumer groups (KIP-848), for two coordinators in lockstep: members of the new protocol, and of
the classic one in the same groups, groups that change from one to the other, topics that come, grow and go."""

import base64
import hashlib
from itertools import count

from kgm.java.hash_map import DEFAULT_CAPACITY, uuid_bucket
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from tests.coordinator.lockstep.classic_histories import PRODUCERS, Walk

NAMES = ["orders", "payments", "clicks", "views"]
REGEXES = ["o.*", "[op].*", ".*s", "cl(icks|acks)", "nothing", "views", ""]
BAD_REGEX = "("


def topic_id(name, turn, bucket=None):
    """Ids as random as Kafka's; a topic that is created again gets another one. bucket: of a hash map, shared by all of
    them, so that their order there depends on the past."""
    for salt in count():
        found = hashlib.sha256(f"{name}/{turn}{f'/{salt}' if salt else ''}".encode()).digest()[:16]
        if bucket is None or uuid_bucket(found) == bucket:
            return found
    raise AssertionError


def joining(member_id, instance_id=None, **subscribed):
    """The heartbeat with which a member joins."""
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, instance_id=instance_id, member_epoch=0, rebalance_timeout_ms=5_000,
        topic_partitions=[], **subscribed,
    )  # fmt: skip


class ConsumerWalk(Walk):
    """One random history. What members of the new protocol know is kept by member id: their epoch, what they own."""

    def __init__(self, kafka, seed, *, mixed):
        self.mixed = mixed
        super().__init__(kafka, seed)
        r = self.random
        self.turn = 0
        self.existing = {}
        self.racks = r.random() < 0.3
        self.simple = r.random() < 0.3
        self.made = 0
        self.away = set()
        self.known = {}
        self.bucket = r.choice([None, None, r.randrange(DEFAULT_CAPACITY)])
        for name in r.sample(NAMES, r.randint(1, 4)):
            self.existing[name] = (topic_id(name, 0, self.bucket), r.choice([1, 2, 3, 6, 12, 40]))
        # Enough topics that the hash maps of topics grow.
        self.more = [f"more-{number}s" for number in range(r.randint(9, 30))] if r.random() < 0.1 else []
        for name in self.more:
            self.existing[name] = (topic_id(name, r.randrange(100)), r.choice([1, 1, 2, 5]))
        self.step.topics(dict(self.existing), racks=self.racks)

    def settings(self):
        r = self.random
        return super().settings() | {
            "group_consumer_assignment_interval_ms": r.choice([0, 1_000, 1_000, 15_000]),
            "group_consumer_max_size": r.choice([2**31 - 1, 2**31 - 1, 2, 3]),
            "group_consumer_migration_policy": r.choice(
                ["bidirectional", "bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"]
            ),
            "group_consumer_assignors": r.choice(["uniform,range", "uniform,range", "range,uniform"]),
        }

    def go(self, operations):
        actions = [
            (self.enter, 16), (self.beat, 40), (self.everybody_beats, 14), (self.depart, 8), (self.remove, 5),
            (self.odd_beat, 6), (self.resubscribe, 8), (self.change_topics, 4), (self.commit_as_consumer, 8),
            (self.fetch_as_consumer, 5), (self.look_closely, 5), (self.sleep, 14), (self.pass_time, 12),
            (self.reload, 2), (self.delete_groups, 2), (self.delete_offsets, 2), (self.configure, 1),
            (self.commit_in_transaction, 2), (self.end_transaction, 2), (self.look, 3),
            (self.commit_in_transaction_as_member, 4),
        ]  # fmt: skip
        if self.mixed:
            actions += [
                (self.classic_enters, 14), (self.classic_goes_on, 40), (self.join, 3), (self.sync, 2),
                (self.heartbeat, 3), (self.leave, 4), (self.classic_group_forms, 2), (self.crosses_over, 5),
            ]  # fmt: skip
        acts, usual = zip(*actions, strict=True)
        weights = [weight * self.random.choice([0.2, 1, 1, 4]) for weight in usual]
        self.group = self.groups[0]
        if self.mixed and self.random.random() < 0.5:
            self.classic_group_forms()
        while len(self.step.deeds) < operations:
            (act,) = self.random.choices(acts, weights)
            self.group = self.random.choice(self.groups)
            act()

    # -- what is known

    def is_consumers(self):
        group = self.state()
        return group is not None and group.get("type") == "consumer"

    def members(self):
        group = self.state()
        if not group:
            return []
        return sorted(group["members"], key=lambda id_: (self.step.ids.index(id_) if id_ in self.step.ids else -1, id_))

    def generation(self):
        group = self.state()
        current = 0 if group is None else group["epoch"] if self.is_consumers() else group["generation"]
        return self.random.choices([current, current - 1, current + 1, -1], [90, 4, 3, 3])[0]

    def consumers(self):
        """The members of the new protocol, and their visible state."""
        if not self.is_consumers():
            return {}
        return {m: row for m, row in self.state()["members"].items() if row["session"] is None}

    def classics(self):
        if not self.is_consumers():
            return {}
        return {m: row for m, row in self.state()["members"].items() if row["session"] is not None}

    def pick(self, rows):
        return self.random.choice(sorted(rows)) if rows else None

    def new_id(self):
        self.made += 1
        return hashlib.sha256(f"{self.step.first_seed}/{self.made}".encode()).hexdigest()[:22]

    def instance_of(self, member_id):
        group = self.state()
        if self.is_consumers() and member_id in group["members"] and self.random.random() < 0.8:
            return group["members"][member_id]["instance"]
        return (
            super().instance_of(member_id) if not self.is_consumers() else self.random.choice([None, *self.instances])
        )

    # -- members of the new protocol

    def send(self, version=None, *, fail=True, **fields):
        r = self.random
        message = ConsumerGroupHeartbeatRequest(group_id=self.group, **fields)
        needs_v1 = message.subscribed_topic_regex is not None
        if version is None:
            version = 1 if needs_v1 or r.random() < 0.8 else 0
        classic = self.state() and not self.is_consumers()
        fail = self.failure() if fail and not classic and message.member_epoch >= 0 else None
        ticket = self.step.request(message, version, client_id=r.choice(["client"] * 9 + ["other"]), fail=fail)
        return self.step.answers[ticket][1]

    def subscription(self):
        r = self.random
        names = regex = None
        kind = r.random()
        if kind < 0.65 or self.simple:
            names = r.sample(NAMES, r.choices([0, 1, 2, 3], [1, 10, 6, 2])[0])
            if self.simple:
                names = NAMES[:2]
            names += self.more if r.random() < 0.7 else r.sample(self.more, len(self.more) // 2)
        elif kind < 0.9:
            regex = r.choice(REGEXES)
        else:
            names, regex = r.sample(NAMES, r.randint(0, 2)), r.choice(REGEXES)
        if regex is not None and r.random() < 0.02:
            regex = BAD_REGEX
        return names, regex

    def enter(self, member_id=None, instance=None):
        """A member joins, or joins again."""
        r = self.random
        version = r.choice([0, 1, 1, 1])
        if member_id is None:
            known = self.consumers()
            member_id = r.choices(["", self.new_id(), self.pick(known) or self.new_id()], [20, 60, 12])[0]
            if version == 1 and not member_id:
                member_id = self.new_id()
            instance = r.choices([None, r.choice(self.instances)], [55, 45])[0]
            if member_id in known and r.random() < 0.8:
                instance = known[member_id]["instance"]
        names, regex = self.subscription()
        if regex is not None:
            version = 1
            member_id = member_id or self.new_id()
        self.send(
            version,
            member_id=member_id,
            member_epoch=0,
            instance_id=instance,
            rack_id=r.choice([None, None, "rack1"]),
            rebalance_timeout_ms=r.choice([5_000, 60_000, 300_000]),
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            server_assignor=r.choices([None, "uniform", "range", "best"], [70, 14, 14, 1])[0],
            topic_partitions=[],
        )

    def owned(self, member, *, of=("assigned",)):
        rows = {}
        for what in of:
            for id_, partitions in member[what].items():
                rows.setdefault(id_, []).extend(int(partition) for partition in partitions)
        return [TopicPartitions(topic_id=self.raw(id_), partitions=partitions) for id_, partitions in rows.items()]

    def raw(self, text):
        return base64.b64decode(text)

    def beat(self, member_id=None):
        """A member continues: usually it reports that it owns what it was assigned, sometimes that it has not revoked
        yet."""
        r = self.random
        rows = self.consumers()
        member_id = member_id or self.pick(rows)
        if member_id is None:
            self.enter()
            return
        member = rows[member_id]
        fields = {"member_id": member_id, "member_epoch": member["epoch"], "instance_id": member["instance"]}
        if member["epoch"] < 0:
            if r.random() < 0.7:
                self.come_back(member_id, member)
                return
            fields["member_epoch"] = 1
        how = r.random()
        if how < 0.55:
            fields["topic_partitions"] = self.owned(member)
        elif how < 0.75:
            fields["topic_partitions"] = self.owned(member, of=("assigned", "pending"))
        if r.random() < 0.1:
            fields["rebalance_timeout_ms"] = member["rebalance"]
            fields["subscribed_topic_names"] = list(member["topics"])
            fields["topic_partitions"] = self.owned(member)
        self.send(**fields)

    def come_back(self, member_id, member):
        """A static member that was away comes back."""
        r = self.random
        names, regex = (list(member["topics"]), member["regex"] or None) if r.random() < 0.7 else self.subscription()
        self.send(
            1,
            member_id=r.choice([member_id, self.new_id(), self.new_id()]),
            member_epoch=0,
            instance_id=member["instance"],
            rebalance_timeout_ms=member["rebalance"],
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            topic_partitions=[],
        )

    def everybody_beats(self):
        for _ in range(self.random.choice([1, 2])):
            for member_id in sorted(self.consumers()):
                if member_id in self.consumers():
                    self.beat(member_id)

    def odd_beat(self):
        """Send a heartbeat that a member should not send."""
        r = self.random
        rows = self.consumers()
        member_id = self.pick(rows) or "stranger"
        member = rows.get(member_id, {"epoch": 3, "previous": 2, "instance": None, "assigned": {}, "pending": {}})
        epoch = r.choice(
            [member["epoch"] - 1, member["epoch"] + 1, member["previous"], member["previous"], 0, -3, -1, -2, 5]
        )
        owned = r.choice([None, [], self.owned(member), self.owned(member, of=("assigned", "pending"))])
        self.send(
            r.choice([0, 1]),
            fail=False,
            member_id=r.choices([member_id, "", "stranger", " "], [80, 8, 8, 2])[0],
            member_epoch=epoch,
            instance_id=r.choices([member["instance"], None, r.choice(self.instances), ""], [60, 15, 20, 3])[0],
            rack_id=r.choices([None, "", "rack0"], [80, 4, 16])[0],
            rebalance_timeout_ms=r.choice([-1, 60_000]),
            subscribed_topic_names=r.choice([None, ["orders"]]),
            topic_partitions=owned,
        )

    def resubscribe(self):
        rows = self.consumers()
        member_id = self.pick(rows)
        if member_id is None or rows[member_id]["epoch"] < 0:
            return
        member = rows[member_id]
        names, regex = self.subscription()
        self.send(
            1,
            member_id=member_id,
            member_epoch=member["epoch"],
            instance_id=member["instance"],
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            server_assignor=self.random.choice([None, None, "uniform", "range"]),
            topic_partitions=self.random.choice([None, self.owned(member), []]),
        )

    def depart(self):
        """A member leaves: for good, or to come back later."""
        r = self.random
        rows = self.consumers()
        member_id = self.pick(rows)
        if member_id is None:
            return
        member = rows[member_id]
        epoch = r.choice([-2, -2, -1]) if member["instance"] else -1
        self.send(fail=False, member_id=member_id, member_epoch=epoch, instance_id=member["instance"])

    def remove(self):
        """An operator removes members."""
        r = self.random
        if not self.is_consumers():
            return
        identities = []
        for _ in range(r.choices([1, 2, 3], [70, 20, 10])[0]):
            member_id = self.pick(self.state()["members"]) or "stranger"
            instance = self.state()["members"].get(member_id, {}).get("instance")
            how = r.choices(["id", "instance", "both", "odd"], [40, 30, 20, 10])[0]
            if how == "id":
                instance = None
            elif how == "instance":
                member_id, instance = ("", instance) if instance else (member_id, None)
            elif how == "odd":
                member_id, instance = r.choice([member_id, "", "stranger"]), r.choice([*self.instances, None, "nobody"])
            identities.append(MemberIdentity(member_id=member_id, group_instance_id=instance))
        self.step.request(LeaveGroupRequest(group_id=self.group, members=identities), r.choice([3, 4, 5]))

    # -- what is around

    def change_topics(self):
        r = self.random
        name = r.choice(NAMES)
        if name not in self.existing:
            self.turn += 1
            self.existing[name] = (topic_id(name, self.turn, self.bucket), r.choice([1, 2, 3, 6]))
        elif r.random() < 0.6:
            id_, partitions = self.existing[name]
            self.existing[name] = (id_, partitions + r.randint(1, 3))
        elif len(self.existing) > 1:
            del self.existing[name]
        self.step.topics(dict(self.existing), racks=self.racks)

    def configure(self):
        r = self.random
        values = r.choice(
            [
                {},
                {"consumer.session.timeout.ms": 50_000},
                {"consumer.session.timeout.ms": 1_000_000, "consumer.heartbeat.interval.ms": 1},
                {"consumer.assignment.interval.ms": r.choice([0, 3_000])},
            ]
        )
        self.step.configure(self.group, values)

    def pass_time(self):
        """Time passes, and the members heartbeat meanwhile."""
        self.step.sleep(self.random.choice([500, 1_000, 5_000, 12_000]))
        self.everybody_beats()
        for member_id in sorted(self.classics()):
            if member_id in self.classics():
                self.classic_goes_on(member_id)

    # -- offsets

    def commit_as_consumer(self):
        r = self.random
        rows = self.state()["members"] if self.is_consumers() else {}
        member_id = self.pick(rows) if r.random() < 0.9 else r.choice(["", "stranger"])
        member = rows.get(member_id) if member_id else None
        epoch = -1
        if member:
            epoch = r.choice(
                [member["epoch"], member["epoch"], member["epoch"] - 1, member["previous"], member["epoch"] + 1, -1, 0]
            )
        topics = []
        for name in r.sample(NAMES, r.randint(1, 2)):
            if name in self.existing:
                _, count = self.existing[name]
                picked = r.sample(range(count), min(count, r.randint(1, 3)))
                partitions = [
                    OffsetCommitRequestPartition(partition_index=p, committed_offset=7, committed_metadata="")
                    for p in picked
                ]
                if r.random() < 0.1 and self.state():
                    partitions[0].committed_metadata = "123456789"
                topics.append(OffsetCommitRequestTopic(name=name, partitions=partitions))
        message = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id or "",
            group_instance_id=r.choice([member["instance"] if member else None, None, *self.instances]),
            topics=topics,
        )
        if topics:
            self.step.request(message, r.choice([8, 9, 9, 9]), fail=self.failure())

    def commit_in_transaction_as_member(self):
        """A producer commits offsets for a member, in its epoch or an earlier one."""
        r = self.random
        rows = self.state()["members"] if self.is_consumers() else {}
        member_id = self.pick(rows)
        if member_id is None:
            return
        member = rows[member_id]
        producer_id, producer_epoch = r.choice(PRODUCERS)
        names = {self.text(id_): name for name, (id_, _) in self.existing.items()}
        held = [(names[id_], int(p)) for id_, those in member["assigned"].items() if id_ in names for p in those]
        held += [(name, r.randrange(count)) for name, (_, count) in r.sample(sorted(self.existing.items()), 1)]
        topics = [
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=8, committed_metadata="")
                ],
            )
            for name, p in dict(r.sample(held, min(len(held), 2))).items()
        ]
        message = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            member_id=member_id,
            generation_id=r.choice(
                [member["epoch"]] * 3 + [member["epoch"] - 1, member["previous"], member["epoch"] + 1]
            ),
            group_instance_id=r.choice([member["instance"], None, *self.instances]),
            topics=topics,
        )
        self.step.request(message, r.choice([3, 4, 5]), fail=self.failure())

    def fetch_as_consumer(self):
        r = self.random
        rows = self.state()["members"] if self.is_consumers() else {}
        member_id = self.pick(rows)
        epoch = rows[member_id]["epoch"] if member_id else 3
        member_id = r.choice([member_id, member_id, None, "stranger"])
        asked = OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member_id,
            # Kafka fails on an epoch without a member.
            member_epoch=-1 if member_id is None else r.choice([epoch, epoch, epoch - 1, -1]),
            topics=r.choice([None, [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])]]),
        )
        self.step.request(OffsetFetchRequest(groups=[asked], require_stable=r.random() < 0.5), 9)

    def look_closely(self):
        message = ConsumerGroupDescribeRequest(group_ids=[*self.groups, "none"])
        self.step.request(message, self.random.choice([0, 1]))

    # -- members of the classic protocol

    def blob(self, member=None):
        r = self.random
        version = r.choice([0, 1, 2, 3, 3])
        owned = {}
        if member is not None and r.random() < 0.8:
            names = {self.text(id_): name for name, (id_, _) in self.existing.items()}
            rows = list(member["assigned"].items())
            if r.random() < 0.15:
                rows += list(member["pending"].items())
            for id_, partitions in rows:
                if id_ in names:
                    owned.setdefault(names[id_], []).extend(int(p) for p in partitions)
        topics = NAMES[:2] if self.simple else r.sample(NAMES, r.randint(1, 3))
        if member is not None and r.random() < 0.85:
            topics = list(member["topics"])
        said = Subscription(topics=tuple(topics), owned_partitions=owned, version=version)
        return encode_subscription(said)

    def text(self, data):
        return base64.b64encode(data).decode()

    def offer(self, member=None):
        names = self.random.choice([("range",), ("range", "sticky"), ("sticky", "range")])
        if member is not None and member.get("protocols"):
            names = [name for name, _ in member["protocols"]]
        data = self.blob(member)
        return [JoinGroupRequestProtocol(name=name, metadata=data) for name in names]

    def classic_join(self, member_id, instance, version, member=None):
        r = self.random
        message = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=r.choice([6_000, 30_000, 60_000]),
            rebalance_timeout_ms=r.choice([5_000, 60_000]),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=r.choices(["consumer", "connect"], [98, 2])[0],
            protocols=self.offer(member),
        )
        empty = self.is_consumers() and not self.state()["members"]
        if empty and member_id:
            return None  # Kafka then forgets the group (test_an_empty_group_is_not_forgotten)
        ticket = self.step.request(message, version, fail=self.failure() if not empty else None)
        return self.step.answers.get(ticket)

    def classic_enters(self):
        r = self.random
        instance = r.choice([None, r.choice(self.instances)])
        version = r.choice([3, 5, 9]) if instance is None else r.choice([5, 9])
        answer = self.classic_join("", instance, version)
        if answer and answer[1].error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.classic_join(answer[1].member_id, instance, version)

    def classic_goes_on(self, member_id=None):
        """A classic member of a consumer group sends Heartbeat and, if the reply asks for it, JoinGroup and
        SyncGroup."""
        r = self.random
        rows = self.classics()
        member_id = member_id or self.pick(rows)
        if member_id is None:
            if self.state() and not self.is_consumers():
                r.choice([self.everybody_joins, self.everybody_syncs, self.keep_alive])()
            return
        member = rows[member_id]
        epoch = r.choices([member["epoch"], member["epoch"] - 1], [95, 5])[0]
        message = HeartbeatRequest(
            group_id=self.group, generation_id=epoch, member_id=member_id, group_instance_id=member["instance"]
        )
        ticket = self.step.request(message, 4)
        told = self.step.answers[ticket][1].error_code
        if (told == ErrorCode.REBALANCE_IN_PROGRESS and r.random() < 0.85) or r.random() < 0.08:
            self.classic_join(member_id, member["instance"], 9, member)
            if member_id in self.classics() and r.random() < 0.9:
                self.classic_sync(member_id)
        elif r.random() < 0.2:
            self.classic_sync(member_id)

    def classic_sync(self, member_id):
        r = self.random
        member = self.classics()[member_id]
        message = SyncGroupRequest(
            group_id=self.group,
            generation_id=member["epoch"],
            member_id=member_id,
            group_instance_id=member["instance"],
            protocol_type=r.choices(["consumer", "connect"], [97, 3])[0],
            protocol_name=r.choices([member["protocols"][0][0], "other"], [97, 3])[0],
        )
        self.step.request(message, 5)

    def crosses_over(self):
        """A member comes back with the other protocol, under its instance id or even its member id."""
        r = self.random
        consumers, classics = self.consumers(), self.classics()
        if classics and r.random() < 0.5:
            member_id = self.pick(classics)
            instance = classics[member_id]["instance"]
            self.enter(member_id if instance is None or r.random() < 0.3 else self.new_id(), instance)
        elif consumers:
            member_id = self.pick(consumers)
            instance = consumers[member_id]["instance"]
            if instance is not None and r.random() < 0.8:
                self.classic_join("", instance, 9)
            else:
                self.classic_join(member_id, instance, 9)

    def classic_group_forms(self):
        """A classic group forms, whose leader assigns partitions that exist."""
        if self.state():
            return
        self.form()
        group = self.state()
        if not group or self.is_consumers() or group["state"] != "CompletingRebalance":
            return
        leader, rows = group["leader"], []
        free = [(name, p) for name, (_, count) in self.existing.items() for p in range(count)]
        members = self.members()
        for number, member_id in enumerate(members):
            mine = {}
            for name, partition in free[number :: len(members)]:
                mine.setdefault(name, []).append(partition)
            data = self.random.choices([None, b"custom"], [96, 4])[0]
            blob = encode_assignment(MemberAssignment(partitions=mine, user_data=data, version=1))
            rows.append(SyncGroupRequestAssignment(member_id=member_id, assignment=blob))
        for member_id in [leader, *(m for m in members if m != leader)]:
            message = SyncGroupRequest(
                group_id=self.group,
                generation_id=group["generation"],
                member_id=member_id,
                group_instance_id=group["members"][member_id]["instance"],
                protocol_type="consumer",
                protocol_name=group["protocol"],
                assignments=rows if member_id == leader else [],
            )
            self.step.request(message, 5)

    def everybody_syncs(self):
        """While a group forms, the leader's assignment is made by `classic_group_forms`."""
        if not self.mixed:
            super().everybody_syncs()

    def assigned_to(self, member_id):
        """The assignment for a member; wrong bytes only of the kind that Kafka reports as malformed, because worse ones
        break it."""
        blobs = [b"", b"\x00", encode_assignment(MemberAssignment(partitions={"orders": [0]}, version=0))]
        return self.random.choices(blobs, [2, 1, 10])[0]

    def leave(self):
        # In Kafka a member that could not be removed loses its timers.
        failing, self.failing = self.failing, self.failing and not self.is_consumers()
        super().leave()
        self.failing = failing

    def sync(self, member_id=None):
        if not self.is_consumers():
            super().sync(member_id)
        elif self.classics():
            self.classic_sync(self.pick(self.classics()))
        else:
            message = SyncGroupRequest(group_id=self.group, generation_id=self.generation(), member_id=self.some_id())
            self.step.request(message, 3)

    def join(self, *args, **kwargs):
        if not (self.is_consumers() and not self.state()["members"]):
            super().join(*args, **kwargs)

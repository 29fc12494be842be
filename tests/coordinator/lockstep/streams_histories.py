"""Random histories of streams groups (KIP-1071), for two coordinators in lockstep: processes and threads that come and
go, topics that come, grow and go, internal ones too, and other types of group in the same places."""

import hashlib

from kgm.coordinator.streams.records import KEYS, ends_group
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kgm.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from tests.coordinator.harness import compacted, read_entry, subscription
from tests.coordinator.lockstep.classic_histories import PRODUCERS, Walk
from tests.coordinator.lockstep.consumer_histories import topic_id

SOURCES = ["orders", "payments", "clicks"]
KINDS = ("active_tasks", "standby_tasks", "warmup_tasks")


class StreamsWalk(Walk):
    """One random history. Usually all groups have the same topology."""

    def __init__(self, kafka, seed):
        super().__init__(kafka, seed)
        r = self.random
        self.turn = self.made = 0
        self.existing = {}
        self.created = {}
        self.topology = self.draw_topology()
        self.processes = [f"{r.getrandbits(128):032x}" for _ in range(r.choice([1, 2, 2, 3, 4]))]
        self.endpoints = {
            process: (f"host-{at}", 8_000 + at) for at, process in enumerate(self.processes) if r.random() < 0.4
        }
        for name in SOURCES:
            if r.random() < 0.95:
                self.existing[name] = (topic_id(name, 0), r.choice([1, 2, 3, 4, 4, 4, 9]))
        if r.random() < 0.7:
            size = r.choice([1, 2, 3, 6])
            self.existing = {name: (id_, size) for name, (id_, _) in self.existing.items()}
        self.step.topics(dict(self.existing))
        self.group = self.groups[0]

    def settings(self):
        r = self.random
        return super().settings() | {
            "group_streams_assignment_interval_ms": r.choice([0, 1_000, 1_000, 15_000]),
            "group_streams_initial_rebalance_delay_ms": r.choice([0, 0, 3_000, 6_000]),
            "group_streams_max_size": r.choice([2**31 - 1, 2**31 - 1, 2, 4]),
            "group_streams_num_standby_replicas": r.choice([0, 0, 1, 1, 2]),
        }

    def draw_topology(self):
        """One to three subtopologies: repartition topics lead from one to the next, and some join what they read."""
        r = self.random
        rows, names = [], [str(number) for number in range(r.choice([1, 2, 2, 3, 12]))]
        before = None
        for name in names:
            sources = r.sample(SOURCES, r.choice([0, 1, 1, 2] if before else [1, 1, 2]))
            row = Subtopology(subtopology_id=name, source_topics=sources)
            if before is not None:
                topic = f"app-{name}-repartition"
                before.repartition_sink_topics = [topic]
                size = r.choices([0, 2, 4], [8, 1, 1])[0]
                row.repartition_source_topics = [self.topic(topic, size)]
                if r.random() < 0.2:
                    row.copartition_groups = [
                        CopartitionGroup(source_topics=[*range(len(sources))], repartition_source_topics=[0])
                    ]
            elif len(sources) > 1 and r.random() < 0.3:
                row.copartition_groups = [CopartitionGroup(source_topics=[*range(len(sources))])]
            if r.random() < 0.6:
                row.state_changelog_topics = [self.topic(f"app-{name}-changelog", 0)]
            rows.append(row)
            before = row if r.random() < 0.8 else None
        if r.random() < 0.03:
            rows[-1].repartition_sink_topics = ["app-lost-repartition"]
        if r.random() < 0.03:
            rows[0].repartition_source_topics = [self.topic("app-loop-repartition", 0)]
            rows[0].repartition_sink_topics = r.choice([[], ["app-loop-repartition"]])
        return Topology(epoch=r.choice([0, 0, 0, 2]), subtopologies=rows)

    def topic(self, name, partitions):
        configs = [KeyValue(key="cleanup.policy", value="compact"), KeyValue(key="a", value="1")]
        return TopicInfo(
            name=name,
            partitions=partitions,
            replication_factor=self.random.choice([0, 0, 1]),
            topic_configs=configs[: self.random.randint(0, 2)],
        )

    def go(self, operations):
        actions = [
            (self.enter, 16), (self.beat, 40), (self.everybody_beats, 16), (self.depart, 8), (self.odd_beat, 6),
            (self.change_topics, 4), (self.make_internal_topics, 8), (self.commit_as_member, 8),
            (self.fetch_as_member, 4), (self.look_closely, 6), (self.sleep, 12), (self.pass_time, 14),
            (self.reload, 2), (self.delete_groups, 2), (self.delete_offsets, 2), (self.configure, 2),
            (self.commit_in_transaction_as_member, 4), (self.end_transaction, 2), (self.look, 3),
            (self.joins_as_classic, 2), (self.commit_simply, 1),
        ]  # fmt: skip
        acts, usual = zip(*actions, strict=True)
        weights = [weight * self.random.choice([0.2, 1, 1, 4]) for weight in usual]
        while len(self.step.deeds) < operations:
            (act,) = self.random.choices(acts, weights)
            self.group = self.random.choice(self.groups)
            act()
            if self.step.new_topics and self.random.random() < 0.6:
                self.make_internal_topics()

    # -- what is known

    def is_streams(self):
        group = self.state()
        return group is not None and group.get("type") == "streams"

    def rows(self):
        return self.state()["members"] if self.is_streams() else {}

    def members(self):
        group = self.state()
        return sorted(group["members"]) if group else []

    def generation(self):
        group = self.state()
        current = 0 if group is None else group["epoch"] if self.is_streams() else group["generation"]
        return self.random.choices([current, current - 1, current + 1, -1], [90, 4, 3, 3])[0]

    def instance_of(self, member_id):
        return None if self.is_streams() else super().instance_of(member_id)

    def pick(self, rows):
        return self.random.choice(sorted(rows)) if rows else None

    def new_id(self):
        self.made += 1
        return hashlib.sha256(f"{self.step.first_seed}/{self.made}".encode()).hexdigest()[:22]

    # -- members

    def send(self, *, fail=True, **fields):
        r = self.random
        message = StreamsGroupHeartbeatRequest(group_id=self.group, **fields)
        classic = self.state() and not self.is_streams()
        fail = self.failure() if fail and not classic and message.member_epoch > 0 else None
        ticket = self.step.request(message, 0, client_id=r.choice(["client"] * 19 + ["other"]), fail=fail)
        reply = self.step.answers[ticket][1]
        for row in reply.status or ():
            self.step.seen[f"status {row.status_code}"] += 1
        if reply.partitions_by_user_endpoint:
            self.step.seen["endpoints"] += 1

    def sent_topology(self):
        r = self.random
        how = r.random()
        if how < 0.94:
            return self.topology
        rows = list(self.topology.subtopologies)
        odd = r.choice(["epoch", "older", "rows", "twice", "regex", "sized", "negative", "index"])
        if odd == "rows":
            rows = rows[:-1] or [Subtopology(subtopology_id="x", source_topics=["orders"])]
        elif odd == "twice":
            rows.append(rows[0])
        elif odd == "regex":
            rows[0] = Subtopology(subtopology_id="0", source_topic_regex=["o.*"])
        elif odd == "sized":
            rows[0] = Subtopology(
                subtopology_id="0", source_topics=["orders"], state_changelog_topics=[self.topic("c", 3)]
            )
        elif odd == "index":
            group = CopartitionGroup(source_topics=[r.choice([-1, 7])])
            rows[0] = Subtopology(subtopology_id="0", source_topics=["orders"], copartition_groups=[group])
        epoch = {"epoch": self.topology.epoch + 1, "older": max(self.topology.epoch - 1, 0), "negative": -1}
        return Topology(epoch=epoch.get(odd, self.topology.epoch), subtopologies=rows)

    def enter(self, member_id=None):
        """A thread starts, or joins again."""
        r = self.random
        if member_id is None:
            member_id = r.choices([self.new_id(), self.pick(self.rows()) or self.new_id()], [80, 20])[0]
        process = r.choice(self.processes)
        endpoint = self.endpoints.get(process)
        self.send(
            member_id=member_id,
            member_epoch=0,
            endpoint_information_epoch=r.choice([0, -1]),
            rack_id=r.choice([None, None, "rack1"]),
            rebalance_timeout_ms=r.choice([5_000, 60_000, 300_000]),
            topology=self.sent_topology(),
            process_id=r.choices([process, None], [98, 2])[0],
            user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=r.choice([[], [KeyValue(key="zone", value="a"), KeyValue(key="k", value="b")], None]),
            shutdown_application=r.random() < 0.01,
            **dict.fromkeys(KINDS, ()) | {kind: [] for kind in KINDS},
        )

    def owned(self, member, *, of=("assigned",)):
        fields = {}
        for kind, at in zip(KINDS, range(3), strict=True):
            rows = {}
            for what in of:
                for name, partitions in member[what][at].items():
                    rows.setdefault(name, set()).update(int(partition) for partition in partitions)
            fields[kind] = [TaskIds(subtopology_id=name, partitions=sorted(those)) for name, those in rows.items()]
        return fields

    def beat(self, member_id=None):
        """A member continues: usually it reports that it owns what it was assigned, sometimes that it has not revoked
        yet."""
        r = self.random
        rows = self.rows()
        member_id = member_id or self.pick(rows)
        if member_id is None:
            self.enter()
            return
        member, how, fields = rows[member_id], r.random(), {}
        if how < 0.55:
            fields = self.owned(member)
        elif how < 0.75:
            fields = self.owned(member, of=("assigned", "pending"))
        if r.random() < 0.05:
            process = r.choice(self.processes)
            fields |= {"process_id": process, "rebalance_timeout_ms": r.choice([-1, 30_000])}
        known = self.state()["endpoint_epoch"]
        self.send(
            member_id=member_id,
            member_epoch=member["epoch"],
            endpoint_information_epoch=r.choice([known, known, known - 1]),
            shutdown_application=r.random() < 0.01,
            **fields,
        )

    def everybody_beats(self):
        for _ in range(self.random.choice([1, 2])):
            for member_id in sorted(self.rows()):
                if member_id in self.rows():
                    self.beat(member_id)

    def odd_beat(self):
        """Send a heartbeat that a member should not send."""
        r = self.random
        rows = self.rows()
        member_id = self.pick(rows) or "stranger"
        member = rows.get(member_id, {"epoch": 3, "previous": 2, "assigned": [{}] * 3, "pending": [{}] * 3})
        epoch = r.choice([member["epoch"] - 1, member["epoch"] + 1, member["previous"], member["previous"], -3, -2, 5])
        fields = r.choice([{}, self.owned(member), self.owned(member, of=("assigned", "pending"))])
        odd = r.choice(["", "", "", "alone", "task", "topology", "instance", "offsets", "rack", "stranger", "warmup"])
        if odd == "alone":
            fields = {"active_tasks": []}
        elif odd == "task":
            row = TaskIds(subtopology_id=r.choice(["0", "9"]), partitions=[r.choice([0, -1, 99])])
            epoch, fields = member["epoch"], {kind: [] for kind in KINDS} | {"active_tasks": [row]}
        elif odd == "topology":
            fields = {"topology": self.topology}
        elif odd == "instance":
            fields = {"instance_id": r.choice(["a", ""])}
        elif odd == "offsets":
            fields = {"task_offsets": []}
        elif odd == "rack":
            fields = {"rack_id": r.choice(["", "rack0"])}
        elif odd == "warmup":
            fields = {"warmup_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}
        elif odd == "stranger":
            member_id = r.choice(["stranger", " ", ""])
        self.send(fail=False, member_id=member_id, member_epoch=epoch, **fields)

    def depart(self):
        rows = self.rows()
        member_id = self.pick(rows)
        if member_id is not None:
            shuts_down = self.random.random() < 0.05
            self.send(fail=False, member_id=member_id, member_epoch=-1, shutdown_application=shuts_down)

    # -- what is around

    def internal_topics(self):
        return [
            topic.name
            for row in self.topology.subtopologies
            for topic in (*row.repartition_source_topics, *row.state_changelog_topics)
        ]

    def make_internal_topics(self):
        """Usually creates the internal topics that the coordinator asks for."""
        wanted = {topic.name: topic.partitions for topic in self.step.new_topics}
        self.created |= wanted
        missing = {name: size for name, size in self.created.items() if name not in self.existing}
        if not missing:
            return
        self.turn += 1
        for name, size in missing.items():
            if self.random.random() < 0.97:
                self.existing[name] = (topic_id(name, self.turn), size + (self.random.random() < 0.02))
        self.step.topics(dict(self.existing))
        self.everybody_beats()

    def change_topics(self):
        r = self.random
        name = r.choice([*SOURCES, *SOURCES, *self.internal_topics()])
        if name not in self.existing:
            self.turn += 1
            self.existing[name] = (topic_id(name, self.turn), r.choice([1, 2, 3, 6]))
        elif r.random() < 0.6:
            id_, partitions = self.existing[name]
            self.existing[name] = (id_, partitions + r.randint(1, 3))
        elif len(self.existing) > 1:
            del self.existing[name]
        self.step.topics(dict(self.existing))

    def configure(self):
        r = self.random
        values = r.choice(
            [
                {},
                {"streams.session.timeout.ms": 50_000},
                {"streams.session.timeout.ms": 1_000_000, "streams.heartbeat.interval.ms": 1},
                {"streams.assignment.interval.ms": r.choice([0, 3_000])},
                {"streams.num.standby.replicas": r.choice([0, 1, 2, 5])},
                {"streams.initial.rebalance.delay.ms": r.choice([0, 2_000])},
            ]
        )
        self.step.configure(self.group, values)

    def pass_time(self):
        """Time passes, and the members heartbeat meanwhile."""
        self.step.sleep(self.random.choice([500, 1_000, 5_000, 12_000]))
        self.make_internal_topics()
        self.everybody_beats()

    def look_closely(self):
        self.step.request(StreamsGroupDescribeRequest(group_ids=[*self.groups, "none", ""]), 0)

    # -- offsets and other types of group

    def offsets_of(self, row_class):
        r = self.random
        names = [name for name in (*SOURCES, *self.internal_topics()) if name in self.existing]
        picked = r.sample(names, min(len(names), r.randint(1, 2)))
        return [
            (
                name,
                [
                    row_class(partition_index=p, committed_offset=7, committed_metadata="")
                    for p in r.sample(range(self.existing[name][1]), min(self.existing[name][1], r.randint(1, 3)))
                ],
            )
            for name in picked
        ]

    def epoch_of(self, member):
        return self.random.choice(
            [member["epoch"]] * 3 + [member["epoch"] - 1, member["previous"], member["epoch"] + 1]
        )

    def commit_as_member(self):
        r = self.random
        rows = self.rows()
        member_id = self.pick(rows) if r.random() < 0.9 else r.choice(["", "stranger"])
        member = rows.get(member_id) if member_id else None
        topics = [
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in self.offsets_of(OffsetCommitRequestPartition)
        ]
        message = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=-1 if member is None else self.epoch_of(member),
            member_id=member_id or "",
            topics=topics,
        )
        if topics:
            self.step.request(message, r.choice([8, 9, 9, 9]), fail=self.failure())

    def reload(self):
        if self.step.kafka.version.release >= (4, 3) or not self.has_offsets_before_group():
            super().reload()

    def has_offsets_before_group(self):
        """Whether the log, as it is or once it is compacted, has offsets of a group that does not exist, followed by
        records of a streams group with that id. Kafka 4.2 cannot load such a log."""
        for log in (self.step.log, compacted(self.step.log)):
            offsets, groups = set(), set()
            for entry, *_ in map(read_entry, log):
                key = entry and entry.key
                if isinstance(key, OffsetCommitKey):
                    offsets.add(key.group)
                elif isinstance(key, KEYS):
                    if key.group_id in offsets - groups:
                        return True
                    if entry.value is not None:
                        groups.add(key.group_id)
                    elif ends_group(entry):
                        groups.discard(key.group_id)
                        offsets.discard(key.group_id)
        return False

    def commit_simply(self):
        if not self.is_streams():
            self.commit()

    def commit_in_transaction_as_member(self):
        r = self.random
        rows = self.rows()
        member_id = self.pick(rows)
        if member_id is None:
            return
        producer_id, producer_epoch = r.choice(PRODUCERS)
        message = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            member_id=r.choices([member_id, "stranger", ""], [90, 5, 5])[0],
            generation_id=self.epoch_of(rows[member_id]),
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in self.offsets_of(TxnOffsetCommitRequestPartition)
            ],
        )
        self.step.request(message, r.choice([3, 4, 5]), fail=self.failure())

    def fetch_as_member(self):
        r = self.random
        rows = self.rows()
        member_id = self.pick(rows)
        epoch = rows[member_id]["epoch"] if member_id else 3
        member_id = r.choice([member_id, member_id, None, "stranger"])
        asked = OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member_id,
            # Kafka fails on an epoch without a member.
            member_epoch=-1 if member_id is None else r.choice([epoch, epoch, epoch - 1, -1]),
            topics=None,
        )
        self.step.request(OffsetFetchRequest(groups=[asked], require_stable=r.random() < 0.5), 9)

    def joins_as_classic(self):
        """A consumer of the classic protocol has the same group id."""
        message = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=5_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))],
        )
        self.step.request(message, self.random.choice([3, 9]))

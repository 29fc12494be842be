"""A harness for groups of KIP-848: topics with ids, heartbeats in short form, records by name."""

from kgm.coordinator.contract.topic_image import Topic, TopicImage
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.subscription import Subscription, encode_subscription
from kgm.records.record_types import TYPES
from tests.coordinator.harness import Harness

REBALANCE_MS = 60_000
SHORT = {
    "ConsumerGroupMetadata": "epoch",
    "ConsumerGroupPartitionMetadata": "topics",
    "ConsumerGroupMemberMetadata": "member",
    "ConsumerGroupTargetAssignmentMetadata": "target epoch",
    "ConsumerGroupTargetAssignmentMember": "target",
    "ConsumerGroupCurrentMemberAssignment": "current",
    "ConsumerGroupRegularExpression": "regex",
    "GroupMetadata": "classic",
}


def topic_id(name, turn=0):
    return (name.encode() + bytes([turn])).rjust(16, b"\0")


def image(partitions, *, version=1, turn=0, racks=()):
    return TopicImage.of(
        (Topic(name=n, topic_id=topic_id(n, turn), partitions=p, racks=racks) for n, p in partitions.items()),
        version=version,
    )


class Consumers(Harness):
    """One coordinator with topics, by default `a` of 6 partitions and `b` of 3, and no assignment interval."""

    def __init__(self, *, topics=None, **overrides):
        self.partitions = {"a": 6, "b": 3} if topics is None else topics
        super().__init__(**{"group_consumer_assignment_interval_ms": 0} | overrides)
        self.use(image(self.partitions))

    def use(self, topics):
        self.engine = Coordinator(settings=self.settings, new_member_id=self.ids, image=topics)
        self.runtime = Runtime(self.engine, append=self.append)

    def another(self, **overrides):
        twin = Consumers(**overrides)
        twin.use(self.engine.image)
        return twin

    def topics(self, partitions, *, turn=0):
        """Replace the topics."""
        version = self.engine.image.version + 1
        self.take(self.runtime.topics_changed(image(partitions, version=version, turn=turn), now=self.now))

    # -- requests

    def beat(self, member="m1", epoch=0, *, group="g", v=1, names=None, regex=None, owned=None, instance=None, **more):
        """Send a heartbeat; one that joins (epoch 0) sets all fields, and subscribes to `a` by default."""
        if epoch == 0:
            if names is None and regex is None:
                names = ["a"]
            owned = {} if owned is None else owned
            more = {"rebalance_timeout_ms": REBALANCE_MS} | more
        rows = None
        if owned is not None:
            rows = [TopicPartitions(topic_id=self.id_of(name), partitions=list(p)) for name, p in owned.items()]
        message = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, instance_id=instance, subscribed_topic_names=names,
            subscribed_topic_regex=regex, topic_partitions=rows, **more,
        )  # fmt: skip
        return self.got(self.send(message, v))

    def id_of(self, name):
        """The id of a topic, as members know it."""
        return topic_id(name)

    def error(self, *args, **kwargs):
        return self.beat(*args, **kwargs).error_code

    def full(self, member, epoch, *, group="g", instance=None):
        """Send a full heartbeat of a member that owns what it was assigned."""
        row = self.member(member, group=group)
        return self.beat(
            member, epoch, group=group, instance=instance, names=list(row.topics), owned=row.assigned,
            rebalance_timeout_ms=REBALANCE_MS,
        )  # fmt: skip

    def calm(self, *members, group="g", rounds=6):
        """Let these members heartbeat until nothing changes any more; each gives up what it must."""
        for _ in range(rounds):
            before = len(self.log)
            for member in members or self.ids_of(group):
                row = self.member(member, group=group)
                instance = self.instance_of(member, group)
                self.beat(member, row.member_epoch, group=group, owned=row.assigned, instance=instance)
            if len(self.log) == before:
                return

    def groups_described(self, *groups, v=1):
        return self.got(self.send(ConsumerGroupDescribeRequest(group_ids=list(groups or ("g",))), v)).groups

    def classic_join(self, member="", instance=None, *, topics=("a",), owned=None, v=9, **more):
        """Send a JoinGroup, and a second one if the first only returns a member id."""
        data = encode_subscription(Subscription(topics=topics, owned_partitions=owned or {}, version=1))
        ticket = self.join(member, instance, v=v, protocols={"range": data}, **more)
        reply = self.got(ticket)
        if reply is not None and reply.error_code == 79:
            return self.got(self.join(reply.member_id, instance, v=v, protocols={"range": data}, **more))
        return reply

    # -- observing

    def group(self, group="g"):
        return self.engine.group(group)

    def ids_of(self, group="g"):
        return [member.member_id for member in self.group(group).members]

    def instance_of(self, member, group="g"):
        return next(row.group_instance_id for row in self.group(group).members if row.member_id == member)

    def member(self, member, *, group="g"):
        return next(row.consumer for row in self.group(group).members if row.member_id == member)

    def held(self, group="g"):
        return {row.member_id: dict(row.consumer.assigned) for row in self.group(group).members}

    def epochs(self, group="g"):
        """(group epoch, assignment epoch, {member: epoch})"""
        view = self.group(group)
        members = {row.member_id: row.consumer.member_epoch for row in view.members}
        return view.generation, view.assignment_epoch, members

    def written(self, since=0):
        """The records from `since` on, in short form: what, for whom, and whether it is a tombstone."""
        return [brief(record) for record in self.log[since:]]

    def deadline(self, kind, member, group="g"):
        from kgm.coordinator.contract.outcome import TimerKey

        found = self.engine.deadline(TimerKey(kind, group, member))
        return None if found is None else found - self.now


def brief(record):
    name = SHORT.get(TYPES[record.key.API_KEY], TYPES[record.key.API_KEY])
    who = getattr(record.key, "member_id", getattr(record.key, "regular_expression", ""))
    return f"{'-' if record.value is None else ''}{name} {who}".strip()


def assigned(reply):
    """Partitions by topic in a heartbeat's reply; None if the reply has no assignment."""
    if reply.assignment is None:
        return None
    return {row.topic_id.strip(b"\0").decode(): sorted(row.partitions) for row in reply.assignment.topic_partitions}

"""A consumer group (KIP-848) that is described continues in the engine as it does on the real broker.

A member that has to give up partitions gives up the last ones of the last topic, in the order of hash maps and sets.
Where topic ids or partition numbers share a bucket, the past of the member decides, and only the order of the broker's
response shows it. So: groups with a past, of topics whose ids share buckets and of many partitions, are described and
loaded into the engine, and then the same happens to both."""

import random
from collections import defaultdict

import pytest

from kgm.client import connect
from kgm.coordinator.contract.outcome import Millis, Request, Ticket
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.java.hash_map import uuid_bucket
from kgm.java.hash_set import copied_set_order
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.simulation.plan.bounce_plan import WhatIf
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.play.seed_records import seed_records
from tests.kafka.heartbeat_group import PROMPT, HeartbeatGroup, random_member_ids, wait_coordinator_knows
from tests.selection import first_seed
from tests.server.wire_client import WireClient

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.long]
SEEDS = range(first_seed(), first_seed() + 60)
TOPICS = {f"seeded-{number:02}": (1, 4, 17, 40, 75)[number % 5] for number in range(25)}
NOW = Millis(1_000_000)


@pytest.fixture(scope="module")
def cluster(kafka):
    kafka.create_topics(TOPICS)
    wait_coordinator_knows(kafka.bootstrap, TOPICS)
    return kafka


@pytest.fixture(scope="module")
def sharing(cluster):
    """The topics by the bucket of their ids, those alone in theirs left out."""
    with (
        WireClient(cluster.port) as wire,
        connect(cluster.bootstrap, timeout_ms=20_000) as client,
    ):
        group = HeartbeatGroup(wire, "ids", TOPICS, "range")
        group.join("somebody", None)
        group.heartbeat_until_stable()
        buckets = defaultdict(list)
        for topic in client.describe_group("ids").topics:
            buckets[uuid_bucket(topic.topic_id)].append(topic.name)
    return [names for names in buckets.values() if len(names) > 1]


class InEngine:
    """What `WireClient` is to a broker, to a coordinator in this process."""

    def __init__(self, origin):
        settings = BrokerSettings(group_consumer_assignment_interval_ms=0)
        self.engine = Coordinator(settings=settings, new_member_id=lambda _: "nobody", image=origin.image)
        for record in seed_records(origin, origin.members[0], origin.image, NOW):
            self.engine.replay(record)
        self.runtime = Runtime(self.engine, append=lambda _records, _producer=None: None)
        self.runtime.loaded(now=NOW)
        self.asked = 0

    def ask(self, message, version=None):
        self.asked += 1
        request = Request(
            message=message, version=1 if version is None else version, client_id="c", client_host="/127.0.0.1"
        )
        (reply,) = self.runtime.handle(request, ticket=Ticket(self.asked), now=NOW)
        return reply.message


def happens(group, comings, goings):
    """comings: who joins, and what it subscribes to."""
    for member_id in goings:
        group.leave(member_id)
        group.heartbeat_until_stable()
    for member_id, topics in comings.items():
        group.join(member_id, None, topics=topics)
        group.heartbeat_until_stable()


def listed(wire, group_id):
    """Everybody's target as the broker lists it."""
    (group,) = wire.ask(ConsumerGroupDescribeRequest(group_ids=[group_id])).groups
    return [
        (
            member.member_id,
            [(row.topic_name, copied_set_order(row.partitions)) for row in member.target_assignment.topic_partitions],
        )
        for member in group.members
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_goes_on_in_the_engine_as_on_the_broker(cluster, sharing, seed):
    chance = random.Random(seed)
    topics = {*chance.sample(sorted(TOPICS), chance.randint(1, 3)), *chance.choice(sharing)}
    alike, assignor = chance.random() < 0.7, chance.choice(("uniform", "uniform", "uniform", "range"))
    ids = random_member_ids(chance, 12)
    wanted = {
        member_id: set(topics if alike else chance.sample(sorted(topics), chance.randint(1, len(topics))))
        for member_id in ids
    }

    def some(first, end):
        return {member_id: wanted[member_id] for member_id in ids[first:end]}

    with (
        WireClient(cluster.port) as wire,
        connect(cluster.bootstrap, timeout_ms=20_000) as client,
    ):
        group = HeartbeatGroup(wire, f"installed-{seed}", topics, assignor)
        cluster.configure_group(group.group_id, PROMPT)
        happens(group, some(0, 4), [])
        happens(group, some(4, 7), chance.sample(ids[:4], 2))
        origin = starting_group_of(client.describe_group(group.group_id), WhatIf())
        engine = InEngine(origin)
        assert listed(engine, group.group_id) == listed(wire, group.group_id)
        twin = HeartbeatGroup(engine, group.group_id, topics, assignor)
        for name in ("instance_ids", "epochs", "owned", "subscriptions"):
            setattr(twin, name, dict(getattr(group, name)))
        for each in wanted.values():
            each.intersection_update(origin.topics)  # a snapshot has no others
        comings, goings = some(7, chance.randint(8, 12)), chance.sample(sorted(group.epochs), chance.randint(0, 3))
        happens(group, comings, goings)
        happens(twin, comings, goings)
        # Brokers draw topic ids at random: without them a failure cannot be played again.
        ids = {topic.name: topic.topic_id.hex() for topic in client.describe_group(group.group_id).topics}
        assert listed(engine, group.group_id) == listed(wire, group.group_id), ids

"""A removal after which only members of the classic protocol run in a consumer group (KIP-848) that may not become a
classic group: what is told of it, and what Kafka and `kgm serve` then do."""

import random
from dataclasses import dataclass

import pytest

from kgm.client import connect
from kgm.model.assignment import count
from kgm.operations.groups.rebalance_wait import read_rebalance_wait
from kgm.operations.history import explain_group
from kgm.operations.history.live import LiveHistory, LiveRequest
from kgm.operations.removal.python_api import execute_removal, plan_removal
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.subscription import Subscription, encode_subscription
from kgm.testing import QUICK_SETTINGS, serve_in_thread
from tests.kafka.heartbeat_group import PROMPT, HeartbeatGroup, random_member_ids, wait_coordinator_knows
from tests.kafka.versions import shared_broker
from tests.server.wire_client import WireClient
from tests.waiting import until

REBALANCE_IN_PROGRESS = 27
PARTITIONS = 7
POLICY = {"group.consumer.migration.policy": "upgrade"}
#: Each member sends so many heartbeats before a group counts as one that gets no assignment.
MANY = 25


@dataclass
class ClassicMember:
    """A static member that uses the classic protocol, and gives up all partitions when it rejoins."""

    wire: WireClient
    group_id: str
    instance_id: str
    topic: str
    member_id: str = ""
    generation: int = -1

    def join(self):
        metadata = encode_subscription(Subscription(topics=(self.topic,)))
        answer = self.wire.ask(JoinGroupRequest(
            group_id=self.group_id, member_id=self.member_id, group_instance_id=self.instance_id,
            session_timeout_ms=60_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        ))  # fmt: skip
        assert answer.error_code == 0, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.wire.ask(SyncGroupRequest(
            group_id=self.group_id, member_id=self.member_id, group_instance_id=self.instance_id,
            generation_id=self.generation, protocol_type="consumer", protocol_name="range",
        ))  # fmt: skip

    def heartbeat(self):
        answer = self.wire.ask(HeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, group_instance_id=self.instance_id,
            generation_id=self.generation,
        ))  # fmt: skip
        return answer.error_code

    def heartbeat_and_rejoin(self):
        if self.heartbeat() == REBALANCE_IN_PROGRESS:
            self.join()


@pytest.fixture(
    params=[
        "kgm serve",
        *(pytest.param(version, marks=[pytest.mark.kafka, pytest.mark.slow]) for version in ("4.1.1", "4.3.0")),
    ]
)
def broker(request):
    """(version, bootstrap servers, topic, group id)"""
    topic = group_id = f"only-classic-{request.param.replace(' ', '-')}"
    if request.param == "kgm serve":
        with serve_in_thread(topics={topic: PARTITIONS}, settings={**QUICK_SETTINGS, **POLICY}) as server:
            yield "4.3.0", server.bootstrap, topic, group_id
        return
    kafka = shared_broker(request.param, POLICY)
    kafka.create_topics({topic: PARTITIONS})
    wait_coordinator_knows(kafka.bootstrap, [topic])
    # PROMPT has a setting that is new in 4.3.
    kafka.configure_group(
        group_id, {name: PROMPT[name] for name in PROMPT if request.param == "4.3.0" or "session" in name}
    )
    yield request.param, kafka.bootstrap, topic, group_id


def test_nobody_gets_the_partitions_until_a_member_joins(broker, nobody_returns):
    version, bootstrap, topic, group_id = broker
    waits = version == "4.3.0"
    with WireClient(int(bootstrap.rpartition(":")[2])) as wire, connect(bootstrap, timeout_ms=20_000) as client:
        consumer = HeartbeatGroup(wire, group_id, [topic], "uniform")
        consumer.version = 0 if version == "4.1.1" else None
        (member_id,) = random_member_ids(random.Random(1), 1)
        consumer.join(member_id, "s0")
        classic = [ClassicMember(wire, group_id, name, topic) for name in ("s1", "s2", "s3")]
        for one in classic:
            one.join()

        def settled():
            for member in consumer.epochs:
                consumer.heartbeat(member)
            for one in classic:
                one.heartbeat_and_rejoin()
            client.renew()
            return client.describe_group(group_id)

        def is_whole(group):
            return group.state == "Stable" and sum(count(one.assignment) for one in group.members) == PARTITIONS

        before = until(settled, "the group does not become stable", accept=is_whole, every_s=0.05)
        freed = {one.identity: one.assignment for one in before.members}["s0"]
        assert count(freed)
        consumer.step_away(member_id)
        client.renew()
        prepared = plan_removal(client, group_id, instance_ids=["s0"])
        told = [text for text in prepared.warnings if "will have no consumer until a member joins or rejoins" in text]
        assert (prepared.moves.moves, len(told)) == (None, waits)
        assert [one.result for one in execute_removal(client, prepared, audit=False).results] == ["removed"]

        errors = {one.heartbeat() for one in classic for _ in range(MANY)}
        assert errors == ({0} if waits else {REBALANCE_IN_PROGRESS})
        client.renew()
        stuck = client.describe_group(group_id)
        assert (stuck.state, stuck.assignment_epoch) == ("Assigning", before.group_epoch)
        wait = read_rebalance_wait(client, stuck)
        assert wait is not None
        assert wait.headline.startswith("waits until a member joins or rejoins: ") is waits
        assert ([one.identity for one in wait.awaited] == []) is waits
        logged = explain_group(LiveHistory(client, LiveRequest(group_id=group_id)).read(), group_id).wait
        assert logged is not None
        assert logged.needs_join  # the log does not show the version
        # Another removal is told of as well: no member with the consumer protocol is there to begin with.
        again = plan_removal(client, group_id, instance_ids=["s3"], assume_stopped=True, guard_window_ms=1)
        assert again.moves.moves is None
        assert any("will have no consumer" in text for text in again.warnings) is waits

        if waits:
            classic[0].member_id = ""  # its process is restarted
            classic[0].join()
        after = until(settled, "the partitions stay without a consumer", accept=is_whole, every_s=0.05)
        assert {one.identity for one in after.members} == {"s1", "s2", "s3"}

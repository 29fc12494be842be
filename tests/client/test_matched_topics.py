"""Topics that match a regular expression, before the coordinator has noticed them."""

import pytest

from kgm.client import connect
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import live_group
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.kafka.heartbeat_group import wait_coordinator_knows
from tests.kafka.versions import LONG_CONSUMER_SESSION
from tests.server.wire_client import WireClient
from tests.waiting import until

GROUP, LOSING = "matched-topics", "matched-topics-fewer"
ONE, NEW = "matched-one", "matched-a-new-one"
KEPT, DELETED = "vanishing-kept", "vanishing-deleted"


def join(client: WireClient, group_id: str = GROUP, regex: str = "matched-.*") -> str:
    """A static member that owns what matches. It sends no heartbeat later, so the coordinator does not look again."""

    def beat(epoch: int, **own):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id="m1", instance_id="m1", member_epoch=epoch, rebalance_timeout_ms=60_000, **own
        )
        answer = client.ask(request)
        assert answer.error_code == 0, answer
        return answer

    answer = beat(0, subscribed_topic_regex=regex, subscribed_topic_names=[], topic_partitions=[])

    def assigned():
        nonlocal answer
        if answer.assignment is None or not answer.assignment.topic_partitions:
            answer = beat(answer.member_epoch, topic_partitions=[])
            return False
        owned = answer.assignment.topic_partitions
        beat(
            answer.member_epoch,
            topic_partitions=[TopicPartitions(topic_id=t.topic_id, partitions=t.partitions) for t in owned],
        )
        return True

    until(assigned, "nothing is assigned")
    return "m1"


def open_partitions(snapshot: GroupSnapshot, plan: Plan) -> str:
    """Why a prediction is not exact; empty without such a reason (the library of the member is one)."""
    return next((caveat for caveat in simulate(snapshot, plan).caveats if "no owner" in caveat), "")


@pytest.mark.slow
@pytest.mark.kafka
def test_a_prediction_is_not_exact_while_a_new_topic_is_still_to_be_assigned(kafka):
    """With the next heartbeat after that a real broker wrote another target assignment."""
    kafka.configure_group(GROUP, LONG_CONSUMER_SESSION)
    kafka.create_topics({ONE: 4})
    with WireClient(kafka.port) as client, connect(kafka.bootstrap) as cluster:
        plan = Plan(bounce=(join(client),), restart_time_ms=1_000)
        before = live_group(cluster, GROUP).snapshot
        assert [topic.name for topic in before.topics] == [ONE]
        assert not open_partitions(before, plan)
        kafka.create_topics({NEW: 5})
        after = live_group(cluster, GROUP).snapshot
        assert after.group_epoch == before.group_epoch
        assert [(topic.name, topic.partitions) for topic in after.topics] == [(NEW, 5), (ONE, 4)]
        assert open_partitions(after, plan).startswith("5 subscribed partitions have no owner")


@pytest.mark.slow
@pytest.mark.kafka
def test_nor_while_a_deleted_topic_still_counts_as_matched(kafka):
    """The broker no longer describes its partitions, so only the group's log shows it. With the next heartbeat after
    that a real broker wrote another target assignment."""
    kafka.configure_group(LOSING, LONG_CONSUMER_SESSION)
    kafka.create_topics({KEPT: 4, DELETED: 2})
    # The member sends no heartbeat that would bring it the second topic.
    wait_coordinator_knows(kafka.bootstrap, [KEPT, DELETED])
    with WireClient(kafka.port) as client, connect(kafka.bootstrap) as cluster:
        plan = Plan(bounce=(join(client, LOSING, "vanishing-.*"),), restart_time_ms=1_000)

        def found():
            cluster.renew()
            return live_group(cluster, LOSING).snapshot

        def is_gone(snapshot):
            return {*snapshot.members[0].assignment} == {KEPT}

        until(lambda: {*found().members[0].assignment} == {KEPT, DELETED}, "not both topics are assigned", every_s=0.2)
        assert found().deleted_topics == ()
        admin = kafka.admin()
        (deletion,) = admin.delete_topics([DELETED]).values()
        deletion.result(20)
        after = until(found, "the topic does not disappear", accept=is_gone, every_s=0.2)
        assert after.deleted_topics == (DELETED,)
        predicted = simulate(after, plan)
        assert not predicted.exact
        assert predicted.caveats[0].startswith(f"{DELETED} does not exist any more, but may still count as matched")

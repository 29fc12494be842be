"""Consumer groups (KIP-848) on kgm serve with real clients: librdkafka's and Java's, dynamic and static, by name and by
regular expression, bounced, killed, and moved from the classic protocol and back while they live."""

import itertools

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kgm.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.cli.runner import kgm
from tests.kafka.members import members_of, wait_settled
from tests.server.clients.served_group import group
from tests.server.wire_client import WireClient
from tests.waiting import until

pytestmark = pytest.mark.slow
KINDS = pytest.mark.parametrize("kind", ["librdkafka", pytest.param("java", marks=pytest.mark.kafka)])
PATIENCE_S = 90
_GROUP_RESOURCE = 32


@pytest.fixture
def served(cluster):
    """A server whose consumer groups are quick: heartbeats every 200 ms, targets at once."""
    return cluster(
        {"t": 6, "u": 2},
        group_consumer_min_session_timeout_ms=500,
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_heartbeat_interval_ms=200,
        group_consumer_assignment_interval_ms=0,
    )


def settled(server, members, partitions):
    """Wait until the members own so many partitions, and the coordinator says the same, and has nothing left to do."""

    def as_seen_there():
        return sorted(
            (topic, index)
            for member in group(server).members
            for topic, held in member.consumer.assigned.items()
            for index in held
        )

    def are_settled():
        owned = sorted(row for member in members for row in member.assignment)
        return len(owned) == partitions and group(server).state == "Stable" and owned == as_seen_there()

    wait_settled(members, partitions, timeout_s=PATIENCE_S)
    until(are_settled, lambda: f"{partitions} partitions are not settled: {group(server)}", PATIENCE_S)


def set_for_group(server, **values):
    """Configurations of the group "g", by Kafka's names with underscores."""
    rows = [AlterableConfig(name=name.replace("_", "."), value=str(value)) for name, value in values.items()]
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name="g", configs=rows)
    with WireClient(server.port) as client:
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert [row.error_code for row in answer.responses] == [0]


@KINDS
def test_members_come_leave_and_bounce(served, kind):
    options = {"group": "g", "topics": ["t"], "protocol": "consumer"}
    with members_of(kind, served.bootstrap) as members:
        a = members.start(instance_id="a", **options)
        b = members.start(**options)
        settled(served, [a, b], 6)
        assert {len(a.assignment), len(b.assignment)} == {3}
        b.close()
        settled(served, [a], 6)
        c = members.start(instance_id="c", **options)
        settled(served, [a, c], 6)
        before, mine, moves = group(served), c.assignment, len(a.events)
        c.close()  # a static member goes with epoch -2, and keeps its seat
        until(lambda: group(served).state == "Reconciling", "the member did not go", PATIENCE_S)
        assert [m.consumer.member_epoch for m in group(served).members if m.group_instance_id == "c"] == [-2]
        again = members.start(instance_id="c", **options)
        settled(served, [a, again], 6)
        assert again.assignment == mine
        assert group(served).generation == before.generation  # which is the group epoch
        assert [event.kind for event in a.events[moves:] if event.kind in ("revoked", "lost", "assigned")] == []


@pytest.mark.few(1)
@KINDS
def test_a_killed_static_member_is_refused_until_its_seat_is_freed(served, kind):
    """UNRELEASED_INSTANCE_ID, and the removal that frees the seat at once."""
    options = {"group": "g", "topics": ["t"], "protocol": "consumer"}
    with members_of(kind, served.bootstrap) as members, members_of(kind, served.bootstrap) as others:
        a = members.start(instance_id="a", **options)
        wait_settled([a], 6, timeout_s=PATIENCE_S)
        a.crash()
        refused = others.start(instance_id="a", **options)
        refused.wait_for(lambda: refused.fatal is not None, "refusal", PATIENCE_S)
        assert refused.fatal == "UNRELEASED_INSTANCE_ID"
        assert group(served).generation == 2
        flags = ("--yes", "--no-audit", "--allow-live", "--assume-stopped")
        done = kgm("remove-members", "g", "-i", "a", "-b", served.bootstrap, *flags)
        assert done.code == 0, done.err
        assert (group(served).generation, group(served).state) == (3, "Empty")
        again = others.start(instance_id="a", **options)
        settled(served, [again], 6)


def test_a_killed_static_member_is_fenced_when_the_session_of_its_group_ends(served):
    """The configuration of the group says how long that is; the others then have its partitions."""
    set_for_group(served, consumer_session_timeout_ms=3_000)
    options = {"group": "g", "topics": ["t"], "protocol": "consumer"}
    with members_of("librdkafka", served.bootstrap) as members:
        a, b = (members.start(instance_id=name, **options) for name in "ab")
        settled(served, [a, b], 6)
        a.crash()
        settled(served, [b], 6)
        assert [member.group_instance_id for member in group(served).members] == ["b"]
        again = members.start(instance_id="a", **options)
        settled(served, [b, again], 6)


@KINDS
def test_members_subscribe_by_regular_expression(served, kind):
    with members_of(kind, served.bootstrap) as members:
        a = members.start(group="g", topics=["^t.*"], protocol="consumer")
        settled(served, [a], 6)
        b = members.start(group="g", topics=["^t.*"], protocol="consumer")
        settled(served, [a, b], 6)
        b.close()
        settled(served, [a], 6)


def test_a_regular_expression_follows_the_topics(served):
    """It is resolved again when there are new topics, though not within ten seconds."""
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    with members_of("librdkafka", served.bootstrap) as members:
        a = members.start(group="g", topics=["^t.*"], protocol="consumer")
        settled(served, [a], 6)
        admin.create_topics([NewTopic("two", 2, 1), NewTopic("other", 2, 1)])["two"].result()
        b = members.start(group="g", topics=["^(t|tw.)$"], protocol="consumer")
        settled(served, [a, b], 8)
        assert {topic for topic, _ in a.assignment | b.assignment} == {"t", "two"}
        b.close()
        settled(served, [a], 8)


def test_members_follow_topics_that_grow_and_go(served):
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    options = {"group": "g", "topics": ["t", "u"], "protocol": "consumer"}
    with members_of("librdkafka", served.bootstrap) as members:
        a, b = (members.start(**options) for _ in range(2))
        settled(served, [a, b], 8)
        admin.create_partitions([NewPartitions("u", 5)])["u"].result()
        settled(served, [a, b], 11)
        admin.delete_topics(["t"])["t"].result()
        settled(served, [a, b], 5)


def test_commits_go_with_the_epoch_of_the_member(served):
    producer = Producer({"bootstrap.servers": served.bootstrap})
    for partition, _ in itertools.product(range(6), range(5)):
        producer.produce("t", b"x", partition=partition)
    producer.flush()
    options = {"group": "g", "topics": ["t"], "protocol": "consumer", "instance_id": "a"}

    def positions():
        offsets = served.inspect(lambda view: dict(view.offsets("g")))
        return {partition: row.offset for (_, partition), row in offsets.items()}

    with members_of("librdkafka", served.bootstrap) as members:
        a = members.start(**options)
        a.wait_for(lambda: sum(event.data["count"] for event in a.of_kind("polled")) == 30, "records", PATIENCE_S)
        assert a.commit().kind == "committed"
        assert positions() == dict.fromkeys(range(6), 5)
        a.close()
        again = members.start(**options)
        settled(served, [again], 6)
        for partition in range(6):
            producer.produce("t", b"y", partition=partition)
        producer.flush()
        again.wait_for(lambda: sum(e.data["count"] for e in again.of_kind("polled")) == 6, "new ones only", PATIENCE_S)
        assert again.commit().kind == "committed"
    assert positions() == dict.fromkeys(range(6), 6)


@KINDS
def test_a_group_is_moved_to_the_new_protocol_and_back_while_it_works(served, kind):
    """One member after the other is restarted with the other protocol; meanwhile both speak in one group."""
    with members_of(kind, served.bootstrap) as members:

        def start(protocol, assignor=None):
            return members.start(group="g", topics=["t"], protocol=protocol, assignor=assignor)

        def moved(there, protocol, group_type, assignor=None):
            for at in range(3):
                there[at].close()
                there[at] = start(protocol, assignor)
                wait_settled(there, 6, timeout_s=PATIENCE_S)
            until(
                lambda: (group(served).group_type, group(served).state) == (group_type, "Stable"),
                f"no {group_type} group: {group(served)}",
                PATIENCE_S,
            )

        # Of groups with user data in their assignments, as librdkafka writes it for cooperative-sticky, Kafka lets none up.
        assignor = "cooperative-sticky" if kind == "java" else "range"
        first = [start("classic", assignor) for _ in range(3)]
        wait_settled(first, 6, timeout_s=PATIENCE_S)
        assert group(served).group_type == "classic"
        epochs = [group(served).generation]
        moved(first, "consumer", "consumer")
        epochs.append(group(served).generation)
        moved(first, "classic", "classic", assignor)
        epochs.append(group(served).generation)
        assert epochs == sorted(set(epochs))


def test_the_removal_of_the_last_member_with_the_new_protocol_is_announced(served):
    """A mixed group becomes a classic one, which an operator is told before."""
    options = {"group": "g", "topics": ["t"]}
    with members_of("librdkafka", served.bootstrap) as members:
        a = members.start(instance_id="a", protocol="consumer", **options)
        b = members.start(instance_id="b", protocol="classic", assignor="range", **options)
        settled(served, [a, b], 6)
        flags = ("--no-audit", "--allow-live", "--assume-stopped")
        wanted = ("remove-members", "g", "-i", "a", "-b", served.bootstrap, *flags)
        planned = kgm(*wanted, "--dry-run")
        assert planned.code == 0
        assert "group g becomes a classic group and rebalances; the member that stays uses the classic" in planned.err
        assert group(served).group_type == "consumer"
        a.crash()  # it would come back at once
        done = kgm(*wanted, "--yes")
        assert done.code == 0
        assert "group g becomes a classic group and rebalances" in done.err
        wait_settled([b], 6, timeout_s=PATIENCE_S)
        assert group(served).group_type == "classic"


@pytest.mark.long
def test_many_members(served):
    """Twenty members of one group settle, and go on when five of them are killed."""
    set_for_group(served, consumer_session_timeout_ms=4_000)
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("wide", 40, 1)])["wide"].result()
    with members_of("librdkafka", served.bootstrap) as members:
        started = [members.start(group="g", topics=["wide"], protocol="consumer") for _ in range(20)]
        settled(served, started, 40)
        assert {len(member.assignment) for member in started} == {2}
        for member in started[:5]:
            member.crash()
        settled(served, started[5:], 40)

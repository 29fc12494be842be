"""Real librdkafka consumers, producers and admin clients on the embedded server."""

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.cli.runner import kgm
from tests.kafka.members import RdMembers, wait_settled
from tests.kafka.records import produce
from tests.server.clients.served_group import group, now_ms, session_end_ms, wait_heartbeats
from tests.waiting import until

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}


def admin(server):
    """To be kept in a variable: a client that is collected never resolves its futures."""
    return AdminClient({"bootstrap.servers": server.bootstrap, **QUIET})


def fill(server, topic, count, partitions, **config):
    """Produce `count` records, spread evenly."""
    values = (f"value-{n}" for n in range(count))
    produce(server.bootstrap, topic, values, range(partitions), timeout_s=20, **{"linger.ms": 5, **config})


def static_pair(members, **options):
    """Two static members with a stable group of both; a restart fits into their sessions, however busy the machine is."""
    options = {"session_timeout_ms": 30_000, **options}
    pair = [members.start(group="g", topics=["t"], instance_id=name, **options) for name in ("a", "b")]
    wait_settled(pair, 6)
    return pair


def test_static_members_join_and_a_bounce_disturbs_nobody(cluster):
    server = cluster()
    with RdMembers(server.bootstrap) as members:
        a, b = static_pair(members, assignor="range")
        until(lambda: group(server).state == "Stable", "the group is not stable", 20)
        before, seen_by_b, owned = group(server), len(b.events), a.assignment
        assert sorted(m.group_instance_id for m in before.members) == ["a", "b"]
        a.close()
        again = members.start(group="g", topics=["t"], instance_id="a", assignor="range")
        assert again.wait_assigned(3) == owned
        after = group(server)
        assert (after.generation, after.state) == (before.generation, "Stable")
        assert [e for e in b.events[seen_by_b:] if e.kind in ("revoked", "lost", "assigned")] == []
        ids = {m.group_instance_id: m.member_id for m in before.members}
        ids_after = {m.group_instance_id: m.member_id for m in after.members}
        assert ids_after["b"] == ids["b"]
        assert ids_after["a"] != ids["a"]


def test_a_static_member_that_crashed_comes_back_without_a_rebalance(cluster):
    server = cluster()
    with RdMembers(server.bootstrap) as members:
        a, b = static_pair(members, assignor="cooperative-sticky")
        until(lambda: group(server).state == "Stable", "the group is not stable", 20)
        generation, seen_by_b, owned = group(server).generation, len(b.events), a.assignment
        a.crash()
        again = members.start(group="g", topics=["t"], instance_id="a", assignor="cooperative-sticky")
        assert again.wait_assigned(3) == owned
        assert group(server).generation == generation
        assert [e for e in b.events[seen_by_b:] if e.kind in ("revoked", "lost", "assigned")] == []


def test_a_static_member_tries_until_a_full_group_has_room(cluster):
    """As the simulation plays it: the next process of a member is one too many until the last one is gone."""
    server = cluster(group_max_size=2)
    with RdMembers(server.bootstrap) as members:
        a, _ = static_pair(members, assignor="range", session_timeout_ms=60_000)
        until(lambda: group(server).state == "Stable", "the group is not stable", 20)
        before, owned = group(server), a.assignment
        a.close()
        again = members.start(group="g", topics=["t"], instance_id="a", assignor="range", session_timeout_ms=60_000)
        until(lambda: len(again.of_kind("error")) > 1, "it is not refused again", 60)
        assert group(server).generation == before.generation
        flags = ("--yes", "--assume-stopped", "--guard-window", "0s")
        done = kgm("remove-members", "g", "-i", "a", "-b", server.bootstrap, *flags)
        assert (done.code, "it rejoined as member a-" in done.out) == (7, True), str(done)
        assert again.wait_assigned(3) == owned
        assert 1 <= group(server).generation - before.generation <= 2


def test_dynamic_members_rebalance_when_one_comes_and_when_one_leaves(cluster):
    server = cluster()
    with RdMembers(server.bootstrap) as members:
        a = members.start(group="g", topics=["t"], assignor="range")
        a.wait_assigned(6)
        first = group(server).generation
        b = members.start(group="g", topics=["t"], assignor="range")
        wait_settled([a, b], 6)
        second = group(server).generation
        assert second > first
        assert a.of_kind("revoked")
        b.close()
        a.wait_assigned(6)
        assert group(server).generation > second
        assert [m.group_instance_id for m in group(server).members] == [None]


def test_a_dynamic_member_that_crashed_is_expelled_after_its_session(cluster):
    server = cluster()
    with RdMembers(server.bootstrap) as members:
        options = {"group": "g", "topics": ["t"], "assignor": "range", "session_timeout_ms": 1000}
        a, b = members.start(**options), members.start(**options)
        wait_settled([a, b], 6)
        before_ms = now_ms()
        wait_heartbeats(server, 1)
        b.crash()
        end_ms = session_end_ms(group(server), b.member_id)
        assert before_ms <= end_ms - 1000 <= now_ms(), "a session begins with the last heartbeat"
        a.wait_assigned(6)
        assert now_ms() >= end_ms
        assert len(group(server).members) == 1


def test_a_second_owner_of_an_instance_id_fences_the_first(cluster):
    server = cluster()
    with RdMembers(server.bootstrap) as members:
        a, b = static_pair(members, assignor="range")
        seen_by_b, owned = len(b.events), a.assignment
        twin = members.start(group="g", topics=["t"], instance_id="a", assignor="range")
        a.wait_event("fatal")
        assert a.fatal in ("FENCED_INSTANCE_ID", "_FENCED")
        assert twin.wait_assigned(3) == owned
        assert [e for e in b.events[seen_by_b:] if e.kind in ("revoked", "lost")] == []


def test_cooperative_members_keep_what_they_need_not_give(cluster):
    server = cluster()
    with RdMembers(server.bootstrap) as members:
        a, b = static_pair(members, assignor="cooperative-sticky")
        before = {a: a.assignment, b: b.assignment}
        seen = {a: len(a.events), b: len(b.events)}
        c = members.start(group="g", topics=["t"], instance_id="c", assignor="cooperative-sticky")
        wait_settled([a, b, c], 6)
        until(lambda: {len(m.assignment) for m in (a, b, c)} == {2}, "the partitions are not shared evenly", 20)
        for member, owned in before.items():
            assert member.assignment < owned
            assert not any(len(e.assignment) < 2 for e in member.events[seen[member] :])


def test_offsets_are_kept_over_a_restart(cluster):
    server = cluster()
    client = admin(server)
    fill(server, "t", 60, 6)
    with RdMembers(server.bootstrap) as members:
        a = members.start(group="g", topics=["t"], instance_id="a")
        a.wait_assigned(6)

        def offsets():
            wanted = [ConsumerGroupTopicPartitions("g")]
            result = client.list_consumer_group_offsets(wanted)["g"].result()
            return {p.partition: p.offset for p in result.topic_partitions}

        until(
            lambda: a.commit().kind == "committed" and offsets() == dict.fromkeys(range(6), 10), "not all committed", 20
        )
        a.close()
        fill(server, "t", 6, 6)
        again = members.start(group="g", topics=["t"], instance_id="a")
        again.wait_assigned(6)
        until(
            lambda: again.commit().kind == "committed" and offsets() == dict.fromkeys(range(6), 11), "not gone on", 20
        )


def test_admin_describes_and_lists_and_deletes_groups(cluster):
    server = cluster()
    client = admin(server)
    with RdMembers(server.bootstrap) as members:
        a, b = static_pair(members, assignor="roundrobin", client_id="app", session_timeout_ms=3000)
        until(lambda: group(server).state == "Stable", "the group is not stable", 20)
        described = client.describe_consumer_groups(["g"])["g"].result()
        assert described.state is ConsumerGroupState.STABLE
        assert described.partition_assignor == "roundrobin"
        assert (described.coordinator.host, described.coordinator.port) == ("127.0.0.1", server.port)
        rows = {m.group_instance_id: m for m in described.members}
        assert rows.keys() == {"a", "b"}
        assert {(p.topic, p.partition) for p in rows["a"].assignment.topic_partitions} == a.assignment
        assert (rows["a"].host, rows["a"].client_id) == ("/127.0.0.1", "app")
        listed = client.list_consumer_groups().result().valid
        assert [(g.group_id, g.state) for g in listed] == [("g", ConsumerGroupState.STABLE)]
        assert client.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result().valid == []
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            client.delete_consumer_groups(["g"])["g"].result()
        a.crash()
        b.crash()
    until(lambda: not group(server).members, "the members do not expire", 20)
    client.delete_consumer_groups(["g"])["g"].result()
    assert group(server) is None


def test_admin_alters_offsets_and_reads_the_ends_of_logs(cluster):
    server = cluster()
    client = admin(server)
    fill(server, "t", 12, 6)
    spec = {TopicPartition("t", 1): OffsetSpec.latest(), TopicPartition("t", 2): OffsetSpec.earliest()}
    ends = {p.partition: f.result().offset for p, f in client.list_offsets(spec).items()}
    assert ends == {1: 2, 2: 0}
    wanted = ConsumerGroupTopicPartitions("simple", [TopicPartition("t", 1, 1)])
    client.alter_consumer_group_offsets([wanted])["simple"].result()
    result = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("simple")])["simple"].result()
    assert [(p.partition, p.offset) for p in result.topic_partitions] == [(1, 1)]
    assert group(server, "simple").state == "Empty"


def test_admin_creates_topics_and_describes_the_cluster(cluster):
    server = cluster({})
    client = admin(server)
    client.create_topics([NewTopic("made", 4, 1)])["made"].result()
    assert len(client.list_topics(timeout=10).topics["made"].partitions) == 4
    described = client.describe_cluster().result()
    assert described.cluster_id == "kgm-embedded-cluster"
    assert [(node.host, node.port) for node in described.nodes] == [("127.0.0.1", server.port)]
    assert client.list_topics("nope", timeout=10).topics["nope"].error.name() == "UNKNOWN_TOPIC_OR_PART"


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_idempotent_and_compressing_producers(cluster, codec):
    server = cluster()
    fill(server, "t", 3_000, 6, **{"enable.idempotence": True, "compression.type": codec})
    spec = {TopicPartition("t", p): OffsetSpec.latest() for p in range(6)}
    client = admin(server)
    ends = [f.result().offset for f in client.list_offsets(spec).values()]
    assert ends == [500] * 6


@pytest.mark.long
def test_many_static_members_bounced_at_once_disturb_nobody(cluster):
    count, each = 60, 4
    server = cluster({"t": count}, group_initial_rebalance_delay_ms=500)
    consumers: dict[int, Consumer] = {}
    seen: dict[int, list[str]] = {}

    def called(n, what, parts):
        if parts:  # a rebalance that changes nothing says so with an empty list
            seen[n].append(f"{what} {len(parts)}")

    def start(n):
        config = {
            "bootstrap.servers": server.bootstrap,
            "group.id": "g",
            "group.instance.id": f"i{n}",
            "session.timeout.ms": 30_000,
            "partition.assignment.strategy": "cooperative-sticky",
            **QUIET,
        }
        seen[n] = []
        consumers[n] = Consumer(config)
        consumers[n].subscribe(
            ["t"],
            on_assign=lambda _, parts: called(n, "assigned", parts),
            on_revoke=lambda _, parts: called(n, "revoked", parts),
        )

    def settled():
        for consumer in consumers.values():
            consumer.poll(0)
        found = group(server)
        each_has_one = all(len(consumer.assignment()) == 1 for consumer in consumers.values())
        return each_has_one and all(seen.values()) and found.state == "Stable" and len(found.members) == count

    for n in range(count):
        start(n)
    until(settled, "the group does not settle", timeout_s=60)
    generation = group(server).generation
    before = {n: list(calls) for n, calls in seen.items()}
    bounced = range(0, count, each)
    for n in bounced:
        consumers[n].close()
        start(n)
    until(settled, "the bounced do not come back", timeout_s=60)
    assert group(server).generation == generation
    assert seen == before | {n: ["assigned 1"] for n in bounced}
    for consumer in consumers.values():
        consumer.close()

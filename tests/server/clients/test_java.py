"""Java 4.3 consumers, and Kafka's own command line tools, on the embedded server."""

import subprocess

import pytest

from tests.kafka.java_tools import consumer_group_command, java_command
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.server.clients.served_group import group, wait_heartbeats
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]


def table(text):
    """The rows of a ConsumerGroupCommand table, as dicts by column."""
    lines = [line for line in text.splitlines() if line.strip()]
    header = lines[0].split()
    return [dict(zip(header, line.split(), strict=False)) for line in lines[1:]]


def console_producer(server, lines, *properties):
    """Kafka's console producer, idempotent by default."""
    options = [option for text in properties for option in ("--command-property", text)]
    where = ["--bootstrap-server", server.bootstrap, "--topic", "t"]
    main_class = "org.apache.kafka.tools.ConsoleProducer"
    command = java_command(main_class, *where, *options)
    return subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_static_members_are_bounced_without_a_rebalance(cluster, assignor):
    server = cluster()
    with JavaMembers(server.bootstrap) as members:
        options = {"group": "g", "topics": ["t"], "assignor": assignor, "session_timeout_ms": 30_000}
        a, b, c = (members.start(instance_id=name, **options) for name in "abc")
        wait_settled([a, b, c], 6)
        until(
            lambda: group(server).state == "Stable" and all(len(m.assignment) == 2 for m in (a, b, c)), "not stable", 30
        )
        wait_heartbeats(server)  # a cooperative group may have one more round to go
        generation = group(server).generation
        leader = group(server).leader
        for member in (a, b, c):  # the leader is among them (KIP-814)
            others = [m for m in (a, b, c) if m is not member]
            seen = {m: len(m.events) for m in others}
            owned, name = member.assignment, member.options.instance_id
            member.close()
            back = members.start(instance_id=name, **options)
            assert back.wait_assigned(2) == owned
            for other in others:
                assert [e for e in other.events[seen[other] :] if e.kind in ("revoked", "lost", "assigned")] == []
            a, b, c = (back if m is member else m for m in (a, b, c))
        assert (group(server).generation, group(server).state) == (generation, "Stable")
        assert group(server).leader != leader


def test_dynamic_members_come_and_go(cluster):
    server = cluster()
    with JavaMembers(server.bootstrap) as members:
        a = members.start(group="g", topics=["t"])
        a.wait_assigned(6)
        b = members.start(group="g", topics=["t"])
        wait_settled([a, b], 6)
        b.close()
        a.wait_assigned(6)
        assert len(group(server).members) == 1


def test_a_second_owner_of_an_instance_id_fences_the_first(cluster):
    server = cluster()
    with JavaMembers(server.bootstrap) as members:
        a = members.start(group="g", topics=["t"], instance_id="a")
        a.wait_assigned(6)
        twin = members.start(group="g", topics=["t"], instance_id="a")
        a.wait_event("fatal")
        assert "FENCED" in a.fatal.upper()
        twin.wait_assigned(6)


def test_java_and_librdkafka_share_a_group(cluster):
    server = cluster()
    with JavaMembers(server.bootstrap) as java, RdMembers(server.bootstrap) as rd:
        options = {"group": "g", "topics": ["t"], "assignor": "range", "session_timeout_ms": 30_000}
        a, b = java.start(instance_id="java", **options), rd.start(instance_id="rd", **options)
        wait_settled([a, b], 6)
        until(lambda: group(server).state == "Stable", "the group is not stable", 30)
        generation = group(server).generation
        owned = b.assignment
        b.crash()
        again = rd.start(instance_id="rd", **options)
        assert again.wait_assigned(3) == owned
        assert group(server).generation == generation


def test_a_server_without_the_consumer_protocol_refuses_it(cluster):
    server = cluster(group_coordinator_rebalance_protocols="classic")
    with JavaMembers(server.bootstrap) as members:
        a = members.start(group="g", topics=["t"], protocol="consumer")
        a.wait_event("fatal", "error")
        assert group(server) is None


@pytest.mark.long
def test_consumer_group_command(cluster):
    server = cluster()
    console_producer(server, [f"line {n}" for n in range(24)])
    with JavaMembers(server.bootstrap) as members:
        a, b = (members.start(group="g", topics=["t"], instance_id=name, client_id="app") for name in "ab")
        wait_settled([a, b], 6)
        # A partition without records has no offset until its member has looked up its position.
        until(
            lambda: a.commit().kind == b.commit().kind == "committed" and _offsets(server) == (6, 24),
            "not committed",
            30,
        )

        rows = table(consumer_group_command(server.bootstrap, "--describe", "--group", "g", "--members", "--verbose"))
        assert {row["GROUP-INSTANCE-ID"] for row in rows} == {"a", "b"}
        assert [(row["HOST"], row["CLIENT-ID"], row["#PARTITIONS"]) for row in rows] == [("/127.0.0.1", "app", "3")] * 2

        (row,) = table(consumer_group_command(server.bootstrap, "--describe", "--group", "g", "--state"))
        assert row["COORDINATOR"] == f"127.0.0.1:{server.port}"
        assert "Stable" in row.values()

        rows = table(consumer_group_command(server.bootstrap, "--describe", "--group", "g"))
        assert len(rows) == 6
        assert sum(int(row["CURRENT-OFFSET"]) for row in rows) == sum(int(row["LOG-END-OFFSET"]) for row in rows) == 24
        assert {row["LAG"] for row in rows} == {"0"}

        assert consumer_group_command(server.bootstrap, "--list").split() == ["g"]
        listed = consumer_group_command(server.bootstrap, "--list", "--state", "--type")
        assert "Stable" in listed
        assert "Classic" in listed
        a.close_leave()
        b.close_leave()

    until(lambda: not group(server).members, "the members are still there", 30)
    reset = ("--reset-offsets", "--group", "g", "--topic", "t", "--to-earliest", "--execute")
    consumer_group_command(server.bootstrap, *reset)
    assert _committed(server) == 0
    consumer_group_command(server.bootstrap, "--delete-offsets", "--group", "g", "--topic", "t:0")
    assert len(server.inspect(lambda c: dict(c.offsets("g")))) == 5
    deleted = consumer_group_command(server.bootstrap, "--delete", "--group", "g")
    assert "successful" in deleted
    assert group(server) is None


def _committed(server):
    return server.inspect(lambda c: sum(row.offset for row in c.offsets("g").values()))


def _offsets(server):
    """How many partitions have an offset, and the sum of these."""
    return server.inspect(lambda c: len(c.offsets("g"))), _committed(server)

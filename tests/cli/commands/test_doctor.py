"""`kgm doctor` on real groups, with and without problems: its findings and its exit codes."""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
import pytest

from kgm.cli import main
from kgm.client import AdminClient, connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.history import schema
from kgm.model.errors import UnreachableError
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.client.faults import FaultProxy
from tests.client.joiners import form_group
from tests.history.store.stores import write_store
from tests.kafka.members import RdMembers, wait_settled

pytestmark = pytest.mark.slow


@pytest.fixture
def server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"orders": 3}, settings=settings) as running:
        yield running


@pytest.fixture
def groups(server):
    """`healthy`: three static members. `ill`: a member with a random id, a dynamic one, and a partition without a consumer."""
    joiners = form_group(server, "healthy", ["seat-0", "seat-1", "seat-2"], "orders")
    joiners += form_group(server, "ill", ["app-7d9f8b6c5d-x2x9z", None], "orders")
    yield server.bootstrap
    for joiner in joiners:
        joiner.close()


def examined(run):
    document = json.loads(run.out)
    assert document["schema"] == "kgm.doctor/v1"
    return document["data"], {(one["group_id"], one["check"]): one for one in document["data"]["findings"]}


def test_checks_that_cannot_run_are_told(groups, server):
    with FaultProxy((server.host, server.port)) as proxy:
        proxy.hide_offsets_topic()
        healthy = kgm("doctor", "healthy", "-b", proxy.bootstrap)
        blind = (
            "duplicate-instance-id, frequent-rebalances, idle-group, max-poll-exceeded, offsets-expire-soon, "
            "rejoins-refused, session-too-short"
        )
        assert (healthy.code, healthy.err.splitlines()[0]) == (7, f"error: 7 checks could not run: {blind}")
        chosen = kgm("doctor", "healthy", "-b", proxy.bootstrap, "--check", "classic-protocol,unowned-partitions")
        assert (chosen.code, chosen.err) == (0, "")
        skipped = examined(kgm("doctor", "healthy", "-b", proxy.bootstrap, "-o", "json"))[0]["skipped"]
        told = ", ".join(one["checks"] for one in skipped).split(", ")
        assert {"commits-refused", "duplicate-instance-id"} <= {*told}


def test_a_healthy_group_and_an_ill_one(groups):
    healthy = kgm("doctor", "healthy", "-b", groups)
    assert (healthy.code, healthy.err) == (0, "")
    assert "1 group examined: 1 info" in healthy.out.splitlines()
    run = kgm("doctor", "-b", groups, "-o", "json")
    assert run.code == 8
    data, found = examined(run)
    assert data["groups"] == ["healthy", "ill"]
    assert {check for group, check in found if group == "ill"} == {
        "classic-protocol",
        "mixed-membership",
        "random-instance-id",
        "unowned-partitions",
    }
    assert [check for group, check in found if group == "healthy"] == ["classic-protocol"]
    unowned = found["ill", "unowned-partitions"]
    assert (unowned["severity"], unowned["evidence"][0], unowned["about"]) == (
        "error",
        "without an owner: orders[2]",
        ["orders-2"],
    )
    assert unowned["next_command"] == f"kgm describe ill --offsets -b {groups}"
    assert [one["severity"] for one in data["findings"]] == ["error", "warning", "warning", "info", "info"]
    assert data["skipped"] == []
    assert "findings of severity warning or above in: ill" in run.err


def test_the_next_commands_can_be_run(groups):
    import shlex

    _, found = examined(kgm("doctor", "ill", "-b", groups, "-o", "json"))
    for one in found.values():
        program, *words = shlex.split(one["next_command"])
        assert program == "kgm"
        few = ["--draws", "2"] if words[0] == "simulate-bounce" else []
        assert kgm(*words, *few, "-b", groups).code == 0, one


@pytest.mark.parametrize(("fail_on", "code"), [("error", 8), ("info", 8), ("never", 0)])
def test_the_severity_that_fails_can_be_chosen(groups, fail_on, code):
    assert kgm("doctor", "ill", "-b", groups, "--fail-on", fail_on).code == code


def test_every_format(groups):
    table = kgm("doctor", "ill", "-b", groups)
    assert "without an owner: orders[2]" in table.out
    assert "-> kgm describe ill --offsets" in table.out
    csv = kgm("doctor", "ill", "-b", groups, "-o", "csv").out.splitlines()
    assert csv[0] == "severity,group_id,check,message,evidence,next_command,about"
    assert len(csv) == 1 + 4
    assert kgm("doctor", "ill", "-b", groups, "-o", "name").out.splitlines()[0] == "ill/unowned-partitions"


def test_where_no_group_could_be_examined_there_are_not_said_to_be_no_findings(groups):
    run = kgm("doctor", "no-such-group", "-b", groups)
    assert (run.code, run.out.splitlines()) == (3, ["no group could be examined"])


def test_groups_that_cannot_be_examined(groups, tmp_path):
    both = kgm("doctor", "healthy", "no-such-group", "-b", groups)
    assert both.code == 7
    assert "group 'no-such-group' does not exist" in both.err
    assert kgm("doctor", "--match", "zzz*", "-b", groups).code == 3
    assert kgm("doctor", "--fail-on", "x", "-b", groups).code == 2
    assert kgm("doctor", "--history", str(tmp_path), "-b", groups).code == 2
    assert kgm("doctor", "-b", "127.0.0.1:1").code == 5


def test_a_built_history_has_findings_too(groups, tmp_path):
    def table(name, **values):
        columns = schema.TABLES[name]
        return pa.Table.from_pylist([{field.name: values.get(field.name) for field in columns}], schema=columns)

    advice = table(
        "gold_timeout_advice", partition=0, group_id="healthy", verdict="raise", now_ms=10_000, advised_ms=45_000,
        restarts=7, max_ms=31_000, advice="raise it",
    )  # fmt: skip
    alarm = table(
        "gold_alarm",
        partition=0,
        offset=5,
        timestamp=1,
        group_id="healthy",
        alarm="zombie-seat",
        seat="seat-1",
        evidence=["it was"],
    )
    store = write_store(tmp_path / "store", {"gold_timeout_advice": advice, "gold_alarm": alarm}, cluster=None)
    run = kgm("doctor", "healthy", "-b", groups, "--history", str(store), "-o", "json")
    data, found = examined(run)
    assert (run.code, data["history"]) == (8, str(store))
    assert found["healthy", "session-timeout-advice"]["evidence"] == ["raise it", "7 restarts, the longest 31s"]
    zombie = found["healthy", "history-zombie-seat"]
    assert (zombie["severity"], zombie["about"], zombie["evidence"]) == ("error", ["seat-1"], ["it was"])
    # A group of the same name in another cluster is another group.
    own = json.loads(run.out)["cluster"]["id"]
    for cluster, code in ((None, 8), (own, 8), ("another", 6)):
        store = write_store(
            tmp_path / f"of-{cluster}", {"gold_alarm": alarm, "gold_timeout_advice": advice}, cluster=cluster
        )
        found = kgm("doctor", "healthy", "-b", groups, "--history", str(store))
        assert found.code == code
        assert (f"{store} is about cluster another, and this is {own}" in found.err) == (code == 6)


@pytest.mark.kafka
def test_a_member_of_the_consumer_protocol_that_is_away(kafka):
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: 2})
    with RdMembers(kafka.bootstrap) as members:
        running = [
            members.start(group=group, topics=[topic], instance_id=f"seat-{i}", protocol="consumer") for i in range(2)
        ]
        wait_settled(running, 2)
        well = kgm("doctor", group, "-b", kafka.bootstrap, "-o", "json")
        running[0].close()
        _, found = examined(kgm("doctor", group, "-b", kafka.bootstrap, "--window", "0s", "-o", "json"))
    assert (well.code, examined(well)[1]) == (0, {})
    away = found[group, "away-members"]
    assert away["about"] == ["seat-0"]
    assert away["next_command"] == (f"kgm remove-members {group} --instance-ids seat-0 --dry-run -b {kafka.bootstrap}")


@pytest.mark.kafka
def test_a_consumer_group_that_keeps_rebalancing(kafka):
    group, topic, restarts = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}", 4
    kafka.create_topics({topic: 2})
    with RdMembers(kafka.bootstrap) as members:

        def started():
            return members.start(group=group, topics=[topic], protocol="consumer")

        stays, restless = started(), started()
        wait_settled([stays, restless], 2)
        for _ in range(restarts):
            restless.close()
            wait_settled([stays], 2)
            restless = started()
            wait_settled([stays, restless], 2)
        _, found = examined(kgm("doctor", group, "-b", kafka.bootstrap, "--window", "0s", "-o", "json"))
        with connect(kafka.bootstrap, timeout_ms=20_000) as cluster:
            (described,) = cluster.describe_groups([group])
    restless = found[group, "frequent-rebalances"]
    # Each change that the members saw took a rebalance, and there are no more of them than epochs.
    assert 2 * restarts <= int(restless["message"].split()[0]) <= described.assignment_epoch


def read_since_assigned(member):
    """Records since its last assignment: it may have read them before."""
    events = member.events
    last = max(i for i, event in enumerate(events) if event.kind == "assigned")
    return sum(event.data["count"] for event in events[last:] if event.kind == "polled")


@pytest.mark.kafka
def test_members_that_do_not_commit_and_sessions_that_are_too_short(kafka):
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: 2})
    kafka.produce(topic, [b"x"] * 10, partition=0)
    with RdMembers(kafka.bootstrap) as members:
        running = [
            members.start(group=group, topics=[topic], instance_id=f"seat-{i}", session_timeout_ms=6000)
            for i in range(2)
        ]
        wait_settled(running, 2)
        owner = next(one for one in running if (topic, 0) in one.assignment)
        owner.wait_for(lambda: read_since_assigned(owner) == 10, "records")
        assert owner.commit().kind == "committed"
        kafka.produce(topic, [b"x"] * 5, partition=0)
        data, found = examined(kgm("doctor", group, "-b", kafka.bootstrap, "--window", "1s", "-o", "json"))
        stalled = found[group, "stalled-owner"]
        assert stalled["about"] == [owner.options.instance_id]
        assert f"lag 5 in {topic}[0]" in stalled["evidence"][0]
        assert data["skipped"] == []
        # A crash that lasts longer than the session: the member is removed, and joins again.
        other = next(one for one in running if one is not owner)
        seat = other.options.instance_id
        other.crash()
        assert (
            kgm("wait", group, "-b", kafka.bootstrap, "--for", "members=1", "--for", "stable", "--timeout", "60s").code
            == 0
        )
        again = members.start(group=group, topics=[topic], instance_id=seat, session_timeout_ms=6000)
        wait_settled([again, owner], 2)
        run = kgm("doctor", group, "-b", kafka.bootstrap, "--window", "0s", "-o", "json")
        data, found = examined(run)
    short = found[group, "session-too-short"]
    assert (short["severity"], short["about"]) == ("warning", [seat])
    assert "its session timeout is 6s" in short["evidence"][0]
    (skipped,) = data["skipped"]
    assert skipped["why"] == "groups were described once (--window 0s)"
    assert set(skipped["checks"].split(", ")) == {"growing-lag", "stalled-owner", "stalled-partition", "rebalancing"}


def test_an_unavailable_coordinator_is_a_finding(groups, monkeypatch, capsys):
    describe = AdminClient.describe_groups
    lost = UnreachableError(
        "the coordinator of group 'ill' did not answer within 5 ms", facts=("last: x",), group_id="ill"
    )

    def one_is_lost(self, ids, **more):
        return [lost if one == "ill" else found for one, found in zip(ids, describe(self, ids, **more), strict=True)]

    monkeypatch.setattr(AdminClient, "describe_groups", one_is_lost)
    assert main.run(["doctor", "-b", groups, "-o", "json"]) == 8
    findings = json.loads(capsys.readouterr().out)["data"]["findings"]
    (one,) = [one for one in findings if one["group_id"] == "ill"]
    assert (one["check"], one["severity"], one["evidence"]) == ("coordinator-unavailable", "error", ["last: x"])
    assert one["next_command"] == f"kgm config test -g ill -b {groups}"

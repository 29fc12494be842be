"""`kgm wait` and real clients: what it waits for, how long, and what it prints when the conditions are not met."""

from __future__ import annotations

import json
import subprocess
import uuid

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.cli.forked import forked_command
from tests.cli.runner import kgm, kgm_in_time
from tests.kafka.members import RdMembers, wait_settled
from tests.kafka.records import commit

pytestmark = pytest.mark.slow
PATIENCE = ["--timeout", "60s", "--interval", "100ms"]


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def cluster(request):
    """(bootstrap, topic)"""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
        with serve_in_thread(topics={topic: 4}, settings=settings) as server:
            yield server.bootstrap, topic
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({topic: 4})
        kafka.produce(topic, [b"x"] * 20)
        yield kafka.bootstrap, topic


class Waiting:
    """`kgm wait` in a process, while the test continues."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*forked_command(), "wait", *arguments, "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self):
        out, err = self.process.communicate(timeout=90)
        return self.process.returncode, json.loads(out), err


def test_from_a_group_that_does_not_exist_to_one_that_is_empty_again(cluster):
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    come = Waiting(group, "-b", bootstrap, "--for", "members=2", "--for", "stable", *PATIENCE)
    with RdMembers(bootstrap) as members:
        running = [members.start(group=group, topics=[topic], session_timeout_ms=30_000) for _ in range(2)]
        wait_settled(running, 4)
        code, document, err = come.end()
        assert (code, err, document["schema"]) == (0, "", "kgm.wait/v1")
        data = document["data"]
        assert (data["met"], data["state"], data["members"]) == (True, "Stable", 2)
        assert [one["condition"] for one in data["conditions"]] == ["members=2", "stable"]
        gone = Waiting(group, "-b", bootstrap, "--for", "empty", *PATIENCE)
        for member in running:
            member.close()
        code, document, _ = gone.end()
    assert (code, document["data"]["met"]) == (0, True)


def test_what_was_seen_last_is_printed(cluster):
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    with RdMembers(bootstrap) as members:
        wait_settled([members.start(group=group, topics=[topic], session_timeout_ms=30_000)], 4)
        late = kgm_in_time(
            lambda run: "1 member" in run.err,
            "wait", group, "-b", bootstrap, "--for", "stable", "--for", "members>=3", "-o", "json",
        )  # fmt: skip
        assert late.code == 8
        document = json.loads(late.out)
        assert document["errors"][0]["code"] == "CONDITION_NOT_MET"
        assert [(one["condition"], one["met"], one["seen"]) for one in document["data"]["conditions"]] == [
            ("stable", True, "Stable"), ("members>=3", False, "1 member"),
        ]  # fmt: skip
        assert f"error: group {group!r}: not met within " in late.err
        assert "s: members>=3\n  members>=3: 1 member\n" in late.err
        why = "met at the last poll, but not for 1m"
        restless = kgm_in_time(
            lambda run: why in run.err, "wait", group, "-b", bootstrap, "--for", "stable", "--settle", "1m"
        )
        assert restless.code == 8
        assert why in restless.err
        table = kgm("wait", group, "-b", bootstrap, "--for", "stable")
        assert (table.code, table.out.split()) == (
            0,
            ["GROUP", "CONDITION", "MET", "SEEN", group, "stable", "yes", "Stable"],
        )
        assert kgm("wait", group, "-b", bootstrap, "--for", "stable", "-o", "name").out == f"{group}\n"


@pytest.mark.kafka
def test_lag_is_waited_for(kafka):
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: 2})
    kafka.produce(topic, [b"x"] * 40)
    with RdMembers(kafka.bootstrap) as members:
        member = members.start(group=group, topics=[topic], session_timeout_ms=30_000)
        member.wait_assigned(2)
        why = "no committed offset for"
        asked = ("wait", group, "-b", kafka.bootstrap, "--for", "lag<=100")
        unknown = kgm_in_time(lambda run: why in run.err, *asked)
        assert (unknown.code, why in unknown.err) == (8, True), unknown.err
        waiting = Waiting(group, "-b", kafka.bootstrap, "--for", "lag<=0", *PATIENCE)
        member.wait_for(lambda: sum(event.data["count"] for event in member.of_kind("polled")) == 40, "all records")
        assert member.commit().kind == "committed"
        code, document, err = waiting.end()
    assert (code, document["data"]["lag"]) == (0, 0), err


def test_a_committed_offset_past_the_end_is_no_lag_of_zero():
    """As after a topic was deleted and created again."""
    with serve_in_thread(topics={"t": 2}) as server:
        commit(server.bootstrap, "g", ("t", 0, 0), ("t", 1, 5))
        where = ("g", "-b", server.bootstrap)
        why = "1 committed offset is past the end: topic recreated or records lost"
        late = kgm_in_time(lambda run: why in run.err, "wait", *where, "--for", "lag=0", "--interval", "200ms")
        assert late.code == 8
        assert f"lag=0: unknown lag, because {why} (t[1])" in late.err
        for view in ("--members", "--offsets", "--state"):
            assert f"{why}: t[1]" in kgm("describe", *where, view).out
        (group,) = json.loads(kgm("describe", *where, "-o", "json").out)["data"]["groups"]
        assert [(row["partition"], row["lag"]) for row in group["offsets"]] == [(0, 0), (1, None)]
        watched = json.loads(kgm("watch", *where, "--count", "1", "-o", "json").out)["data"]
        assert watched["groups"][0]["lag"] is None
        assert f"{why} (t[1]); the lag there is unknown" in [event["text"] for event in watched["events"]]
        found = json.loads(kgm("doctor", *where, "-o", "json").out)["data"]["findings"]
        assert [one["check"] for one in found] == ["committed-beyond-end", "commits-without-members"]
        assert found[0]["message"] == why


def test_a_group_that_does_not_exist():
    with serve_in_thread(topics={"t": 1}) as server:
        why = "empty: the group does not exist"  # a name that was mistyped is not an empty group
        late = kgm_in_time(lambda run: why in run.err, "wait", "nobody", "-b", server.bootstrap, "--for", "empty")
        assert late.code == 8
        assert why in late.err
        missing = kgm("wait", "nobody", "-b", server.bootstrap, "--for", "stable", "--must-exist")
        assert missing.code == 3
        assert missing.seconds < 25


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2), (["g"], 2), (["g", "--for", "nonsense"], 2), (["g", "-g", "h", "--for", "stable"], 2),
        (["g", "--for", "stable", "--timeout", "300ms"], 5),
    ],
)  # fmt: skip
def test_what_cannot_be_waited_for_fails_at_once(arguments, code):
    done = kgm("wait", *arguments, "-b", "127.0.0.1:1")
    assert (done.code, done.out) == (code, "")
    assert done.seconds < 25


def test_a_static_member_that_only_stopped_is_not_replaced(cluster, tmp_path):
    """It stays a member until its session expires, so `members=1` and `stable` hold although no process runs."""
    bootstrap, topic = cluster
    group, before = f"g-{uuid.uuid4().hex[:8]}", tmp_path / "before.json"
    options = {"group": group, "topics": [topic], "instance_id": "app-1", "session_timeout_ms": 60_000}
    where = ("wait", group, "-b", bootstrap, "--baseline", str(before))
    with RdMembers(bootstrap) as members:
        running = members.start(**options)
        wait_settled([running], 4)
        before.write_text(kgm("describe", group, "-b", bootstrap, "-o", "json").out)
        running.crash()
        assert kgm(*where[:4], "--for", "members=1", "--for", "stable").code == 0
        why = "replaced=app-1: not replaced: still app-1-"
        late = kgm_in_time(lambda run: why in run.err, *where, "--for", "replaced=app-1", "--for", "members=1")
        assert late.code == 8
        assert why in late.err
        waiting = Waiting(*where[1:], "--for", "replaced=app-1", "--for", "stable", *PATIENCE)
        wait_settled([members.start(**options)], 4)
        code, document, err = waiting.end()
    assert (code, document["data"]["met"]) == (0, True), err
    assert document["data"]["conditions"][0]["seen"].startswith("replaced by app-1-")


def test_a_baseline_must_have_the_group_and_be_of_the_cluster(cluster, tmp_path):
    bootstrap, topic = cluster
    group, before = f"g-{uuid.uuid4().hex[:8]}", tmp_path / "before.json"
    commit(bootstrap, group, (topic, 0, 0))
    before.write_text(kgm("describe", group, "-b", bootstrap, "-o", "json").out)

    def code(*arguments, group=group, bootstrap=bootstrap):
        return kgm("wait", group, "-b", bootstrap, *arguments).code

    assert code("--for", "replaced=app-1") == 2
    assert code("--for", "stable", "--baseline", str(before)) == 2
    assert code("--for", "replaced=app-1", "--baseline", str(tmp_path / "none.json")) == 2
    assert code("--for", "replaced=app-1", "--baseline", str(before)) == 3
    assert code("--for", "replaced=app-1", "--baseline", str(before), group="other") == 3
    document = json.loads(before.read_text())
    member = {"member_id": "app-1-x", "group_instance_id": "app-1", "status": "stable", "assignment": {}}
    document["data"]["groups"][0]["members"] = [member]
    document["cluster"]["id"] = "another"
    before.write_text(json.dumps(document))
    assert code("--for", "replaced=app-1", "--baseline", str(before)) == 6

"""`kgm diff`: snapshots from files and live, its output and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import uuid

import pytest

from kgm.cli.options.snapshots import read_snapshot_file
from kgm.model.snapshot_json import snapshot_from_json
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.client.joiners import SESSION_MS, Joiner, form_group
from tests.kafka.members import RdMembers, wait_settled

GROUP = {
    "group_id": "g", "type": "classic", "state": "Stable", "assignor": "range", "generation": 4,
    "topics": [{"name": "t", "partitions": 3}],
    "members": [
        {"group_instance_id": "a", "member_id": "a-1", "subscription": {"topics": ["t"], "regex": None}, "assignment": {"t": [0, 1]}},
        {"group_instance_id": "b", "member_id": "b-1", "subscription": {"topics": ["t"], "regex": None}, "assignment": {"t": [2]}},
    ],
    "offsets": [],
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(*groups):
        path = tmp_path / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps({"schema": "kgm.describe/v1", "data": {"groups": list(groups)}}))
        return str(path)

    return write


def changed(**more):
    return json.loads(json.dumps(GROUP)) | more


def restarted():
    """`a` has a new member id, `b` has left, `c` has joined and owns the partitions of `b`."""
    group = changed(generation=6, assignor="sticky", state="Stable")
    group["members"][0]["member_id"] = "a-2"
    group["members"][1] = {**group["members"][1], "group_instance_id": None, "member_id": "c"}
    group["topics"] = [{"name": "t", "partitions": 3}, {"name": "u", "partitions": 1}]
    group["members"][0]["subscription"] = {"topics": ["t", "u"], "regex": None}
    return group


@pytest.mark.slow
def test_everything_that_changed_is_shown(write):
    files = write(GROUP), write(restarted())
    run = kgm("diff", *files, "-o", "json")
    assert (run.code, run.err) == (0, "")
    document = json.loads(run.out)
    assert (document["schema"], document["cluster"]) == ("kgm.diff/v1", None)
    (one,) = document["data"]["groups"]
    assert one["members_replaced"] == [{"group_instance_id": "a", "member_id_before": "a-1", "member_id_after": "a-2"}]
    assert [member["member_id"] for member in one["members_come"]] == ["c"]
    assert [member["member_id"] for member in one["members_gone"]] == ["b-1"]
    assert one["moves"] == [{"topic": "t", "partition": 2, "from": "b", "to": "c"}]
    assert (one["moved_partitions"], one["same"]) == (1, False)
    assert one["values_changed"] == {
        "assignor": {"before": "range", "after": "sticky"},
        "generation": {"before": 4, "after": 6},
    }
    assert one["topics_changed"] == [{"name": "u", "before": None, "after": 1}]
    assert one["subscriptions_changed"][0]["identity"] == "a"
    table = kgm("diff", *files).out
    assert table.splitlines()[0] == "g  1 joined, 1 left, 1 replaced, 1 partition moved"
    for words in ("replaced", "a-1 -> a-2", "t[2]", "b -> c", "range -> sticky", "t -> t,u", "- -> 1 partitions"):
        assert words in table
    assert kgm("diff", *files, "-o", "name").out == "g\n"


@pytest.mark.slow
def test_csv_has_a_row_for_each_change_under_the_keys_of_json(write):
    """A script that reads them need not parse a sentence."""
    come = GROUP["members"][1] | {"group_instance_id": "c", "member_id": "c-1"}
    back = GROUP["members"][0] | {"member_id": "a-2"}
    after = GROUP | {"generation": 5, "members": [back, come]}
    rows = list(csv.DictReader(io.StringIO(kgm("diff", write(GROUP), write(after), "-o", "csv").out)))
    assert {row["group_id"] for row in rows} == {"g"}
    assert [{key: value for key, value in row.items() if value and key != "group_id"} for row in rows] == [
        {"change": "joined", "identity": "c", "after": "c-1", "assignment": "t[2]"},
        {"change": "left", "identity": "b", "before": "b-1", "assignment": "t[2]"},
        {"change": "replaced", "identity": "a", "before": "a-1", "after": "a-2"},
        {"change": "moved", "topic": "t", "partition": "2", "before": "b", "after": "c"},
        {"change": "changed", "name": "generation", "before": "4", "after": "5"},
    ]


def test_exit_code_is_for_scripts(write):
    same, other = write(GROUP), write(restarted())
    assert kgm("diff", same, same, "--exit-code").code == 0
    assert "no difference" in kgm("diff", same, same).out
    run = kgm("diff", same, other, "--exit-code")
    assert (run.code, run.err) == (8, "error: there are differences in: g\n")
    assert kgm("diff", same, other).code == 0


@pytest.mark.slow
def test_lag_is_not_a_difference_and_unknown_moves_are_null(write):
    lag = [{"topic": "t", "partition": 0, "committed": 1, "end": 9, "lag": 8}]
    assert kgm("diff", write(GROUP), write(changed(offsets=lag)), "--exit-code").code == 0
    run = kgm("diff", write(GROUP), write(changed(state="PreparingRebalance")), "-o", "json")
    (one,) = json.loads(run.out)["data"]["groups"]
    assert (one["moves"], one["moved_partitions"]) == (None, None)
    assert "owners are not known" in kgm("diff", write(GROUP), write(changed(state="PreparingRebalance"))).out


@pytest.mark.slow
def test_groups_are_compared_by_their_ids(write):
    two = write(GROUP, changed(group_id="h")), write(changed(generation=5), changed(group_id="i"))
    groups = {one["group_id"]: one for one in json.loads(kgm("diff", *two, "-o", "json").out)["data"]["groups"]}
    assert [(name, groups[name]["group_id_before"], groups[name]["group_id_after"]) for name in "ghi"] == [
        ("g", "g", "g"), ("h", "h", None), ("i", None, "i"),
    ]  # fmt: skip
    assert "h  only in A" in kgm("diff", *two).out
    only = json.loads(kgm("diff", *two, "-g", "g", "-o", "json").out)["data"]["groups"]
    assert [one["group_id"] for one in only] == ["g"]
    assert kgm("diff", *two, "-g", "none").code == 3
    renamed = kgm("diff", write(GROUP), write(changed(group_id="copy")), "-o", "json")
    assert json.loads(renamed.out)["data"]["groups"][0]["same"] is True


@pytest.mark.slow
def test_a_file_that_is_not_a_snapshot_is_refused(write, tmp_path):
    (tmp_path / "x").write_text("{")
    good = write(GROUP)
    assert kgm("diff", good, str(tmp_path / "none")).code == 2
    for run in (
        kgm("diff", good, str(tmp_path / "x")),
        kgm("diff", good, write({"group_id": 1})),
        kgm("diff", good, write(changed(members=None))),
        kgm("diff", good, write(changed(members=[]))),
        kgm("diff", "-", "-"),
        kgm("diff", "live", "live", "-b", "127.0.0.1:1"),
        kgm("diff", good, "live:", "-b", "127.0.0.1:1"),
        kgm("diff", good, "live"),
    ):
        assert (run.code, run.out) == (2, ""), run
    piped = kgm("diff", "-", good, stdin=json.dumps({"data": {"groups": [GROUP]}}))
    assert (piped.code, piped.out) == (0, "g  no difference\n")


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request):
    """A cluster with a topic `diff` of four partitions."""
    if request.param == "embedded":
        with serve_in_thread(topics={"diff": 4}) as server:
            yield server.bootstrap
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({"diff": 4})
        yield kafka.bootstrap


@pytest.mark.slow
def test_live_against_a_file_and_against_another_group(tmp_path, bootstrap):
    group = f"g-{uuid.uuid4().hex[:8]}"
    with RdMembers(bootstrap) as members:
        fleet = [
            members.start(group=group, topics=["diff"], instance_id=f"seat-{i}", session_timeout_ms=30_000)
            for i in range(2)
        ]
        wait_settled(fleet, 4)
        before = tmp_path / "before.json"
        before.write_text(kgm("describe", group, "-b", bootstrap, "-o", "json").out)
        assert kgm("diff", str(before), "live", "-b", bootstrap, "--exit-code").code == 0
        fleet[0].close()
        again = members.start(group=group, topics=["diff"], instance_id="seat-0", session_timeout_ms=30_000)
        wait_settled([again, fleet[1]], 4)
        run = kgm("diff", str(before), "live", "-b", bootstrap, "-o", "json")
        document = json.loads(run.out)
        (one,) = document["data"]["groups"]
        assert [each["group_instance_id"] for each in one["members_replaced"]] == ["seat-0"]
        assert (one["moves"], document["cluster"]["bootstrap"]) == ([], bootstrap)
        gone = kgm("diff", str(before), "live:other", "-b", bootstrap)
        assert gone.code == 7
        missing = kgm("diff", "live:other", "live:another", "-b", bootstrap)
        assert missing.code == 3
        assert "group 'other' does not exist" in missing.err


@pytest.mark.slow
def test_a_group_that_is_gone_from_the_cluster_is_a_difference(tmp_path):
    path = tmp_path / "before.json"
    path.write_text(json.dumps(GROUP))
    with serve_in_thread(topics={"t": 4}) as server:
        run = kgm("diff", str(path), "live", "-b", server.bootstrap, "--exit-code")
    assert (run.code, run.out.splitlines()[0]) == (8, "g  only in A")


@pytest.mark.parametrize(
    ("envelope", "reason"),
    [
        ({"schema": "kgm.list/v1"}, "its schema is 'kgm.list/v1'"),
        ({"schema": "kgm.describe/v2"}, "its schema is 'kgm.describe/v2'"),
        ({"schema": ["kgm.describe/v1"]}, "its schema is"),
        ({"errors": [{"code": "TIMED_OUT", "group_id": "g"}]}, "group g could not be read"),
        ({"schema": "kgm.describe/v1", "errors": [{"code": "NOT_FOUND", "group_id": "other"}]}, None),
        ({"schema": "kgm.demo/v1"}, None),
        ({}, None),
    ],
)
def test_a_document_that_is_not_of_describe_is_no_snapshot(envelope, reason, tmp_path):
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({**envelope, "data": {"groups": [GROUP]}}))
    run = kgm("diff", str(path), str(path))
    assert run.code == (0 if reason is None else 2), run
    assert reason is None or reason in run.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("diff", "{good}", "{twice}"), ("diff", "{twice}", "{good}"), ("simulate-bounce", "g", "--all"), ("plan", "g", "--all"),
     ("drain", "--host", "10.0.0.1"), ("assign",)],
)  # fmt: skip
def test_a_group_that_occurs_twice_is_refused(words, write):
    """Which of the two holds is not known."""
    other = changed(members=GROUP["members"][:1])
    for twice in (write(GROUP, other), write(changed(group_id="h"), GROUP, GROUP)):
        given = [word.format(good=write(GROUP), twice=twice) for word in words]
        run = kgm(*given, *(() if twice in given else ("--from-file", twice)))
        assert (run.code, run.out) == (2, "")
        assert "groups: group_id 'g' occurs twice" in run.err


def test_the_demo_has_its_group_after_every_step(tmp_path):
    """The last one is how the demo left it."""
    path = tmp_path / "demo.json"
    path.write_text(json.dumps({"schema": "kgm.demo/v1", "data": {"groups": [GROUP, restarted()]}}))
    assert [group.to_json() for group in read_snapshot_file(str(path)).snapshots] == [
        snapshot_from_json(restarted()).to_json()
    ]


@pytest.mark.slow
def test_a_session_timeout_that_a_restart_changed_is_seen_live(tmp_path):
    """No description has it: both sides take it from the coordinator's log."""
    path = tmp_path / "before.json"
    with serve_in_thread(topics={"orders": 1}) as server:
        (before,) = form_group(server, "g", ["a"], "orders")
        path.write_text(kgm("describe", "g", "-b", server.bootstrap, "-o", "json").out)
        before.close()
        after = Joiner(server.port, "g", "a", "orders")
        after.session_ms = SESSION_MS // 2
        assert after.join().error_code == 0
        run = kgm("diff", str(path), "live", "-b", server.bootstrap, "-o", "json")
        after.close()
    (one,) = json.loads(run.out)["data"]["groups"]
    assert one["values_changed"]["session_timeout_ms"] == {"before": SESSION_MS, "after": SESSION_MS // 2}

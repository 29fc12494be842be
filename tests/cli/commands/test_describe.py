"""`kgm list` and `kgm describe` in scripts: exit codes, JSON by the contract, every format, two kinds of cluster."""

from __future__ import annotations

import csv
import io
import json
import uuid

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from kgm.model.snapshot_json import snapshot_from_json
from kgm.server import serve_in_thread
from tests.cli.runner import Run, kgm
from tests.kafka.members import RdMembers, wait_settled
from tests.needs import needs

pytestmark = pytest.mark.shows("describe")

MEMBERS = 3
PARTITIONS = 7


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def cluster(request):
    """(bootstrap, group, topic): three static librdkafka members on each kind of cluster."""
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        with serve_in_thread(topics={topic: PARTITIONS}) as server:
            yield from _with_members(server.bootstrap, group, topic)
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({topic: PARTITIONS})
        yield from _with_members(kafka.bootstrap, group, topic)


def _with_members(bootstrap, group, topic):
    with RdMembers(bootstrap) as members:
        fleet = [
            members.start(group=group, topics=[topic], instance_id=f"seat-{i}", session_timeout_ms=30_000)
            for i in range(MEMBERS)
        ]
        wait_settled(fleet, PARTITIONS)
        yield bootstrap, group, topic


def ask(bootstrap, *arguments) -> Run:
    return kgm(*arguments, "-b", bootstrap)


def id_of(bootstrap, topic) -> str:
    """From librdkafka, which writes + and / where Kafka writes - and _."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (found,) = admin.describe_topics(TopicCollection([topic])).values()
    return str(found.result(20).topic_id).translate(str.maketrans("+/", "-_"))


@pytest.mark.slow
def test_describe_json_is_the_contract_and_reads_back(cluster):
    bootstrap, group, topic = cluster
    run = ask(bootstrap, "describe", group, "-o", "json")
    assert (run.code, run.err) == (0, "")
    document = json.loads(run.out)
    assert document.keys() == {"schema", "cluster", "generated_at", "data", "errors", "warnings"}
    assert document["schema"] == "kgm.describe/v1"
    assert document["cluster"]["bootstrap"] == bootstrap
    assert document["errors"] == []
    (one,) = document["data"]["groups"]
    assert (one["group_id"], one["type"], one["state"], one["assignor"]) == (group, "classic", "Stable", "range")
    assert [member["group_instance_id"] for member in one["members"]] == ["seat-0", "seat-1", "seat-2"]
    owned = sorted(p for member in one["members"] for p in member["assignment"].get(topic, []))
    assert owned == list(range(PARTITIONS))
    assert {"name": topic, "partitions": PARTITIONS, "topic_id": id_of(bootstrap, topic)} in one["topics"]
    assert len(one["offsets"]) == PARTITIONS
    assert all(row["lag"] is None or row["lag"] >= 0 for row in one["offsets"])
    assert snapshot_from_json(one).to_json() == one


@pytest.mark.slow
def test_every_format_shows_every_member(cluster):
    bootstrap, group, _ = cluster
    for output in ("table", "wide", "yaml", "csv", "tsv", "name", "ndjson", "markdown"):
        run = ask(bootstrap, "describe", group, "-o", output)
        assert run.code == 0, run
        assert all(f"seat-{i}" in run.out for i in range(MEMBERS)), run
        assert "\x1b" not in run.out
    rows = list(csv.DictReader(io.StringIO(ask(bootstrap, "describe", group, "-o", "csv").out)))
    assert [row["group_instance_id"] for row in rows] == ["seat-0", "seat-1", "seat-2"]
    assert {row["group_id"] for row in rows} == {group}
    assert {row["client_host"] for row in rows} == {"127.0.0.1"}
    assert ask(bootstrap, "describe", group, "-o", "name").out.split() == ["seat-0", "seat-1", "seat-2"]


@pytest.mark.slow
def test_a_missing_group_is_an_error_beside_the_existing_one(cluster):
    bootstrap, group, _ = cluster
    run = ask(bootstrap, "describe", group, "no-such-group", "-o", "json")
    assert run.code == 7
    document = json.loads(run.out)
    assert [one["group_id"] for one in document["data"]["groups"]] == [group]
    (error,) = document["errors"]
    assert (error["code"], error["group_id"]) == ("NOT_FOUND", "no-such-group")
    assert "no-such-group" in run.err
    alone = ask(bootstrap, "describe", "no-such-group")
    assert alone.code == 3


@pytest.mark.slow
def test_offsets_and_state_views(cluster):
    bootstrap, group, topic = cluster
    offsets = ask(bootstrap, "describe", group, "--offsets", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(offsets.out)))
    assert [(row["topic"], int(row["partition"])) for row in rows] == [(topic, p) for p in range(PARTITIONS)]
    state = ask(bootstrap, "describe", group, "--state")
    assert "Stable" in state.out
    both = ask(bootstrap, "describe", group, "--state", "--offsets")
    assert both.code == 2


@pytest.mark.slow
def test_list_with_filters(cluster):
    bootstrap, group, _ = cluster
    rows = json.loads(ask(bootstrap, "list", "-o", "json").out)["data"]["groups"]
    mine = next(row for row in rows if row["group_id"] == group)
    assert (mine["type"], mine["state"], mine["members"]) == ("classic", "Stable", MEMBERS)
    assert group in ask(bootstrap, "list", "--state", "STABLE", "-o", "name").out.split()
    assert group not in ask(bootstrap, "list", "--state", "Empty", "-o", "name").out.split()
    assert group not in ask(bootstrap, "list", "--type", "consumer", "-o", "name").out.split()
    assert ask(bootstrap, "list", "--match", group[:5] + "*", "-o", "name").out.split() == [group]


@pytest.mark.slow
def test_match_and_all_groups(cluster):
    bootstrap, group, _ = cluster
    assert ask(bootstrap, "describe", "--match", group[:6] + "*", "-o", "name").code == 0
    nothing = ask(bootstrap, "describe", "--match", "zzz*")
    assert (nothing.code, "no group matches zzz*" in nothing.err) == (3, True)
    assert group in ask(bootstrap, "describe", "--all-groups", "--state", "-o", "name").out.split()


def test_no_group_and_no_bootstrap_are_usage_errors(monkeypatch):
    assert kgm("describe", "-b", "127.0.0.1:1").code == 2
    run = kgm("describe", "g")
    assert run.code == 2
    assert "no bootstrap server" in run.err


@pytest.mark.slow
def test_an_unreachable_cluster_is_reported_within_the_time_limit():
    run = kgm("describe", "g", "-b", "127.0.0.1:1", "--timeout", "500ms", "-o", "json")
    assert run.code == 5
    assert json.loads(run.out)["errors"][0]["code"] == "UNREACHABLE"
    assert run.seconds < 25


def test_the_overview_has_every_command():
    from kgm.cli.main import COMMANDS

    overview = kgm("--help")
    assert overview.code == 0
    assert [name for name in COMMANDS if name not in overview.out] == []  # of each its own help: tests/test_budget.py


def test_an_unknown_command_is_a_usage_error():
    assert kgm("descrbe").code == 2


@pytest.mark.slow
def test_a_reader_that_goes_away_is_not_an_error(cluster):
    import subprocess
    import sys

    bootstrap, group, _ = cluster
    script = f"{sys.executable} -m kgm describe {group} -b {bootstrap} -o json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run([needs("bash"), "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "{0\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_who_owns_a_partition(cluster):
    """As the clients themselves say, over all groups of the cluster."""
    bootstrap, group, topic = cluster
    (one,) = json.loads(ask(bootstrap, "describe", group, "-o", "json").out)["data"]["groups"]
    owner = next(member for member in one["members"] if 5 in member["assignment"].get(topic, []))
    run = ask(bootstrap, "describe", "--topic", topic, "--partition", "5", "-o", "json")
    assert run.code == 0, run
    data = json.loads(run.out)["data"]
    assert [each["group_id"] for each in data["groups"]] == [group]
    (row,) = data["partitions"]
    assert (row["topic"], row["partition"], row["has_owner"]) == (topic, 5, True)
    for key in ("group_instance_id", "member_id", "client_id", "client_host"):
        assert row[key] == owner[key]
    named = ask(bootstrap, "describe", "--topic", topic, "--partition", "5", "-o", "name")
    assert named.out.split() == [owner["group_instance_id"]]
    (line,) = ask(bootstrap, "describe", "--topic", topic, "--partition", "5", "--no-headers").out.splitlines()
    assert line.split()[:3] == [group, topic, "5"]
    assert owner["group_instance_id"] in line.split()
    rows = list(csv.DictReader(io.StringIO(ask(bootstrap, "describe", group, "--topic", topic, "-o", "csv").out)))
    assert [int(row["partition"]) for row in rows] == [*range(PARTITIONS)]
    assert json.loads(ask(bootstrap, "describe", group, "--unowned", "-o", "json").out)["data"]["partitions"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--topic", "TOPIC-"], 3, "did you mean 'TOPIC'?"),
        (["--topic", "TOPIC", "--partition", f"{PARTITIONS}"], 3, f"it has {PARTITIONS}: 0 to {PARTITIONS - 1}"),
        (["--topic", "TOPIC", "--partition", "x"], 2, "--partition: 'x' is not a partition"),
        (["--topic", "TOPIC", "--partition", "3-1"], 2, "is not a range"),
        (["--topic", "TOPIC", "--partition", "0-999999999"], 2, "is not a range"),
        (["--topic", ","], 2, "the name of the topic is empty"),
        (["GROUP", "--partition", "1"], 2, "--partition needs --topic"),
        (["GROUP", "--unowned", "--state"], 2, "not --members or --state"),
        (["GROUP", "--sort", "lagg"], 2, "did you mean lag?"),
        (["--only-lagging"], 2, "no group is given"),
    ],
)  # fmt: skip
def test_a_question_about_partitions_that_has_no_answer(words, code, text, cluster):
    bootstrap, group, topic = cluster
    run = ask(bootstrap, "describe", *(word.replace("TOPIC", topic).replace("GROUP", group) for word in words))
    assert (run.code, run.out.count("\n") <= 1) == (code, True)
    assert text.replace("TOPIC", topic) in run.err

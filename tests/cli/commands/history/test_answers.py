"""What `kgm history` answers, held against Kafka's own reading of the segments and what was done when they were made."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

from kgm.cli.output.history.rows_json import at
from kgm.history.folders import Reading
from kgm.history.in_process import read_source
from tests.cli.commands.history import oracle
from tests.cli.commands.history.conftest import SEGMENTS
from tests.records.real_logs import DATA, truth


def test_every_rebalance_of_the_log_is_listed_once(answer):
    found = {
        (each["group_id"], each["generation_before"], each["generation_after"], each["at"])
        for each in answer("rebalances")["rebalances"]
        if each["group_type"] == "classic"
    }
    expected = {(group, before, after, at(ts)) for group, before, after, ts, _, _ in oracle.transitions()}
    assert found == expected
    assert len(expected) == 202


@pytest.mark.long
@pytest.mark.parametrize("group", ["billing", "ledger", "shop-clicks"])
def test_explain_tells_the_moves_that_kafkas_assignments_tell(answer, group):
    steps = [step for step in oracle.transitions() if step[0] == group]
    assert steps
    last = {}  # the latest owner of each partition that has had one: what a member gave up may go to another one later
    for _, _, generation, _, before, after in steps:
        last |= before
        data = answer("explain", group, "--generation", str(generation))
        assert data["rebalance"]["generation_after"] == generation
        moves = {(each["topic"], each["partition"]): (each["from"], each["to"]) for each in data["moves"]}
        changed = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
        assert moves == {place: (before.get(place), after.get(place)) for place in changed}
        moved = [place for place, owner in after.items() if last.get(place, owner) != owner]
        assert data["rebalance"]["moved"] == len(moved)
        last |= after


@pytest.mark.long
def test_owners_and_seats_at_the_end_are_what_the_broker_describes(answer):
    checked = 0
    for group, said in oracle.classic_groups().items():
        described = said["describe"]["response"]
        if said["state"] != "Stable" or described["protocolType"] != "consumer":
            continue
        expected, seats = set(), set()
        for member in described["members"]:
            seat = member["groupInstanceId"] or member["memberId"]
            seats.add((seat, member["memberId"]))
            for topic in (member["decoded"]["assignment"] or {}).get("assignedPartitions", ()):
                expected |= {(topic["topic"], partition, seat) for partition in topic["partitions"]}
        owners = answer("movement", group)["owners"]
        assert {(o["topic"], o["partition"], o["identity"]) for o in owners if o["to"] is None} == expected
        there = answer("timeline", group)["seats"]
        assert {(each["identity"], each["member_id"]) for each in there if each["to"] is None} == seats
        checked += 1
    assert checked >= 15


def test_removals_of_the_story_are_told_as_removals(answer):
    """Static members only: of a dynamic one the log cannot tell a removal from a clean leave. How many of all are told
    is scored in tests/history."""
    removed = {
        (line["group"], each["id"])
        for line in oracle.story()
        if line["action"] == "admin_remove_result"
        for each in line["detail"]["results"]
        if not each["error_code"]
    }
    told = {
        (each["group_id"], who["identity"])
        for each in answer("rebalances", "--cause", "admin-removal")["rebalances"]
        for who in each["who"]
        if who["what"] == "admin-removal"
    }
    assert {("billing", "billing-2"), ("billing", "billing-3"), ("ledger-coop", "lc-2")} <= told & removed


@pytest.mark.long
def test_a_source_is_answered_like_a_store(answer):
    for command in (
        ["rebalances"],
        ["explain", "billing"],
        ["timeline", "billing"],
        ["movement", "billing"],
        ["offsets", "billing"],
        ["churn"],
    ):
        built = answer(*command)
        read = answer(*command, where=("--source", SEGMENTS))
        for data in (built, read):
            data.pop("window")
            data.pop("next", None)
        assert built == read


def test_churn_counts_what_rebalances_lists(answer):
    listed = answer("rebalances")["rebalances"]
    groups = answer("churn")["groups"]
    assert {each["group_id"]: each["rebalances"] for each in groups if each["rebalances"]} == {
        group: sum(each["group_id"] == group for each in listed) for group in {each["group_id"] for each in listed}
    }
    counts = [each["rebalances"] for each in groups]
    assert counts == sorted(counts, reverse=True)
    assert [each["group_id"] for each in answer("churn", "--limit", "3")["groups"]] == [
        each["group_id"] for each in groups[:3]
    ]


def test_a_restart_within_the_session_is_absorbed_in_the_timeline(answer):
    """billing-1 was bounced cleanly at first: no rebalance came of it."""
    events = answer("timeline", "billing")["events"]
    absorbed = [each for each in events if each["event"] == "absorbed-bounce"]
    assert len(absorbed) == answer("churn", "--match", "billing")["groups"][0]["absorbed"] == 8
    assert {who["identity"] for each in absorbed for who in each["who"]} == {"billing-0", "billing-1", "billing-2"}


def test_filters(answer):
    every = answer("rebalances")["rebalances"]
    middle = every[100]["at"]
    before, since = (answer("rebalances", option, middle)["rebalances"] for option in ("--until", "--since"))
    assert before + since == every
    assert {each["group_id"] for each in answer("rebalances", "--match", "shop-*")["rebalances"]} == {
        "shop-clicks", "shop-orders", "shop-payments",
    }  # fmt: skip
    assert answer("rebalances", "ledger") == answer("rebalances", "-g", "ledger")
    joins = answer("rebalances", "--cause", "join,session-expiry")["rebalances"]
    assert {each["cause"] for each in joins} == {"join", "session-expiry"}
    assert answer("rebalances", "--cause", "join, Session expiry")["rebalances"] == joins


def test_every_alarm_and_advice_has_its_keys(answer):
    alarms = answer("zombies")["alarms"]
    assert alarms
    for each in answer("timeouts")["advice"]:
        assert each["advised_ms"] is None or each["verdict"] in ("raise", "lower", "keep")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "command",
    [
        "rebalances",
        pytest.param("explain", marks=pytest.mark.long),
        "timeline",
        "movement",
        "offsets",
        "churn",
        "zombies",
        "timeouts",
    ],
)
def test_every_format_of_every_question(asked, command):
    group = ["cha-static"] if command in ("explain", "timeline", "movement", "offsets") else []
    for form in ("table", "wide", "csv", "tsv", "markdown", "yaml", "name", "ndjson", "json"):
        code, out, err = asked(command, *group, "-o", form)
        assert (code, err) == (0, "")
        if form == "json":
            envelope = json.loads(out)
            assert envelope["schema"] == f"kgm.history-{command}/v1"
            assert (envelope["cluster"], envelope["errors"]) == ({"id": "test-cluster", "bootstrap": None}, [])
        elif form == "ndjson":
            assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
        elif form in ("table", "wide", "csv"):
            assert out


@pytest.mark.long
def test_generation_that_was_lost_on_the_way_finds_the_rebalance_that_lost_it(answer):
    lost = next(each for each in answer("rebalances")["rebalances"] if each["lost_rounds"])
    data = answer("explain", lost["group_id"], "--generation", str(lost["generation_before"] + 1))
    assert data["rebalance"] == lost


SERVER_LOG = (
    "[2026-11-21 04:04:03,728] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=1] Preparing to rebalance "
    "group billing in state PREPARING_REBALANCE with old generation 3 (reason: removing member "
    "billing-0-c3574b5c-38a1-4c1f-948f-c845330d7317 on heartbeat expiration). "
    "(org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
)


@pytest.mark.long
def test_a_brokers_log_turns_inference_into_fact(answer, asked, tmp_path):
    log = tmp_path / "server.log"
    log.write_text("Java stack traces and other lines\n" + SERVER_LOG)
    before = answer("explain", "billing", "--generation", "4")["rebalance"]
    assert (before["cause"], before["confidence"], before["source"]) == ("session-expiry", "possible", "log")
    after = answer("explain", "billing", "--generation", "4", "--broker-log", str(log))["rebalance"]
    assert (after["cause"], after["confidence"], after["source"]) == ("session-expiry", "certain", "broker log")
    assert after["inferred"] == {"cause": "session-expiry", "confidence": "possible"}
    assert "heartbeat expiration" in after["reason"]
    with gzip.open(tmp_path / "server.log.1.gz", "wt") as packed:
        packed.write(SERVER_LOG)
    told = answer("rebalances", "billing", "--broker-log", str(tmp_path / "server.log.1.gz"))["rebalances"]
    assert [each["generation_after"] for each in told if each["source"] == "broker log"] == [4]
    assert asked("rebalances", "--broker-log", str(tmp_path / "gone.log"))[0] == 2


@pytest.mark.parametrize("where", ["source", "store"])
def test_decode_prints_what_kafkas_own_converters_print(asked, tmp_path, where, tables):
    given = ("--source", SEGMENTS)
    if where == "store":
        raw = read_source("segments", DATA / "plain", most_bytes=1 << 30, reading=Reading())
        (tmp_path / "bronze" / "raw" / "commit-1").mkdir(parents=True)
        pq.write_table(raw, tmp_path / "bronze" / "raw" / "commit-1" / "a.parquet")
        given = ("--store", str(tmp_path))
    code, out, err = asked("decode", "--partition", "1", "--all-batches", where=given)
    assert (code, err) == (0, "")
    expected = [
        {name: line[name] for name in ("partition", "offset", "timestamp", "key", "value")}
        for line in truth("plain", 1)
    ]
    found = [json.loads(line) for line in out.splitlines()]
    assert [{name: each[name] for name in expected[0]} for each in found] == expected
    visible = [line for line in truth("plain", 1) if "control" not in line and line.get("txn") in (None, "committed")]
    code, out, _ = asked("decode", "--partition", "1", where=given)
    assert [json.loads(line)["offset"] for line in out.splitlines()] == [line["offset"] for line in visible]
    middle = visible[len(visible) // 2]["timestamp"]
    code, out, _ = asked("decode", "--partition", "1", "--since", at(middle), "-o", "name", where=given)
    assert out.splitlines() == [f"1:{line['offset']}" for line in visible if line["timestamp"] >= middle]

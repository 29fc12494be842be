"""Lag in time: `describe --lag-time`, `wait --for lag-time<=...` and `export --lag-time` over records of a known age; and
how lag changes: `describe --trend`."""

from __future__ import annotations

import csv
import io
import json
import time
import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kgm.cli.main import run
from kgm.model.error_code import ErrorCode
from kgm.model.errors import ConditionNotMet, PartialError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.fetch_response import FetchResponse
from kgm.server import serve_in_thread
from tests.client.faults import Edit, FaultProxy
from tests.waiting import until

PARTITIONS = 6
#: Ages of the records of partition 1, of which the first is committed, and of the one in partition 2.
AGES_MS = (100_000, 50_000, 10_000)
COPIED_MS = 3_600_000
READ, BEHIND, COPIED, MARKER, FUTURE, EMPTY = range(PARTITIONS)


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def scene(request):
    """(bootstrap, group, topic, now in ms before the commits): a group without members that has read some of the
    records."""
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        with serve_in_thread(topics={topic: PARTITIONS, f"{topic}-open": 1}) as server:
            yield server.bootstrap, group, topic, _produced(server.bootstrap, group, topic)
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({topic: PARTITIONS, f"{topic}-open": 1})
        yield kafka.bootstrap, group, topic, _produced(kafka.bootstrap, group, topic)


def _produced(bootstrap, group, topic):
    now_ms = round(time.time() * 1000)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    ages = {READ: [5_000], BEHIND: AGES_MS, COPIED: [COPIED_MS], FUTURE: [-COPIED_MS]}
    for partition, some in ages.items():
        for age_ms in some:
            producer.produce(topic, b"record", partition=partition, timestamp=now_ms - age_ms)
    assert producer.flush(30) == 0
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce(topic, b"record", partition=MARKER)
    transactional.commit_transaction(30)
    committed = {READ: 1, BEHIND: 1, COPIED: 0, MARKER: 1, FUTURE: 0, EMPTY: 0}
    rows = [TopicPartition(topic, partition, offset) for partition, offset in committed.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, rows)]).values()
    done.result(30)
    return now_ms


def described(capsys, bootstrap, *words):
    assert run(["describe", *words, "-b", bootstrap, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)["data"]


@pytest.mark.slow
def test_the_age_of_the_first_record_that_is_not_committed(scene, capsys):
    bootstrap, group, _, produced_ms = scene
    before_ms = round(time.time() * 1000)
    (one,) = described(capsys, bootstrap, group, "--lag-time")["groups"]
    after_ms = round(time.time() * 1000)
    rows = {row["partition"]: row for row in one["offsets"]}
    assert [rows[number]["lag"] for number in range(PARTITIONS)] == [0, 2, 1, 1, 1, 0]
    # A marker is nothing to read; a record of the future has no age.
    assert [rows[number]["lag_ms"] for number in (READ, MARKER, EMPTY, FUTURE)] == [0, 0, 0, None]
    for number, age_ms in ((BEHIND, AGES_MS[1]), (COPIED, COPIED_MS)):
        assert before_ms - produced_ms + age_ms <= rows[number]["lag_ms"] <= after_ms - produced_ms + age_ms


@pytest.mark.slow
def test_the_age_of_a_commit(scene, capsys):
    bootstrap, group, _, produced_ms = scene
    assert run(["describe", group, "--lag-time", "-b", bootstrap, "-o", "json"]) == 0
    after_ms = round(time.time() * 1000)
    out, err = capsys.readouterr()
    ages = [row["commit_age_ms"] for row in json.loads(out)["data"]["groups"][0]["offsets"]]
    assert all(0 <= age_ms <= after_ms - produced_ms for age_ms in ages)
    assert err == ""


@pytest.mark.slow
def test_it_is_unknown_unless_it_is_asked_for(scene, capsys):
    bootstrap, group, _, _ = scene
    (one,) = described(capsys, bootstrap, group)["groups"]
    assert [row["lag_ms"] for row in one["offsets"]] == [0, None, None, None, None, 0]
    assert {row["commit_age_ms"] for row in one["offsets"]} == {None}


@pytest.mark.slow
def test_the_oldest_comes_first(scene, capsys):
    bootstrap, group, topic, _ = scene
    words = [group, "--topic", topic, "--only-lagging", "--sort", "lag-time"]
    rows = described(capsys, bootstrap, *words)["partitions"]
    assert [(row["group_id"], row["partition"]) for row in rows] == [
        (group, COPIED), (group, BEHIND), (group, MARKER), (group, FUTURE),
    ]  # fmt: skip
    assert run(["describe", *words, "-b", bootstrap]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[:7] == ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG-TIME"]
    assert first.split()[6].startswith("1h")
    assert run(["describe", *words, "-b", bootstrap, "-o", "csv"]) == 0
    listed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["lag_ms"] == "" for row in listed] == [False, False, False, True]
    assert "lag_time" not in listed[0]


@pytest.mark.slow
def test_wait_for_lag_in_time(scene, capsys):
    """The partition with a record of the future keeps any limit from being met: its lag in time is not known."""
    bootstrap, group, topic, _ = scene
    waits_in_vain(["wait", group, "--for", "lag-time<=9h", "--timeout", "1s", "-b", bootstrap])
    capsys.readouterr()
    other = f"{group}-other"
    rows = [TopicPartition(topic, partition, offset) for partition, offset in ((READ, 1), (BEHIND, 1), (MARKER, 1))]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(other, rows)]).values()
    done.result(30)
    assert run(["wait", other, "--for", "lag-time<=1h", "-b", bootstrap, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["lag_ms"] >= AGES_MS[1]
    waits_in_vain(["wait", other, "--for", "lag-time<=20s", "--timeout", "600ms", "-b", bootstrap])


def waits_in_vain(words):
    """Exit 8. On a busy machine a short wait may be over before the broker has answered, which is another code."""

    def code() -> int:
        found = run(words)
        assert found in (ConditionNotMet.exit_code, PartialError.exit_code)
        return found

    until(code, "it did not end with 8", accept=lambda found: found == ConditionNotMet.exit_code)


@pytest.mark.slow
def test_lag_in_time_as_metrics(scene, capsys):
    bootstrap, group, topic, _ = scene
    assert run(["export", group, "--findings-every", "0s", "-b", bootstrap]) == 0
    assert "lag_seconds" not in capsys.readouterr().out
    assert run(["export", group, "--lag-time", "--findings-every", "0s", "-b", bootstrap]) == 0
    text = capsys.readouterr().out
    labels = [f'{{group="{group}",partition="{number}",topic="{topic}"}}' for number in range(PARTITIONS)]
    shown = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in text.splitlines()}
    assert float(shown[f"kgm_partition_lag_seconds{labels[READ]}"]) == 0
    assert float(shown[f"kgm_partition_lag_seconds{labels[COPIED]}"]) >= COPIED_MS / 1000
    assert f"kgm_partition_lag_seconds{labels[FUTURE]}" not in shown
    assert f'kgm_group_lag_seconds{{group="{group}"}}' not in shown  # that of one partition is not known


@pytest.mark.slow
def test_without_read_on_the_topic(scene, capsys):
    """describe says why it is unknown, and wait is never green."""
    bootstrap, group, topic, _ = scene

    def refuse(answer: FetchResponse) -> FetchResponse:
        for one in answer.responses:
            for row in one.partitions if one.topic == topic else ():
                row.error_code, row.records = ErrorCode.TOPIC_AUTHORIZATION_FAILED, b""
        return answer

    host, _, port = bootstrap.partition(":")
    with FaultProxy((host, int(port))) as proxy:
        proxy.always(ApiKey.FETCH, Edit(refuse))
        assert run(["describe", group, "--lag-time", "-b", proxy.bootstrap, "-o", "json"]) == 0
        out, err = capsys.readouterr()
        (one,) = json.loads(out)["data"]["groups"]
        assert [row["lag_ms"] for row in one["offsets"]] == [0, None, None, None, None, 0]
        assert "could not be read (TOPIC_AUTHORIZATION_FAILED): its lag in time is unknown" in err
        assert run(["wait", group, "--for", "lag-time<=9h", "-b", proxy.bootstrap]) == 4
        assert f"required: READ on Topic '{topic}'" in capsys.readouterr().err


@pytest.mark.slow
def test_two_polls_tell_how_lag_changes_and_what_hides_it(scene, capsys):
    bootstrap, group, topic, _ = scene
    data = described(capsys, bootstrap, group, "--trend", "100ms")
    (total, *rows) = data["trends"]
    assert (total["topic"], total["trend"], total["done_at"]) == (None, "unknown", None)
    assert total["because"] == "nothing arrived, and nothing was committed"
    assert [one["trend"] for one in rows] == ["caught-up", *["unknown"] * 4, "caught-up"]
    # A consumer that leaves out what is in an open transaction has read all, and lag is left.
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{group}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"{topic}-open", b"record")
    producer.flush(30)
    rows = [TopicPartition(f"{topic}-open", 0, 0)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{group}-open", rows)]).values()
    done.result(30)
    assert run(["describe", f"{group}-open", "--offsets", "--trend", "100ms", "-b", bootstrap]) == 0
    assert "a transaction is open from 0" in capsys.readouterr().out
    assert run(["doctor", f"{group}-open", "--check", "open-transaction", "-b", bootstrap, "-o", "json"]) == 8
    producer.abort_transaction(30)
    (finding,) = json.loads(capsys.readouterr().out)["data"]["findings"]
    assert finding["about"] == [f"{topic}-open-0"]


@pytest.mark.slow
def test_nothing_but_markers_is_left(scene, capsys):
    """What is committed is the offset after the last record, as a consumer does that commits what it has handled."""
    bootstrap, group, topic, _ = scene
    name, place = f"{group}-markers", f"{topic}[{MARKER}]"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    rows = [TopicPartition(topic, MARKER, 1)]
    (done,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, rows)]).values()
    done.result(30)
    assert run(["describe", name, "--lag-time", "-b", bootstrap]) == 0
    assert f"only markers of transactions are left, and nothing to read: {place}" in capsys.readouterr().out

    def waited():
        """What is seen last; on a busy machine the last poll may be over before the broker has answered."""
        code = run(["wait", name, "--for", "lag<=0", "--timeout", "600ms", "-b", bootstrap])
        return code, capsys.readouterr().out

    told = f"lag 1: {place} has nothing left to read but markers of transactions"
    until(waited, "it is not told", accept=lambda seen: seen[0] == 8 and told in seen[1])
    assert run(["wait", name, "--for", "lag-time<=0s", "-b", bootstrap]) == 0
    capsys.readouterr()
    run(["doctor", name, "--window", "0s", "-b", bootstrap, "-o", "json"])
    found = {one["check"] for one in json.loads(capsys.readouterr().out)["data"]["findings"]}
    assert found == {"commits-without-members"}


@pytest.mark.slow
def test_a_window_that_the_command_has_no_time_for_is_a_usage_error(scene, capsys):
    bootstrap, group, _, _ = scene
    for window in ("30s", "0s"):
        assert run(["describe", group, "--trend", window, "--timeout", "30s", "-b", bootstrap]) == 2
        assert "error: --trend" in capsys.readouterr().err

"""The live topic of a real Kafka gives the same history as a copy of its segments, at once and piece by piece."""

import json
import shutil
import subprocess
import uuid
from dataclasses import replace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kgm.client import connect
from kgm.client.offsets_topic.topic_reader import TopicReader
from kgm.client.security import make_security
from kgm.client.topic_log import partition_log
from kgm.history.causes.session_timeouts import SessionSource, SessionTimeout
from kgm.history.derive import derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.tables import TablesInMemory
from kgm.model.errors import AuthorizationError, DecodeError, NotFoundError, PartialError, RefusedError
from kgm.operations.history import explain_group
from kgm.operations.history.live import LiveHistory, LiveRequest
from kgm.operations.history.source import History, HistorySource
from kgm.pipeline.options import SourceKind
from tests import KGM
from tests.cli.environment import bare
from tests.cli.runner import kgm
from tests.kafka.broker import DEFAULTS
from tests.kafka.members import RdMembers, wait_settled
from tests.selection import sized
from tests.waiting import until

pytestmark = [pytest.mark.shows("history"), pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
TOPIC, PARTITIONS = "live-history", 6


@pytest.fixture(scope="module", autouse=True)
def _topic(kafka):
    kafka.create_topics({TOPIC: PARTITIONS})


@pytest.fixture(scope="module")
def groups(kafka, _topic):
    """A classic group and a consumer group with a static member, which others joined and left."""
    names = []
    with RdMembers(kafka.bootstrap) as members:
        for protocol in ("classic", "consumer"):
            group = f"live-{protocol}-{uuid.uuid4().hex[:8]}"
            names.append(group)
            options = {"group": group, "topics": [TOPIC], "protocol": protocol}
            a = members.start(instance_id="a", **options)
            wait_settled([a], PARTITIONS)
            b = members.start(**options)
            wait_settled([a, b], PARTITIONS)
            b.close()
            wait_settled([a], PARTITIONS)
            c = members.start(**options)
            wait_settled([a, c], PARTITIONS)
            a.close()
            c.close()
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        for group in names:  # the session of the static member ends, and nothing is written after that
            until(lambda group=group: cluster.describe_group(group).state == "Empty", f"{group} has members", 30)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for group in names:  # every ten minutes the broker deletes groups without members and offsets
        at = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0, 0)])
        (done,) = admin.alter_consumer_group_offsets([at]).values()
        done.result(30)
    return names


def live(kafka, group_id, **more):
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        return LiveHistory(cluster, LiveRequest(group_id=group_id, **more)).read()


def comparable(explained):
    """The commands that come next name the source."""
    return replace(explained, next_steps=tuple(replace(step, command="") for step in explained.next_steps))


def copied(kafka, folder):
    """The history in a copy of the broker's segments, taken now, with the session timeout that its groups have."""
    for path in kafka.log_dir().glob("__consumer_offsets-*"):
        shutil.copytree(path, folder / path.name)
    raw = raw_table(folders(folder), Reading())
    session_ms = int(DEFAULTS["group.consumer.session.timeout.ms"])

    def asked(_group_id, _group_type):
        return SessionTimeout.exactly(session_ms, SessionSource.BROKER)

    tables = TablesInMemory(tables=derive(raw, session_of_group=asked).tables)
    return History(source=HistorySource(path=folder, kind=SourceKind.SEGMENTS), tables=tables)


@pytest.mark.long
def test_the_answers_are_those_of_the_segments(kafka, groups, tmp_path):
    source, whole = copied(kafka, tmp_path), live(kafka, None)
    for group in groups:
        expected = comparable(explain_group(source, group))
        assert len(expected.rebalances) >= 4
        history = live(kafka, group)
        assert comparable(explain_group(history, group)) == expected
        assert comparable(explain_group(whole, group)) == expected
        for row in sized(expected.rebalances[1:2], expected.rebalances):
            assert comparable(explain_group(history, group, row.to_generation)) == comparable(
                explain_group(source, group, row.to_generation)
            )


def test_a_history_that_grows_is_the_one_that_is_read_at_once(kafka):
    group = f"growing-{uuid.uuid4().hex[:8]}"
    with RdMembers(kafka.bootstrap) as members, connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        options = {"group": group, "topics": [TOPIC]}
        a = members.start(instance_id="a", **options)
        wait_settled([a], PARTITIONS)
        history = LiveHistory(cluster, LiveRequest(group_id=group))
        steps = iter([lambda: members.start(instance_id="b", **options), lambda: None])
        seen = []
        following = history.follow(lambda _: next(steps, lambda: None)())
        while not any(row.members_after == 2 for row in seen):
            grown, rows = next(following)
            seen += rows
        assert [row.cause for row in seen] == ["join"]
        assert comparable(explain_group(grown, group)) == comparable(explain_group(live(kafka, group), group))


def test_what_does_not_fit_is_refused_or_read_from_a_time_on(kafka, groups):
    (group, _) = groups
    whole = live(kafka, group)
    *_, one_before, last = whole.rebalances(group)
    with pytest.raises(RefusedError, match=f"the partition of group {group} holds more than 0 MiB"):
        live(kafka, group, max_bytes=1)
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        reader = TopicReader(cluster, group_id=group, max_bytes=1 << 30)
        size = sum(len(part.data) for part in reader.read(cluster.deadline))
        request = LiveRequest(group_id=group, since_ms=one_before.timestamp, max_bytes=size - 1)
        history = LiveHistory(cluster, request)
        cut = history.read()
        rows = cut.rebalances(group)
        with pytest.raises(PartialError, match="no-such-group is not in the history, but a part"):
            cut.require_group("no-such-group")
        assert "was read only from --since on" in history.notes[0]
    assert [row.offset for row in rows] == [last.offset]


def log_of(parts):
    """{partition: its bytes}."""
    data = {}
    for part in parts:
        data[part.partition] = data.get(part.partition, b"") + part.data
    return data


def test_a_read_that_fails_loses_nothing(kafka, groups, monkeypatch):
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        expected = TopicReader(cluster, group_id=None, max_bytes=1 << 30).read(cluster.deadline)
        assert len({part.partition for part in expected}) > 1
        reader = TopicReader(cluster, group_id=None, max_bytes=1 << 30)
        last = max(part.partition for part in expected)
        fetch_log = partition_log.fetch_log

        def fail_at_last(connection, partition, *arguments, **options):
            if partition == last:
                raise DecodeError("cut off")
            return fetch_log(connection, partition, *arguments, **options)

        monkeypatch.setattr(partition_log, "fetch_log", fail_at_last)
        with pytest.raises(DecodeError):
            reader.read(cluster.deadline)
        monkeypatch.undo()
        parts = log_of(reader.read(cluster.deadline))
        assert all(parts[number].startswith(data) for number, data in log_of(expected).items())


def test_groups_and_rights_that_are_missing(kafka, secured):
    with pytest.raises(NotFoundError, match="is not in the history"):
        explain_group(live(kafka, "no-such-group"), "no-such-group")
    secured.add_absent_member("live-rights", "a")
    settings = secured.settings("SASL_SSL", user="nobody")
    security, _ = make_security(settings)
    with (
        connect(settings["bootstrap.servers"], timeout_ms=30_000, security=security) as cluster,
        pytest.raises(AuthorizationError, match="__consumer_offsets cannot be read") as caught,
    ):
        LiveHistory(cluster, LiveRequest(group_id="live-rights")).read()
    assert caught.value.facts == ("required: READ on Topic '__consumer_offsets'",)


@pytest.mark.long
def test_the_commands(kafka, groups):
    for group in groups:
        run = kgm("history", "explain", group, "-b", kafka.bootstrap, "-o", "json")
        assert (run.code, run.err) == (0, "")
        document = json.loads(run.out)
        assert document["data"]["rebalance"]["group_id"] == group
        assert document["data"]["window"]["source"] == "kafka"
        assert document["cluster"]["id"] is not None
        listed = kgm("history", "rebalances", group, "-b", kafka.bootstrap, "-o", "json")
        assert json.loads(listed.out)["data"]["rebalances"] == document["data"]["rebalances"]
    every = kgm("history", "rebalances", "-b", kafka.bootstrap, "--match", "live-c*", "-o", "name")
    assert set(groups) <= set(every.out.split())


def test_rebalances_are_printed_as_they_happen(kafka):
    group = f"followed-{uuid.uuid4().hex[:8]}"
    command = [*KGM, "history", "explain", group, "-b", kafka.bootstrap, "--follow", "-o", "ndjson"]
    with (
        RdMembers(kafka.bootstrap) as members,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=bare()) as child,
    ):
        try:
            assert child.stderr.readline() == (
                f"the history of group {group} is read; each new rebalance is printed when it has ended\n"
            )
            a = members.start(group=group, topics=[TOPIC])
            wait_settled([a], PARTITIONS)
            row = json.loads(child.stdout.readline())
            assert (row["group_id"], row["cause"]) == (group, "join")
            a.close()
            row = json.loads(child.stdout.readline())
            assert (row["generation_after"], row["members_after"]) == (2, 0)
        finally:
            child.terminate()
            child.wait(30)


@pytest.mark.long
def test_advice_is_printed_while_following_when_it_changes(kafka):
    group = f"advised-{uuid.uuid4().hex[:8]}"
    command = [*KGM, "history", "explain", group, "-b", kafka.bootstrap, "--follow"]
    with (
        RdMembers(kafka.bootstrap) as members,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=bare()) as child,
    ):
        try:
            child.stderr.readline()
            stays = members.start(group=group, topics=[TOPIC], client_id="stays")
            wait_settled([stays], PARTITIONS)
            for _ in range(2):
                restarts = members.start(group=group, topics=[TOPIC], client_id="restarts")
                wait_settled([stays, restarts], PARTITIONS)
                restarts.close()
                wait_settled([stays], PARTITIONS)
            seen = []
            while not any("with static membership" in line for line in seen):
                seen.append(child.stdout.readline())
            assert any(line.startswith("advice") for line in seen)
        finally:
            child.terminate()
            child.wait(30)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--follow", "--source", "segments:there"], "--follow needs a live cluster"),
        (["--follow", "-b", "127.0.0.1:1", "-o", "json"], "--follow cannot print json"),
    ],
    ids=["source", "format"],
)
def test_what_cannot_be_followed(words, error):
    run = kgm("history", "explain", "g", *words)
    assert run.code == 2
    assert error in run.err

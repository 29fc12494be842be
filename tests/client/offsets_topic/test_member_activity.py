"""The records of one group, read while its partition moves from one broker to another."""

from __future__ import annotations

import json

import pytest

from kgm.client import connect
from kgm.client.offsets_topic import member_activity
from kgm.client.offsets_topic.member_activity import GroupActivity, RebalanceRecord
from kgm.client.topic_log import partition_log
from kgm.client.topic_log.partition_log import OFFSETS_TOPIC
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from tests.cli.runner import kgm
from tests.client.faults import Edit, FaultProxy, denied
from tests.client.joiners import take_all
from tests.client.offsets_topic.test_group_tail import broker, member  # noqa: F401  (fixtures)
from tests.client.offsets_topic.test_last_rebalance import bury
from tests.waiting import until

pytestmark = pytest.mark.kafka
PATIENCE_MS = 60_000


def leaderless(answer):
    for topic in answer.topics:
        for one in topic.partitions:
            if topic.name == OFFSETS_TOPIC:
                one.leader_id = -1


def moved(answer):
    for topic in answer.topics:
        for one in topic.partitions:
            one.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def proxy(broker):  # noqa: F811
    with FaultProxy(("127.0.0.1", broker.port)) as running:
        yield running


@pytest.fixture
def activity(proxy, member, monkeypatch):  # noqa: F811
    monkeypatch.setattr(partition_log, "PAUSE_S", 0.01)
    with connect(proxy.bootstrap, timeout_ms=PATIENCE_MS) as cluster:
        yield GroupActivity(cluster, member.group), cluster


def generations(records):
    return [one.generation for one in records if isinstance(one, RebalanceRecord)]


@pytest.mark.parametrize(
    ("api", "change"), [(ApiKey.METADATA, leaderless), (ApiKey.LIST_OFFSETS, moved)], ids=["no leader", "moved"]
)
def test_a_partition_that_moves_is_read_when_it_has_moved(activity, proxy, member, api, change):  # noqa: F811
    read, cluster = activity
    proxy.script(api, Edit(change), Edit(change))
    assert generations(read.read_back(lambda _: False, cluster.deadline)) == [0, 1]  # 0: it was created
    assert read.unreadable_because is None
    take_all(member)
    proxy.script(api, Edit(change), Edit(change))
    assert generations(read.read_on(cluster.deadline)) == [2]
    assert read.unreadable_because is None


@pytest.mark.parametrize(
    ("change", "why", "tries"),
    [
        (leaderless, "__consumer_offsets cannot be read (partition {} of __consumer_offsets has no leader)", 4),
        (denied, "no READ on Topic '__consumer_offsets'", 1),
    ],
)
def test_what_stays_unreadable_is_said_after_some_tries_or_at_once(activity, proxy, change, why, tries):
    read, cluster = activity
    proxy.always(ApiKey.METADATA, Edit(change))
    before = len(proxy.requests(ApiKey.METADATA))
    assert read.read_back(lambda _: False, cluster.deadline) == []
    assert read.unreadable_because in [why.format(number) for number in range(50)]
    assert len(proxy.requests(ApiKey.METADATA)) - before == tries


def test_from_when_on_the_records_are_known(activity, member, monkeypatch):  # noqa: F811
    read, cluster = activity
    assert read.known_since_ms is None
    bury(member, 300)
    everything = read.read_back(lambda _: False, cluster.deadline)
    assert read.known_since_ms == 0
    monkeypatch.setattr(member_activity, "_FIRST_WINDOW", 20)
    newest = read.read_back(lambda _: True, cluster.deadline)
    assert 0 < len(newest) < len(everything)
    assert newest == everything[-len(newest) :]
    assert everything[0].at_ms <= read.known_since_ms <= newest[0].at_ms


def test_doctor_does_not_take_a_log_that_cannot_be_read_now_for_one_without_findings(proxy, member):  # noqa: F811
    words = ("doctor", member.group, "-b", proxy.bootstrap, "--window", "0s", "-o", "json")
    until(
        lambda: json.loads(kgm(*words).out)["data"]["skipped"], "a topic that was just created cannot be read",
        accept=lambda skipped: skipped == [],
    )  # fmt: skip
    proxy.always(ApiKey.METADATA, Edit(leaderless))
    told = json.loads(kgm(*words).out)["data"]["skipped"]
    (of_log,) = [one for one in told if "session-too-short" in one["checks"]]
    assert "has no leader" in of_log["why"]

"""For which topics a group has committed offsets, by its log: real clients commit and delete."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from kgm.client import connect
from kgm.client.topic_log import committed_topics
from kgm.client.topic_log.committed_topics import CommittedTopics
from kgm.client.transport.deadline import Deadline
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.client.faults import Edit, FaultProxy
from tests.kafka.records import commit


@pytest.fixture
def server():
    with serve_in_thread(topics={"pay": 2, "to": 1}) as running:
        commit(running.bootstrap, "g", ("pay", 0, 0), ("pay", 1, 0), ("to", 0, 0))
        commit(running.bootstrap, "gg", ("to", 0, 0))
        yield running


@pytest.fixture
def topics_of(server):
    """Reads the logs of groups, all of it first and what is new after that."""
    with connect(server.bootstrap) as cluster:
        logs = CommittedTopics(cluster.brokers)
        yield lambda *group_ids: logs.of(group_ids, Deadline.after(30_000))


def test_it_follows_commits_and_deletions(server, topics_of):
    assert topics_of("g", "gg", "none") == {"g": {"pay", "to"}, "gg": {"to"}, "none": set()}
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.delete_consumer_groups(["g"])["g"].result(30)
    commit(server.bootstrap, "none", ("pay", 1, 0))
    assert topics_of("g", "gg", "none") == {"g": set(), "gg": {"to"}, "none": {"pay"}}


def test_a_log_that_is_too_long_says_nothing(server, topics_of, monkeypatch):
    commit(server.bootstrap, "g", ("to", 0, 1))
    monkeypatch.setattr(committed_topics, "MAX_BYTES", 10)
    monkeypatch.setattr("kgm.client.topic_log.partition_log._FETCH_BYTES", 1)  # one batch in each fetch
    assert topics_of("g") == {}
    assert topics_of("g") == {}


def test_a_log_that_grows_is_not_too_long(server, topics_of, monkeypatch):
    assert topics_of("g") == {"g": {"pay", "to"}}
    monkeypatch.setattr(committed_topics, "MAX_BYTES", 1)
    for offset in (1, 2, 3):
        commit(server.bootstrap, "g", ("to", 0, offset))
        assert topics_of("g") == {"g": {"pay", "to"}}


def only_describe(answer):
    """The login may do nothing else on the cluster, where the answer has that."""
    if answer.cluster_authorized_operations != -(2**31):
        answer.cluster_authorized_operations = 1 << 8


@pytest.mark.parametrize(
    ("group_ids", "options", "searched"),
    [
        (["g"], {}, ["g"]),
        (["g"], {"is_brief": True}, []),
        (["g"], {"offsets": False}, []),
        (["g", "gg"], {}, []),
        (["g", "gg"], {"most_searched": 2}, ["g", "gg"]),
        (["g", "gg"], {"most_searched": 1}, []),
    ],
)
def test_a_login_from_which_nothing_seems_hidden_searches_few_logs(server, monkeypatch, group_ids, options, searched):
    """A list of many groups costs no more than what it shows."""
    asked = []
    real = CommittedTopics.of

    def of(self, group_ids, deadline):
        asked.extend(group_ids)
        return real(self, group_ids, deadline)

    monkeypatch.setattr(CommittedTopics, "of", of)
    with FaultProxy((server.host, server.port)) as proxy:
        proxy.always(ApiKey.METADATA, Edit(only_describe))
        with connect(proxy.bootstrap) as cluster:
            found = cluster.describe_groups(group_ids, **options)
    assert sorted(asked) == searched
    assert not any(one.may_lack_offsets for one in found)
    asked.clear()
    with connect(server.bootstrap) as cluster:  # without an authorizer nothing is denied
        cluster.describe_groups(group_ids, **options)
    assert asked == []


def test_the_logs_of_a_few_groups_only_are_read(topics_of, monkeypatch):
    monkeypatch.setattr(committed_topics, "MOST_GROUPS", 1)
    assert topics_of("g", "gg") == {"g": {"pay", "to"}}

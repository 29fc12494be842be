"""A static member restarts with fewer topics: no rebalance, and it gets the partitions that it had. librdkafka's consumers
keep those of topics to which they no longer subscribe until the next rebalance takes them away; Java's rejoin at once."""

from __future__ import annotations

import pytest

from kgm.client import connect
from kgm.operations.doctor.diagnosis import diagnose
from kgm.server import serve_in_thread
from tests.kafka.members import members_of, wait_settled
from tests.waiting import until

pytestmark = pytest.mark.slow
TOPICS = {"old": 4, "new": 4}


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics=TOPICS, settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def findings(server, group):
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        found = diagnose(cluster, [group], window_ms=0).findings
    return [one for one in found if one.check == "unsubscribed-owner"]


def owned(server, group, name):
    """What the member has, once the group is stable and it subscribes to `new` only; otherwise None."""
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        seen = cluster.describe_group(group, offsets=False)
    (member,) = (one for one in seen.members if one.identity == name)
    assignment = {topic: [*numbers] for topic, numbers in member.assignment.items()}
    return assignment if seen.state == "Stable" and member.topics == ("new",) else None


@pytest.mark.parametrize("kind", ["librdkafka", pytest.param("java", marks=[pytest.mark.kafka, pytest.mark.few(1)])])
def test_a_member_that_restarts_with_fewer_topics(server, kind):
    with members_of(kind, server.bootstrap) as members:

        def start(name, *topics):
            return members.start(
                group=kind, topics=topics, instance_id=name, assignor="range", session_timeout_ms=30_000
            )

        both = [start(name, "old", "new") for name in ("a-1", "a-2")]
        wait_settled(both, 8)
        assert findings(server, kind) == []
        both[1].close()
        start("a-2", "new").wait_assigned()
        if kind == "java":
            until(lambda: owned(server, kind, "a-2") == {"new": [2, 3]}, "a-2 keeps what it had")
            assert findings(server, kind) == []
            return
        assert until(lambda: owned(server, kind, "a-2"), "a-2 is not back") == {"old": [2, 3], "new": [2, 3]}
        (one,) = findings(server, kind)
        assert (one.severity, one.about, one.evidence[0]) == (
            "warning",
            ("a-2",),
            "a-2: owns old[2-3], subscribes to new",
        )
        start("a-3", "old", "new")
        until(lambda: "old" not in (owned(server, kind, "a-2") or {"old": []}), "the next rebalance takes nothing away")
        assert findings(server, kind) == []

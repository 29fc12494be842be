"""Groups that are watched while the coordinator's log cannot be read: the count is not certain until it can be read
again, and then it is the same as if it had been readable all the time."""

from __future__ import annotations

import pytest

from kgm.client import connect
from kgm.client.poller import GroupPoller
from kgm.operations.export.collector import ExportRequest, GroupCollector
from kgm.operations.watch.events import EventKind
from kgm.operations.watch.expectations import Expectations
from kgm.operations.watch.watched_group import WatchedGroup
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.client.conftest import TOPIC
from tests.client.faults import Edit, Pass, ResetBefore
from tests.client.joiners import Joiner, take_all
from tests.waiting import until

pytestmark = pytest.mark.slow

PATIENCE_MS = 60_000
#: For polls behind the proxy: a read that fails is tried again until this has passed. On a busy machine one that does not
#: fail may take longer, so what it sees is waited for.
QUICK_MS = 1_000
_MEMBERS = (EventKind.JOINED, EventKind.LEFT)


class Observer:
    """Watches a group, poll after poll."""

    def __init__(self, cluster, group, budget_ms):
        self._poller = GroupPoller(cluster, [group], budget_ms=budget_ms)
        self.watched = WatchedGroup(group, expectations=Expectations(max_rebalances=9, expect_no_moves=True))
        self.events = []
        self._polls = 0

    def poll(self):
        self._polls += 1
        look = self._poller.poll()[self.watched.group_id]
        self.events += self.watched.observe(look, self._polls * 1000)

    def poll_until_it_sees_all(self):
        def unseen():
            self.poll()
            return self.watched.unseen()

        until(unseen, "the log is not read", accept=lambda why: why is None)

    @property
    def members(self):
        """Who came and went, in any order."""
        return sorted((one.kind, one.member_id) for one in self.events if one.kind in _MEMBERS)

    @property
    def counts(self):
        verdict = self.watched.verdict(reached=None)
        return verdict.rebalances, verdict.handovers, verdict.handovers_exact, verdict.rebalances_doubt


@pytest.fixture
def pair(server, group):
    """Two members of which only one is in the group at a time."""
    members = [Joiner(server.port, group, name, TOPIC) for name in "ab"]
    take_all(members[0])
    yield members
    for one in members:
        one.close()


def hand_over(old, new):
    row = MemberIdentity(member_id=old.member_id, group_instance_id=old.instance_id)
    assert old.wire.ask(LeaveGroupRequest(group_id=old.group, members=[row]), version=4).error_code == 0
    old.member_id = ""
    take_all(new)


@pytest.fixture
def observers(server, proxy, group, pair):
    """One that sees everything, and one that is behind the proxy."""
    with connect(server.bootstrap) as whole, connect(proxy.bootstrap) as part:
        pair_of = Observer(whole, group, PATIENCE_MS), Observer(part, group, QUICK_MS)
        for one in pair_of:
            one.poll_until_it_sees_all()
        yield pair_of


def unavailable(answer):
    for topic in answer.topics:
        for partition in topic.partitions:
            if topic.name == "__consumer_offsets":
                partition.error_code = -1


FAULTS = [
    pytest.param(ApiKey.FETCH, ResetBefore(), id="Fetch"),
    pytest.param(ApiKey.LIST_OFFSETS, ResetBefore(), id="ListOffsets"),
    pytest.param(ApiKey.METADATA, ResetBefore(), id="Metadata"),
]


@pytest.mark.parametrize(("api", "fault"), FAULTS)
def test_a_log_that_cannot_be_read_at_the_end_leaves_a_doubt(observers, proxy, pair, api, fault):
    _, part = observers
    assert part.watched.unseen() is None
    proxy.always(api, fault)
    hand_over(*pair)
    hand_over(*reversed(pair))
    part.poll()
    assert part.watched.unseen() is not None
    assert part.watched.rebalances_doubt.more is None
    assert part.watched.handovers_exact is False


@pytest.mark.few(3)
@pytest.mark.parametrize(("api", "fault"), [*FAULTS, pytest.param(ApiKey.LIST_OFFSETS, Edit(unavailable), id="error")])
@pytest.mark.parametrize("polled", ["each", "last"])
def test_what_happened_meanwhile_is_counted_and_told_once(observers, proxy, pair, api, fault, polled):
    whole, part = observers
    proxy.always(api, fault)
    for old, new in (pair, reversed(pair), pair):
        hand_over(old, new)
        whole.poll()
        if polled == "each":
            part.poll()
    part.poll()
    proxy.always(api, Pass())
    whole.poll()
    if isinstance(fault, Edit):  # after an answer that is no temporary error, nothing is certain
        until(
            lambda: part.poll() or part.counts[:2], "it does not catch up", accept=lambda now: now == whole.counts[:2]
        )
    else:
        part.poll_until_it_sees_all()
    part.poll()
    assert (part.counts[:2], whole.counts[:2]) == ((whole.counts[0], 6), (part.counts[0], 6))
    assert part.members == whole.members
    if not isinstance(fault, Edit):
        assert (part.counts, part.watched.unseen()) == (whole.counts, None)


def test_a_collection_that_cannot_read_the_log_says_so_and_a_later_one_counts_all(server, proxy, group, pair):
    with connect(proxy.bootstrap) as cluster:
        collector = GroupCollector(cluster=cluster, request=ExportRequest(names=[group], budget_ms=QUICK_MS))

        def collected():
            one = collector.collect()
            handovers = {labels[0]: value for labels, value in one.series.handovers.rows}
            return one.log_unread_because is None, handovers[group]

        until(collected, "the log is not read", accept=lambda now: now == (True, 0))
        proxy.always(ApiKey.FETCH, ResetBefore())
        hand_over(*pair)
        assert collected() == (False, 2)
        hand_over(*reversed(pair))
        hand_over(*pair)
        assert collected() == (False, 2)
        proxy.always(ApiKey.FETCH, Pass())
        until(collected, "the log is not read", accept=lambda now: now == (True, 6))

"""Which worker runs a member of a sink connector's group, where several may."""

import pytest

from kgm.client.group_listing import ListedGroup, Listing
from kgm.model.error_code import ErrorCode
from kgm.model.errors import AuthorizationError, NotFoundError, UnreachableError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import MemberWork
from kgm.operations.groups.sink_tasks import SinkTasks, sink_tasks, tasks_of


def worker(name, host, *tasks):
    return MemberSnapshot(
        member_id=name, client_host=host, work=MemberWork(user_endpoint=f"http://{name}/", active_tasks=tasks)
    )


def consumer(task, host="10.0.0.1"):
    return MemberSnapshot(member_id=f"c-{task}", client_id=f"connector-consumer-jdbc-{task}", client_host=host)


def group(name, kind, *members):
    return GroupSnapshot(group_id=name, type="classic", state="Stable", protocol_type=kind, members=members)


SINK = group("connect-jdbc", "consumer", consumer(0), consumer(1))


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ([], {"c-0": "w-1", "c-1": "w-1"}),
        # Another cluster of Connect has a connector of that name: the host decides, if it does.
        ([worker("x-1", "10.0.0.2", "jdbc-0")], {"c-0": "w-1", "c-1": "w-1"}),
        ([worker("x-1", "10.0.0.1", "jdbc-0")], {"c-1": "w-1"}),
        ([worker("x-1", "10.0.0.1", "jdbc-00", "jdbcx-0")], {"c-0": "w-1", "c-1": "w-1"}),
    ],
)
def test_the_worker_of_a_consumer(others, found):
    workers = [group("one", "connect", worker("w-1", "10.0.0.1", "jdbc-0", "jdbc-1"), worker("w-2", "10.0.0.1"))]
    workers += [group("two", "connect", *others)]
    assert {one.member_id: one.worker_id for one in sink_tasks(workers, [SINK])} == found


def test_of_two_consumers_of_one_task_a_worker_runs_that_at_its_host():
    """Another cluster of Connect, which is not looked at, has a connector of that name."""
    other = MemberSnapshot(member_id="x-0", client_id="connector-consumer-jdbc-0", client_host="10.0.0.2")
    both = group("connect-jdbc", "consumer", consumer(0), other)
    workers = [group("one", "connect", worker("w-1", "10.0.0.1", "jdbc-0"))]
    assert [one.member_id for one in sink_tasks(workers, [both])] == ["c-0"]


def test_members_with_other_client_ids_are_of_no_sink_connector():
    other = MemberSnapshot(member_id="x", client_id="mine")
    workers = [group("one", "connect", worker("w-1", "10.0.0.1", "jdbc-0"))]
    assert [*sink_tasks(workers, [group("connect-jdbc", "consumer", consumer(0), other)])] == []


WORKERS = group("one", "connect", worker("w-1", "10.0.0.1", "jdbc-0", "files-0"), worker("w-2", "10.0.0.2", "jdbc-1"))


class Cluster:
    """These groups, and why others are not known. asked: for what."""

    def __init__(self, *groups, errors=None, listing_error=None):
        self.groups, self.errors = {one.group_id: one for one in groups}, errors or {}
        self.listing_error, self.asked = listing_error, []

    def list_groups(self):
        self.asked.append("list")
        if self.listing_error is not None:
            raise self.listing_error
        rows = [
            ListedGroup(group_id=name, protocol_type=one.protocol_type, state="Stable", type="classic")
            for name, one in self.groups.items()
        ]
        return Listing(groups=tuple(rows), errors=())

    def describe_groups(self, group_ids, *, offsets):
        assert not offsets
        self.asked += group_ids
        gone = NotFoundError("no such group")
        return [self.groups.get(name) or self.errors.get(name, gone) for name in group_ids]


@pytest.mark.parametrize(
    ("described", "asked"),
    [
        ([WORKERS], ["connect-files", "connect-jdbc"]),  # files is a source: its group does not exist
        ([SINK], ["list", "one"]),
        ([WORKERS, SINK], ["connect-files"]),
        ([group("orders", "consumer", MemberSnapshot(member_id="m", client_id="c"))], []),
    ],
)
def test_each_group_finds_the_other(described, asked):
    cluster = Cluster(WORKERS, SINK, group("orders", "consumer"))
    found = SinkTasks(cluster=cluster)
    for _ in range(2):  # as another part of all groups
        found.look(described)
    assert cluster.asked[: len(asked)] == asked
    assert ("list" in cluster.asked[len(asked) :], found.unread) == (False, [])
    assert [len(tasks_of(one, found.tasks.values())) for one in described] == [len(found.tasks)] * len(described)
    assert [(one.member_id, one.worker_id) for one in found.tasks.values()] == (
        [("c-0", "w-1"), ("c-1", "w-2")] if asked else []
    )


@pytest.mark.parametrize(
    ("cluster", "described", "warning"),
    [
        (
            Cluster(errors={"connect-jdbc": AuthorizationError("no DESCRIBE", kafka_error=ErrorCode.GROUP_AUTHORIZATION_FAILED)}),
            WORKERS, "group 'connect-jdbc' could not be described (GROUP_AUTHORIZATION_FAILED)",
        ),
        (Cluster(listing_error=UnreachableError("no broker answers")), SINK, "not all groups could be listed"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(cluster, described, warning):
    found = SinkTasks(cluster=cluster)
    found.look([described])
    assert [one.warning.startswith(warning) for one in found.unread] == [True]
    assert not found.tasks

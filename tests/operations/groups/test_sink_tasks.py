"""Which worker runs a member of a sink connector's group, where several may."""

import pytest

from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import MemberWork
from kgm.operations.groups.sink_tasks import sink_tasks


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


def test_members_with_other_client_ids_are_of_no_sink_connector():
    other = MemberSnapshot(member_id="x", client_id="mine")
    workers = [group("one", "connect", worker("w-1", "10.0.0.1", "jdbc-0"))]
    assert [*sink_tasks(workers, [group("connect-jdbc", "consumer", consumer(0), other)])] == []

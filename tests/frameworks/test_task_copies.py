"""Which tasks of a Kafka Streams application have a copy left when members go."""

from dataclasses import replace

import pytest

from kgm.frameworks.task_copies import freed_tasks
from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import MemberWork
from kgm.operations.removal.consequences import task_warnings
from kgm.operations.removal.plan import check_supported, resolve, threads_of
from kgm.operations.removal.request import RemovalRequest


def thread(name, process, active=(), standby=()):
    work = MemberWork(process_id=process, active_tasks=tuple(active), standby_tasks=tuple(standby))
    return MemberSnapshot(member_id=f"{name}-id", group_instance_id=name, status="stable", work=work)


GROUP = GroupSnapshot(
    group_id="app", type="classic", state="Stable", protocol_type="consumer", assignor="stream",
    members=(
        thread("wr-1-1", "p-1", ["0_0", "1_0"], ["1_1"]), thread("wr-1-2", "p-1", ["0_1"], ["1_2"]),
        thread("wr-2-1", "p-2", ["1_1"], ["1_0"]), thread("wr-2-2", "p-2", ["1_2", "1_10"]),
    ),
)  # fmt: skip


#: With the process ids that Kafka Streams has.
REAL = replace(
    GROUP, is_settled=True, members=tuple(
        replace(one, work=replace(one.work, process_id=f"0f0e8a44-0000-4000-8000-00000000000{one.identity[3]}"))
        for one in GROUP.members
    ),
)  # fmt: skip


def test_copies_are_those_of_processes_that_stay():
    one = freed_tasks(GROUP, ["wr-1-1", "wr-1-2"])
    assert (one.tasks, one.standbys, one.alone) == (("0_0", "0_1", "1_0"), {"1_0": ("wr-2-1",)}, ("0_0", "0_1"))
    both = freed_tasks(GROUP, [member.identity for member in GROUP.members])
    assert (both.standbys, both.alone) == ({}, ("0_0", "0_1", "1_0", "1_1", "1_2", "1_10"))
    assert not freed_tasks(GROUP, []).tasks


def test_subtopologies_of_a_client_that_does_not_number_them():
    """The coordinator takes any string as a subtopology id (KIP-1071)."""
    members = thread("a", "p-1", ["join_0", "0_0"]), thread("b", "p-2", [], ["join_0"])
    one = freed_tasks(replace(GROUP, type="streams", members=members), ["a"])
    assert (one.tasks, one.standbys, one.alone) == (("0_0", "join_0"), {"join_0": ("b",)}, ("0_0",))


@pytest.mark.parametrize("named", ["p-1", "wr-1-2"])
def test_a_process_is_named_by_its_id_or_by_a_thread(named):
    plan = resolve(RemovalRequest(group_id="app", processes=(named,)), GROUP)
    assert [target.id for target in plan.targets] == ["wr-1-1", "wr-1-2"]
    assert all(target.member is not None for target in plan.targets)


def test_a_process_that_is_not_there():
    assert threads_of("p-9", GROUP.members) == []
    assert resolve(RemovalRequest(group_id="app", processes=("p-9",)), GROUP).targets == ()
    consumers = (MemberSnapshot(member_id="m", group_instance_id="p-9"),)
    assert threads_of("p-9", consumers) == []


def test_a_removal_says_which_tasks_it_frees_and_what_comes_then():
    """The one process that stays takes everything at once: nobody has to give anything up first."""
    *_, unread = task_warnings(GROUP, ["wr-1-1", "wr-1-2"])
    assert unread.endswith("the tasks of wr-1-1, wr-1-2, wr-2-1, wr-2-2 cannot be read")  # p-1 is no process id
    freed, standbys, alone, then = task_warnings(REAL, ["wr-1-1", "wr-1-2"])
    assert then == "rebalances until the application is settled: 1"
    assert freed == "3 active tasks to be assigned again: 0_0, 0_1, 1_0"
    assert standbys.endswith("1_0 (wr-2-1)")
    assert alone.startswith("nobody else has a copy of 0_0, 0_1:")


def test_nothing_is_settled_where_nobody_is_left():
    freed, alone = task_warnings(REAL, [member.identity for member in REAL.members])
    assert freed.startswith("6 active tasks to be assigned again")
    assert alone.startswith("nobody else has a copy of 0_0, 0_1, 1_0, 1_1, 1_2 and 1 more")
    one_process = replace(REAL, members=REAL.members[:2])
    assert len(task_warnings(one_process, ["wr-1-1", "wr-1-2"])) == 2


def test_a_large_application_is_not_played_while_somebody_waits():
    tasks = [f"0_{number}" for number in range(200)]
    members = tuple(replace(one, work=replace(one.work, active_tasks=tuple(tasks))) for one in REAL.members)
    *_, then = task_warnings(replace(REAL, members=members), ["wr-1-1", "wr-1-2"])
    assert then.endswith("until it is settled: kgm simulate-bounce app --remove wr-1-1,wr-1-2")


def test_streams_groups_have_no_members_to_remove():
    group = GroupSnapshot(group_id="app", type="streams", state="Stable")
    plan = resolve(RemovalRequest(group_id="app", member_ids=("m",)), group)
    with pytest.raises(RefusedError, match="it has no static members") as refused:
        check_supported(None, plan)  # type: ignore[arg-type]  # it is not asked
    assert refused.value.hint == "stop the process, then kgm wait app --for stable"

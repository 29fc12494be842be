"""The assignor of streams groups (KIP-1071), held against Kafka's own class as processes and threads come and go."""

import random
from collections import Counter

import pytest

from kgm.assignors.server.streams_tasks import TaskMember, TasksOfSubtopology, assign_tasks
from tests.assignors.kafka import AssignOracle
from tests.selection import first_seed, sized

HISTORIES, GROUPS = sized(40, 2_000), 8


def member(process_id, member_id, active=None, standby=None):
    return TaskMember(member_id, process_id, active or {}, standby or {})


def test_tasks_stay_and_standby_tasks_are_in_other_processes():
    topology = [TasksOfSubtopology("0", 4, is_stateful=True), TasksOfSubtopology("1", 2, is_stateful=False)]
    first = assign_tasks([member("a", "a-1"), member("b", "b-1")], topology, 1)
    assert Counter(len(tasks) for row in first.values() for tasks in row.active.values()) == Counter([2, 2, 1, 1])
    for one, other in (("a-1", "b-1"), ("b-1", "a-1")):
        assert first[one].standby == {"0": first[other].active["0"]}
    members = [member("a", "a-1", *first["a-1"]), member("c", "c-1")]
    second = assign_tasks(members, topology, 1)
    assert {*second["a-1"].active["0"]} >= {*first["a-1"].active["0"]}
    assert sum(map(len, second["c-1"].active.values())) == 3


def history(draw):
    """Groups of one application, each with what the members were assigned before."""
    standbys = draw.choice([0, 0, 1, 1, 2, 3])
    topology = {str(n): [draw.choice([1, 2, 3, 5, 8, 20]), draw.random() < 0.6] for n in range(draw.randint(1, 4))}
    processes = [f"{draw.getrandbits(128):032x}" for _ in range(draw.choice([1, 2, 3, 5, 9]))]
    members = {}
    for _ in range(GROUPS):
        for _ in range(draw.choice([1, 1, 2, 6])):
            members[f"{draw.getrandbits(120):x}"] = [draw.choice(processes), {}, {}]
        while len(members) > 1 and draw.random() < 0.5:
            del members[draw.choice([*members])]
        if draw.random() < 0.2:
            topology[draw.choice([*topology])][0] += 1
        if draw.random() < 0.1:
            standbys = draw.randint(0, 3)
        listed = [*members.items()]
        draw.shuffle(listed)
        said = yield {
            "members": [
                {"member_id": name, "process_id": process, "active": active, "standby": standby}
                for name, (process, active, standby) in listed
            ],
            "subtopologies": topology,
            "standbys": standbys,
        }
        for name, (active, standby, warmup) in said.items():
            assert warmup == {}
            members[name][1:] = active, standby
    yield None


@pytest.mark.kafka
@pytest.mark.slow
def test_random_groups_are_assigned_as_kafka_does():
    oracle = AssignOracle("TaskAssignDriver")
    try:
        for seed in range(first_seed(), first_seed() + HISTORIES):
            groups = history(random.Random(seed))
            case = next(groups)
            while case is not None:
                said = oracle.ask(case)
                assert solve(case) == said, (seed, case)
                case = groups.send(said)
    finally:
        oracle.close()


def solve(case):
    made = assign_tasks(
        [TaskMember(row["member_id"], row["process_id"], row["active"], row["standby"]) for row in case["members"]],
        [TasksOfSubtopology(name, *row) for name, row in sorted(case["subtopologies"].items())],
        case["standbys"],
    )
    return {name: [_lists(row.active), _lists(row.standby), {}] for name, row in made.items()}


def _lists(tasks):
    return {name: list(partitions) for name, partitions in tasks.items()}

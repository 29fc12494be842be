"""`--unit` and what it is by default, in simulate-bounce, plan and rollout."""

import json
from dataclasses import replace

import pytest

from kgm.model.work import MemberWork
from tests.cli.runner import kgm
from tests.simulation.groups import made_up

PROCESSES = [["wr-1-1", "wr-1-2"], ["wr-2-1", "wr-2-2"]]


@pytest.fixture
def snapshot(tmp_path):
    """Two static Kafka Streams processes of two threads, settled, in a file."""
    group = made_up(4, 8)
    members = tuple(
        replace(member, group_instance_id=name, work=MemberWork(process_id=f"p-{name[3]}"))
        for member, name in zip(group.members, [*PROCESSES[0], *PROCESSES[1]], strict=True)
    )
    path = tmp_path / "group.json"
    path.write_text(json.dumps(replace(group, assignor="stream", is_settled=True, members=members).to_json()))
    return str(path)


def test_simulate_bounce_says_what_it_takes_for_one(snapshot):
    words = ["simulate-bounce", "--from-file", snapshot, "--all", "--restart-time", "2s", "--draws", "3"]
    assert "rolling, 1 process at a time" in kgm(*words).out
    for unit, expected in (("auto", PROCESSES), ("member", []), ("instance", PROCESSES)):
        data = json.loads(kgm(*words, "--unit", unit, "-o", "json").out)["data"]
        assert data["plan"]["units"] == expected
        assert (data["scenarios"][0]["exact"], data["scenarios"][0]["rebalances"]) == (True, 0)
    wrong = kgm(*words, "--unit", "pod")
    assert (wrong.code, "--unit: 'pod' is not one of auto, member, host, instance" in wrong.err) == (2, True)


def test_plan_hands_it_on_to_the_rollout(snapshot):
    """Ways that make Kafka Streams assign tasks again, such as --remove-first, are no plans."""
    words = ["plan", "--from-file", snapshot, "--restart-time", "2s", "--draws", "2", "--budget", "1s"]
    run = kgm(*words, "--unit", "instance", "-o", "json")
    assert run.code == 0, run
    plans = json.loads(run.out)["data"]["plans"]
    assert plans
    assert all("--unit instance" in one["rollout"] and "--remove-first" not in one["rollout"] for one in plans)
    assert "4 members of 2 processes to restart" in kgm(*words).out


def test_a_migration_of_streams_is_refused(snapshot):
    run = kgm("simulate-bounce", "--from-file", snapshot, "--all", "--migrate")
    assert run.code == 6
    assert "cannot migrate to the consumer protocol: it is a Kafka Streams application" in run.err
    assert "group.protocol=classic" in run.err

"""`kgm simulate-bounce --library`: what the operator knows of the clients; and old snapshots, whose library is a name."""

import json
from dataclasses import replace

import pytest

from tests.cli.runner import kgm
from tests.clients.recorded_groups import described
from tests.simulation.groups import made_up


def scenario(*arguments):
    run = kgm("simulate-bounce", *arguments, "--draws", "5", "-o", "json")
    assert run.code == 0, run
    (found,) = json.loads(run.out)["data"]["scenarios"]
    return found


@pytest.fixture
def snapshot(tmp_path):
    """`snapshot(group, library)`: the file of a group, with this as the library of each member."""

    def write(group, *library):
        data = group.to_json()
        if library:
            data.pop("leader_library")
        for member in data["members"]:
            if library:
                member["client_library"] = library[0]
        path = tmp_path / "group.json"
        envelope = {"schema": "kgm.describe/v1", "cluster": None, "data": {"groups": [data]}, "errors": []}
        path.write_text(json.dumps(envelope))
        return str(path)

    return write


def test_what_the_operator_states_counts():
    java = scenario("--members", "3", "--topic", "t:12", "--instance-ids", "member-1")
    assert (java["exact"], java["rebalances"]) == (True, 0)
    stated = scenario(
        "--members", "3", "--topic", "t:12", "--instance-ids", "member-1", "--library", "platformatic"
    )  # fmt: skip
    assert (stated["exact"], stated["rebalances"]) == (False, 2)  # as was seen on Kafka 4.3.0


def test_a_library_that_kgm_does_not_know_is_a_usage_error():
    run = kgm("simulate-bounce", "--members", "3", "--topic", "t:12", "--all", "--library", "nobody")
    assert (run.code, "client library 'nobody' is not known" in run.err) == (2, True)
    assert "hint: known: java, librdkafka, franz-go" in run.err


def test_a_snapshot_keeps_the_verdicts(snapshot):
    """kafka-go and platformatic send the same subscription, and only the leader's assignments tell them apart."""
    path = snapshot(described("platformatic", "roundrobin", client_id="app"))
    assert scenario("--from-file", path, "--instance-ids", "seat-1")["rebalances"] == 2


@pytest.mark.parametrize(("library", "exact"), [("java", True), ("librdkafka", True), ("sarama", False), (None, False)])
def test_old_snapshots_name_a_library_or_nothing(snapshot, library, exact):
    path = snapshot(described("librdkafka", client_id="app"), library)
    assert scenario("--from-file", path, "--scale-in", "seat-1")["exact"] is exact


def test_drain_and_plan_take_it_too(snapshot):
    """Two static members of a group that Java's range assignor explains; platformatic's leave when they are closed."""
    path = snapshot(described("librdkafka", client_id="app"), "librdkafka")
    drained = ("drain", "--from-file", path, "--match", "seat-1", "--restart-time", "2s", "-o", "json")
    planned = ("plan", "--from-file", path, "-i", "seat-1", "--restart-time", "2s", "-o", "json")
    for arguments, key in ((drained, "groups"), (planned, "plans")):
        for library, rebalances in (((), 0), (("--library", "platformatic"), 2)):
            run = kgm(*arguments, *library, "--draws", "5")
            assert run.code == 0, run
            scenarios = [row.get("scenario", row) for row in json.loads(run.out)["data"][key]]
            assert rebalances in {one["rebalances"] for one in scenarios}
            assert not library or not any(one["exact"] for one in scenarios if one["rebalances"])
        assert kgm(*arguments, "--library", "nobody").code == 2


def test_the_rollout_lines_of_a_plan_state_it(snapshot):
    path = snapshot(described("platformatic", "roundrobin", client_id="app"))
    run = kgm("plan", "--from-file", path, "--library", "platformatic", "--draws", "5", "-o", "json")
    assert run.code == 0, run
    assert " --library platformatic " in run.out


def test_the_assignor_that_is_stated_gives_the_owners(snapshot):
    """One that kgm does not know leaves all moves open; stated to be range, six of twelve move as range moves them."""
    group = made_up(3, 12)
    path = snapshot(replace(group, assignor="mine"))
    arguments = ("drain", "--from-file", path, "--match", "member-1", "--for-good", "--draws", "5", "-o", "json")
    moved = []
    for stated in ((), ("--assignor", "range")):
        run = kgm(*arguments, *stated)
        assert run.code == 0, run
        (found,) = json.loads(run.out)["data"]["groups"]
        ranges = found["ranges"]
        moved.append(found["moved_partitions"] if ranges is None else ranges["moved_partitions"]["max"])
    assert moved == [12, 6]

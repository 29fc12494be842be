"""Groups at the end of a real log, against what the broker itself described when it had loaded the same segments."""

import pytest

from kgm.history.in_process import derive_source
from kgm.history.rows import GroupEpochRow
from kgm.history.store.final_state import final_groups
from kgm.history.store.query import RowFilter
from kgm.model.snapshot_json import snapshot_from_json
from tests.records.real_logs import DATA, groups

pytestmark = pytest.mark.slow
#: In the log, but not to be seen in it: members that still wait for the others, or for their assignment.
LIVE = {"stuck-join", "stuck-sync"}


@pytest.fixture(scope="module")
def tables():
    return derive_source("segments", DATA / "plain", most_bytes=1 << 30)


@pytest.fixture(scope="module")
def at_the_end(tables):
    return {each.snapshot.group_id: each.to_json() for each in final_groups(tables, RowFilter())}


def described(kind):
    return {
        each["describe"]["response"].get("groupId"): each["describe"]["response"]
        for each in groups("plain")
        if each["type"] == kind
    }


def by_topic(assignment):
    return {each["topicName"]: sorted(each["partitions"]) for each in assignment["topicPartitions"]}


def test_consumer_groups_are_what_the_broker_describes(at_the_end):
    expected = described("consumer")
    found = {name: group for name, group in at_the_end.items() if group["type"] == "consumer"}
    assert found.keys() == expected.keys()
    assert len(expected) == 12
    for name, said in expected.items():
        group = found[name]
        snapshot_from_json(group)  # what every reader of snapshots takes
        assert (group["state"], group["group_epoch"]) == (said["groupState"], said["groupEpoch"]), name
        assert group["assignment_epoch"] == said["assignmentEpoch"], name
        assert group["assignor"] in (None, said["assignorName"]), name
        members = {member["memberId"]: member for member in said["members"]}
        assert {member["member_id"] for member in group["members"]} == members.keys(), name
        for member in group["members"]:
            theirs = members[member["member_id"]]
            assert member["group_instance_id"] == theirs["instanceId"]
            assert member["member_epoch"] == theirs["memberEpoch"]
            assert (member["client_id"], member["client_host"]) == (theirs["clientId"], theirs["clientHost"])
            assert (member["status"] == "away") == (theirs["memberEpoch"] == -2)
            assert (member["protocol"] == "classic") == (theirs["memberType"] == 0)
            assert member["subscription"]["topics"] == sorted(theirs["subscribedTopicNames"])
            assert (member["subscription"]["regex"] or "") == (theirs["subscribedTopicRegex"] or "")
            if "unplayable" not in group:
                assert member["assignment"] == by_topic(theirs["assignment"]), (name, member["member_id"])
    assert sum("unplayable" in group for group in found.values()) <= 1


def test_classic_groups_are_what_the_broker_describes(at_the_end):
    checked = 0
    for name, said in described("classic").items():
        if name in LIVE or said["protocolType"] != "consumer":
            continue
        group = at_the_end[name]
        assert (group["type"], group["state"]) == ("classic", said["groupState"]), name
        members = {member["memberId"]: member for member in said["members"]}
        assert {member["member_id"] for member in group["members"]} == members.keys()
        for member in group["members"]:
            theirs = members[member["member_id"]]
            taken = (theirs["decoded"]["assignment"] or {}).get("assignedPartitions") or ()
            assert member["group_instance_id"] == theirs["groupInstanceId"]
            assert member["assignment"] == {each["topic"]: sorted(each["partitions"]) for each in taken}, name
        checked += len(members)
    assert checked > 40


def test_a_consumer_group_as_it_was_before(tables):
    """Of a group that has five members at the end, three at a time before."""
    epochs = tables.rows(GroupEpochRow, RowFilter(group_ids=("k8-clicks",)))
    third = sorted(epochs, key=lambda row: row.offset)[3]
    (group,) = final_groups(tables, RowFilter(group_ids=("k8-clicks",), until_ms=third.timestamp))
    assert group.snapshot.group_epoch == third.epoch - 1
    assert len(group.snapshot.members) == third.members - 1
    assert [topic.name for topic in group.snapshot.topics] == ["clicks"]

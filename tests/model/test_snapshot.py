"""The describe JSON is a contract with scripts: every key present, unknown is null, and it reads back unchanged."""

import copy
import json
from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import UsageError
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.model.work import MemberWork
from kgm.simulation.plan.starting_group import has_offsets
from kgm.text.timestamps import rfc3339

GROUP = GroupSnapshot(
    group_id="orders",
    type="classic",
    state="Stable",
    protocol_type="consumer",
    assignor="range",
    coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092),
    topics=(TopicSnapshot(name="t", partitions=3),),
    members=(
        MemberSnapshot(member_id="m-2", client_id="c", topics=("t",), assignment={"t": (2,)}),
        MemberSnapshot(member_id="m-1", group_instance_id="a", topics=("t",), assignment={"t": (0, 1)}, lag=4),
    ),
    offsets=(
        OffsetSnapshot(topic="t", partition=1, committed=None, end=5, lag=None, group_instance_id="a", member_id="m-1"),
        OffsetSnapshot(topic="t", partition=0, committed=1, end=5, lag=4, group_instance_id="a", member_id="m-1"),
    ),
)

#: Copied from the contract of the command line, key by key.
GROUP_KEYS = {
    "group_id", "type", "state", "protocol_type", "assignor", "coordinator", "generation", "group_epoch",
    "assignment_epoch", "session_timeout_ms", "rebalance_timeout_ms", "topics", "members", "offsets",
    "kafka_versions", "leader", "leader_library", "deleted_topics", "may_lack_offsets",
    "hidden_offset_topics",
    "next_rebalance_at", "is_settled", "rebalance_delay_ms", "unassigned_until", "topology_epoch",
    "earlier_assignors",
}  # fmt: skip
MEMBER_KEYS = {
    "group_instance_id", "member_id", "client_id", "client_host", "rack", "member_epoch", "status", "subscription",
    "assignment", "target_assignment", "lag",
}  # fmt: skip


def test_every_key_of_the_contract_is_present_and_unknown_is_null():
    data = GROUP.to_json()
    assert data.keys() == GROUP_KEYS
    assert all(member.keys() >= MEMBER_KEYS for member in data["members"])
    assert data["generation"] is None
    assert data["members"][0]["rack"] is None
    assert data["offsets"][0].keys() == {
        "topic",
        "partition",
        "committed",
        "end",
        "lag",
        "group_instance_id",
        "member_id",
        "lost",
        "lag_ms",
        "commit_age_ms",
    }


def test_the_versions_that_a_broker_may_have_are_saved():
    assert GROUP.to_json()["kafka_versions"] is None
    versions = BrokerVersion.parse("3.9"), BrokerVersion.parse("3.9+new")
    saved = replace(GROUP, kafka_versions=versions).to_json()
    assert saved["kafka_versions"] == ["3.9", "3.9+new"]
    assert snapshot_from_json(saved).kafka_versions == versions
    assert snapshot_from_json(replace(GROUP, kafka_versions=()).to_json()).kafka_versions == ()
    assert (
        snapshot_from_json({key: value for key, value in saved.items() if key != "kafka_versions"}).kafka_versions
        is None
    )


def test_members_are_sorted_by_identity_and_offsets_by_partition():
    data = GROUP.to_json()
    assert [member["member_id"] for member in data["members"]] == ["m-1", "m-2"]
    assert [row["partition"] for row in data["offsets"]] == [0, 1]


def test_a_saved_snapshot_reads_back_the_same():
    again = snapshot_from_json(GROUP.to_json())
    assert again.to_json() == GROUP.to_json()


def test_the_order_in_which_the_broker_lists_a_target_is_kept():
    listed = {"u": (16, 0, 1), "t": (2,)}
    member = replace(GROUP.members[0], assignment=listed, target_assignment=listed, listed_target=listed)
    text = json.dumps(replace(GROUP, members=(member,)).to_json(), sort_keys=True)
    (again,) = snapshot_from_json(json.loads(text)).members
    assert [*again.listed_target.items()] == [*listed.items()]


def test_keys_of_a_later_version_are_ignored():
    data = GROUP.to_json() | {"new": 1}
    data["members"][0]["newer"] = {}
    assert snapshot_from_json(data).group_id == "orders"


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("group_id",), None, "group.group_id"),
        (("type",), "weird", "group.type"),
        (("members",), {}, "group.members"),
        (("members", 0, "assignment"), {"t": ["0"]}, "members[0].assignment.t"),
        (("members", 0, "assignment"), {"t": [-1]}, "members[0].assignment.t"),
        (("members", 0, "member_id"), 7, "members[0].member_id"),
        (("topics", 0, "partitions"), True, "topics[0].partitions"),
        (("topics", 0, "partitions"), -3, "topics[0].partitions"),
        (("members", 0, "subscription"), {"topics": [1]}, "members[0].subscription.topics"),
        (("members", 0, "listed_target"), {"t": [0]}, "members[0].listed_target"),
        (("members", 0, "listed_target"), [["t", [0]]], "members[0].listed_target[0]"),
        (("members", 0, "listed_target"), [{"topic": 1}], "members[0].listed_target[0].topic"),
        (("members", 0, "listed_target"), [{"topic": "t", "partitions": [-1]}], "listed_target[0].partitions"),
    ],
)
def test_a_wrong_key_is_named(path, value, named):
    data = copy.deepcopy(GROUP.to_json())
    target = data
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(UsageError) as caught:
        snapshot_from_json(data)
    assert named in caught.value.message


@pytest.mark.parametrize(
    "path",
    [("members",), ("topics",), ("members", 0, "assignment"), ("members", 1, "listed_target", 0, "partitions")],
)  # fmt: skip
@pytest.mark.parametrize("is_null", [False, True])
def test_what_every_version_of_kgm_writes_is_unknown_if_it_is_missing(path, is_null):
    """And not empty: all members would have left."""
    listed = replace(GROUP.members[0], listed_target={"t": (0,)})
    data = replace(GROUP, members=(listed, *GROUP.members[1:])).to_json()
    target = data
    for step in path[:-1]:
        target = target[step]
    target.pop(path[-1])
    if is_null:
        target[path[-1]] = None
    with pytest.raises(UsageError, match=rf"{path[-1]} is missing$"):
        snapshot_from_json(data)


def test_what_kgm_writes_null_for_is_unknown():
    nulls = ("target_assignment", "listed_target", "active_tasks", "client_library")
    group = replace(GROUP, kafka_versions=None)
    data = group.to_json()
    for member in data["members"]:
        member.update(dict.fromkeys(nulls), subscription={"topics": None, "regex": None})
    read = snapshot_from_json(data)
    assert read.kafka_versions is None
    for member in read.members:
        assert (member.topics, member.target_assignment, member.listed_target, member.work) == (None,) * 4
    del data["offsets"]
    assert has_offsets(snapshot_from_json(data)) is snapshot_from_json(data).lag is None


@pytest.mark.parametrize("state", ["Empty", "Dead", "PreparingRebalance", "Assigning"])
def test_only_a_stable_group_must_have_members(state):
    assert snapshot_from_json(replace(GROUP, state=state, members=()).to_json()).members == ()


CONNECT = replace(GROUP, protocol_type="connect", members=(MemberSnapshot(
    member_id="w", work=MemberWork(connectors=("jdbc",), active_tasks=("jdbc-0", "a-b-17"))),))  # fmt: skip
STREAMS = replace(GROUP, assignor="stream", members=(MemberSnapshot(
    member_id="s", work=MemberWork(active_tasks=("0_1", "named__0_1", "of any client_2"), standby_tasks=("1_0",))),))  # fmt: skip


@pytest.mark.parametrize(
    ("group", "path", "value", "named"),
    [
        (CONNECT, ("members", 0, "active_tasks"), ["nodash"], "members[0].active_tasks"),
        (CONNECT, ("members", 0, "active_tasks"), ["jdbc-"], "members[0].active_tasks"),
        (STREAMS, ("members", 0, "active_tasks"), ["x"], "members[0].active_tasks"),
        (STREAMS, ("members", 0, "standby_tasks"), ["0_x"], "members[0].standby_tasks"),
        (GROUP, ("next_rebalance_at",), "junk", "group.next_rebalance_at"),
        (GROUP, ("unassigned_until",), "2026-11-21T12:00:00", "group.unassigned_until"),
        (GROUP, ("generation",), -1, "group.generation"),
        (GROUP, ("topics",), [{"name": "t", "partitions": 3}, {"name": "t", "partitions": 4}], "'t' occurs twice"),
        (GROUP, ("state",), "Empty", "members[0].assignment"),
        (GROUP, ("members",), [], "group.state is 'Stable', but group.members is empty"),
        (GROUP, ("leader_library",), {"name": "java", "confidence": "unknown"}, "group.leader_library.name"),
        (GROUP, ("members", 0, "client_library"), {"name": "java", "confidence": "unknown"}, "client_library.name"),
    ],
)
def test_what_no_broker_can_have_said_is_refused(group, path, value, named):
    data = group.to_json()
    assert snapshot_from_json(data).to_json() == data
    target = data
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(UsageError) as caught:
        snapshot_from_json(data)
    assert named in caught.value.message


def test_a_settled_group_has_no_next_rebalance():
    due = GROUP.to_json() | {"next_rebalance_at": rfc3339(1_795_773_600_000)}
    assert snapshot_from_json(due | {"is_settled": False}).next_rebalance_at == due["next_rebalance_at"]
    with pytest.raises(UsageError, match="is_settled"):
        snapshot_from_json(due | {"is_settled": True})


def test_something_else_than_an_object_is_refused():
    with pytest.raises(UsageError, match="not a JSON object"):
        snapshot_from_json([1])


def test_the_lag_of_a_group_is_of_what_is_known():
    def row(committed, end, lag):
        return OffsetSnapshot(
            topic="t", partition=0, committed=committed, end=end, lag=lag, group_instance_id=None, member_id=None
        )

    def lag(*rows, topics=()):
        return GroupSnapshot(group_id="g", type="classic", state="Stable", offsets=rows, topics=topics).lag

    assert lag(row(1, 5, 4), row(3, 4, 1)) == 5
    assert lag(row(1, 5, 4), row(None, 7, None)) == 4
    assert lag(row(None, 0, None)) == 0, "empty, and nobody has committed"
    assert lag(row(None, 7, None)) is lag(row(3, None, None)) is lag() is None
    # The topic is gone, or its leader does not answer.
    assert lag(row(1, 5, 4), row(3, None, None)) == 4
    assert lag(row(1, 5, 4), row(3, None, None), topics=(TopicSnapshot(name="t", partitions=2),)) is None

"""What a request names, and what may not be deleted whatever is known of its commits."""

from __future__ import annotations

import pytest

from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.deletion.request import DeletionRequest
from kgm.operations.deletion.targets import group_impediment, offsets_impediment, targets_of


def offset(topic, partition, committed=5):
    return OffsetSnapshot(topic, partition, committed, 9, 4, None, None)


def group(group_id="g", *, members=(), **more):
    how = {"type": "classic", "state": "Stable" if members else "Empty", "protocol_type": "consumer", **more}
    return GroupSnapshot(group_id=group_id, members=tuple(members), **how)


def member(*topics, **more):
    return MemberSnapshot(member_id="m-1", topics=topics, assignment=dict.fromkeys(topics, (0,)), **more)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (group(), None),
        (group(protocol_type=""), None),  # consumers that assign their partitions themselves
        (group(type="consumer"), None),
        (group(members=[member("t")]), "it has 1 member: m-1"),
        (group(state="PreparingRebalance"), "its state is PreparingRebalance"),
        (group(protocol_type="connect"), "protocol type 'connect'"),
        (group(type="share"), "kafka-share-groups.sh --delete --group g"),
        (group(type="streams"), "kafka-streams-groups.sh --delete --group g"),
        (group(type="of tomorrow"), "which kgm does not know"),
    ],
)
def test_what_forbids_to_delete_a_group(found, says):
    why = group_impediment(found)
    assert why == says if says is None else says in why


@pytest.mark.parametrize(
    ("found", "topic", "says"),
    [
        (group(), "old", None),
        (group(members=[member("t")]), "old", None),
        (group(members=[member("t")]), "t", "subscribes to topic t"),
        (group(members=[MemberSnapshot(member_id="m", topics=("t",), assignment={"old": (0,)})]), "old", "subscribes"),
        (
            group(members=[MemberSnapshot(member_id="m", regex="o.*", topics=())], type="consumer"),
            "old",
            "by a pattern",
        ),
        (group(members=[MemberSnapshot(member_id="m", topics=None)], state="PreparingRebalance"), "old", "not known"),
        (group(deleted_topics=("old",)), "old", "does not exist"),
        (group(), None, "no members that say"),
        (group(type="share"), "old", "kafka-share-groups.sh"),
    ],
)
def test_what_forbids_to_delete_offsets(found, topic, says):
    why = offsets_impediment(found, topic)
    assert why == says if says is None else says in why


def named(found, **asked):
    request = DeletionRequest(group_ids=("g", "gone"), **asked)
    return [(one.id, one.is_there, one.partitions) for one in targets_of(request, request.group_ids, {"g": found})]


def test_targets_come_in_the_order_of_the_request():
    found = group(
        members=[member("t")], offsets=(offset("t", 0), offset("old", 1), offset("old", 0), offset("x", 2, None))
    )
    assert named(found) == [("g", True, {"old": [0, 1], "t": [0]}), ("gone", False, {})]
    assert named(found, topics=("none", "old")) == [
        ("g:none", False, {}), ("g:old", True, {"old": [0, 1]}), ("gone:none", False, {}), ("gone:old", False, {}),
    ]  # fmt: skip
    assert named(found, is_stale=True)[0] == ("g:old", True, {"old": [0, 1]})


def test_stale_topics_are_known_only_from_members():
    (target, _) = targets_of(
        DeletionRequest(group_ids=("g", "gone"), is_stale=True), ("g", "gone"), {"g": group(offsets=(offset("t", 0),))}
    )
    assert "name one with --topic" in target.impediment


@pytest.mark.parametrize(
    "asked",
    [{}, {"group_ids": ("",)}, {"group_ids": ("g",), "topics": (" ",)},
     {"group_ids": ("g",), "topics": ("t",), "is_stale": True}, {"group_ids": ("g",), "reason": "two\nlines"}],
)  # fmt: skip
def test_an_empty_list_never_means_all(asked):
    with pytest.raises(UsageError):
        DeletionRequest(**asked)


def test_a_blank_id_is_the_name_of_a_group():
    found = targets_of(DeletionRequest(group_ids=(" ",)), (" ",), {" ": group()})
    assert [(one.group_id, one.is_there) for one in found] == [(" ", True)]

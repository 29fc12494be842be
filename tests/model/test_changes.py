"""What became of a group between two snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.model.assignment import Move
from kgm.model.changes import Changed, Replaced, Resubscribed, changes
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, TopicSnapshot

GROUP = GroupSnapshot(group_id="g", type="classic", state="Stable", assignor="range")


def static(name, member_id="m", **more):
    return MemberSnapshot(member_id=member_id, group_instance_id=name, status="stable", topics=("t",), **more)


def group(*members, **more):
    return replace(GROUP, members=members, **more)


def test_a_static_member_that_is_back_is_replaced_and_nothing_moved():
    found = changes(
        group(static("a", "a-1", assignment={"t": (0, 1)})), group(static("a", "a-2", assignment={"t": [0, 1]}))
    )
    assert found.replaced == (Replaced(identity="a", member_id_before="a-1", member_id_after="a-2"),)
    assert (found.joined, found.left, found.moves, found.any) == ((), (), (), True)


def test_a_dynamic_member_that_is_back_is_another_and_its_partitions_moved():
    before, after = (MemberSnapshot(member_id=name, assignment={"t": (0,)}) for name in ("m-1", "m-2"))
    found = changes(group(before), group(after))
    assert (found.joined, found.left, found.replaced) == ((after,), (before,), ())
    assert found.moves == (Move(topic="t", partition=0, owner_before="m-1", owner_after="m-2"),)


def test_during_a_rebalance_nobody_tells_who_owns_what():
    owner = static("a", assignment={"t": (0,)})
    silent = replace(static("a"), topics=())
    for state in ("PreparingRebalance", "CompletingRebalance"):
        found = changes(group(owner), group(silent, state=state))
        assert (found.moves, found.resubscribed) == (None, ())
        assert found.values == (Changed(name="state", before="Stable", after=state),)
    reconciling = group(silent, type="consumer", state="Reconciling")
    assert changes(replace(group(owner), type="consumer"), reconciling).moves == (
        Move(topic="t", partition=0, owner_before="a", owner_after=None),
    )


def test_what_a_member_does_at_the_moment_is_told_and_is_no_difference():
    found = changes(group(static("a")), group(replace(static("a"), status="away")))
    assert found.statuses == (Changed(name="a", before="stable", after="away"),)
    assert not found.any


def test_other_topics_or_another_pattern():
    found = changes(group(static("a")), group(replace(static("a"), topics=("u", "t"), regex="x.*")))
    assert found.resubscribed == (
        Resubscribed(identity="a", topics_before=("t",), topics_after=("t", "u"), regex_before=None, regex_after="x.*"),
    )
    assert found.any


def test_values_topics_and_the_coordinator():
    before = group(
        generation=3, session_timeout_ms=None, topics=(TopicSnapshot(name="t", partitions=3), TopicSnapshot(name="u", partitions=1)),
        coordinator=CoordinatorNode(id=1, host="h", port=1),
    )  # fmt: skip
    after = group(
        generation=5, session_timeout_ms=1000, assignor="sticky", topics=(TopicSnapshot(name="t", partitions=6), TopicSnapshot(name="v", partitions=2)),
        coordinator=CoordinatorNode(id=2, host="h", port=2),
    )  # fmt: skip
    found = changes(before, after)
    assert found.values == (
        Changed(name="assignor", before="range", after="sticky"),
        Changed(name="generation", before=3, after=5),
    )  # what only one side knows is no change
    assert found.coordinator == Changed(name="coordinator", before=1, after=2)
    assert found.topics == (
        Changed(name="t", before=3, after=6), Changed(name="u", before=1, after=None), Changed(name="v", before=None, after=2),
    )  # fmt: skip
    assert changes(before, replace(before, topics=(), coordinator=None)).any is False


members = st.lists(
    st.builds(
        MemberSnapshot,
        member_id=st.sampled_from(["m-1", "m-2", "m-3", "m-4"]),
        group_instance_id=st.sampled_from([None, "a", "b"]),
        topics=st.sampled_from([("t",), ("t", "u")]),
    ),
    max_size=4,
    unique_by=lambda member: member.identity,
)


@pytest.mark.slow
@given(members, members)
def test_members_before_with_the_changes_are_the_members_after(before, after):
    found = changes(group(*before), group(*after))
    names = {one.identity for one in before} - {one.identity for one in found.left} | {
        one.identity for one in found.joined
    }
    assert names == {one.identity for one in after}
    ids = {one.identity: one.member_id for one in [*before, *found.joined]} | {
        one.identity: one.member_id_after for one in found.replaced
    }
    assert {name: ids[name] for name in names} == {one.identity: one.member_id for one in after}
    assert not changes(group(*after), group(*after)).any

"""The members that go, what becomes of their partitions, and the commands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import TopicSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.scale_in.scale_in import plan_scale_in
from kgm.simulation.plan.synthetic_group import synthetic_group

TOPICS = (TopicSnapshot(name="orders", partitions=12),)


def group(*names, dynamic=()):
    """A group of these instance ids; its members own what the range assignor gives them."""
    made_up = synthetic_group(len(names), TOPICS)
    members = tuple(
        replace(one, group_instance_id=None if name in dynamic else name, member_id=f"{name}-id")
        for one, name in zip(made_up.members, names, strict=True)
    )
    return BounceGroup(snapshot=replace(made_up, group_id="g", members=members))


def pods(*names):
    return group(*(f"app-{number}" for number in names))


def test_the_highest_ordinals_go_and_one_request_removes_them():
    planned = plan_scale_in(pods(0, 1, 2, 3), 2)
    assert [one.pod for one in planned.leaving] == ["app-3", "app-2"]
    assert planned.staying == ("app-0", "app-1")
    assert planned.prediction.typical.rebalances == 1
    assert planned.prediction.typical.final_assignment == {
        "app-0": {"orders": (0, 1, 2, 3, 4, 5)}, "app-1": {"orders": (6, 7, 8, 9, 10, 11)},
    }  # fmt: skip
    assert planned.commands.lines == (
        "kubectl scale statefulset/app --replicas=2",
        "kubectl wait --for=delete pod/app-3 pod/app-2 --timeout=5m",
        "kgm remove-members g --instance-ids 'app-{2..3}' --assume-stopped --yes --reason 'scale-in to 2'",
    )


def test_ordinals_are_numbers():
    assert [one.pod for one in plan_scale_in(pods(*range(12)), 9).leaving] == ["app-11", "app-10", "app-9"]


def test_dynamic_members_need_no_removal():
    both = group("a", "b", dynamic={"b"})
    planned = plan_scale_in(both, 1, pods={"a": "web-0", "b-id": "web-1"}, kubectl=("kubectl", "-n", "shop"))
    assert [one.member.identity for one in planned.leaving] == ["b-id"]
    assert planned.commands.lines == (
        "kubectl -n shop scale statefulset/web --replicas=1",
        "kubectl -n shop wait --for=delete pod/web-1 --timeout=5m",
    )


@pytest.mark.parametrize(
    ("members", "replicas", "more", "message"),
    [
        (pods(0, 1), 2, {}, "no member of group 'g' goes when StatefulSet app has 2 replicas"),
        (group("a-0", "b-1"), 1, {}, "are of several StatefulSets: a, b"),
        (group("a-0", "worker"), 0, {}, "worker is no name of a pod"),
        (group("a-0", "a-1", dynamic={"a-1"}), 0, {}, "a-1-id: it is dynamic"),
    ],
)
def test_what_is_not_certain_is_refused(members, replicas, more, message):
    with pytest.raises(RefusedError, match=message):
        plan_scale_in(members, replicas, **more)


def test_one_of_several_sets_is_named():
    planned = plan_scale_in(group("a-0", "a-1", "b-1"), 1, stateful_set="a")
    assert [one.pod for one in planned.leaving] == ["a-1"]
    assert planned.staying == ("a-0", "b-1")


def test_a_negative_number_is_no_number_of_replicas():
    with pytest.raises(UsageError):
        plan_scale_in(pods(0), -1)

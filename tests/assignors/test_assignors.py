"""The rules one by one, on groups small enough to check by hand."""

import pytest

from kgm.assignors import NAMES, GroupSpec, MemberSpec, TopicSpec, is_cooperative
from kgm.assignors.client import sticky_general
from kgm.java.hash_map import map_order
from kgm.model.errors import UsageError
from tests.assignors.groups import assign


def group(members, **topics):
    return GroupSpec(
        members=tuple(members), topics=tuple(TopicSpec(name=name, partitions=count) for name, count in topics.items())
    )


def member(member_id, *topics, owned=None, **more):
    return MemberSpec(member_id=member_id, topics=topics, owned=owned or {}, **more)


def test_the_nine_partitions_of_kip_345():
    """Range, three members, A restarts: without instance ids everything moves, with them nothing."""
    dynamic = assign("range", group([member("1", "t"), member("2", "t"), member("3", "t")], t=9))
    assert dynamic == {"1": {"t": [0, 1, 2]}, "2": {"t": [3, 4, 5]}, "3": {"t": [6, 7, 8]}}
    after = assign("range", group([member("2", "t"), member("3", "t"), member("4", "t")], t=9))
    assert after == {"2": {"t": [0, 1, 2]}, "3": {"t": [3, 4, 5]}, "4": {"t": [6, 7, 8]}}
    b, c = member("2", "t", group_instance_id="B"), member("3", "t", group_instance_id="C")
    for a_id in ("1", "4"):
        static = assign("range", group([member(a_id, "t", group_instance_id="A"), b, c], t=9))
        assert static == {a_id: {"t": [0, 1, 2]}, "2": {"t": [3, 4, 5]}, "3": {"t": [6, 7, 8]}}


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_group_and_a_group_without_partitions(name):
    assert assign(name, group([], t=3)) == {}
    assert assign(name, group([member("m")], t=3)) == {"m": {}}
    assert assign(name, group([member("m", "t")], t=0)) == {"m": {}}


def test_only_one_is_cooperative():
    assert [name for name in NAMES if is_cooperative(name)] == ["cooperative-sticky"]


def test_an_unknown_assignor():
    with pytest.raises(UsageError, match="'uniform' is not known"):
        assign("uniform", group([]))


@pytest.mark.parametrize("name", ["consumer-range", "consumer-uniform"])
def test_the_coordinator_refuses_unknown_topics(name):
    with pytest.raises(UsageError, match="member m subscribes to u, a topic that does not exist"):
        assign(name, group([member("m", "t", "u")], t=1))


def test_groups_that_cannot_be():
    with pytest.raises(UsageError, match="member id a is given twice"):
        group([member("a"), member("a")])
    with pytest.raises(UsageError, match="topic t is given twice"):
        GroupSpec(members=(), topics=(TopicSpec(name="t", partitions=1), TopicSpec(name="t", partitions=1)))
    with pytest.raises(UsageError, match="-1 partitions"):
        group([], t=-1)
    with pytest.raises(UsageError, match="2 partitions, but racks for 1"):
        GroupSpec(members=(), topics=(TopicSpec(name="t", partitions=2, racks=(("a",),)),))


def test_static_members_come_first_in_roundrobin():
    answer = assign("roundrobin", group([member("a", "t"), member("z", "t", group_instance_id="i")], t=3))
    assert answer == {"z": {"t": [0, 2]}, "a": {"t": [1]}}


def test_names_are_compared_as_java_does():
    """U+1F600 sorts before U+E000 by UTF-16 unit, after it by code point."""
    answer = assign("range", group([member("\ue000", "t"), member("\U0001f600", "t")], t=1))
    assert answer == {"\U0001f600": {"t": [0]}, "\ue000": {}}


def test_range_prefers_partitions_in_the_rack_and_keeps_topics_together():
    racks = (("b",), ("a",))
    topics = tuple(TopicSpec(name=name, partitions=2, racks=racks) for name in ("t", "u"))
    members = (member("m1", "t", "u", rack="a"), member("m2", "t", "u", rack="b"))
    answer = assign("range", GroupSpec(members=members, topics=topics))
    assert answer == {"m1": {"t": [1], "u": [1]}, "m2": {"t": [0], "u": [0]}}


def test_sticky_prefers_partitions_in_the_rack():
    topics = (TopicSpec(name="t", partitions=2, racks=(("b",), ("a",))),)
    members = (member("m1", "t", rack="a", owned={"t": [0]}), member("m2", "t", rack="b", owned={"t": [1]}))
    spec = GroupSpec(members=members, topics=topics)
    assert assign("sticky", spec) == {"m1": {"t": [1]}, "m2": {"t": [0]}}
    assert assign("cooperative-sticky", spec) == {"m1": {}, "m2": {}}  # both must be revoked first


@pytest.mark.parametrize("more", [(), ("u",)], ids=["equal", "unequal"])
def test_the_newer_claim_wins(more):
    members = [
        member("m1", "t", owned={"t": [0, 1]}, generation=4),
        member("m2", "t", *more, owned={"t": [0, 1]}, generation=5),
    ]
    answer = assign("sticky", group(members, t=4, u=0))
    assert answer == {"m1": {"t": [2, 3]}, "m2": {"t": [0, 1]}}


def test_two_claims_of_one_generation_void_each_other():
    members = [member(m, "t", owned={"t": [3]}, generation=1) for m in ("m1", "m2")]
    assert assign("sticky", group(members, t=4)) == {"m1": {"t": [0, 2]}, "m2": {"t": [1, 3]}}
    # Whoever of the two gets the partition has to wait until both have given it up.
    assert assign("cooperative-sticky", group(members, t=4)) == {"m1": {"t": [0, 2]}, "m2": {"t": [1]}}


def test_a_generation_that_is_only_in_the_user_data_does_not_defend_a_claim():
    ids = ["m1", "m2"]
    first, second = (ids[position] for position in map_order(ids))
    claims = {first: 5, second: 4}
    members = [member(m, "t", owned={"t": [0]}, generation=claims[m], names_generation=False) for m in ids]
    assert assign("sticky", group(members, t=2)) == {second: {"t": [0]}, first: {"t": [1]}}


def test_claims_on_what_is_not_there_are_ignored():
    members = [member("m1", "t", owned={"t": [0, 7], "gone": [1]}, generation=1), member("m2", "t")]
    for name in ("sticky", "cooperative-sticky", "consumer-uniform"):
        assert assign(name, group(members, t=2)) == {"m1": {"t": [0]}, "m2": {"t": [1]}}


def test_partitions_of_a_topic_do_not_trade_places():
    """m3 would get t0-0 from m1; as t0-1 went from m3 to m1 before, that one goes back (recorded from Kafka)."""
    members = [
        member("m0", "t1", owned={"t1": [0]}, generation=1),
        member("m1", "t0", owned={"t0": [2]}, generation=2),
        member("m2", "t1", generation=2),
        member("m3", "t0", "t1", owned={"t0": [1, 3], "t1": [0, 1]}, generation=2),
    ]
    assert assign("sticky", group(members, t0=4, t1=2)) == {
        "m0": {"t1": [0]}, "m1": {"t0": [0, 2]}, "m2": {"t1": [1]}, "m3": {"t0": [1, 3]},
    }  # fmt: skip


def test_a_former_owner_that_has_left_the_topic_may_get_a_partition_of_it_back():
    """m2 claims t11-0 of an older generation and no longer subscribes; with it, it has as many partitions as it could
    ever have of t12, so that Kafka does not see that t12-0 had better go to m2 as well (found by the long run)."""
    racks = {"t6": ("a",), "t7": None, "t11": ("a", "b"), "t12": None, "t17": ("a", "b", "c")}
    topics = tuple(TopicSpec(name=t, partitions=1, racks=there and (there,)) for t, there in racks.items())
    members = (
        member("worker-381368-801717f4-d284-db48-5d06-6962cb4cff76", "t7", "t11"),
        member("worker-324862-486b46b4-3846-21ec-fa66-e281f592ad3c", "t12", owned={"t11": [0]}, rack="b"),
        member("consumer-d39d1c51-f05b-78e2-92a9-0a4e61086cdb", "t12", "t11", "t6", "t17", generation=3),
    )
    answer = assign("sticky", GroupSpec(members=members, topics=topics))
    assert [answer[m.member_id] for m in members] == [{"t7": [0]}, {"t11": [0]}, {"t6": [0], "t12": [0], "t17": [0]}]


def test_a_move_that_does_not_help_is_undone(monkeypatch):
    """No group is known for which evening out ends worse than it began; Kafka guards against it, and so do we."""
    members = [member("m1", "t", "u", owned={"t": [0, 1, 2, 3]}, generation=1), member("m2", "t")]
    assert assign("sticky", group(members, t=4, u=1)) == {"m1": {"t": [2, 3], "u": [0]}, "m2": {"t": [0, 1]}}
    monkeypatch.setattr(sticky_general, "_unevenness", lambda loads: 0)
    assert assign("sticky", group(members, t=4, u=1)) == {"m1": {"t": [0, 1, 2, 3], "u": [0]}, "m2": {}}


def test_the_coordinator_gives_the_extra_partition_to_whoever_has_it():
    members = [member("m1", "t", owned={"t": [0]}), member("m2", "t", owned={"t": [1, 2]})]
    assert assign("consumer-uniform", group(members, t=3)) == {"m1": {"t": [0]}, "m2": {"t": [1, 2]}}


def test_a_partition_that_two_own_stays_with_the_first_in_consumer_groups():
    members = [member(m, "t", owned={"t": [1]}) for m in ("m1", "m2")]
    assert assign("consumer-uniform", group(members, t=2)) == {"m1": {"t": [1]}, "m2": {"t": [0]}}

from dataclasses import replace

import pytest

from kgm.model.client_library import stated_library
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.simulation.plan.bounce_plan import Membership, WhatIf
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import starting_group_of
from tests.simulation.groups import member


def group(*members, **more):
    values = {"group_id": "g", "type": "classic", "state": "Stable", "protocol_type": "consumer", "assignor": "range"}
    return GroupSnapshot(members=members, topics=(TopicSnapshot(name="t", partitions=4),), **(values | more))


def timeouts(origin):
    return [(one.session_timeout_ms, one.rebalance_timeout_ms) for one in origin.members]


def test_a_starting_group_is_as_described():
    seen = group(
        member("a", assignment={"t": (0, 3)}, client_library=stated_library("librdkafka")), member("b", static=False, client_library=None), generation=7,
        session_timeout_ms=10_000, rebalance_timeout_ms=60_000,
    )  # fmt: skip
    origin = starting_group_of(seen, WhatIf())
    assert (origin.generation, origin.generation_is_known, origin.caveats) == (7, True, ())
    assert timeouts(origin) == [(10_000, 60_000)] * 2
    assert origin.assignment == {"a": {"t": (0, 3)}, "b-uuid": {}}
    assert [seat.library for seat in origin.members] == [Library.LIBRDKAFKA, None]
    assert not origin.all_static


def test_what_a_snapshot_does_not_contain_is_assumed_with_a_caveat():
    origin = starting_group_of(group(member("a", assignment={"t": (0,)})), WhatIf())
    assert timeouts(origin) == [(45_000, 300_000)]
    assert not origin.generation_is_known
    assert [text.split(" is not ")[0] for text in origin.caveats] == ["the session timeout", "the rebalance timeout"]
    supposed = starting_group_of(group(member("a")), WhatIf(session_timeout_ms=9000, rebalance_timeout_ms=8000))
    assert (timeouts(supposed), supposed.caveats) == ([(9000, 8000)], ())


def test_each_member_has_its_own_timeouts_and_what_is_missing_of_some_is_said():
    own = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
    origin = starting_group_of(group(member("a", **own), member("b")), WhatIf())
    assert timeouts(origin) == [(10_000, 60_000), (45_000, 300_000)]
    assert [text.split(":")[0] for text in origin.caveats] == [
        "the session timeout of 1 member is not in the snapshot", "the rebalance timeout of 1 member is not in the snapshot"
    ]  # fmt: skip
    with pytest.raises(UsageError, match="the session timeout in the snapshot is -1; the minimum is 1"):
        starting_group_of(group(member("a", session_timeout_ms=-1)), WhatIf())


def test_a_topic_that_is_missing_has_as_many_partitions_as_are_assigned():
    seen = replace(
        group(member("a", topics=("t", "u"), assignment={"u": (0, 5)})), session_timeout_ms=1, rebalance_timeout_ms=1
    )
    origin = starting_group_of(seen, WhatIf())
    assert origin.topics == {"t": 4, "u": 6}
    assert "topic u is not in the snapshot" in origin.caveats[0]


@pytest.mark.parametrize("timeout_ms", [0, -5])
@pytest.mark.parametrize("name", ["session", "rebalance"])
def test_timeouts_that_no_group_can_have_are_refused(name, timeout_ms):
    with pytest.raises(UsageError, match=f"the {name} timeout in the snapshot is {timeout_ms}; the minimum is 1"):
        starting_group_of(group(member("a"), **{f"{name}_timeout_ms": timeout_ms}), WhatIf())


@pytest.mark.parametrize(
    "change",
    [
        {"topics": (TopicSnapshot(name="t", partitions=1_000_000_000),)},
        {"topics": (), "members": (member("a", assignment={"t": (999_999_999,)}),)},
    ],
)
def test_more_partitions_than_a_cluster_has_are_refused(change):
    with pytest.raises(UsageError, match="1000000000 partitions, more than 200000"):
        starting_group_of(replace(group(member("a")), **change), WhatIf())
    assert starting_group_of(
        replace(group(member("a")), topics=(TopicSnapshot(name="t", partitions=200_000),)), WhatIf()
    )


def test_topics_without_a_subscription_are_left_out():
    seen = replace(
        group(member("a")), topics=(TopicSnapshot(name="t", partitions=4), TopicSnapshot(name="old", partitions=9))
    )
    assert starting_group_of(seen, WhatIf()).topics == {"t": 4}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"type": "consumer", "members": (member("a", protocol="classic"),)}, RefusedError, "classic members only"),
        (
            {"type": "consumer", "members": (member("a", protocol="classic"), member("b"))},
            RefusedError,
            "members of both",
        ),
        ({"type": "consumer", "members": (member("a", status="away"),)}, RefusedError, "members that are away: a"),
        ({"type": "share"}, RefusedError, "share group"),
        ({"state": "PreparingRebalance"}, RefusedError, "PreparingRebalance"),
        ({"state": "Dead"}, NotFoundError, "does not exist"),
        ({"protocol_type": "connect"}, RefusedError, "connect"),
        ({"assignor": None}, RefusedError, "assignor"),
    ],
)
def test_groups_that_cannot_be_simulated_are_refused(change, error, says):
    with pytest.raises(error, match=says):
        starting_group_of(replace(group(member("a")), **change), WhatIf())


def test_a_kafka_streams_group_cannot_be_given_another_assignor():
    streams = group(member("a"), assignor="stream")
    assert starting_group_of(streams, WhatIf()).assignor == "stream"
    with pytest.raises(RefusedError, match="is a Kafka Streams application: its assignor 'stream'"):
        starting_group_of(streams, WhatIf(assignor="range"))


def test_an_empty_group_has_no_assignor_and_needs_none():
    assert starting_group_of(group(state="Empty", assignor=None), WhatIf()).assignor == "range"


def test_what_ifs_change_the_assignment_to_begin_with():
    seen = group(member("b", assignment={"t": (0, 1, 2, 3)}), member("a", assignment={}))
    as_range = starting_group_of(seen, WhatIf(assignor="range"))
    assert as_range.assignment == {"b": {"t": (2, 3)}, "a": {"t": (0, 1)}}
    assert "assumed to be stable under range before the plan" in as_range.caveats[-1]
    sticky = starting_group_of(seen, WhatIf(assignor="cooperative-sticky")).assignment
    assert sorted(len(topics["t"]) for topics in sticky.values()) == [2, 2]
    assert set(sticky["b"]["t"]) < {0, 1, 2, 3}
    dynamic = starting_group_of(seen, WhatIf(membership=Membership.DYNAMIC))
    assert {seat.identity for seat in dynamic.members} == {"a-uuid", "b-uuid"}
    assert all(seat.group_instance_id is None for seat in dynamic.members)
    static = starting_group_of(group(member("a", static=False)), WhatIf(membership=Membership.STATIC))
    assert static.members[0].group_instance_id == static.members[0].identity == "a-uuid"
    assert static.all_static


def test_racks_are_ignored_with_a_caveat():
    assert "rack" in starting_group_of(group(member("a", rack="r1")), WhatIf()).caveats[-1]


@pytest.mark.parametrize(
    ("said", "client_id", "member_id", "expected"),
    [
        ("librdkafka", "x", "x-1", Library.LIBRDKAFKA), (None, "rdkafka", "rdkafka-1", Library.LIBRDKAFKA),
        ("java", "x", "x-1", Library.JAVA), (None, "consumer-g-1", "consumer-g-1-u", Library.JAVA),
        (None, "consumer-other-1", "consumer-other-1-u", None),
        (None, "x", "x-1", None), ("aiokafka", "aiokafka-0.14", "a-1", Library.AIOKAFKA),
    ],
)  # fmt: skip
def test_the_library_is_guessed_from_ids(said, client_id, member_id, expected):
    one = replace(member("a"), client_library=stated_library(said), client_id=client_id, member_id=member_id)
    assert starting_group_of(group(one), WhatIf()).members[0].library is expected


def test_kafka_go_may_lead_members_whose_settings_make_them_write_version_0():
    """Seen of kafka-go 0.4.40 and sarama 1.40.1: a rolling restart of four took four rebalances, because kafka-go could read
    what sarama had sent."""

    def leading(version):
        of_sarama = member("b", client_library=stated_library("sarama"), subscription_version=version)
        seen = group(member("a", client_library=stated_library("kafka-go"), subscription_version=1), of_sarama)
        return set(starting_group_of(seen, WhatIf()).leaders)

    assert leading(0) == {"a", "b"}
    assert leading(1) == leading(None) == {"b"}

import pytest

from kgm.java.hash_map import map_order
from kgm.model.client_library import JAVA
from kgm.model.errors import RefusedError
from kgm.protocol.messages.join_group_response import JoinGroupResponseMember
from kgm.protocol.subscription import Subscription, encode_subscription
from kgm.simulation.play.leader import (
    DrawCache,
    assignment_user_data,
    assignments,
    decode_sticky_data,
    encode_sticky_data,
    in_map_order,
)


def row(**said):
    return JoinGroupResponseMember(
        member_id="m", group_instance_id="i", metadata=encode_subscription(Subscription(topics=("t",), **said))
    )


@pytest.mark.parametrize("owned", [{}, {"t": (0, 2)}, {"ä": (1,), "b": (3, 4)}])
def test_sticky_user_data_comes_back(owned):
    assert decode_sticky_data(encode_sticky_data(owned, 5)) == (owned, 5)


def test_sticky_user_data_are_kafkas_bytes():
    """StickyAssignor writes [topic [partition]] and the generation with Kafka's Struct."""
    expected = b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\2" + b"\0\0\0\5"
    assert encode_sticky_data({"t": (0, 2)}, 5) == expected


@pytest.mark.parametrize("nothing", [None, b""])
def test_no_user_data_is_nothing_owned(nothing):
    assert decode_sticky_data(nothing) == ({}, None)


def test_sticky_user_data_of_old_clients_has_no_generation():
    assert decode_sticky_data(encode_sticky_data({"t": (0, 2)}, 5)[:-4]) == ({"t": (0, 2)}, None)


@pytest.mark.parametrize(
    "data", [b"\0", b"\0\0\0\1", b"\0\0\0\1\xff\xfft", b"\0\0\0\1\0\1\xff\0\0\0\0", b"\0\0\0\1\0\1t\x7f\xff\xff\xff"]
)
def test_user_data_that_cannot_be_read_is_nothing_owned(data):
    assert decode_sticky_data(data) == ({}, None)


def test_a_leader_looks_for_what_is_owned_where_its_assignor_does():
    both = row(user_data=encode_sticky_data({"t": (1,)}, 4), owned_partitions={"t": [0]}, generation_id=6, rack_id="r")
    cooperative, sticky = (
        DrawCache().decode_member("cooperative-sticky", both),
        DrawCache().decode_member("sticky", both),
    )
    assert (cooperative.owned, cooperative.generation) == ({"t": (0,)}, 6)
    assert (sticky.owned, sticky.generation, sticky.names_generation) == ({"t": (1,)}, 4, True)
    assert (sticky.group_instance_id, sticky.rack, sticky.topics) == ("i", "r", ("t",))
    assert DrawCache().decode_member("sticky", row(user_data=encode_sticky_data({}, 4))).names_generation is False


def test_subscriptions_are_decoded_once():
    cache = DrawCache()
    assert cache.decode_member("range", row()) is cache.decode_member("range", row())
    given = assignments("range", [cache.decode_member("range", row())], {"t": 3}, JAVA)
    assert cache.decode_assignment(given["m"]) == {"t": (0, 1, 2)}
    assert cache.decode_assignment(given["m"]) is cache.decode_assignment(given["m"])
    assert cache.decode_assignment(b"") == {}


def test_an_unknown_assignor_cannot_be_run():
    with pytest.raises(RefusedError, match="stream"):
        assignments("stream", [DrawCache().decode_member("range", row())], {"t": 3}, JAVA)
    with pytest.raises(RefusedError, match="of-ours") as caught:
        assignments("of-ours", [DrawCache().decode_member("range", row())], {"t": 3}, JAVA)
    assert "kgm simulate-bounce --assignor" in caught.value.hint, "kgm scale-in predicts without that option"


def test_the_broker_lists_members_as_its_hash_map_does():
    members = [
        DrawCache().decode_member("range", JoinGroupResponseMember(member_id=name, metadata=row().metadata))
        for name in ("zeta", "alpha", "mike", "kilo")
    ]
    listed = [member.member_id for member in in_map_order(members)]
    assert listed == [
        ["zeta", "alpha", "mike", "kilo"][position] for position in map_order(["zeta", "alpha", "mike", "kilo"])
    ]


@pytest.mark.parametrize(
    ("library", "writing"),
    [("java", set()), ("franz-go", set()), ("sarama", {"sticky"}), ("librdkafka", {"cooperative-sticky"})],
)
def test_whose_assignments_carry_user_data(library, writing):
    """sarama's StickyAssignorUserDataV1 (1.61.1), and librdkafka's sticky data."""
    found = {name for name in ("sticky", "cooperative-sticky") if assignment_user_data(name, library) is not None}
    assert found == writing

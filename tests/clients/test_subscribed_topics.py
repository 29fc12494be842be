"""Topics that a regular expression may match with which a member of a classic group subscribes. It sends topic names only,
so they are told by the names."""

import pytest

from kgm.clients.subscribed_topics import similar_topics
from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot


def group(*subscriptions, library=None, kind="classic"):
    members = tuple(
        MemberSnapshot(member_id=f"m{number}", topics=topics, client_library=stated_library(library))
        for number, topics in enumerate(subscriptions)
    )
    return GroupSnapshot(group_id="g", type=kind, state="Stable", protocol_type="consumer", members=members)


@pytest.mark.parametrize(
    ("subscribed", "existing", "found"),
    [
        (("T-a", "T-b"), {"T-a", "T-b", "T-0", "U-a", "T"}, {"T-0"}),  # T-.*
        (("eu.orders", "us.orders"), {"asia.orders", "orders", "eu.payments"}, {"asia.orders"}),  # .*.orders
        (("orders1", "orders2"), {"orders3", "ordinary"}, {"orders3"}),
        (("orders",), {"orders-eu", "eu.orders", "order"}, {"orders-eu", "eu.orders"}),
        (("payments", "parcels"), {"partners"}, set()),  # two letters tell nothing
        (("payments", "orders"), {"parcels", "offers"}, set()),
    ],
)
def test_topics_are_similar_that_begin_or_end_as_all_of_a_member(subscribed, existing, found):
    assert similar_topics(group(subscribed), existing) == found


def test_each_subscription_counts_by_itself():
    assert similar_topics(group(("T-a", "T-b"), ("T-a", "T-b", "T-c")), {"T-a", "T-b", "T-c"}) == {"T-c"}
    assert similar_topics(group(("T-a",), ("U-b",)), {"T-b", "U-a"}) == set()


def test_only_members_that_look_for_topics_before_they_join():
    """Recorded: Java's do (ConsumerCoordinator.poll), librdkafka's do not. In consumer groups the broker matches."""
    subscribed, existing = ("T-a", "T-b"), {"T-0"}
    assert similar_topics(group(subscribed, library="java"), existing) == existing
    assert similar_topics(group(subscribed, library="librdkafka"), existing) == set()
    assert similar_topics(group(subscribed, kind="consumer"), existing) == set()

"""What is said of members that subscribe to other topics: the application asked for them, or the topics came or went."""

import pytest

from kgm.history.derive import derive
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import World


def verdicts(consumer, changes):
    """(cause, confidence, whether it says that topics may have been deleted or created) of the last rebalance with a
    new subscription. changes: the members' topics before and after, None for a member that keeps its own."""
    world = next(each for each in map(ConsumerWorld if consumer else World, range(100)) if not each.cooperative)
    world.clients = [world.client(world, f"c{n}", None, before) for n, (before, _) in enumerate(changes)]
    for client in world.clients:
        client.start()
        world.run(10_000)
    for client, (_, after) in zip(world.clients, changes, strict=True):
        if after is not None:
            client.subscribe(after)
    world.run(30_000)
    rows = derive(world.log.raw()).tables["gold_rebalance"].to_pylist()
    row = next(row for row in reversed(rows) if "subscription-change" in (row["cause"], *row["also"]))
    said = [line for line in row["evidence"] if "which may have been" in line]
    return row["cause"], row["confidence"], said


BOTH, ONE = ["orders", "extra"], ["orders"]
CERTAIN = ("subscription-change", "certain", [])


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (BOTH, ONE, "all members dropped the same topics, which may have been deleted: extra"),
        (ONE, BOTH, "all members added the same topics, which may have been created: extra"),
    ],
)
@pytest.mark.parametrize(("consumer", "count"), [(False, 1), (False, 3), (True, 1)])
def test_topics_that_all_members_drop_or_add_may_have_been_deleted_or_created(consumer, count, before, after, line):
    """librdkafka and Java take a topic that is gone out of what they subscribe to."""
    assert verdicts(consumer, [(before, after)] * count) == ("subscription-change", "likely", [line])


@pytest.mark.parametrize("consumer", [False, True])
@pytest.mark.parametrize(
    "changes", [[(BOTH, ONE), (BOTH, None)], [(["orders"], ["extra"])]], ids=["one of two", "other topics instead"]
)
def test_members_that_ask_for_other_topics_are_named_as_before(consumer, changes):
    assert verdicts(consumer, changes) == CERTAIN


def test_members_that_change_their_topics_differently_are_named_as_before():
    assert verdicts(False, [(BOTH, ["orders"]), (BOTH, ["extra"])]) == CERTAIN

"""A group that changes while kgm watches, or between the preview and the request: what is told of the moves is of the
group as it is then."""

from __future__ import annotations

from collections.abc import Callable

from kgm.operations.change.operator import HumanOperator
from kgm.operations.removal import removal
from kgm.operations.removal.removal import PreparedRemoval
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from tests.operations.removal.in_process import TOPIC, World, form_classic

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"
UNOWNED = "2 subscribed partitions have no owner, for example orders-4"


def raise_partitions(world: World) -> None:
    """By another tool; the members have not noticed yet."""
    topic = CreatePartitionsTopic(name=TOPIC, count=6, assignments=None)
    (answer,) = world.cluster.request(CreatePartitionsRequest(topics=[topic])).results
    assert answer.error_code == 0


def removed(
    world: World, *, after_s: float | None = None, meanwhile: Callable[[World], None] = lambda _: None
) -> tuple[PreparedRemoval, PreparedRemoval]:
    """A removal as it was prepared and as it was sent, of one of four members. after_s: when partitions are added, from
    the start of the watch. meanwhile: done between the preview and the request."""
    form_classic(world.cluster, GROUP, [*"abcd"])
    began_s = world.now_s

    def act() -> None:
        if after_s is not None and world.now_s - began_s >= after_s:
            world.actors.remove(act)
            raise_partitions(world)

    world.actors.append(act)
    # Nobody has committed, so the watch takes as long as it is told to.
    request = RemovalRequest(group_id=GROUP, instance_ids=("a",), assume_stopped=True, guard_window_ms=8_000)
    with world.client() as client:
        prepared = removal.prepare(client, request, clock=world.clock)
        meanwhile(world)
        report = removal.execute(
            client, prepared, operator=ALICE, audit=None, sleep=world.pass_by, clock=world.clock
        )  # fmt: skip
    assert isinstance(report.prepared, PreparedRemoval)
    return prepared, report.prepared


def test_partitions_that_are_added_while_kgm_watches_are_seen():
    prepared, sent = removed(World(), after_s=3)
    assert prepared.moves.moves is None
    (note,) = prepared.moves.notes
    assert UNOWNED in note
    assert sent.moves == prepared.moves


def test_so_are_those_that_are_added_while_the_operator_thinks():
    prepared, sent = removed(World(), meanwhile=raise_partitions)
    # Range over four partitions: b, which has 1, takes 0 and 1.
    assert [(one.partition, one.owner_before, one.owner_after) for one in prepared.moves.moves or ()] == [(0, "a", "b")]
    assert sent.moves.moves is None
    assert any(UNOWNED in note for note in sent.moves.notes)


def test_a_preview_of_a_group_that_did_not_change_stays():
    world = World()
    prepared, sent = removed(world)
    assert sent.moves is prepared.moves
    assert prepared.moves.moves
    assert world.sent.count(ApiKey.LEAVE_GROUP) == 1

"""Consumer groups (KIP-848) in which those that are removed may have chosen the assignor: what is told before, and what
the coordinator then does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from kgm.model.assignment import Move, moves
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.change.operator import HumanOperator
from kgm.operations.removal import removal
from kgm.operations.removal.preview import ExpectedMoves, expected_moves
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import TOPIC, Cluster, DirectWire, World

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"


def removed(
    votes: dict[str, str | None],
    gone: Iterable[str],
    *,
    offered: str = "uniform,range",
    shown: str | None = None,
    stated: str | None = None,
) -> tuple[ExpectedMoves, GroupSnapshot, GroupSnapshot]:
    """What is told of the removal of static members, and the group before and after it. votes: the assignor for which
    each member asks. offered: `group.consumer.assignors`; shown: what DescribeConfigs has of that, if it is something
    else. stated: `--assignor`."""
    world = World()

    def between(api: ApiKey, _request: Any, deliver: Callable[[], Any]) -> Any:
        answer = deliver()
        if api is ApiKey.DESCRIBE_CONFIGS and shown is not None:
            for config in (config for row in answer.results for config in row.configs):
                config.value = shown if config.name == "group.consumer.assignors" else config.value
        return answer

    world.between = between
    world.clusters[0] = Cluster("this-cluster", group_consumer_assignors=offered)  # type: ignore[arg-type]
    group = HeartbeatGroup(DirectWire(world.cluster), GROUP, [TOPIC], "")  # type: ignore[arg-type]
    for name, vote in votes.items():
        group.assignor = vote  # type: ignore[assignment]
        group.join(f"{name}-id", name)
    group.heartbeat_until_stable()
    request = RemovalRequest(
        group_id=GROUP, instance_ids=tuple(gone), assume_stopped=True, guard_window_ms=300, assignor=stated
    )
    with world.client() as cluster:
        before = cluster.describe_group(GROUP)
        prepared = removal.prepare(cluster, request, clock=world.clock)
        removal.execute(
            cluster, prepared, operator=ALICE, audit=None, sleep=world.pass_by, clock=world.clock
        )  # fmt: skip
        for name in gone:
            group.forget(f"{name}-id")
        group.heartbeat_until_stable()
        after = cluster.describe_group(GROUP)
    return prepared.moves, before, after


def happened(before: GroupSnapshot, after: GroupSnapshot) -> set[Move]:
    owners = ({one.identity: one.assignment for one in group.members} for group in (before, after))
    return set(moves(*owners))


def is_exact(before: GroupSnapshot, gone: Iterable[str], stated: str | None = None) -> bool:
    """Whether the simulator knows what this removal moves."""
    return simulate(before, Plan(remove=tuple(gone), what_if=WhatIf(assignor=stated)), draws=12).exact


def test_nothing_is_predicted_where_the_removed_member_may_have_chosen_the_assignor():
    """Of four partitions the members have two, one and one; range assigns them all again, uniform those that are freed."""
    told, before, after = removed({"a": "range", "b": None, "c": None}, ["a"])
    assert (before.assignor, after.assignor) == ("range", "uniform")
    by_range, by_default = (
        expected_moves(replace(before, assignor=name), ["a-id"]).moves for name in ("range", "uniform")
    )
    assert set(by_default) == happened(before, after) != set(by_range)
    assert told.moves is None
    (note,) = told.notes
    assert "no API returns which members ask for range (group.remote.assignor)" in note
    assert "the broker's default, uniform (--assignor range if all members ask for it)" in note
    assert not is_exact(before, ["a"])


CUSTOM = "com.example.Own,uniform,range"


def test_nothing_is_predicted_where_the_broker_has_a_default_that_kgm_does_not_know():
    """Members may have asked for uniform; without those, the group gets com.example.Own, which is the first."""
    told, *_ = removed({"a": "uniform", "b": None, "c": None}, ["a"], shown=CUSTOM)
    assert told.moves is None
    assert "the broker's default, com.example.Own (" in told.notes[0]
    told, *_ = removed({"a": "uniform", "b": "uniform", "c": "uniform"}, ["a"], shown=CUSTOM, stated="uniform")
    assert told.moves is not None


@pytest.mark.parametrize(
    ("votes", "offered", "stated"),
    [
        (["range", "range", "range"], "uniform,range", "range"),
        ([None, None, None], "uniform,range", None),
        (["range", None, None], "range,uniform", None),
    ],
    ids=["stated", "default", "range is the default"],
)
def test_the_moves_are_known_where_the_assignor_stays(votes, offered, stated):
    told, before, after = removed(dict(zip("abc", votes, strict=True)), ["a"], offered=offered, stated=stated)
    assert before.assignor == after.assignor
    assert set(told.moves) == happened(before, after)
    assert told.notes == ()


@pytest.mark.parametrize("gone", ["ab", "abc"])
def test_the_moves_are_known_where_every_assignor_gives_the_same(gone):
    """One member gets all that there is, and no member nothing."""
    told, before, after = removed({"a": "range", "b": None, "c": None}, gone)
    assert set(told.moves) == happened(before, after)
    assert (len(happened(before, after)), told.notes) == (4 if gone == "abc" else 3, ())

"""A broker that never answers one kind of request: all that a removal waits for is within the time that the command may
take, and what it says of itself is true.

The clock is set by hand. How long members are watched, and waited for, is not time that a broker takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kgm.client.failures import LostError
from kgm.model.errors import KgmError
from kgm.operations.change.carrying_out import LOOK_MS
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.report import ChangeReport
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult, Result
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import TOPIC, DirectWire, World, form_classic

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"
BUDGET_MS = 2_000


def world_of(kind: str) -> World:
    """Two static members, the first of which has stopped."""
    world = World()
    if kind == "classic":
        for number, member in enumerate(form_classic(world.cluster, GROUP, ["a", "b"])):
            assert member.commit(number, 1) == 0
    else:
        group = HeartbeatGroup(DirectWire(world.cluster), GROUP, [TOPIC], "uniform")  # type: ignore[arg-type]
        group.join("a-id", "a")
        group.join("b-id", "b")
        group.heartbeat_until_stable()
    return world


class Silence:
    """From the n-th request of a kind on none of them is answered. waited_s: for all of them."""

    def __init__(self, world: World, api: ApiKey | None, begins: int) -> None:
        self.world, self.api, self.left, self.waited_s = world, api, begins, 0.0
        self.asked: list[ApiKey] = []
        world.between = self

    def __call__(self, api: ApiKey, _request: Any, deliver: Any) -> Any:
        self.asked.append(api)
        self.left -= api is self.api
        if api is not self.api or self.left >= 0:
            return deliver()
        began_s = self.world.now_s
        try:
            return self.world.stay_silent(api)
        finally:
            self.waited_s += self.world.now_s - began_s


def remove(
    world: World, window_ms: int | None, *, timeout_ms: int = BUDGET_MS
) -> ChangeReport[MemberResult] | KgmError:
    request = RemovalRequest(
        group_id=GROUP, instance_ids=("a",), assume_stopped=True, guard_window_ms=window_ms
    )  # fmt: skip
    try:
        with world.client(timeout_ms=timeout_ms) as cluster:
            prepared = removal.prepare(cluster, request, clock=world.clock)
            return removal.execute(
                cluster, prepared, operator=ALICE, audit=None, sleep=world.pass_by, clock=world.clock
            )  # fmt: skip
    except KgmError as error:
        return error


@pytest.mark.few(1)
@pytest.mark.parametrize("window_ms", [0, None])
@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_answers_that_never_come_take_no_longer_than_the_command_may(kind, window_ms):
    """Each kind of request, silent from its first time on, or a later one."""
    usual = Silence(world := world_of(kind), None, 0)
    remove(world, window_ms)
    counts = Counter(usual.asked)
    assert {ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS, ApiKey.LEAVE_GROUP} <= counts.keys()
    for api, count in counts.items():
        for begins in sorted({0, 1, 2, count // 2, count - 1} & set(range(count))):
            silence = Silence(world := world_of(kind), api, begins)
            outcome = remove(world, window_ms)
            assert 0 < silence.waited_s <= BUDGET_MS / 1000 + 0.001, (api, begins)
            if isinstance(outcome, KgmError):
                assert ApiKey.LEAVE_GROUP not in silence.asked, (api, begins)
                assert len(world.cluster.members(GROUP)) == 2
            elif outcome.results[0].result is not Result.UNKNOWN:
                assert len(world.cluster.members(GROUP)) == 1, (api, begins)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_connections_that_close_do_not_double_the_time(kind):
    """Nothing is waited for then, but time passes between the attempts: the look after a request has what is left of the
    time, or the few seconds that it always has."""
    world = world_of(kind)
    describes = (ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE)
    has_left = False

    def close(api: ApiKey, _request: Any, deliver: Any) -> Any:
        nonlocal has_left
        if api is ApiKey.LEAVE_GROUP:
            has_left = True
            deliver()
        elif not (has_left and api in describes):
            return deliver()
        raise LostError("connection reset", sent=True)

    world.between = close
    began_s = world.now_s
    outcome = remove(world, 0, timeout_ms=20_000)
    assert isinstance(outcome, ChangeReport)
    assert outcome.results[0].result is Result.UNKNOWN
    assert world.now_s - began_s <= 20 + LOOK_MS / 1000 + 0.001

"""An embedded server, a misbehaving broker in front of it, and groups of members that do nothing on their own."""

from __future__ import annotations

import uuid

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.client.faults import FaultProxy
from tests.client.joiners import Joiner, form_group

TOPIC = "orders"


@pytest.fixture(scope="session")
def server():
    """One embedded server for the session: give groups names of your own."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={TOPIC: 6, "payments": 2}, settings=settings) as running:
        yield running


@pytest.fixture
def proxy(server):
    with FaultProxy((server.host, server.port)) as running:
        yield running


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def form(server, group):
    """Form the group: `form("a", "b", None)`; returns its joiners, which are closed at the end."""
    formed: list[Joiner] = []

    def form(*instance_ids: str | None, **more):
        joiners = form_group(server, group, instance_ids, TOPIC, **more)
        formed.extend(joiners)
        return joiners

    yield form
    for joiner in formed:
        joiner.close()


@pytest.fixture
def newcomer(server, group):
    """A static member that joins again: `newcomer("a")` returns its joiner. Without `wait`, it returns as soon as the
    group has the member: others may have to join before it gets its answer."""
    formed: list[Joiner] = []

    def holder(coordinator, instance_id):
        members = coordinator.group(group).members
        return next((one.member_id for one in members if one.group_instance_id == instance_id), None)

    def join(instance_id: str, *, wait: bool = True):
        joiner = Joiner(server.port, group, instance_id, TOPIC)
        formed.append(joiner)
        if wait:
            joiner.join()
            return joiner
        before = server.inspect(lambda coordinator: holder(coordinator, instance_id))
        joiner.send_join()
        while server.inspect(lambda coordinator: holder(coordinator, instance_id)) in (None, before):
            pass
        return joiner

    yield join
    for joiner in formed:
        joiner.close()

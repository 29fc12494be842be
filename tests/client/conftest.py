"""An embedded server, a misbehaving broker in front of it, and groups of members that do nothing unasked."""

from __future__ import annotations

import uuid

import pytest

from kgm.coordinator.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.client.faults import FaultProxy
from tests.client.joiners import Joiner, form_group

TOPIC = "orders"


@pytest.fixture(scope="session")
def server():
    """One embedded server for the session: use groups of your own name."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=100)
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
        joiners = form_group(server.port, group, instance_ids, TOPIC, **more)
        formed.extend(joiners)
        return joiners

    yield form
    for joiner in formed:
        joiner.close()


@pytest.fixture
def newcomer(server, group):
    """Join one more member, or a static one again: `newcomer("a")` returns its joiner."""
    formed: list[Joiner] = []

    def join(instance_id: str | None):
        joiner = Joiner(server.port, group, instance_id, TOPIC)
        formed.append(joiner)
        joiner.join()
        return joiner

    yield join
    for joiner in formed:
        joiner.close()

"""A broker of both kinds for tests of a module, with the module's `TOPIC`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kgm.client import AdminClient, connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    topics = {request.module.TOPIC: 2}
    if request.param == "embedded":
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
        with serve_in_thread(topics=topics, settings=settings) as server:
            yield server
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics(topics)
        yield kafka


@pytest.fixture
def cluster(broker: Any) -> Iterator[AdminClient]:
    with connect(broker.bootstrap, timeout_ms=60_000) as connected:
        yield connected

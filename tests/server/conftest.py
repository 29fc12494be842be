"""Embedded servers for tests with real clients."""

from collections.abc import Callable, Iterator

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import EmbeddedServer, serve_in_thread


@pytest.fixture
def cluster() -> Iterator[Callable[..., EmbeddedServer]]:
    """Starts servers with short timeouts; a failure inside one fails the test."""
    running: list[EmbeddedServer] = []
    warnings: list[str] = []

    def start(topics: dict[str, int] | None = None, **settings: int) -> EmbeddedServer:
        values = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 500, **settings}
        topics = {"t": 6} if topics is None else topics
        running.append(serve_in_thread(topics=topics, settings=BrokerSettings(**values), warn=warnings.append))
        return running[-1]

    yield start
    for server in running:
        server.close()
    assert warnings == []

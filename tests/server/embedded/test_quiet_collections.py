"""When a server collects garbage, and that its clients leave none behind."""

from __future__ import annotations

import asyncio
import gc

import pytest

from bench.crowd import join_crowd
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server.embedded import quiet_collections
from kgm.server.embedded.in_thread import EmbeddedServer
from kgm.server.embedded.quiet_collections import QuietCollections
from kgm.server.embedded.server import ServerOptions
from tests.waiting import until


@pytest.fixture
def collected(monkeypatch):
    found: list[int] = []
    before = gc.get_threshold()
    monkeypatch.setattr(quiet_collections, "_EVERY_S", 0.001)

    def count(phase, info):
        if phase == "start" and info["generation"] == 2:
            found.append(1)

    gc.callbacks.append(count)
    yield found
    gc.callbacks.remove(count)
    gc.set_threshold(*before)


def run(served, looks):
    """Until it has looked so many times."""

    async def main():
        enough, left = asyncio.Event(), looks

        def look():
            nonlocal left
            left -= 1
            if left <= 0:
                enough.set()
            return served()

        collections = QuietCollections(look)
        collections.start()
        try:
            await enough.wait()
        finally:
            collections.stop()

    asyncio.run(main())


@pytest.mark.long
def test_a_full_collection_waits_for_a_quiet_moment(collected, monkeypatch):
    requests = iter(range(10**9))
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, quiet_collections._DUE))
    run(lambda: next(requests), 20)
    assert len(collected) == 1  # at the start
    run(lambda: 5, 20)
    assert len(collected) > 2


@pytest.mark.long
def test_it_does_not_wait_for_ever(collected, monkeypatch):
    requests = iter(range(10**9))
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, quiet_collections._DUE))
    monkeypatch.setattr(quiet_collections, "_MOST_LOOKS", 3)
    run(lambda: next(requests), 30)
    assert len(collected) > 1


def test_none_is_made_when_there_is_little_to_find(collected, monkeypatch):
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, quiet_collections._DUE - 1))
    run(lambda: 5, 20)
    assert len(collected) == 1


@pytest.mark.long
def test_what_a_collection_has_left_is_skipped_until_nobody_has_asked_for_long(collected, monkeypatch):
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, quiet_collections._DUE))
    monkeypatch.setattr(quiet_collections, "_SILENCE", 10)
    frozen, unfrozen = [], []
    monkeypatch.setattr(gc, "unfreeze", lambda: unfrozen.append(len(collected)))
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(collected)))
    run(lambda: 5, 9)
    assert len(frozen) == len(collected) > 5
    assert len(unfrozen) == 1  # at the end
    requests = iter(range(10**9))
    run(lambda: next(requests), 30)
    assert len(unfrozen) == 2
    run(lambda: 5, 15)
    assert len(unfrozen) == 4


@pytest.mark.long
def test_the_collector_is_left_as_it_was(collected):
    gc.unfreeze()  # what the collection of the tests has frozen
    before = gc.get_threshold()
    run(lambda: 5, 1)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.long
def test_clients_that_come_and_go_leave_hardly_any_garbage():
    """Otherwise a server that seldom collects would grow."""
    options = ServerOptions(topics={"orders": 4}, settings=BrokerSettings(group_initial_rebalance_delay_ms=0))
    with EmbeddedServer(options) as server:
        join_crowd(server.bootstrap, "first", 1, "orders", 4)
        gc.collect()
        gc.disable()
        try:
            for number in range(50):
                join_crowd(server.bootstrap, f"group-{number}", 1, "orders", 4)
            until(lambda: not server.connections, "the connections to end")
            assert gc.collect() < 10
        finally:
            gc.enable()

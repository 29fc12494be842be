"""Fixtures for pytest, registered as an entry point. They do nothing in tests that do not request them by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kgm.testing import EmbeddedServer


@pytest.fixture
def kgm_coordinator_factory() -> Iterator[Callable[..., EmbeddedServer]]:
    """Starts embedded coordinators, which stop at the end of the test.

    It takes the arguments of `kgm.testing.serve_in_thread`; settings use Kafka's names and are added to QUICK_SETTINGS.
    Anything a coordinator reports to its operator becomes a warning of the test."""
    from kgm.testing import QUICK_SETTINGS, serve_in_thread

    running: list[EmbeddedServer] = []
    reported: list[str] = []

    def start(*, settings: dict[str, Any] | None = None, **options: Any) -> EmbeddedServer:
        settings = {**QUICK_SETTINGS, **(settings or {})}
        coordinator = serve_in_thread(settings=settings, warn=reported.append, **options)
        running.append(coordinator)
        return coordinator

    yield start
    for coordinator in running:
        coordinator.close()
    for text in reported:
        warnings.warn(f"kgm_coordinator: {text}", stacklevel=1)


@pytest.fixture
def kgm_coordinator(kgm_coordinator_factory: Callable[..., EmbeddedServer]) -> EmbeddedServer:
    """An embedded coordinator with one broker and no topics, which stops at the end of the test."""
    return kgm_coordinator_factory()

"""Kafka's own coordinators, each in a JVM that all tests of a worker share. The files that use them run in one worker
(`TOGETHER` in tests/selection.py)."""

import pytest


@pytest.fixture(scope="session")
def kafkas():
    """The coordinators by version, each started when it is first asked for."""
    from tests.coordinator.lockstep.driver import KafkasCoordinator

    started = {}

    def of(version):
        if version not in started:
            started[version] = KafkasCoordinator(version)
        return started[version]

    yield of
    for coordinator in started.values():
        coordinator.close()

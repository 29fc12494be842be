"""Fixtures that start a real Kafka once for a whole session.

Tests marked `kafka` fail when Java or Maven is missing; KGM_SKIP_KAFKA=1 skips them instead.

Properties are tried with the same examples each time; KGM_RANDOM=1 draws others, to look for what nobody has seen yet.
No example has a deadline in wall-clock time, which a busy machine misses: test_budget.py bounds CPU time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.alone import in_order, register
from tests.needs import pytest_runtest_call, pytest_runtest_setup, pytest_terminal_summary  # noqa: F401  (hooks)

if TYPE_CHECKING:  # imported late below: only some tests need them
    from tests.kafka.broker import KafkaCluster, OldKafka
    from tests.kafka.oracle import MessageOracle
    from tests.kafka.secured import SecuredKafka
    from tests.s3 import S3Server

settings.register_profile(
    "same",
    derandomize="KGM_RANDOM" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    register(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells start background jobs like this, and every process that a test interrupts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    in_order(items)
    if os.environ.get("KGM_SKIP_KAFKA") == "1":
        skip = pytest.mark.skip(reason="KGM_SKIP_KAFKA=1")
        for item in items:
            if item.get_closest_marker("kafka"):
                item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the removals of tests out of the audit log of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One Kafka 4.3 broker for the session: use groups and topics of your own name."""
    from tests.kafka.broker import KafkaCluster

    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def old_kafka() -> Iterator[OldKafka]:
    """One Kafka 2.2.2 broker for the session."""
    from tests.kafka.broker import OldKafka

    with OldKafka() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured() -> Iterator[SecuredKafka]:
    """One Kafka 4.3 broker with TLS, SASL and ACLs for the session: give users rights on groups of your own name."""
    from tests.kafka.secured import SecuredKafka

    with SecuredKafka() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def oracle() -> Iterator[MessageOracle]:
    """Kafka's own message classes."""
    from tests.kafka.oracle import MessageOracle

    with MessageOracle() as running:
        yield running


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that this process and those that it starts use."""
    from tests.s3 import S3Server

    server = S3Server(tmp_path_factory.mktemp("s3"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.stop()

"""What all tests share: options of a run, brokers that are started once for all workers, state folders of their own.

Properties run with the same examples each time unless `--seed` says otherwise. No example has a deadline in wall-clock
time, which a busy machine would miss: test_budget.py bounds CPU time."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import needs, selection
from tests.kafka import shared
from tests.needs import pytest_runtest_call, pytest_runtest_setup, pytest_terminal_summary  # noqa: F401  (hooks)
from tests.selection import pytest_collection_modifyitems  # noqa: F401  (a hook)

if TYPE_CHECKING:  # imported late below: only some tests need them
    from xdist.workermanage import WorkerController

    from tests.kafka.broker import KafkaCluster
    from tests.kafka.oracle import MessageOracle
    from tests.kafka.secured import SecuredKafka
    from tests.s3 import S3Server


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    selection.configure(config)
    if config.getoption("--require-tools"):
        needs.require_tools()
    # Tests start kgm thousands of times, in workers and as processes: compiling it each time would be most of the work.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    settings.register_profile(
        "kgm",
        derandomize=selection.is_usual_seed(),
        max_examples=selection.sized(5, 100),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("kgm")
    if not selection.is_usual_seed():
        config.option.hypothesis_seed = str(selection.first_seed())
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # files start in the order that `_put_in_order` gives them
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        shared.serve_workers()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells start background jobs like this, and every process that a test interrupts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # started by nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    selection.tell_worker(node.workerinput)


def pytest_unconfigure() -> None:
    shared.stop_all()


def pytest_report_header() -> str:
    return selection.header()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without garbage collection: ten thousand items stay for the whole run, and searching them for garbage,
    again and again while they are made and in every test after that, takes a fifth of the CPU of the collection."""
    gc.disable()
    try:
        selection.import_in_turn(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return selection.scheduler(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and (line := selection.repeating_line(item.nodeid)):
        report.sections.append(("the same cases again", line))
    return report


@pytest.fixture(scope="session", autouse=True)
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the removals of tests out of the audit log of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def nobody_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removals do not wait for members that join again: for tests on a real clock in which nobody does later."""
    monkeypatch.setattr("kgm.operations.removal.returns.RETURN_MS", {})


@pytest.fixture(scope="session")
def kafka() -> KafkaCluster:
    """One Kafka 4.3 broker for the run: give groups and topics names of your own."""
    from tests.kafka.versions import shared_broker

    return shared_broker()


@pytest.fixture(scope="session")
def secured() -> SecuredKafka:
    """One Kafka 4.3 broker with TLS, SASL and ACLs for the run: give users rights on groups with names of your own."""
    from tests.kafka.secured import start_secured_kafka

    return shared.shared(start_secured_kafka)


@pytest.fixture(scope="session")
def oracle() -> Iterator[MessageOracle]:
    """Kafka's own message classes."""
    from tests.kafka.oracle import MessageOracle

    with MessageOracle() as running:
        yield running


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """The S3 server of the run, which this process and its children use: create buckets of your own."""
    from tests.s3 import start_s3

    server: S3Server = shared.shared(start_s3)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server

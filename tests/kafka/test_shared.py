"""What all workers of a run share: made once, however many ask at the same time, and ended with the run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kafka import shared
from tests.kafka.shared import ADDRESS, Keeper, NotStartedError
from tests.needs import UnavailableError

_COUNT = 8


class Thing:
    """Leaves a line in a file when it is made, and another one when it is stopped."""

    def __init__(self, log: str) -> None:
        self.log = log
        self._write("made")

    def stop(self) -> None:
        self._write("stopped")

    def _write(self, what: str) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{what}\n")


def broken(log: str) -> Thing:
    raise ValueError(f"no thing for {log}")


def lacking(_log: str) -> Thing:
    raise UnavailableError("java", "no Java runtime")


@pytest.fixture
def keeper(monkeypatch):
    """One that serves this process as if it were a worker."""
    running = Keeper()
    monkeypatch.setenv(ADDRESS, running.listen())
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    yield running
    running.stop()


def test_what_many_ask_for_is_made_once_and_stopped_with_the_run(keeper, tmp_path):
    log = tmp_path / "log"
    at_once = threading.Barrier(_COUNT)

    def ask(_number):
        at_once.wait(10)
        return shared.shared(Thing, str(log))

    with ThreadPoolExecutor(_COUNT) as pool:
        copies = list(pool.map(ask, range(_COUNT)))
    assert len({id(one) for one in copies}) == _COUNT
    assert log.read_text() == "made\n"
    shared.shared(Thing, str(tmp_path / "other"))
    assert log.read_text() == "made\n"
    keeper.stop()
    assert log.read_text() == "made\nstopped\n"


def test_what_cannot_be_made_is_an_error_for_everybody_who_asks(keeper, tmp_path):
    for _ in range(2):
        with pytest.raises(NotStartedError, match="ValueError: no thing for"):
            shared.shared(broken, str(tmp_path))
    with pytest.raises(UnavailableError) as caught:
        shared.shared(lacking, str(tmp_path))
    assert (caught.value.what, caught.value.why) == ("java", "no Java runtime")


def test_a_broker_of_another_process_is_not_ended_by_who_uses_it(tmp_path):
    from tests.kafka.broker import KafkaCluster

    cluster = KafkaCluster()
    cluster.folder = tmp_path / "broker"
    cluster.folder.mkdir()
    guest = KafkaCluster.__new__(KafkaCluster)
    guest.__dict__.update(cluster.__getstate__())
    guest.stop()
    assert cluster.folder.is_dir()

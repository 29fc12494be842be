"""Clusters without sockets on a data directory, one after the other, and a disk that fails."""

import errno

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server.contract.limits import Limits
from kgm.server.logs.data_directory import DataDirectory
from tests.server.broker_driver import Driver


class Disk:
    """Clusters, one after the other, on one directory."""

    def __init__(self, folder):
        self.folder = folder
        self.driver = None
        self.warnings = []
        self.seconds = 0.0

    def start(self, topics=None, *, limits=None, brokers=1, partitions=50, **settings):
        """A new process; the one before is gone as if it had been killed."""
        self.kill()
        values = {"offsets_topic_num_partitions": partitions, **settings}
        storage = DataDirectory.open(
            self.folder,
            settings=BrokerSettings(**values),
            limits=limits or Limits(),
            warn=self.warnings.append,
            seconds=lambda: self.seconds,
        )
        self.driver = FlushingDriver(
            {"t": 3} if topics is None else topics, storage=storage, limits=limits, brokers=brokers, **values
        )
        return self.driver

    def kill(self):
        """Kill the process: nothing is flushed, and the kernel closes the files."""
        if self.driver is not None:
            self.driver.cluster.close()
        self.driver = None


class FlushingDriver(Driver):
    """Sends requests, and lets the event loop's turn end after each."""

    def ask(self, *arguments, **options):
        ticket = self.send(*arguments, **options)
        self.flush()
        return self.answer(ticket)

    def advance(self, ms):
        super().advance(ms)
        self.flush()


def fail_sync(monkeypatch, name="kgm.records.log.os.fsync"):
    def broken(_fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(name, broken)

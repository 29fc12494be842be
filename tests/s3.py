"""A server that speaks S3: moto's, in a process of its own, one for each process of tests."""

from __future__ import annotations

import itertools
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from kgm.history.places.remote_path import RemotePath
from tests.kafka.broker import free_ports
from tests.kafka.process import Child
from tests.waiting import until

#: What moto takes for credentials; it looks at none.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "kgm-tests", "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody"}


class S3Server:
    """Its environment is that of a user of it."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            **CREDENTIALS, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        self._numbers = itertools.count(1)
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self._child = Child(command, log=folder / "s3.log")
        until(self._answers, lambda: self._child.log_tail(40), 120, every_s=0.1)

    def _answers(self) -> bool:
        assert self._child.running, self._child.log_tail(40)
        try:
            with urllib.request.urlopen(f"{self.url}/moto-api/", timeout=5):
                return True
        except OSError:
            return False

    def bucket(self) -> RemotePath:
        """A new one. File systems are kept by bucket, so that none outlives its server."""
        name = f"kgm-{os.getpid()}-{next(self._numbers)}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT"), timeout=20):
            return RemotePath(f"s3://{name}")

    def stop(self) -> None:
        self._child.kill()


def upload(folder: Path, to: RemotePath) -> None:
    """Copy the files below a directory."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            to.joinpath(*path.relative_to(folder).parts).write_bytes(path.read_bytes())


def keys(directory: RemotePath) -> list[str]:
    """The files below a place."""
    return [str(path.relative_to(directory)) for path in directory.rglob("*")]

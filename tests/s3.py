"""A server that speaks S3: moto's, in a process of its own, one for the run."""

from __future__ import annotations

import secrets
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from kgm.history.places.remote_path import Place, RemotePath, below
from tests.kafka.broker import free_ports
from tests.kafka.process import Child
from tests.waiting import until

#: Credentials for moto, which checks none.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "kgm-tests", "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody"}


class S3Server:
    """The server; `environment` has the variables that its users need."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kgm-s3-")
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            **CREDENTIALS, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self._child: Child | None = Child(command, log=Path(self._folder.name) / "s3.log")
        until(self._answers, self._log_tail, 120, every_s=0.1)

    def _log_tail(self) -> str:
        assert self._child is not None
        return self._child.log_tail(40)

    def _answers(self) -> bool:
        assert self._child is not None
        assert self._child.running, self._log_tail()
        try:
            with urllib.request.urlopen(f"{self.url}/moto-api/", timeout=5):
                return True
        except OSError:
            return False

    def bucket(self) -> RemotePath:
        """A new bucket. File systems are cached by bucket, so none outlives its server."""
        name = f"kgm-{secrets.token_hex(8)}"  # each worker, and each module in it, has a copy of this object
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT"), timeout=20):
            return RemotePath(f"s3://{name}")

    def __getstate__(self) -> dict[str, Any]:
        """The state for a worker, which does not own the process."""
        return {**self.__dict__, "_child": None}

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._folder.cleanup()


def start_s3() -> S3Server:
    return S3Server()


def upload(folder: Path, to: RemotePath) -> None:
    """Copy the files below a directory."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            to.joinpath(*path.relative_to(folder).parts).write_bytes(path.read_bytes())


def keys(directory: Place) -> list[str]:
    """The files below a place."""
    return ["/".join(below(directory, path)) for path in directory.rglob("*") if path.is_file()]

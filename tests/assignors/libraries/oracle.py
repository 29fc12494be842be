"""Client libraries' own assignors in processes that answer one case after the other. Missing libraries are fetched with
the package managers of their languages, into the cache that also has Kafka's jars."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tests.assignors.groups import Case
from tests.kafka.jars import cache_dir, locked
from tests.kafka.process import Child
from tests.needs import UnavailableError, needs

FOLDER = pathlib.Path(__file__).parent / "oracles"
#: The versions that `kgm.assignors.libraries` follows.
VERSIONS = {
    "franz-go": "1.22.3", "sarama": "1.61.1", "kafka-go": "0.4.51", "kafkajs": "2.2.4", "platformatic": "1.35.0",
    "kafka-python": "3.0.12", "aiokafka": "0.14.0",
}  # fmt: skip
_MODULES = {
    "franz-go": "github.com/twmb/franz-go", "sarama": "github.com/IBM/sarama", "kafka-go": "github.com/segmentio/kafka-go",
}  # fmt: skip
_PACKAGES = {"kafkajs": "kafkajs", "platformatic": "@platformatic/kafka"}
_FETCH_S = 900


class LibraryOracle:
    """Ask it for answers; close it at the end. hash_seed: for Python's hashes, which differ from process to process."""

    def __init__(self, library: str, *, hash_seed: int = 0) -> None:
        self._temp = tempfile.TemporaryDirectory(prefix="kgm-oracle-")
        if library in _MODULES:
            command = [str(go_program(FOLDER / "go"))]
        elif library in _PACKAGES:
            command = [needs("node"), str(FOLDER / "node" / "oracle.mjs"), str(node_packages())]
        else:
            command = [*python_packages(hash_seed), str(FOLDER / "python" / "oracle.py")]
        self._child = Child(command, log=pathlib.Path(self._temp.name) / "log", pipe_stdout=True)

    def ask(self, case: Case) -> dict[str, Any]:
        """{"assignment"} or {"error"}. case: with `library` and `leader`."""
        self._child.stdin.write(json.dumps(case) + "\n")
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the library's process has ended: {self._child.log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._child.kill()
        self._child.stdout.close()
        self._temp.cleanup()


@cache
def go_program(sources: pathlib.Path) -> pathlib.Path:
    """The program of these sources, built with the libraries in Go."""
    go = needs("go")

    def build(folder: pathlib.Path) -> None:
        for path in sources.iterdir():
            shutil.copy(path, folder)
        run = _running(folder, GOFLAGS="-mod=mod")
        run([go, "mod", "init", "oracle"])
        run([go, "get", *(f"{module}@v{VERSIONS[name]}" for name, module in _MODULES.items())])
        run([go, "mod", "tidy"])
        run([go, "build", "-o", "oracle", "."])

    code = b"".join(path.read_bytes() for path in sorted(sources.iterdir()))
    return _made("go", _MODULES, build, code) / "oracle"


@cache
def node_packages() -> pathlib.Path:
    """The folder that has the libraries in its node_modules."""
    npm = needs("npm")

    def install(folder: pathlib.Path) -> None:
        (folder / "package.json").write_text('{"private": true}')
        packages = [f"{package}@{VERSIONS[name]}" for name, package in _PACKAGES.items()]
        _running(folder)([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages])

    return _made("node", _PACKAGES, install)


@cache
def python_packages(hash_seed: int | None = None) -> list[str]:
    """The command of a Python that has the libraries; hash_seed: for its hashes, None for a random one."""
    names = ("kafka-python", "aiokafka")

    def install(folder: pathlib.Path) -> None:
        packages = [f"{name}=={VERSIONS[name]}" for name in names]
        _running(folder)([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *packages])

    folder = _made(f"python{sys.version_info.major}.{sys.version_info.minor}", names, install)
    hashes = [] if hash_seed is None else [f"PYTHONHASHSEED={hash_seed}"]
    return [needs("env"), f"PYTHONPATH={folder}", *hashes, sys.executable]


def _made(
    kind: str, names: Sequence[str] | dict[str, str], make: Callable[[pathlib.Path], None], sources: bytes = b""
) -> pathlib.Path:
    """A folder of the cache that is made once for these versions and for the sources that are built there."""
    mark = hashlib.sha256(json.dumps([VERSIONS[name] for name in names]).encode() + sources).hexdigest()[:12]
    folder = cache_dir() / f"assignors-{kind}-{mark}"
    with locked(folder.name):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / ".complete").touch()
    return folder


def _running(folder: pathlib.Path, **environment: str) -> Callable[[list[str]], None]:
    def run(command: list[str]) -> None:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=_FETCH_S,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise UnavailableError("client-libraries", f"{' '.join(command[:3])}: {done.stderr[-500:]}")

    return run

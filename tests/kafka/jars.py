"""Kafka's jars, fetched into a cache outside the repository.

The cache is `$KGM_CACHE`, else `$XDG_CACHE_HOME/kgm`, else `~/.cache/kgm`. The contents of each set are pinned in
jars.json, with digests; `python -m tests.kafka.lock_jars` writes that file. A set is fetched only when it is missing,
under a file lock (parallel test workers wait for one fetch), into a temporary folder that is renamed when it is
complete. A jar that several sets have is fetched and stored once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tests.kafka.ivy import Artifact, fetch

KAFKA_VERSION: Final = "4.3.0"
LOCK: Final = Path(__file__).with_name("jars.json")


def _kafka(name: str, version: str = KAFKA_VERSION, classifier: str | None = None) -> Artifact:
    return Artifact("org.apache.kafka", name, version, classifier)


_SLF4J_NOP: Final = Artifact("org.slf4j", "slf4j-nop", "1.7.36")

SETS: Final[dict[str, tuple[Artifact, ...]]] = {
    # A broker, the command line tools and the clients.
    f"kafka-{KAFKA_VERSION}": (
        _kafka("kafka_2.13"),
        _kafka("kafka-tools"),
        _kafka("kafka-group-coordinator"),
        _SLF4J_NOP,
    ),
    # A broker from before LeaveGroup v3. The ZooKeeper it ships with fails on Java 17.
    "kafka-2.2.2": (
        _kafka("kafka_2.12", "2.2.2"),
        Artifact("org.apache.zookeeper", "zookeeper", "3.5.10"),
        Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
    ),
    # The coordinator with its own test harness: a mock clock and no sockets.
    f"coordinator-tests-{KAFKA_VERSION}": (
        _kafka("kafka-group-coordinator"),
        _kafka("kafka-group-coordinator", classifier="test"),
        _kafka("kafka-clients", classifier="test"),
        _kafka("kafka-server-common", classifier="test"),
        _kafka("kafka-coordinator-common", classifier="test"),
        Artifact("org.mockito", "mockito-core", "5.14.2"),
        Artifact("org.junit.jupiter", "junit-jupiter", "5.13.1"),
        _SLF4J_NOP,
    ),
}
# The coordinator in Scala, with a mock clock.
SETS["scala-coordinator-tests-3.9.1"] = (
    _kafka("kafka_2.13", "3.9.1"),
    _kafka("kafka-clients", "3.9.1", "test"),
    Artifact("org.mockito", "mockito-core", "5.14.2"),
    Artifact("org.junit.jupiter", "junit-jupiter", "5.13.1"),
    _SLF4J_NOP,
)
# Brokers of other versions, in KRaft mode.
for _version in ("3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.1.1", "4.2.0", "4.4.0"):
    SETS[f"kafka-{_version}"] = (_kafka("kafka_2.13", _version), _SLF4J_NOP)
# Brokers that need ZooKeeper; the ZooKeeper versions shipped with 2.4 to 3.2 fail on Java 17, or come close to failing.
for _version in ("2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3"):
    SETS[f"kafka-{_version}"] = (
        _kafka("kafka_2.13", _version),
        Artifact("org.apache.zookeeper", "zookeeper", "3.5.10"),
        Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
    )
# Needed, along with the jars of a broker, to drive Kafka's own coordinator in one process (tests/coordinator/lockstep).
SETS["mockito"] = (Artifact("org.mockito", "mockito-core", "5.14.2"),)
# Kafka Streams: applications, and its classes that read and write members' bytes. 2.4.1 writes the oldest form that kgm
# reads.
for _version in ("2.4.1", KAFKA_VERSION):
    SETS[f"streams-{_version}"] = (_kafka("kafka-streams", _version), _SLF4J_NOP)
#: The newest version of Kafka that everything here knows.
NEWEST_VERSION: Final = "4.4.0"
# A name node and a data node in one process; their web server needs JAXB, which Java 17 does not have.
SETS["hadoop-minicluster-3.4.1"] = (
    Artifact("org.apache.hadoop", "hadoop-client-minicluster", "3.4.1"),
    Artifact("org.glassfish.jaxb", "jaxb-runtime", "2.3.9"),
    _SLF4J_NOP,
)
# The compiler of the drivers: a Java runtime has none.
SETS["compiler"] = (Artifact("org.eclipse.jdt", "ecj", "3.40.0"),)
# What Spark needs to read Delta tables, in addition to what PySpark contains.
SETS["spark-4.0.0"] = (Artifact("io.delta", "delta-spark_2.13", "4.0.0"),)
SETS["slf4j-simple"] = (Artifact("org.slf4j", "slf4j-simple", "1.7.36"),)
_ALIASES: Final = {
    "kafka": f"kafka-{KAFKA_VERSION}",
    "coordinator-tests": f"coordinator-tests-{KAFKA_VERSION}",
}


@cache
def locked_jars() -> dict[str, dict[Artifact, str]]:
    """The jars of each pinned set, with their SHA-256 as hexadecimal digits."""
    found = json.loads(LOCK.read_text())
    digests = {Artifact.parse(name): digest for name, digest in found["jars"].items()}
    by_name = {str(one): one for one in digests}
    return {name: {by_name[one]: digests[by_name[one]] for one in jars} for name, jars in found["sets"].items()}


def newest_release() -> str:
    """The highest version of the broker in the repository's metadata of the artifact, however new."""
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".newest-") as scratch:
        (found,) = fetch([_kafka("kafka_2.13", f"[{NEWEST_VERSION},)")], Path(scratch))
        return found.version


def add_broker(version: str) -> None:
    """Make `kafka-VERSION` a set, for a version that is not listed here. Its jars are not pinned."""
    SETS.setdefault(f"kafka-{version}", (_kafka("kafka_2.13", version), _SLF4J_NOP))


def cache_dir() -> Path:
    """The cache folder (made when missing)."""
    if configured := os.environ.get("KGM_CACHE"):
        folder = Path(configured)
    elif xdg := os.environ.get("XDG_CACHE_HOME"):
        folder = Path(xdg) / "kgm"
    else:
        folder = Path.home() / ".cache" / "kgm"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache's lock `name`, waiting for another process that holds it."""
    with (cache_dir() / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def jars(name: str = "kafka") -> Path:
    """The folder with the jars of a set ("kafka", "kafka-2.2.2", "coordinator-tests").

    Fetches the set when it is not in the cache. KafkaUnavailableError when that fails.
    """
    name = _ALIASES.get(name, name)
    pinned = locked_jars().get(name)
    # A set that is pinned again gets another folder, and processes that run on the old one keep it.
    mark = hashlib.sha256("".join(sorted(pinned.values())).encode()).hexdigest()[:8] if pinned else "unpinned"
    folder = cache_dir() / "jars" / f"{name}-{mark}"
    if not folder.exists():
        with locked(folder.name):
            if not folder.exists():
                _fill(folder, _pinned(pinned) if pinned else None, SETS[name])
    return folder


def classpath(name: str = "kafka", *more: Path) -> str:
    """A Java class path: every jar of the set, then the folders in `more`."""
    return os.pathsep.join([f"{jars(name)}/*", *(str(path) for path in more)])


def sha256(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fill(folder: Path, pinned: dict[Artifact, Path] | None, artifacts: tuple[Artifact, ...]) -> None:
    """Make the folder of a set, from stored jars, or from what the artifacts need today."""
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".filling-") as scratch:
        found = fetch(artifacts, Path(scratch), transitive=True) if pinned is None else pinned
        out = Path(scratch) / "set"
        out.mkdir()
        for artifact, path in found.items():
            try:
                (out / artifact.file_name).hardlink_to(path)
            except OSError:  # a file system without links
                shutil.copy(path, out / artifact.file_name)
        out.rename(folder)


def _pinned(wanted: dict[Artifact, str]) -> dict[Artifact, Path]:
    """The stored files of these jars; missing ones are fetched first, and their digests checked."""
    store = cache_dir() / "jars" / "store"
    store.mkdir(parents=True, exist_ok=True)
    paths = {artifact: store / f"{digest}.jar" for artifact, digest in wanted.items()}
    if lacking := [artifact for artifact, path in paths.items() if not path.exists()]:
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".fetching-") as scratch:
            found = fetch(lacking, Path(scratch))
            for artifact in lacking:
                if (got := sha256(found[artifact])) != wanted[artifact]:
                    raise RuntimeError(f"{artifact} has the digest {got}, and {LOCK.name} has {wanted[artifact]}")
                found[artifact].rename(paths[artifact])
    return paths

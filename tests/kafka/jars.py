"""Kafka's jars, fetched with Maven into a cache outside the repository.

The cache is `$KGM_CACHE`, else `$XDG_CACHE_HOME/kgm`, else `~/.cache/kgm`. A set is fetched only
when it is missing, under a file lock (parallel test workers wait for one fetch), into a temporary
folder that is renamed when it is complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.needs import UnavailableError, find

KAFKA_VERSION: Final = "4.3.0"
_MARKER: Final = ".complete"
_FETCH_TIMEOUT_S: Final = 600


class KafkaUnavailableError(UnavailableError):
    """Java, Maven or a jar is missing: the tests that need a real Kafka cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One Maven coordinate; `classifier="test"` asks for a module's test classes."""

    group: str
    name: str
    version: str
    classifier: str | None = None


def _kafka(name: str, version: str = KAFKA_VERSION, classifier: str | None = None) -> Artifact:
    return Artifact(group="org.apache.kafka", name=name, version=version, classifier=classifier)


_SLF4J_NOP: Final = Artifact(group="org.slf4j", name="slf4j-nop", version="1.7.36")

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
        Artifact(group="org.apache.zookeeper", name="zookeeper", version="3.5.10"),
        Artifact(group="org.slf4j", name="slf4j-reload4j", version="1.7.36"),
    ),
    # The coordinator with its own test harness: a mock clock and no sockets.
    f"coordinator-tests-{KAFKA_VERSION}": (
        _kafka("kafka-group-coordinator"),
        _kafka("kafka-group-coordinator", classifier="test"),
        _kafka("kafka-clients", classifier="test"),
        _kafka("kafka-server-common", classifier="test"),
        _kafka("kafka-coordinator-common", classifier="test"),
        Artifact(group="org.mockito", name="mockito-core", version="5.14.2"),
        Artifact(group="org.junit.jupiter", name="junit-jupiter", version="5.13.1"),
        _SLF4J_NOP,
    ),
}
# The coordinator in Scala, with a mock clock.
SETS["scala-coordinator-tests-3.9.1"] = (
    _kafka("kafka_2.13", "3.9.1"),
    _kafka("kafka-clients", "3.9.1", "test"),
    Artifact(group="org.mockito", name="mockito-core", version="5.14.2"),
    Artifact(group="org.junit.jupiter", name="junit-jupiter", version="5.13.1"),
    _SLF4J_NOP,
)
# Brokers of other versions, in KRaft mode.
for _version in ("3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.1.1", "4.2.0", "4.4.0"):
    SETS[f"kafka-{_version}"] = (_kafka("kafka_2.13", _version), _SLF4J_NOP)
# Brokers that need ZooKeeper; those that 2.4 to 3.2 come with fail on Java 17, or are not far from it.
for _version in ("2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3"):
    SETS[f"kafka-{_version}"] = (
        _kafka("kafka_2.13", _version),
        Artifact(group="org.apache.zookeeper", name="zookeeper", version="3.5.10"),
        Artifact(group="org.slf4j", name="slf4j-reload4j", version="1.7.36"),
    )
# What Kafka's own coordinator is driven with in one process (tests/coordinator/lockstep), beside the jars of a broker.
SETS["mockito"] = (Artifact(group="org.mockito", name="mockito-core", version="5.14.2"),)
#: The newest version of Kafka that everything here knows.
NEWEST_VERSION: Final = "4.4.0"
# A name node and a data node in one process; their web server needs JAXB, which Java 17 does not have.
SETS["hadoop-minicluster-3.4.1"] = (
    Artifact(group="org.apache.hadoop", name="hadoop-client-minicluster", version="3.4.1"),
    Artifact(group="org.glassfish.jaxb", name="jaxb-runtime", version="2.3.9"),
    _SLF4J_NOP,
)
SETS["slf4j-simple"] = (Artifact(group="org.slf4j", name="slf4j-simple", version="1.7.36"),)
_ALIASES: Final = {
    "kafka": f"kafka-{KAFKA_VERSION}",
    "coordinator-tests": f"coordinator-tests-{KAFKA_VERSION}",
}


def newest_release() -> str:
    """The highest version of the broker that Maven's metadata of the artifact has, however new."""
    wanted = _kafka("kafka_2.13", f"[{NEWEST_VERSION},)")
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".newest-") as scratch:
        out = Path(scratch) / "jars"
        _copy((wanted,), out, "-U", "-DexcludeTransitive=true")
        (jar,) = out.glob("kafka_2.13-*.jar")
        return jar.stem.removeprefix("kafka_2.13-")


def add_broker(version: str) -> None:
    """Make `kafka-VERSION` a set, for a version that is not listed here."""
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


def executable(name: str) -> str:
    """The path of `java`, `javac` or `mvn`; KafkaUnavailableError when it is not installed."""
    home = os.environ.get("JAVA_HOME")
    if home and (candidate := Path(home) / "bin" / name).exists():
        return str(candidate)
    found = find(name)
    if found is None:
        raise KafkaUnavailableError(name, "not installed")
    return found


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
    folder = cache_dir() / name
    if (folder / _MARKER).exists():
        return folder
    with locked(name):
        if not (folder / _MARKER).exists():
            _fetch(name, folder)
    return folder


def classpath(name: str = "kafka", *more: Path) -> str:
    """A Java class path: every jar of the set, then the folders in `more`."""
    return os.pathsep.join([f"{jars(name)}/*", *(str(path) for path in more)])


def _copy(artifacts: tuple[Artifact, ...], out: Path, *options: str) -> None:
    """Have Maven copy the jars to a folder `out`, which is made in the folder that it is to be in."""
    executable("java")
    pom = out.parent / "pom.xml"
    pom.write_text(_pom(artifacts))
    command = [executable("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    result = subprocess.run(
        [*command, f"-DoutputDirectory={out}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FETCH_TIMEOUT_S,
        check=False,
    )
    if result.returncode != 0:
        wanted = ", ".join(f"{one.name}:{one.version}" for one in artifacts)
        raise KafkaUnavailableError("jars", f"Maven could not fetch {wanted}:\n{result.stdout[-2000:]}")


def _fetch(name: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=f".{name}-") as scratch:
        out = Path(scratch) / "jars"
        _copy(SETS[name], out)
        (out / _MARKER).touch()
        shutil.rmtree(folder, ignore_errors=True)
        out.rename(folder)


def _pom(artifacts: tuple[Artifact, ...]) -> str:
    dependencies = "".join(
        "<dependency>"
        f"<groupId>{a.group}</groupId><artifactId>{a.name}</artifactId><version>{a.version}</version>"
        + (f"<classifier>{a.classifier}</classifier>" if a.classifier else "")
        + "</dependency>"
        for a in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
        "<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )

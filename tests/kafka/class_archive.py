"""An archive of the classes that Kafka's brokers, consumers and tools load (class data sharing).

A JVM that maps the archive has these classes parsed and verified, and starts with about half of the CPU. The archive is
made once for each runtime and class path, next to the jars in the cache, from what a broker and a consumer load.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.kafka.jars import cache_dir, locked
from tests.kafka.runtime import executable, java_home

_DUMP_S: Final = 300
#: Marks a class that was defined by a class loader of its own; such classes cannot be archived.
_HAS_SOURCE: Final = " source: "


def options(class_path: str, archived: str) -> list[str]:
    """The JVM options that map the archive of the class path `archived`, if it exists and `class_path` begins with
    that."""
    if class_path.startswith(archived) and not _is_training and _of(archived).exists():
        return [f"-XX:SharedArchiveFile={_of(archived)}"]
    return []


def ensure(class_path: str) -> None:
    """Make the archive of a class path unless it exists. If the runtime cannot make one, programs start without it."""
    if not _is_training and not _of(class_path).exists():
        with locked("class-archive"):
            if not _of(class_path).exists():
                _make(_of(class_path), class_path)


_is_training: list[bool] = []


@cache
def _of(class_path: str) -> Path:
    release = (java_home() / "release").read_bytes() if (java_home() / "release").exists() else b""
    digest = hashlib.sha256(f"{java_home()}\0{class_path}".encode() + release).hexdigest()[:16]
    return cache_dir() / f"classes-{digest}.jsa"


def _make(archive: Path, class_path: str) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".archive-") as scratch:
        names = Path(scratch) / "classes"
        names.write_text("\n".join(_loaded(Path(scratch))) + "\n")
        made = Path(scratch) / "archive"
        command = [executable("java"), "-Xshare:dump", f"-XX:SharedClassListFile={names}"]
        command += [f"-XX:SharedArchiveFile={made}", "-XX:+UseSerialGC", "-cp", class_path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DUMP_S, check=False)
        if done.returncode:
            raise RuntimeError(f"the archive of Kafka's classes cannot be made:\n{done.stdout}{done.stderr}")
        made.rename(archive)


def _loaded(folder: Path) -> list[str]:
    """The lines of the lists of classes that a broker and a consumer load."""
    # Both import this module when they start.
    from tests.kafka.broker import KafkaCluster
    from tests.kafka.java_tools import QUICK
    from tests.kafka.members import JavaMembers

    lists = [folder / "broker", folder / "consumer"]
    broker_options, consumer_options = ((*QUICK, f"-XX:DumpLoadedClassList={path}") for path in lists)
    _is_training.append(True)
    try:
        with KafkaCluster(jvm_options=broker_options) as cluster:
            cluster.create_topics({"trained": 2})
            with JavaMembers(cluster.bootstrap, options=consumer_options) as members:
                for number, assignor in enumerate(("range", "cooperative-sticky")):
                    member = members.start(group=f"trained-{number}", topics=["trained"], assignor=assignor)
                    member.wait_event("assigned")
                    member.close()
    finally:
        _is_training.clear()
    lines = [line for path in lists for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(dict.fromkeys(re.sub(r" id: \d+$", "", line) for line in lines if _HAS_SOURCE not in line))

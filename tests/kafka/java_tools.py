"""Compiling and starting Java: the drivers in `java/` and Kafka's command line tools."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kafka.jars import KAFKA_VERSION, cache_dir, classpath, jars, locked
from tests.kafka.runtime import OLDEST_JAVA, executable

SOURCES: Final = Path(__file__).parent / "java"
# Small, and quick to start: these JVMs live for seconds.
QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")


class CompilationError(RuntimeError):
    """A driver does not fit the jars that it is compiled with."""


def drivers() -> Path:
    """The folder of the compiled drivers; compiles when a source has changed."""
    return compiled(sorted(SOURCES.glob("*.java")), classpath("kafka"))


def compiled(sources: Sequence[Path], class_path: str) -> Path:
    """Compile `sources` into the cache (once for each content and class path); the folder of the classes."""
    digest = hashlib.sha256(f"{KAFKA_VERSION} {class_path}".encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = cache_dir() / f"classes-{digest.hexdigest()[:16]}"
    if folder.exists():
        return folder
    with locked("classes"):
        if not folder.exists():
            _compile(sources, class_path, folder)
    return folder


def _compile(sources: Sequence[Path], class_path: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".classes-") as scratch:
        out = Path(scratch) / "classes"
        out.mkdir()
        # Eclipse's compiler: a runtime of Java has none.
        command = [
            executable("java"),
            *QUICK,
            "-jar",
            str(*jars("compiler").glob("*.jar")),
            f"-{OLDEST_JAVA}",
            "-nowarn",
        ]
        command += ["-proc:none", "-d", str(out), "-cp", expanded(class_path), *map(str, sources)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CompilationError(
                f"{', '.join(one.name for one in sources)} cannot be compiled:\n{result.stderr[-4000:]}"
            )
        shutil.move(out, folder)


def expanded(class_path: str) -> str:
    """A class path with each `folder/*` replaced by the jars that are there, which Java does and its compilers do not."""
    parts = class_path.split(os.pathsep)
    jars_of = {part: sorted(str(jar) for jar in Path(part[:-1]).glob("*.jar")) for part in parts if part.endswith("/*")}
    return os.pathsep.join(name for part in parts for name in jars_of.get(part, [part]))


def java_command(
    main_class: str, *args: str, heap_mb: int = 128, options: Sequence[str] = QUICK, class_path: str | None = None
) -> list[str]:
    """The command line that runs a main class of the drivers or of Kafka."""
    path = class_path or os.pathsep.join([str(drivers()), classpath("kafka")])
    return [executable("java"), f"-Xmx{heap_mb}m", *options, "-cp", path, main_class, *args]


def run_tool(main_class: str, *args: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command line tools to its end."""
    command = java_command(main_class, *args, class_path=classpath("kafka"))
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def consumer_group_command(bootstrap: str, *args: str, timeout_s: float = 60) -> str:
    """kafka-consumer-groups: its standard output. CalledProcessError when it fails."""
    main_class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    result = run_tool(main_class, "--bootstrap-server", bootstrap, *args, timeout_s=timeout_s)
    result.check_returncode()
    return result.stdout

"""Compiling and starting Java: the drivers in `java/` and Kafka's command line tools."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kafka import class_archive
from tests.kafka.jars import KAFKA_VERSION, cache_dir, classpath, jars, locked
from tests.kafka.runtime import OLDEST_JAVA, executable

SOURCES: Final = Path(__file__).parent / "java"
# Small, and quick to start: these JVMs live for seconds. Verifying the bytecode of Kafka's classes, whose jars' digests
# are pinned, takes a seventh of the CPU of a broker's start.
QUICK: Final = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto",
    "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote",
)  # fmt: skip
_LOG_LEVEL: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel="


class CompilationError(RuntimeError):
    """A driver does not fit the jars that it is compiled with."""


def drivers() -> Path:
    """The jar of the compiled drivers; compiles when a source has changed."""
    return compiled(sorted(SOURCES.glob("*.java")), classpath("kafka"))


def compiled(sources: Sequence[Path], class_path: str) -> Path:
    """Compile `sources` into the cache (once for each content and class path); the jar of the classes."""
    digest = hashlib.sha256(f"{KAFKA_VERSION} {class_path}".encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    jar = cache_dir() / f"classes-{digest.hexdigest()[:16]}.jar"
    if jar.exists():
        return jar
    with locked("classes"):
        if not jar.exists():
            _compile(sources, class_path, jar)
    return jar


def _compile(sources: Sequence[Path], class_path: str, jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".classes-") as scratch:
        out = Path(scratch) / "classes"
        out.mkdir()
        # Eclipse's compiler: a Java runtime has none.
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
        packed = Path(scratch) / "jar"
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted(out.rglob("*.class")):
                archive.write(path, path.relative_to(out))
        packed.rename(jar)


def expanded(class_path: str) -> str:
    """A class path with each `folder/*` replaced by the jars in the folder: Java expands these itself, its compilers do
    not."""
    parts = class_path.split(os.pathsep)
    jars_of = {part: sorted(str(jar) for jar in Path(part[:-1]).glob("*.jar")) for part in parts if part.endswith("/*")}
    return os.pathsep.join(name for part in parts for name in jars_of.get(part, [part]))


def kafka_class_path(*more: Path, version: str = KAFKA_VERSION) -> str:
    """The drivers, the jars of a version with slf4j-simple instead of slf4j-nop (so that brokers have a log), and `more`.
    In a fixed order, because an archive of classes (`class_archive`) fits only a class path that begins with its
    own."""
    kept = [path for path in sorted(jars(f"kafka-{version}").glob("*.jar")) if not path.name.startswith("slf4j-nop")]
    return os.pathsep.join(map(str, [drivers(), *kept, *jars("slf4j-simple").glob("slf4j-simple-*.jar"), *more]))


def java_command(
    main_class: str, *args: str, heap_mb: int = 128, options: Sequence[str] = QUICK, class_path: str | None = None
) -> list[str]:
    """The command line that runs a main class of the drivers or of Kafka."""
    archived = kafka_class_path()
    path = class_path or archived
    log = [] if any(one.startswith(_LOG_LEVEL) for one in options) else [f"{_LOG_LEVEL}off"]
    archive = class_archive.options(path, archived)
    return [executable("java"), f"-Xmx{heap_mb}m", *archive, *options, *log, "-cp", path, main_class, *args]


def run_tool(main_class: str, *args: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command line tools to its end."""
    command = java_command(main_class, *args)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def consumer_group_command(bootstrap: str, *args: str, timeout_s: float = 60) -> str:
    """kafka-consumer-groups: its standard output. CalledProcessError when it fails."""
    main_class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    result = run_tool(main_class, "--bootstrap-server", bootstrap, *args, timeout_s=timeout_s)
    result.check_returncode()
    return result.stdout

"""A JVM with Kafka's own coordinator (bench/java) that runs one round for each line it is sent, so it stays warm and
takes turns with kgm."""

import pathlib
import subprocess
from collections.abc import Iterator

from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command

SOURCES = pathlib.Path(__file__).resolve().parent / "java"


class WarmJvm:
    """`main`: a class of bench/java that extends BenchedCoordinator."""

    def __init__(self, main: str, *arguments: object, heap_mb: int) -> None:
        path = classpath("coordinator-tests")
        classes = compiled([SOURCES / "BenchedCoordinator.java", SOURCES / f"{main}.java"], path)
        command = java_command(
            f"org.apache.kafka.coordinator.group.{main}", *map(str, arguments),
            heap_mb=heap_mb, options=("-XX:+UseSerialGC", "-XX:-UsePerfData"), class_path=f"{classes}:{path}",
        )  # fmt: skip
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self, *, warm_up: bool = False) -> Iterator[list[str]]:
        """Run one round, or a longer one to warm up. Yields the words of each line of its answer."""
        self.process.stdin.write("warm up\n" if warm_up else "go\n")
        self.process.stdin.flush()
        for line in iter(self.process.stdout.readline, "done\n"):
            assert line, "the JVM has ended"
            yield line.split()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)

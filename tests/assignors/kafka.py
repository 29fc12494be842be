"""Kafka's own assignors in a JVM that answers one case after the other."""

import json
import pathlib
import tempfile
from typing import Any

from tests.assignors.groups import Answer, Case
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command, kafka_class_path
from tests.kafka.process import Child

SOURCES = pathlib.Path(__file__).parent / "java"


class AssignOracle:
    """Ask it for answers; close it at the end. driver: the name of the Java source."""

    def __init__(self, driver: str = "AssignDriver") -> None:
        self._temp = tempfile.TemporaryDirectory(prefix="kgm-assign-")
        path = kafka_class_path(compiled([SOURCES / f"{driver}.java"], classpath("kafka")))
        command = java_command(driver, class_path=path, heap_mb=256)
        self._child = Child(command, log=pathlib.Path(self._temp.name) / "log", pipe_stdout=True)

    def ask(self, case: Case) -> dict[str, Any]:
        """{"assignment"} or {"error"}."""
        self._child.stdin.write(json.dumps(case) + "\n")
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM has ended: {self._child.log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def refutes(self, case: Case, answer: Answer) -> bool:
        """Whether Kafka gives a different answer that is not an exception."""
        said = self.ask(case)
        return "error" not in said and said["assignment"] != answer

    def close(self) -> None:
        self._child.kill()
        self._child.stdout.close()
        self._temp.cleanup()

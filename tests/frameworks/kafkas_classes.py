"""Cases that Kafka's own classes wrote and read: in a JVM, or as they were recorded.

python -m tests.frameworks.kafkas_classes (records them again)
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.kafka.jars import KAFKA_VERSION, classpath
from tests.kafka.java_tools import compiled, java_command

SOURCES: Final = Path(__file__).parent / "java"
RECORDED: Final = Path(__file__).parent / "recorded.jsonl"
OLD_STREAMS: Final = "2.4.1"
#: (driver, set of jars, how many cases are recorded)
ORACLES: Final = (
    ("StreamsOracle", f"streams-{KAFKA_VERSION}", 44),
    ("StreamsOracle", f"streams-{OLD_STREAMS}", 10),
    ("ConnectOracle", "kafka", 12),
)
#: Histories of Connect's assignors, and placements of Streams' assignor; the drivers are in the packages of Kafka's
#: classes, because these cannot be reached from outside.
ASSIGNOR_ORACLE: Final = "ConnectAssignorOracle"
STREAMS_ASSIGNOR_ORACLE: Final = "StreamsAssignorOracle"
HISTORIES: Final = Path(__file__).parent / "connect_histories.jsonl"
PLACEMENTS: Final = Path(__file__).parent / "streams_placements.jsonl"
STREAMS_JARS: Final = f"streams-{KAFKA_VERSION}"
_PACKAGES: Final = {
    ASSIGNOR_ORACLE: "org.apache.kafka.connect.runtime.distributed.",
    STREAMS_ASSIGNOR_ORACLE: "org.apache.kafka.streams.processor.internals.assignment.",
}


def cases(driver: str, jars: str, seed: int, count: int) -> list[dict[str, Any]]:
    """`count` random cases of a driver, made by a JVM."""
    path = classpath(jars)
    path = f"{compiled([SOURCES / f'{driver}.java'], path)}:{path}"
    command = java_command(_PACKAGES.get(driver, "") + driver, str(seed), str(count), class_path=path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [{"driver": driver, **json.loads(line)} for line in done.stdout.splitlines()]


def recorded(path: Path = RECORDED) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    found = [case for driver, jars, count in ORACLES for case in cases(driver, jars, 1, count)]
    placements = cases(STREAMS_ASSIGNOR_ORACLE, STREAMS_JARS, 1, 50)
    histories = cases(ASSIGNOR_ORACLE, "kafka", 1, 10)
    for path, some in ((RECORDED, found), (HISTORIES, histories), (PLACEMENTS, placements)):
        path.write_text("".join(json.dumps(case) + "\n" for case in some))


if __name__ == "__main__":
    main()

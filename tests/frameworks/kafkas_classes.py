"""Cases that Kafka's own classes wrote and read: in a JVM, or as they were recorded.

python -m tests.frameworks.kafkas_classes     (records them again)
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
#: Histories of Connect's assignors; the driver is in the package of Kafka's class, which has no other door.
ASSIGNOR_ORACLE: Final = "ConnectAssignorOracle"
HISTORIES: Final = Path(__file__).parent / "connect_histories.jsonl"
_PACKAGES: Final = {ASSIGNOR_ORACLE: "org.apache.kafka.connect.runtime.distributed."}


def cases(driver: str, jars: str, seed: int, count: int) -> list[dict[str, Any]]:
    """So many random cases of a driver, made by a JVM."""
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
    for path, some in ((RECORDED, found), (HISTORIES, cases(ASSIGNOR_ORACLE, "kafka", 1, 10))):
        path.write_text("".join(json.dumps(case) + "\n" for case in some))


if __name__ == "__main__":
    main()

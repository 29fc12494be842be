"""Kafka's own message classes, in one JVM that answers line by line."""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka.java_tools import java_command
from tests.kafka.process import Child


class OracleError(Exception):
    """Kafka's class refused the bytes or the JSON; the text is the Java exception."""


class MessageOracle:
    """Decodes and encodes every message of kafka-clients and every record of the group coordinator.

    Class names are Kafka's, with or without "Data": "JoinGroupRequest", "GroupMetadataValue",
    "ConsumerProtocolSubscription". Bytes hold the fields only: no header and no version in front.
    """

    def __init__(self) -> None:
        self._temp = tempfile.TemporaryDirectory(prefix="kgm-oracle-")
        command = java_command("MessageOracle", heap_mb=256)
        self._child = Child(command, log=Path(self._temp.name) / "oracle.log", pipe_stdout=True)
        self._lock = threading.Lock()

    def roundtrip(self, class_name: str, version: int, data: bytes) -> bytes:
        """Decode and encode again. OracleError when Kafka cannot decode, or leaves bytes over."""
        return base64.b64decode(self._ask("roundtrip", class_name, version, data=_text(data))["data"])

    def to_json(self, class_name: str, version: int, data: bytes) -> Any:
        """Kafka's JSON form of a message (*JsonConverter.write)."""
        return self._ask("to_json", class_name, version, data=_text(data))["json"]

    def from_json(self, class_name: str, version: int, value: Any) -> bytes:
        """The bytes of a message given in Kafka's JSON form (*JsonConverter.read)."""
        return base64.b64decode(self._ask("from_json", class_name, version, json=value)["data"])

    def subscription(self, blob: bytes, version: int) -> tuple[Any, bytes]:
        """What ConsumerProtocol reads from a subscription blob, and the blob it writes of that at `version`.

        Read are topics, userData (base64), owned ([[topic, partition]]), generation (-1: none) and rack.
        """
        answer = self._ask("subscription", "", version, data=_text(blob))
        return answer["json"], base64.b64decode(answer["data"])

    def assignment(self, blob: bytes, version: int) -> tuple[Any, bytes]:
        """Likewise for an assignment blob: partitions ([[topic, partition]]) and userData (base64)."""
        answer = self._ask("assignment", "", version, data=_text(blob))
        return answer["json"], base64.b64decode(answer["data"])

    def close(self) -> None:
        self._child.kill()
        self._child.stdout.close()
        self._temp.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, operation: str, class_name: str, version: int, **data: Any) -> dict[str, Any]:
        line = json.dumps({"op": operation, "class": class_name, "version": version, **data})
        with self._lock:
            self._child.stdin.write(line + "\n")
            reply = self._child.stdout.readline()
        if not reply:
            message = f"the oracle has ended: {self._child.log_tail()}"
            raise RuntimeError(message)
        answer: dict[str, Any] = json.loads(reply)
        if "error" in answer:
            raise OracleError(f"{class_name} v{version}: {answer['error']}")
        return answer


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""How far a source was read into a store in a directory.

It is written after the commit whose records it is about. A capture that dies between the two reads these records again,
and leaves them out, by offset, as it does with whatever the store has already; so it does if the file is lost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kgm.text.files import replace_file

_FILE: Final = "kgm-positions.json"


@dataclass(frozen=True, slots=True)
class Positions:
    """checkpoint: the directory of a source in the store, which may be one of Spark's."""

    checkpoint: Path

    def read(self) -> dict[int, int]:
        """The next offset of each partition. Where kgm itself has not written it yet: of the last batch of Spark's
        that is known to be complete; kgm read these sources by streaming queries once."""
        path = self.checkpoint / _FILE
        if path.exists():
            return {int(number): at for number, at in json.loads(path.read_bytes())["positions"].items()}
        done = _numbers(self.checkpoint / "commits")
        return offsets_of(self.checkpoint, done[-1]) if done else {}

    def write(self, positions: Mapping[int, int]) -> None:
        """As a whole, durably."""
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        text = {str(number): at for number, at in sorted(positions.items())}
        replace_file(self.checkpoint / _FILE, (json.dumps({"positions": text}) + "\n").encode())


def begun(checkpoint: Path) -> dict[int, int]:
    """The next offset of each partition after the last batch that a streaming query has begun."""
    numbers = _numbers(checkpoint / "offsets")
    return offsets_of(checkpoint, numbers[-1]) if numbers else {}


def offsets_of(checkpoint: Path, number: int) -> dict[int, int]:
    """Where a batch of a streaming query ends."""
    line = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()[2]
    offsets: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    nested = [each for each in offsets.values() if isinstance(each, dict)]  # Kafka's are by topic
    return {int(number): offset for number, offset in (nested[0] if nested else offsets).items()}


def _numbers(log: Path) -> list[int]:
    return sorted(int(path.name) for path in log.iterdir() if path.name.isdecimal()) if log.is_dir() else []

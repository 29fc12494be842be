"""Warnings and notes on stderr."""

from __future__ import annotations

from kgm.cli.invocation import note_warning, with_cluster
from kgm.cli.output.streams import write_stderr
from kgm.text.sanitize import clean


class Notices:
    """Prints each warning and each note only once, however often it is given. Commands in them get the cluster.

    unwritten: warnings and notes that could not be written, because stderr is closed or full."""

    __slots__ = ("_printed", "unwritten")

    def __init__(self) -> None:
        self.unwritten: list[str] = []
        self._printed: set[str] = set()

    def warn(self, text: str) -> None:
        text = with_cluster(text)
        note_warning(text)
        self._print("warning: ", text)

    def note(self, text: str) -> None:
        self._print("", with_cluster(text))

    def _print(self, prefix: str, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            self.write(f"{prefix}{clean(text)}\n")

    def write(self, lines: str) -> bool:
        """Write lines unchanged. Returns False if stderr cannot be written."""
        is_written = write_stderr(lines)
        if not is_written:
            self.unwritten.append(lines)
        return is_written

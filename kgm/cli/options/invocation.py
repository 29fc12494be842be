"""The command line that is being run, to be printed again in a hint with something added."""

from __future__ import annotations

from collections.abc import Sequence

from kgm.text.shell import shell_line

_words: tuple[str, ...] = ()


def remember(words: Sequence[str]) -> None:
    """Called once for each run, with everything behind `kgm`."""
    global _words  # noqa: PLW0603  (a process runs one command line at a time)
    _words = tuple(words)


def again_with(*added: str) -> str:
    """The command line with options added, as it can be pasted into a shell."""
    return shell_line(["kgm", *_words, *added])

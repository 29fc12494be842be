"""A file for the textfile collector of node_exporter, which can read the folder at any time, so a file is replaced
atomically."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kgm.model.errors import UsageError
from kgm.text.files import replace_file


def write_textfile(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace the file with these pieces of text. It is readable by everyone, since node_exporter runs as another user.
    Raises UsageError."""
    if path.suffix != ".prom":
        raise UsageError(f"--textfile {path}: node_exporter reads only files that end with .prom")
    try:
        replace_file(path, pieces, mode=0o644, is_shared=True, is_durable=False)
    except OSError as error:
        raise UsageError(f"--textfile {path} cannot be written: {error.strerror or error}") from error

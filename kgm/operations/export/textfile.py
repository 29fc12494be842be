"""A file for the textfile collector of node_exporter: it reads the folder at any time, so a file is replaced whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kgm.model.errors import UsageError


def write_textfile(path: Path, text: str) -> None:
    """Replace the file. Readable for all, as node_exporter runs as another user. Raises UsageError."""
    if path.suffix != ".prom":
        raise UsageError(f"--textfile {path}: node_exporter reads only files that end with .prom")
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(draft).chmod(0o644)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"--textfile {path} cannot be written: {error.strerror or error}") from error

"""Small files of a store, wherever it is: put atomically, listed with their status, and found if left unfinished."""

import itertools
import os
from collections.abc import Mapping

from kgm.history.places.drafts import RENAMING, UNFINISHED
from kgm.history.places.remote_path import Place, RemotePath, RemoteStat, by_name, write_errors
from kgm.text.files import replace_file

_numbers = itertools.count()


def put(path: Place, data: bytes) -> None:
    """Put a file that exists completely or not at all, in place of any other with this name. In a directory it is
    durable, and renamed into place as in HDFS. Raises KgmError."""
    if isinstance(path, RemotePath):
        path.write_bytes(data)
        return
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, draft=path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}{UNFINISHED}"))


def listed(directory: Place, pattern: str) -> Mapping[Place, RemoteStat | os.stat_result]:
    """Files in a directory with matching names, by name, without those deleted in the meantime; none if the directory
    does not exist."""
    found: dict[Place, RemoteStat | os.stat_result] = {}
    for path in by_name(directory.glob(pattern)):
        try:
            found[path] = path.stat()
        except FileNotFoundError:
            continue
    return found


def unfinished(directory: Place) -> Mapping[Place, RemoteStat | os.stat_result]:
    """Files in a directory that were not renamed into place: their writer is still working on them, or has died."""
    if isinstance(directory, RemotePath) and directory.root.partition(":")[0] not in RENAMING:
        return {}
    return listed(directory, f"*{UNFINISHED}")

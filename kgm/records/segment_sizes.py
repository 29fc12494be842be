"""The sizes of a log's segments when the log was last used, in a small file next to them.

If a segment was deleted, emptied, or cut between two batches, what is left is still a valid log: compaction makes the
same gaps. This file makes the difference visible. It lists the closed segments, which only a compaction changes; for
the active one it says only whether it was empty, because a crash may cut off its end.

The file is removed before a compaction and written again afterwards, so that it is never wrong after a crash. It is not
flushed: if it is missing or torn, nothing is compared."""

import contextlib
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kgm.records.files import open_file, open_to_read
from kgm.records.segment import CorruptLogError, Segment, file_name

FILE_NAME: Final = "kgm-segments.json"


def save(directory: Path, segments: Sequence[Segment]) -> None:
    """Save the sizes of a log's segments after everything is flushed. A failure is ignored: nothing is compared
    then."""
    path = directory / FILE_NAME
    draft = path.with_suffix(".tmp")
    content = {
        "format": 1,
        "closed": {str(segment.base_offset): segment.size for segment in segments[:-1]},
        "active": segments[-1].base_offset,
        "active_is_empty": segments[-1].size == 0,
    }
    with contextlib.suppress(OSError):
        if _read(path) == content:
            return
        fd = open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(fd, "w") as file:
            json.dump(content, file)
        draft.replace(path)


def forget(directory: Path) -> None:
    """Remove the file. Raises OSError."""
    (directory / FILE_NAME).unlink(missing_ok=True)


def compare(directory: Path, segments: Sequence[Segment]) -> None:
    """Raises CorruptLogError if a segment is missing or has a different size."""
    saved = _read(directory / FILE_NAME)
    if saved is None:
        return
    sizes = {segment.base_offset: segment.size for segment in segments}
    for base_offset, size in saved["closed"].items():
        now = sizes.get(int(base_offset))
        if now != size:
            raise _changed(directory, int(base_offset), f"had {size} bytes", now)
    active = saved["active"]
    if not saved["active_is_empty"] and not sizes.get(active):
        raise _changed(directory, active, "was not empty", sizes.get(active))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with open_to_read(path) as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    is_known = (
        isinstance(content, dict)
        and content.get("format") == 1
        and isinstance(content.get("closed"), dict)
        and all(base.isdecimal() and type(size) is int for base, size in content["closed"].items())
        and type(content.get("active")) is int
        and type(content.get("active_is_empty")) is bool
    )
    return content if is_known else None


def _changed(directory: Path, base_offset: int, before: str, size: int | None) -> CorruptLogError:
    now = "is missing" if size is None else "is empty" if size == 0 else f"has {size}"
    path = directory / file_name(base_offset)
    return CorruptLogError(
        f"{path} {now}; when the log was last used, it {before}",
        facts=("records of groups are missing; nothing was cut off",),
        hint=f"restore it from a copy, or give up what was in it: rm {shlex.quote(str(directory / FILE_NAME))}",
    )

"""Snapshots that were written down: what `kgm describe -o json` printed, from a file or from stdin."""

from __future__ import annotations

import sys
from typing import Any

from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot, snapshot_from_json

_HINT = "take one: kgm describe GROUP -o json > SNAPSHOT"


def read_snapshots(path: str) -> list[GroupSnapshot]:
    """All groups of a file: the whole output of a describe, its data, a list of groups, or one of them; `-` is stdin.

    Raises NotFoundError for a file that is not there, UsageError for one that is no snapshot."""
    data = _read_json(path)
    if isinstance(data, dict) and isinstance(data.get("data"), dict):
        data = data["data"]
    groups = data.get("groups", [data]) if isinstance(data, dict) else data
    if not isinstance(groups, list):
        raise UsageError(f"file {path} is no snapshot", hint=_HINT)
    try:
        return [snapshot_from_json(each) for each in groups]
    except UsageError as error:
        raise UsageError(f"file {path} is no snapshot: {error.message}", hint=_HINT) from error


def _read_json(path: str) -> Any:
    import json

    try:
        if path == "-":
            return json.load(sys.stdin)
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return json.load(file)
    except FileNotFoundError:
        raise NotFoundError(f"file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"file {path} is no JSON: {error}", hint=_HINT) from error

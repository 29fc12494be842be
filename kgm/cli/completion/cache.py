"""The names that shells complete: groups and members, as `list` and `describe` saw them last.

One file for each cluster and profile in `$XDG_CACHE_HOME/kgm/completion`, mode 0600, replaced in one step. It is a
convenience: errors about it are ignored. Names that a terminal would act on are not stored."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgm.cli.options.run_options import RunOptions
    from kgm.model.snapshot import GroupSnapshot

_VERSION = 1
#: More names than this are of no use in a shell.
MOST_NAMES = 100_000
MOST_BYTES = 16 * 2**20
_LONGEST_NAME = 300


def folder(environment: Mapping[str, str]) -> str:
    """`$XDG_CACHE_HOME/kgm/completion`."""
    home = environment.get("XDG_CACHE_HOME", "")
    if not home.startswith("/"):  # the XDG standard says to ignore relative paths
        home = os.path.expanduser("~/.cache")  # noqa: PTH111  (importing pathlib costs as much as everything else)
    return f"{home}/kgm/completion"


def file_of(bootstrap: str, profile: str | None, environment: Mapping[str, str]) -> str:
    """The file for a cluster and a profile."""
    key = "\0".join([",".join(sorted(part.strip() for part in bootstrap.split(","))), profile or ""])
    return f"{folder(environment)}/{_sha256(key.encode('utf-8', 'surrogatepass'))[:32]}.json"


def _sha256(data: bytes) -> str:
    """In hexadecimal digits. Python's own, where it has one: hashlib loads OpenSSL, which costs milliseconds."""
    try:
        own: Any = importlib.import_module("_sha256")  # of Python 3.11; later versions have none by this name
    except ImportError:
        own = importlib.import_module("hashlib")
    text: str = own.sha256(data).hexdigest()
    return text


def read(path: str) -> dict[str, dict[str, list[str]]]:
    """{group id: {"instance_ids": [...], "member_ids": [...]}}; empty when there is no readable file."""
    return _valid(_stored(path))


def _stored(path: str) -> dict[str, Any]:
    """What the file has for each group, whatever that is."""
    import json

    try:
        with open(path, "rb") as file:  # noqa: PTH123
            seen = os.fstat(file.fileno())
            if seen.st_uid != os.geteuid() or seen.st_size > MOST_BYTES:
                return {}
            document = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    groups = document.get("groups") if isinstance(document, dict) and document.get("version") == _VERSION else None
    return groups if isinstance(groups, dict) else {}


def _valid(groups: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    return {
        name: {
            kind: [one for one in ids if isinstance(one, str)] for kind, ids in kinds.items() if isinstance(ids, list)
        }
        for name, kinds in groups.items()
        if isinstance(kinds, dict)
    }


def store_names(
    options: RunOptions,
    snapshots: Iterable[GroupSnapshot] = (),
    *,
    listed: Iterable[str] = (),
    is_all: bool = False,
    gone: Iterable[str] = (),
) -> None:
    """Store the names of groups that were listed (is_all: and delete all others) and of the members in the snapshots.

    gone: groups to delete. Never fails."""
    try:
        path = file_of(options.bootstrap_for(reads_only=True), options.profile, os.environ)
        before = _stored(path)
        names = list(listed)
        groups: dict[str, Any] = {name: before[name] for name in names if name in before} if is_all else dict(before)
        for name in names:
            groups.setdefault(name, {})
        for one in snapshots:
            groups[one.group_id] = {
                "instance_ids": [m.group_instance_id for m in one.members if m.group_instance_id is not None],
                "member_ids": [m.member_id for m in one.members if m.group_instance_id is None],
            }
        for name in gone:
            groups.pop(name, None)
        if groups == before:
            return
        groups = _bounded(_valid(groups))
        if groups != before:
            _write(path, groups)
    except Exception:  # noqa: BLE001  (a command that has done its work must not fail because of the cache)
        return


def _bounded(groups: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, Any]:
    """Only names that can be shown, and at most MOST_NAMES of them."""
    left = MOST_NAMES - len(groups)
    bounded: dict[str, Any] = {}
    for name, kinds in groups.items():
        if len(bounded) >= MOST_NAMES:
            break
        if _is_showable(name):
            ids = {kind: [one for one in names if _is_showable(one)] for kind, names in kinds.items()}
            count = sum(map(len, ids.values()))
            bounded[name] = ids if count <= left else {}
            left -= count if count <= left else 0
    return bounded


def _is_showable(name: str) -> bool:
    from kgm.text.sanitize import is_clean

    return 0 < len(name) <= _LONGEST_NAME and is_clean(name)


def _write(path: str, groups: Mapping[str, Any]) -> None:
    import json

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    text = json.dumps({"version": _VERSION, "groups": groups}, separators=(",", ":")).encode()
    if len(text) > MOST_BYTES:
        return
    new = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(new, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.replace(new, path)  # noqa: PTH105
    except BaseException:
        os.unlink(new)  # noqa: PTH108
        raise

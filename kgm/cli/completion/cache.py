"""The names that shells complete: groups and members, as last seen by `list` and `describe`.

One file per cluster and profile in `$XDG_CACHE_HOME/kgm/completion`, mode 0600, replaced atomically. It has one line
per name, because importing `json` would take longer than reading the file:

    kgm names 2
    group payments
    instance payments-1
    member consumer-1-6ac2b9e0

The cache is a convenience, so its errors are ignored. Names that a terminal would act on are not stored; no other name
contains a line break."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # completing a word must be quick, and needs none of these
    from kgm.cli.options.run_options import RunOptions
    from kgm.model.snapshot import GroupSnapshot

_FIRST_LINE = "kgm names 2"
#: How a line begins that belongs to the group above it.
_KINDS = {"instance": "instance_ids", "member": "member_ids"}
#: More names than this are useless in a shell.
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
    # A checksum is enough to tell a user's clusters apart; hashlib would load OpenSSL in every command.
    return f"{folder(environment)}/{zlib.crc32(key.encode('utf-8', 'surrogatepass')):08x}.names"


def read(path: str) -> dict[str, dict[str, list[str]]]:
    """{group id: {"instance_ids": [...], "member_ids": [...]}}, without keys for empty lists; empty if there is no
    readable file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            seen = os.fstat(file.fileno())
            if seen.st_uid != os.geteuid() or seen.st_size > MOST_BYTES:
                return {}
            first, *lines = file.read().decode().split("\n")
    except (OSError, ValueError):
        return {}
    return _groups_in(lines) if first == _FIRST_LINE else {}


def _groups_in(lines: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    groups: dict[str, dict[str, list[str]]] = {}
    group: dict[str, list[str]] = {}
    for line in lines:
        word, _, name = line.partition(" ")
        if not name:
            continue
        if word == "group":
            group = groups[name] = {}
        elif word in _KINDS:
            group.setdefault(_KINDS[word], []).append(name)
    return groups


class SeenNames:
    """The groups that a command describes, and the ids of their members, of at most about MOST_NAMES members."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, list[str]]] = {}
        self._left = MOST_NAMES

    def noted(self, one: GroupSnapshot) -> GroupSnapshot:
        """Note the names of the group; returns the same group."""
        members = one.members if self._left > 0 else ()
        kinds = {
            "instance_ids": [m.group_instance_id for m in members if m.group_instance_id is not None],
            "member_ids": [m.member_id for m in members if m.group_instance_id is None],
        }
        self._left -= len(members)
        self.groups[one.group_id] = {kind: ids for kind, ids in kinds.items() if ids}
        return one


def store_names(
    options: RunOptions, seen: SeenNames, *, listed: Iterable[str] = (), is_all: bool = False, gone: Iterable[str] = ()
) -> None:
    """Store the names of listed groups (is_all: and delete all others) and of the members that were seen.

    gone: groups to delete. Never fails."""
    try:
        path = file_of(options.bootstrap_for(reads_only=True), options.profile, os.environ)
        before = read(path)
        names = list(listed)
        groups = {name: before[name] for name in names if name in before} if is_all else dict(before)
        for name in names:
            groups.setdefault(name, {})
        groups |= seen.groups
        for name in gone:
            groups.pop(name, None)
        if groups == before:
            return
        groups = _bounded(groups)
        if groups != before:
            _write(path, groups)
    except Exception:  # noqa: BLE001  (a command that has done its work must not fail because of the cache)
        return


def _bounded(groups: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, dict[str, list[str]]]:
    """Only names that can be shown, and at most MOST_NAMES of them."""
    left = MOST_NAMES - len(groups)
    bounded: dict[str, dict[str, list[str]]] = {}
    for name, kinds in groups.items():
        if len(bounded) >= MOST_NAMES:
            break
        if _is_showable(name):
            shown = {kind: [one for one in names if _is_showable(one)] for kind, names in kinds.items()}
            ids = {kind: names for kind, names in shown.items() if names}
            count = sum(map(len, ids.values()))
            bounded[name] = ids if count <= left else {}
            left -= count if count <= left else 0
    return bounded


def _is_showable(name: str) -> bool:
    from kgm.text.sanitize import is_clean

    return 0 < len(name) <= _LONGEST_NAME and is_clean(name)


def _write(path: str, groups: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    lines = [_FIRST_LINE]
    for group, kinds in groups.items():
        lines.append(f"group {group}")
        for word, kind in _KINDS.items():
            lines += [f"{word} {name}" for name in kinds.get(kind, ())]
    text = "\n".join(lines).encode()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    if len(text) > MOST_BYTES:
        return
    from pathlib import Path

    from kgm.text.files import replace_file

    replace_file(Path(path), text, mode=0o600, is_shared=True, is_durable=False)

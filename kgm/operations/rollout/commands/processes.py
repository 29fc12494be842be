"""The processes of this machine, as `/proc` shows them: which belong to a command, and whether they still run."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

_PROC = pathlib.Path("/proc")
#: Those of a process that has ended and is only waiting for its parent to take note.
_ENDED = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that runs. mark: what distinguishes it from a later one with the same id: its start time."""

    pid: int
    parent: int
    session: int
    mark: str


def process(pid: int) -> Process | None:
    """The process; None if `/proc` does not have it, for example because it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if not fields or fields[0] in _ENDED:
        return None
    return Process(pid=pid, parent=int(fields[1]), session=int(fields[3]), mark=fields[19])


def process_mark(pid: int) -> str | None:
    """The mark of a process; None if `/proc` does not have it."""
    found = process(pid)
    return None if found is None else found.mark


def all_processes() -> dict[int, Process]:
    """All processes that run, by id; none on a system without `/proc`."""
    try:
        pids = [int(one.name) for one in _PROC.iterdir() if one.name.isdigit()]
    except OSError:
        return {}
    return {pid: found for pid in pids if (found := process(pid)) is not None}


def of_session(leader: int, processes: Mapping[int, Process]) -> dict[int, str | None]:
    """The processes of the session that this process has started, with their marks: those that `processes` has. If it
    has none although the kernel knows some, the leader stands for them, without a mark: `/proc` may hide those of other
    users, or be missing."""
    found: dict[int, str | None] = {one.pid: one.mark for one in processes.values() if one.session == leader}
    if found:
        return found
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return {}
    except PermissionError:
        return {leader: None}
    return {} if processes else {leader: None}  # with `/proc`, the kernel means one that has ended


def descendants(ancestors: Mapping[int, str | None], processes: Mapping[int, Process]) -> dict[int, str | None]:
    """These processes, as far as they still run, and those that they and their children have started."""
    found: dict[int, str | None] = {
        pid: mark for pid, mark in ancestors.items() if (one := processes.get(pid)) and one.mark == mark
    }
    children: dict[int, list[Process]] = {}
    for one in processes.values():
        children.setdefault(one.parent, []).append(one)
    left = [*found]
    while left:
        for child in children.get(left.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child.mark
                left.append(child.pid)
    return found

"""What neither a broker nor kgm can have written into a snapshot, although each value has the right form by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import CONNECT_PROTOCOL_TYPE

#: A connector may have any name. A broker passes on the subtopology ids of clients as they are, whatever they contain,
#: and the numbers in assignments of the classic protocol, which are int32.
_CONNECT_TASK: Final = re.compile(r".*-[0-9]{1,10}", re.ASCII | re.DOTALL)
_STREAMS_TASK: Final = re.compile(r".*_-?[0-9]{1,10}", re.ASCII | re.DOTALL)
_TASK_KEYS: Final = (
    "active_tasks", "standby_tasks", "warmup_tasks", "target_active_tasks", "target_standby_tasks",
    "target_warmup_tasks",
)  # fmt: skip


def refuse_contradictions(group: GroupSnapshot) -> None:
    """Raises UsageError, which names the key."""
    for found in _found(group):
        raise UsageError(found)


def _found(group: GroupSnapshot) -> Iterator[str]:
    if group.generation is not None and group.generation < 0:
        yield f"group.generation is {group.generation}; an unknown generation is null"
    yield from _in_times(group)
    yield from _in_members(group)
    if group.protocol_type == CONNECT_PROTOCOL_TYPE:
        yield from _in_tasks(group, _CONNECT_TASK, "CONNECTOR-NUMBER")
    else:
        yield from _in_tasks(group, _STREAMS_TASK, "SUBTOPOLOGY_PARTITION")


def _in_times(group: GroupSnapshot) -> Iterator[str]:
    for key, text in (("next_rebalance_at", group.next_rebalance_at), ("unassigned_until", group.unassigned_until)):
        if text is not None and not _is_time(text):
            yield f"group.{key} is {text!r}, which is not a time with a time zone, as in 2026-11-21T12:00:00.000Z"
    if group.is_settled and group.next_rebalance_at is not None:
        yield "group.is_settled is true, but group.next_rebalance_at says that the group will rebalance"


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _in_members(group: GroupSnapshot) -> Iterator[str]:
    names = [topic.name for topic in group.topics]
    if len(set(names)) < len(names):
        yield f"topics: name {next(name for name in names if names.count(name) > 1)!r} occurs twice"
    if group.state == "Stable" and not group.members:  # whatever its type: such a group is Empty
        yield "group.state is 'Stable', but group.members is empty"
    for number, member in enumerate(group.members):
        if group.state == "Empty" and any(member.assignment.values()):
            yield f"group.state is 'Empty', but members[{number}].assignment has partitions"


def _in_tasks(group: GroupSnapshot, form: re.Pattern[str], described: str) -> Iterator[str]:
    for number, member in enumerate(group.members):
        for key in _TASK_KEYS if member.work is not None else ():
            for task in getattr(member.work, key) or ():
                if not form.fullmatch(task):
                    yield f"members[{number}].{key}: {task!r} is not {described}"

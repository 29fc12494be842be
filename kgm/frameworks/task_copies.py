"""Where the tasks of a Kafka Streams application have copies, according to what its members were assigned."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kgm.frameworks.streams import in_order
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.text.wording import many, some


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedTasks:
    """The active tasks of members that go. standbys: by task, the members that stay and have a standby or warm-up task
    of it; nothing shows whether it has caught up. alone: the tasks that no other member has. A task without state needs
    no copy, and counts as one of them."""

    standbys: Mapping[str, tuple[str, ...]]
    alone: tuple[str, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        return in_order((*self.standbys, *self.alone))


def freed_tasks(group: GroupSnapshot, going: Collection[str]) -> FreedTasks:
    """going: the identities of the members that go. A copy does not count if all threads of its process go; it does
    count in a process that stays, even if the thread that has it goes."""
    leaving = [one for one in group.members if one.identity in going]
    stays = {_process(one) for one in group.members if one.identity not in going}
    copies: dict[str, list[str]] = {}
    for member in group.members:
        if member.work is not None and _process(member) in stays:
            for task in (*(member.work.standby_tasks or ()), *(member.work.warmup_tasks or ())):
                copies.setdefault(task, []).append(member.identity)
    freed = in_order({task for one in leaving if one.work is not None for task in one.work.active_tasks or ()})
    return FreedTasks(
        standbys={task: tuple(sorted(copies[task])) for task in freed if task in copies},
        alone=tuple(task for task in freed if task not in copies),
    )


def task_texts(freed: FreedTasks) -> list[str]:
    """In words: which tasks are freed, which members have copies, and which tasks have no other copy."""
    if not freed.tasks:
        return []
    texts = [f"{many(len(freed.tasks), 'active task')} to be assigned again: {some(freed.tasks)}"]
    if freed.standbys:
        held = some(f"{task} ({', '.join(names)})" for task, names in freed.standbys.items())
        texts.append(f"standbys, which are assigned first where they have caught up: {held}")
    if freed.alone:
        texts.append(
            f"nobody else has a copy of {some(freed.alone)}: a member that gets one with state restores it from "
            "its changelog, and does not process it meanwhile"
        )
    return texts


def _process(member: MemberSnapshot) -> str:
    return (None if member.work is None else member.work.process_id) or member.member_id

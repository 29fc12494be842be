"""What restarts together: a process with all its threads, each of which is a member."""

import enum
import re
from collections.abc import Iterable, Sequence
from typing import Final

from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.text.names import natural

#: The instance ids of the threads of one process: Kafka Streams counts them from 1, Spring from 0.
_THREAD: Final = re.compile(r"(.+)-\d+")


class UnitKind(enum.Enum):
    """How to recognize members of the same process.

    AUTO: by the process id that Kafka Streams writes; any other member is its own process. MEMBER: each member is its
    own process. HOST: by the address that members connect from. INSTANCE: by the instance id without its trailing
    number."""

    AUTO = "auto"
    MEMBER = "member"
    HOST = "host"
    INSTANCE = "instance"


def units_in(members: Iterable[MemberSnapshot], kind: UnitKind = UnitKind.AUTO) -> tuple[tuple[str, ...], ...]:
    """The identities of the members of each process, sorted by identity, without processes that have one member."""
    found: dict[str, list[str]] = {}
    for member in sorted(members, key=lambda member: member.identity):
        key = _process(member, kind)
        if key is not None:
            found.setdefault(key, []).append(member.identity)
    return tuple(tuple(names) for names in found.values() if len(names) > 1)


def _process(member: MemberSnapshot, kind: UnitKind) -> str | None:
    match kind:
        case UnitKind.AUTO:
            return None if member.work is None else member.work.process_id
        case UnitKind.MEMBER:
            return None
        case UnitKind.HOST:
            return member.client_host or None
        case UnitKind.INSTANCE:
            thread = _THREAD.fullmatch(member.group_instance_id or "")
            return None if thread is None else thread[1]


def by_process_name(members: Iterable[MemberSnapshot]) -> dict[str, tuple[str, ...]]:
    """The identities of the members of each process that has a name of its own: the process id or `application.server`
    of Kafka Streams, the URL of a Connect worker with and without its trailing slash. A name that several processes
    report, as Connect workers do when theirs is not configured, is left out."""
    found: dict[str, dict[str, list[str]]] = {}
    working = [(member, member.work) for member in members if member.work is not None]
    for member, work in sorted(working, key=lambda one: natural(one[0].identity)):
        endpoint = work.user_endpoint or ""
        for name in {work.process_id, endpoint, endpoint.removesuffix("/")} - {None, ""}:
            found.setdefault(str(name), {}).setdefault(work.process_id or member.member_id, []).append(member.identity)
    return {name: tuple(*processes.values()) for name, processes in found.items() if len(processes) == 1}


def with_whole_units(names: Iterable[str], units: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The names in order, each followed by the rest of its process."""
    unit_of = {name: unit for unit in units for name in unit}
    return tuple(dict.fromkeys(one for name in names for one in (name, *unit_of.get(name, ()))))


def units_of_group(group: GroupSnapshot, kind: UnitKind, stopping: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The processes of which several members stop, each with only the members that do."""
    wanted = {*stopping}
    units = [tuple(name for name in unit if name in wanted) for unit in units_in(group.members, kind)]
    return tuple(unit for unit in units if len(unit) > 1)

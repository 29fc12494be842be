"""The replica number in the name of a member, as distinct from a thread number.

`app-3` is replica 3 of `app`. Kafka Streams and Spring name the members of one process after its threads (`app-3-1`,
`…-StreamThread-1`), so the last number in a name is not always the replica's. If the names do not show which number is
which, kgm does not guess: a wrong guess would stop one process and remove the members of another. Dynamic members have
no such name, but Connect workers, and some threads of Kafka Streams, report a host."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.bounce.units import UnitKind
from kgm.operations.kubernetes.ordinals import NumberedPod

_NUMBERED: Final = re.compile(r"(.*[^-_.])([-_.])(\d{1,9})")
_TWO_NUMBERS: Final = re.compile(r"(.*[^-_.][-_.]\d{1,9})-(\d{1,9})")
#: Matches host names made from an address too, such as ip-10-0-0-7.
_ADDRESS: Final = re.compile(r"(\d{1,3}[-.]){3}\d{1,3}")
_THREAD: Final = re.compile(r"(.+)-\d+")
_STREAM_THREAD: Final = re.compile(r"(.+)-StreamThread-\d+(-.*)?")
_THREAD_OF_CLIENT: Final = re.compile(r"-StreamThread-(\d+)(-|$)")
_HINT: Final = "name the StatefulSet: --statefulset NAME, where NAME is the part of the names before the number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The process of a member. name: the replica's name, such as `app-3`; of: the part before its number; why: where
    the number comes from, in words."""

    name: str
    of: str
    number: int
    why: str

    @property
    def is_pod(self) -> bool:
        """Whether a StatefulSet could give this name."""
        return NumberedPod.of(self.name) is not None and re.fullmatch(r"[a-z0-9.-]+", self.name) is not None


def replicas_of(
    group: GroupSnapshot, pods: Mapping[str, str] | None, *, stateful_set: str | None = None,
    unit: UnitKind = UnitKind.AUTO,
) -> dict[str, Replica]:  # fmt: skip
    """The replica of each member, by identity. pods: the name of each member's pod, by identity, if known.
    stateful_set: the part of the names before the number; members with other names then have no replica. unit: what an
    operator says the numbers mean.

    Raises RefusedError for a member without a number, and if it is not certain which number is the replica's."""
    if pods is not None:
        return {one.identity: _pod(one, pods.get(one.identity), group.group_id) for one in group.members}
    names = {one.identity: _name(one, group.group_id) for one in group.members}
    if stateful_set is not None:
        named = {identity: _named(name, stateful_set) for identity, name in names.items()}
        return {identity: replica for identity, replica in named.items() if replica is not None}
    if unit is not UnitKind.AUTO:
        return _as_stated(group, names, unit)
    threads = {one.identity: _without_thread(one) for one in group.members}
    open_names = {identity: name for identity, name in names.items() if threads[identity] is None}
    found = {
        identity: _replica(base, f"what follows {base} is a thread of Kafka Streams", group.group_id)
        for identity, base in threads.items()
        if base is not None
    }
    return found | _by_pattern(group, open_names)


def _name(member: MemberSnapshot, group_id: str) -> str:
    """The member's instance id; for a dynamic member that reports its endpoint, as Connect workers do and threads of
    Kafka Streams can, the name of that host. Raises RefusedError if it has neither."""
    if member.group_instance_id is not None:
        return member.group_instance_id
    endpoint = ("" if member.work is None else member.work.user_endpoint) or ""
    host = endpoint.rpartition("://")[2].partition("/")[0].rpartition(":")[0]
    if not host or ":" in host or _ADDRESS.search(host):
        raise _uncertain(
            group_id, f"{member.identity}: it is dynamic",
            "use the names of the pods as group.instance.id; --kubernetes asks kubectl for the pods; "
            f"`kgm rollout {group_id} --scale-in` takes processes as they are",
        )  # fmt: skip
    return host.partition(".")[0]


def _as_stated(group: GroupSnapshot, names: Mapping[str, str], unit: UnitKind) -> dict[str, Replica]:
    """The replicas as the operator describes them: threads share a host, or a name up to the last number."""
    hosts = Counter(one.client_host for one in group.members)
    has_threads = unit is UnitKind.INSTANCE or (unit is UnitKind.HOST and max(hosts.values(), default=0) > 1)
    why = f"--unit {unit.value}: {'what follows it is a thread' if has_threads else 'it is no thread'}"
    found = {}
    for identity, name in names.items():
        thread = _THREAD.fullmatch(name) if has_threads else None
        if has_threads and thread is None:
            raise _uncertain(group.group_id, f"{name} has no number of a thread at its end")
        found[identity] = _replica(name if thread is None else thread[1], why, group.group_id)
    return found


def _uncertain(group_id: str, why: str, hint: str = _HINT) -> RefusedError:
    return RefusedError(f"it is not certain which members leave: {why}", hint=hint, group_id=group_id)


def _pod(member: MemberSnapshot, name: str | None, group_id: str) -> Replica:
    pod = None if name is None else NumberedPod.of(name)
    if name is None or pod is None:
        what = "its pod is not known" if name is None else f"{name} is not the name of a pod of a StatefulSet"
        raise _uncertain(group_id, f"{member.identity}: {what}", "scale the owner of the pods with its own tools")
    return Replica(name=name, of=pod.stateful_set, number=pod.ordinal, why="it is the ordinal of its pod")


def _named(name: str, stateful_set: str) -> Replica | None:
    match = re.match(rf"{re.escape(stateful_set)}([-_.])(\d{{1,9}})(?=$|-)", name)
    if match is None:
        return None
    return Replica(name=match[0], of=stateful_set, number=int(match[2]), why=f"it follows {stateful_set}")


def _without_thread(member: MemberSnapshot) -> str | None:
    """The name of the process, if the member's name or client id shows which part is a Streams thread."""
    name = member.group_instance_id or ""
    if match := _STREAM_THREAD.fullmatch(name):
        return match[1]
    thread = _THREAD_OF_CLIENT.search(member.client_id)
    if thread is not None and name.endswith(f"-{thread[1]}"):
        return name.removesuffix(f"-{thread[1]}")
    return None


def _replica(name: str, why: str, group_id: str) -> Replica:
    match = _NUMBERED.fullmatch(name)
    if match is None:
        raise _uncertain(group_id, f"{name} has no number at its end", "scale it in with its own tools")
    return Replica(name=name, of=match[1], number=int(match[3]), why=why)


def _by_pattern(group: GroupSnapshot, names: Mapping[str, str]) -> dict[str, Replica]:
    """The replicas of members for which only the pattern of all names shows which numbers are threads."""
    members = {one.identity: one for one in group.members}
    split = {identity: _TWO_NUMBERS.fullmatch(name) for identity, name in names.items()}
    if not any(split.values()):
        if len(names) > 1 and _is_one_host(members[identity] for identity in names):
            raise _uncertain(
                group.group_id, "all members are on one host: their numbers may be those of threads of one process"
            )
        why = "it is the only number at the end of the name"
        return {identity: _replica(name, why, group.group_id) for identity, name in names.items()}
    processes: dict[str, list[MemberSnapshot]] = {}
    threads: dict[str, list[int]] = {}
    for identity, match in split.items():
        if match is None:
            raise _uncertain(group.group_id, f"{names[identity]} ends with one number, and others with two")
        processes.setdefault(match[1], []).append(members[identity])
        threads.setdefault(match[1], []).append(int(match[2]))
    numbers = {tuple(sorted(some)) for some in threads.values()}
    if len(processes) == 1:
        return _of_one(group, split, next(iter(processes)), [*members.values()])
    is_alike = len(numbers) == 1 and (some := next(iter(numbers)))[0] in (0, 1) and _follow(some)
    if not is_alike or any(len({one.client_host for one in some}) > 1 for some in processes.values()):
        raise _uncertain(
            group.group_id,
            "the names end with two numbers, and the second numbers are not the same after each first one",
        )
    last = f"{some[0]}" if len(some) == 1 else f"{some[0]} to {some[-1]}"
    why = f"each of {', '.join(sorted(processes))} has {last} after it, as threads have"
    return {identity: _replica(match[1], why, group.group_id) for identity, match in split.items() if match is not None}


def _of_one(
    group: GroupSnapshot, split: Mapping[str, re.Match[str] | None], base: str, members: Sequence[MemberSnapshot]
) -> dict[str, Replica]:
    """`app-1-0`, `app-1-1`: replicas of app-1 if they are on different hosts, as threads of one process never are."""
    if len({one.client_host for one in members}) < len(members) or len(members) < 2:
        raise _uncertain(
            group.group_id, f"the last number of {base}-N may be that of a replica of {base}, or of a thread in it"
        )
    why = "its members are on different hosts, so it is no thread"
    return {
        identity: Replica(name=match[0], of=base, number=int(match[2]), why=why)
        for identity, match in split.items()
        if match is not None
    }


def _is_one_host(members: Iterable[MemberSnapshot]) -> bool:
    """Whether all are on one host. A loopback address does not count: it can hide different hosts."""
    hosts = {one.client_host.removeprefix("/") for one in members}
    if len(hosts) != 1:
        return False
    try:
        return not ipaddress.ip_address(next(iter(hosts))).is_loopback
    except ValueError:
        return bool(next(iter(hosts)))


def _follow(numbers: Sequence[int]) -> bool:
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))


def first_number(
    group_id: str, names: Mapping[int, str], given: int | None, ask: Callable[[], int | None] = lambda: None
) -> int:
    """The number of the first replica: the lowest, if it is 0 or no number is missing after it; 0 without replicas.

    names: the replicas' names, by number. given: the number that the operator states. ask: returns what is known about
    it elsewhere, and is called only if the names leave it open. Raises RefusedError if replicas may be missing at the
    beginning, and if there are replicas before the one that is given."""
    known, source = sorted(names), "--first"
    if given is None and known and known[0] > 0:
        given, source = ask(), ".spec.ordinals.start of the StatefulSet"
    if given is not None:
        before = [names[number] for number in known if number < given]
        if before:
            raise _uncertain(
                group_id, f"{source} is {given}, but there are replicas before it: {', '.join(before)}",
                f"the first replica is {known[0]} or one before it: --first {known[0]}",
            )  # fmt: skip
        return given
    if not known or known[0] == 0 or _follow(known):
        return known[0] if known else 0
    first = known[0]
    raise _uncertain(
        group_id, f"{names[first]} is the first one, and others are missing: replicas may begin at 0 or {first}",
        "say where they begin: --first 0",
    )  # fmt: skip

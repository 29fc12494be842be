"""A Kafka Streams application as it is when a plan starts, and what has to be assumed about it."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kgm.frameworks.streams_assignors import UNBOUNDED_LAG, StreamsSettings
from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import STREAMS_ASSIGNOR, MemberWork
from kgm.simulation.plan.bounce_plan import Membership, Plan

#: Settings of the application that decide where tasks go but are not sent to brokers, with Kafka's defaults.
STANDBYS: Final = "num.standby.replicas"
WARMUPS: Final = "max.warmup.replicas"
ACCEPTABLE_LAG: Final = "acceptable.recovery.lag"
PROBING_INTERVAL: Final = "probing.rebalance.interval.ms"
TAGS: Final = "rack.aware.assignment.tags"
#: Whether tasks are placed by racks; kgm plays only Kafka's default, which is not to.
STRATEGY, NO_STRATEGY = "rack.aware.assignment.strategy", "none"
#: The setting for the class of the assignor, and the last parts of the class names that kgm knows, the default first.
ASSIGNOR: Final = "task.assignor.class"
_HIGHLY_AVAILABLE, _STICKY = "HighAvailabilityTaskAssignor", "StickyTaskAssignor"
DEFAULTS: Final[Mapping[str, int]] = {STANDBYS: 0, WARMUPS: 2, ACCEPTABLE_LAG: 10_000, PROBING_INTERVAL: 600_000}
_PROCESS_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TASK: Final = re.compile(r"(.+__)?[0-9]{1,9}_[0-9]{1,9}", re.ASCII | re.DOTALL)
#: The default of session.timeout.ms.
SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 300_000
#: The default of heartbeat.interval.ms, and a short one, with which rebalances follow each other so quickly that copies
#: catch up between them.
_HEARTBEAT_MS, _SHORT_HEARTBEAT_MS = 3_000, 300
#: Offsets of a task whose state is large: more than any acceptable lag.
LARGE: Final = 10**12
#: In this share of the plays, copies have caught up within a time of this many ms, as a power of ten: 20 ms to 1 s.
_QUICK_SHARE, _QUICK_POWERS = 0.3, (1.3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsThread:
    """One member. process: the process id. session_ms: None if it is not known. active, standby: its tasks. tags: its
    `client.tag.*`."""

    identity: str
    member_id: str
    process: str
    is_static: bool
    session_ms: int | None
    rebalance_ms: int
    active: frozenset[str]
    standby: frozenset[str]
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsFleet:
    """standbys: the most copies that a task with state has. stateful: the subtopologies that have state, as far as that
    can be seen; None if no task has a copy. is_settled: False if another rebalance is due."""

    threads: tuple[StreamsThread, ...]
    standbys: int
    stateful: frozenset[str] | None
    is_settled: bool

    @property
    def tasks(self) -> frozenset[str]:
        return frozenset(task for thread in self.threads for task in (*thread.active, *thread.standby))

    @property
    def processes(self) -> int:
        return len({thread.process for thread in self.threads})

    @property
    def tag_keys(self) -> tuple[str, ...]:
        return tuple(sorted({key for thread in self.threads for key in thread.tags}))

    @property
    def usual_threads(self) -> int:
        """How many threads most processes have."""
        per_process = Counter(thread.process for thread in self.threads)
        return Counter(per_process.values()).most_common(1)[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSettings:
    """The application's settings in the plan. numbers: by name. is_sticky: whether it uses the sticky assignor. tags:
    those in which copies should differ. None: not in the plan."""

    numbers: Mapping[str, int]
    is_sticky: bool | None
    tags: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """What one play assumes. stateful: the tasks that have state. offsets: how many each of them has. restore_ms: the
    longest time until a copy has caught up; each takes at least half of it. keeps_disk: whether a process that restarts
    still has its state and its process id, as with stores on a persistent disk. is_by_thread: whether a copy is lost
    when another thread of its process gets the task, as with stores in memory. is_sticky: whether the sticky assignor
    is used. session_ms: the session timeout of threads whose own is not known. heartbeat_ms: the heartbeat interval,
    unless the plan has it."""

    settings: StreamsSettings
    interval_ms: int
    stateful: frozenset[str]
    offsets: int
    restore_ms: int
    keeps_disk: bool
    is_by_thread: bool = False
    is_sticky: bool = False
    session_ms: int = SESSION_MS
    heartbeat_ms: int = _HEARTBEAT_MS


def is_streams(snapshot: GroupSnapshot) -> bool:
    """Whether it is a Kafka Streams application of the classic protocol, whose tasks are known."""
    return snapshot.assignor == STREAMS_ASSIGNOR and bool(snapshot.members)


def subtopology(task: str) -> str:
    return task.rpartition("_")[0]


def partition_of(task: str) -> tuple[str, int]:
    """The topic and the partition that a task counts as, like in histories of streams groups."""
    return f"subtopology-{subtopology(task)}", int(task.rpartition("_")[2])


def most_partitions_of_a_task(snapshot: GroupSnapshot) -> int:
    """The most partitions that one task has; 1 if that cannot be seen. A task of a subtopology that reads several
    topics has the partitions with its number, so the numbers of a member's tasks and partitions show it."""
    most = 1
    for member in snapshot.members if is_streams(snapshot) or snapshot.type == "streams" else ():
        active = None if member.work is None else member.work.active_tasks
        tasks = Counter(partition_of(task)[1] for task in active or ())
        partitions = Counter(number for numbers in member.assignment.values() for number in numbers)
        most = max([most, *(partitions[number] - tasks[number] + 1 for number in tasks)])
    return most


def streams_group_of(snapshot: GroupSnapshot, plan: Plan) -> StreamsFleet:
    """Raises RefusedError if tasks or processes are not known."""
    unread = [one.identity for one in snapshot.members if not _is_read(one.work)]
    if unread:
        raise RefusedError(
            f"the Kafka Streams application {snapshot.group_id} cannot be simulated: the tasks of {', '.join(unread)} "
            "cannot be read",
            group_id=snapshot.group_id,
        )
    what_if, threads = plan.what_if, []
    for member in snapshot.members:
        work = member.work
        if work is None or work.process_id is None:
            continue
        is_static = member.group_instance_id is not None
        threads.append(
            StreamsThread(
                identity=member.identity,
                member_id=member.member_id,
                process=work.process_id,
                is_static=is_static if what_if.membership is None else what_if.membership is Membership.STATIC,
                session_ms=what_if.session_timeout_ms or snapshot.session_of(member),
                rebalance_ms=what_if.rebalance_timeout_ms or snapshot.rebalance_of(member) or _REBALANCE_MS,
                active=frozenset(work.active_tasks or ()),
                standby=frozenset(work.standby_tasks or ()),
                tags=work.tags,
            )
        )
    copies = Counter(task for thread in threads for task in thread.standby)
    return StreamsFleet(
        threads=tuple(threads),
        standbys=max(copies.values(), default=0),
        stateful=frozenset(map(subtopology, copies)) or None,
        is_settled=snapshot.is_settled is not False,
    )


def _is_read(work: MemberWork | None) -> bool:
    """Whether the work can be played; a snapshot from a file may contain anything."""
    if work is None or work.active_tasks is None or not _PROCESS_ID.fullmatch(work.process_id or ""):
        return False
    return all(map(_TASK.fullmatch, (*work.active_tasks, *(work.standby_tasks or ()))))


def refuse_unsettled(snapshot: GroupSnapshot) -> None:
    """Raises RefusedError for an application that rebalances on its own, because it cannot be played as a group of
    consumers."""
    if is_streams(snapshot) and snapshot.is_settled is False:
        raise RefusedError(
            f"the Kafka Streams application {snapshot.group_id} is not settled", group_id=snapshot.group_id
        )


def split_settings(settings: Mapping[str, str]) -> tuple[KnownSettings, dict[str, str]]:
    """Splits settings into those of the application and those of the broker. Raises UsageError for a value that is not
    a number, and for an assignor or a strategy that kgm does not play."""
    numbers = {}
    for name in DEFAULTS.keys() & settings.keys():
        text = settings[name]
        if not text.isdecimal():
            raise UsageError(f"{name} is {text}, and must be a number, 0 or more")
        numbers[name] = int(text)
    assignor = settings.get(ASSIGNOR)
    if assignor is not None and not assignor.endswith((_HIGHLY_AVAILABLE, _STICKY)):
        raise UsageError(f"{ASSIGNOR} is {assignor}; kgm knows {_HIGHLY_AVAILABLE} and {_STICKY}")
    strategy = settings.get(STRATEGY, NO_STRATEGY)
    if strategy != NO_STRATEGY:
        raise UsageError(f"{STRATEGY} is {strategy}; kgm places tasks only with {NO_STRATEGY}, the default")
    tags = settings.get(TAGS)
    known = KnownSettings(
        numbers=numbers,
        is_sticky=None if assignor is None else assignor.endswith(_STICKY),
        tags=None if tags is None else tuple(key.strip() for key in tags.split(",") if key.strip()),
    )
    own = (*DEFAULTS, ASSIGNOR, TAGS, STRATEGY)
    return known, {name: value for name, value in settings.items() if name not in own}


def for_broker(snapshot: GroupSnapshot, plan: Plan) -> Plan:
    """The plan without the settings of the application, if the group is a Kafka Streams application."""
    return replace(plan, settings=split_settings(plan.settings)[1]) if is_streams(snapshot) else plan


def supposed_usual(group: StreamsFleet, known: KnownSettings, chance: random.Random) -> Supposed:
    """Kafka's defaults for settings that are not `known`, and random choices for the state. An application whose
    threads have tags is assumed to use them, although Kafka does not by default, because nothing else uses client
    tags."""
    values = {**DEFAULTS, STANDBYS: group.standbys, **known.numbers}
    return Supposed(
        settings=StreamsSettings(
            standbys=values[STANDBYS],
            warmups=values[WARMUPS],
            acceptable_lag=values[ACCEPTABLE_LAG],
            tags=group.tag_keys if known.tags is None else known.tags,
        ),
        interval_ms=values[PROBING_INTERVAL],
        stateful=_stateful(group, chance),
        offsets=chance.choice((0, LARGE)),
        restore_ms=_restore_ms(values[PROBING_INTERVAL], chance),
        keeps_disk=chance.random() < 0.5,
        is_sticky=known.is_sticky is True,
    )


def supposed_rare(
    group: StreamsFleet, known: KnownSettings, chance: random.Random, *, shortest_session_ms: int
) -> Supposed:
    """Values other than the defaults, and state that takes longer to restore than the time between two probing
    rebalances. shortest_session_ms: the shortest session timeout that the broker accepts."""
    usual, numbers = supposed_usual(group, known, chance), known.numbers
    few = group.standbys >= group.processes - 1  # more may be configured than there are processes for
    settings = StreamsSettings(
        standbys=numbers.get(STANDBYS, group.standbys + (chance.randint(0, 1) if few else 0)),
        warmups=numbers.get(WARMUPS, chance.choice((1, 2, 8))),
        acceptable_lag=numbers.get(ACCEPTABLE_LAG, chance.choice((0, 10_000, UNBOUNDED_LAG))),
        tags=usual.settings.tags,
    )
    if known.tags is None and group.tag_keys and chance.random() < 0.5:
        settings = replace(settings, tags=())
    is_sticky = chance.random() < 0.3 if known.is_sticky is None else known.is_sticky
    restore_ms = round(usual.interval_ms * (0.5 + 2 * chance.random()))
    return replace(
        usual,
        settings=settings,
        restore_ms=restore_ms,
        is_by_thread=not usual.keeps_disk,
        is_sticky=is_sticky,
        session_ms=chance.choice((shortest_session_ms, SESSION_MS)),
        heartbeat_ms=chance.choice((_SHORT_HEARTBEAT_MS, _HEARTBEAT_MS)),
    )


def _restore_ms(interval_ms: int, chance: random.Random) -> int:
    """Copies of little state can catch up before the rebalance that immediately follows, which then moves tasks again;
    copies of more state catch up before or after the leader's next probing rebalance."""
    if chance.random() < _QUICK_SHARE:
        return round(10 ** chance.uniform(*_QUICK_POWERS))
    return chance.randint(1_000, max(interval_ms // 2, 1_001))


def _stateful(group: StreamsFleet, chance: random.Random) -> frozenset[str]:
    known = group.stateful
    if known is None:
        known = frozenset(sub for sub in sorted(set(map(subtopology, group.tasks))) if chance.random() < 0.5)
    return frozenset(task for task in group.tasks if subtopology(task) in known)

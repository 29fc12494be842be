"""A plan for a Kafka Streams application, played once.

Rebalances are those of the classic protocol with cooperative members. Specific to Streams: no thread leaves when it is
closed, unless the application asks for it (`Stop.LEAVE`), so a stopped thread stays a member until its session ends; a
task keeps running where it is until its owner has been told to give it up, which takes a second rebalance immediately
afterwards; and as long as copies have to catch up, there is another rebalance after each
`probing.rebalance.interval.ms`. Source: StreamsPartitionAssignor and StreamThread of Kafka Streams 4.3."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kgm.frameworks.sticky_tasks import place_stickily
from kgm.frameworks.streams import ACTIVE, task_key
from kgm.frameworks.streams_assignors import StreamsProcess, place_highly_available, tasks_of_threads
from kgm.simulation.framework_play import FrameworkPlay, RunningTasks
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.draw import Draw, stable_with
from kgm.simulation.streams.group import StreamsFleet, StreamsThread, Supposed, partition_of
from kgm.simulation.streams.processes import ProcessesPlay
from kgm.text.durations import show_duration
from kgm.text.wording import many

#: Spans in ms: from the last JoinGroup until all have the assignment; until a rebalance that is due immediately is
#: requested.
_SYNC_MS: Final = (5, 150)
_AT_ONCE_MS: Final = (2, 200)
#: Span in ms: from the end of a thread's tasks until it has left, if it leaves.
_LEAVE_MS: Final = (5, 300)
_STOPS: Final = {
    Stop.CLEAN: "is closed, and does not leave: it is a member until its session ends",
    Stop.LEAVE: "is closed, and leaves the group",
    Stop.CRASH: "is killed: it is a member until its session ends",
}
#: How long it takes an operator to remove stopped members.
_REMOVAL_MS: Final = (1_500, 8_000)
#: A batch is not followed beyond this many rebalances.
_MOST_REBALANCES: Final = 40


@dataclass(slots=True, kw_only=True)
class _Process:
    """copies: by task with state, when its copy has caught up, in ms of the play. holders: the threads that had the
    copies last. tags: its client tags."""

    process_id: str
    tags: Mapping[str, str]
    copies: dict[str, int] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Member:
    """A thread. owned, standby: its tasks. is_dead: its process has stopped. asks, due_ms: the number of the latest
    rebalance that it will start, and when; earlier ones no longer count."""

    member_id: str
    identity: str
    process: _Process
    is_static: bool
    session_ms: int
    rebalance_ms: int
    owned: set[str]
    standby: set[str]
    has_joined: bool = True
    is_dead: bool = False
    asks: int = 0
    due_ms: int | None = None


class StreamsPlay(FrameworkPlay[_Member, str], ProcessesPlay[_Process]):
    """Plays once; `play` returns the outcome."""

    def __init__(self, group: StreamsFleet, plan: Plan, supposed: Supposed, chance: random.Random) -> None:
        super().__init__(plan, chance, supposed.heartbeat_ms)
        self._supposed, self._round = supposed, 0
        processes = {one.process: _Process(process_id=one.process, tags=one.tags) for one in group.threads}
        self.have_processes(group, processes, keeps_disk=supposed.keeps_disk)
        self.members = {one.member_id: self._member(one) for one in group.threads}
        self.leader = chance.choice([*self.members])
        before = {task: one.identity for one in group.threads for task in one.active}
        self.tasks = RunningTasks(before, place=partition_of, order=task_key)
        self._everything = group.tasks
        if not group.is_settled:
            due_ms = chance.choice((self.some(_AT_ONCE_MS), chance.random() * supposed.interval_ms))
            self._ask(chance.choice([*self.members.values()]), due_ms)

    def play(self) -> Draw:
        """Plays the plan and returns its outcome."""
        self.play_plan()
        return self.result(stable_with(len(self.members)), {one.identity: one.owned for one in self.members.values()})

    def _member(self, thread: StreamsThread) -> _Member:
        process = self._processes[thread.process]
        for task in (*thread.active, *thread.standby):
            if task in self._supposed.stateful:
                is_behind = not self._group.is_settled and task in thread.standby and self.chance.random() < 0.5
                process.copies[task] = self._supposed.restore_ms if is_behind else 0
                process.holders[task] = thread.identity
        return _Member(
            member_id=thread.member_id,
            identity=thread.identity,
            process=process,
            is_static=thread.is_static,
            session_ms=thread.session_ms or self._supposed.session_ms,
            rebalance_ms=thread.rebalance_ms,
            owned={*thread.active},
            standby={*thread.standby},
        )

    # -- events

    def _until_settled(self) -> None:
        """Runs until nothing is left to happen; what came after the last note made no difference."""
        most = self.generation + _MOST_REBALANCES
        while self.events and self.generation < most:
            self.next_event()
        self.now_ms = max((event.at_ms for event in self.timeline), default=0)

    # -- processes

    def _stop(self, identity: str) -> None:
        (member,) = [one for one in self.members.values() if one.identity == identity and not one.is_dead]
        member.is_dead = True
        self.note("stop", _STOPS[self.plan.stop], identity)
        self.tasks.stop(member.owned, self.now_ms)
        if self.plan.stop is Stop.LEAVE:
            self.later(self.some(_LEAVE_MS), partial(self._leave, member))
            return
        gone_ms = member.session_ms - min(self.interval_ms, member.session_ms) * self.chance.random()
        if identity in self.plan.remove or self.plan.remove_first:
            gone_ms = min(gone_ms, self.some(_REMOVAL_MS))
        self.later(gone_ms, partial(self._leave, member))

    def _new_process(self, old: _Process | None) -> _Process:
        """Where a new one runs is not known: next to any other, or where none of the others is."""
        tags = old.tags if old is not None else {}
        if old is None and self._group.tag_keys:
            tags = self.chance.choice(self._group.threads).tags
        return _Process(process_id=self._new_id(), tags=tags)

    # -- the group

    def _join(self, identity: str, process: _Process, like: StreamsThread) -> None:
        """A thread joins without tasks. If it is static and still a member, it is that member again."""
        self.requests += 1
        old = next((one for one in self.members.values() if one.identity == identity), None)
        member = _Member(
            member_id=f"{identity}/{self.chance.getrandbits(64):016x}",
            identity=identity,
            process=process,
            is_static=like.is_static,
            session_ms=like.session_ms or self._supposed.session_ms,
            rebalance_ms=like.rebalance_ms,
            owned=set(),
            standby=set(),
        )
        if old is not None and like.is_static:
            del self.members[old.member_id]
            self.leader = member.member_id if self.leader == old.member_id else self.leader
        self.enter(member)
        if old is not None and like.is_static and self.is_stable:
            self._run(member, old.owned, old.standby)  # it gets back what it had, without a rebalance
            if old.due_ms is not None:
                self._ask(member, max(old.due_ms - self.now_ms, self.some(_AT_ONCE_MS)))
            return
        self.rebalance(member)

    def _leave(self, member: _Member) -> None:
        if self.members.get(member.member_id) is not member:
            return
        self.requests += 1
        leaves = member.identity in self.plan.remove or self.plan.remove_first or self.plan.stop is Stop.LEAVE
        self.note("leave" if leaves else "expired", "is no longer a member", member.identity)
        if not self.drop(member):
            return
        if member.member_id == self.leader:
            self.leader = self.chance.choice([*self.members])
        self.rebalance(None)

    def _ask(self, member: _Member, after_ms: float) -> None:
        """Schedules a rebalance that a member will start."""
        member.asks, member.due_ms = member.asks + 1, self.now_ms + round(after_ms)
        self.later(after_ms, partial(self._asked, member, member.asks))

    def _asked(self, member: _Member, number: int) -> None:
        if member.asks == number and not member.is_dead and self.members.get(member.member_id) is member:
            self.rebalance(member)

    def begun(self) -> None:
        self._round += 1
        longest_ms = max(member.rebalance_ms for member in self.members.values())
        self.later(longest_ms, partial(self._give_up, self._round))

    def _give_up(self, number: int) -> None:
        """The rebalance stops waiting: members that have not joined are dropped, but a static member stays until its
        session ends."""
        if self.is_stable or self._round != number:
            return
        for member in [*self.members.values()]:
            if member.is_static:
                member.has_joined = True
            elif not member.has_joined:
                self._leave(member)
        if self.members:
            self._complete()

    # -- the leader

    def assign(self) -> None:
        """Places tasks, and notifies the members that have to give some up."""
        members = [*self.members.values()]
        placed, is_final = self._placed(members)
        owner = {task: member for member in members for task in member.owned}
        sync_ms = round(self.some(_SYNC_MS))
        begun, taken = 0, 0
        held_up: dict[str, set[str]] = {}
        for member in members:
            active, standby = placed[member.member_id]
            gives_up = member.owned - active
            waits_for = held_up[member.member_id] = {task for task in active if owner.get(task, member) is not member}
            begun, taken = begun + len(active - waits_for - member.owned), taken + len(gives_up)
            self.tasks.stop(gives_up, self.now_ms + sync_ms)
            kept = waits_for & member.process.copies.keys()  # it does not throw away what it will run
            self._run(member, active - waits_for, standby | kept, after_ms=sync_ms)
            member.asks, member.due_ms = member.asks + 1, None
            if waits_for or gives_up:
                self._ask(member, sync_ms + self.some(_AT_ONCE_MS))
        if not self._supposed.keeps_disk:
            self._forget()
        probes_ms = None if is_final else self._probe(held_up, sync_ms)
        self.note("assigned", self._in_words(begun, taken, probes_ms))

    def _placed(self, members: list[_Member]) -> tuple[dict[str, tuple[set[str], set[str]]], bool]:
        """Active and standby tasks by member id, and whether no copy has to catch up."""
        supposed = self._supposed
        by_process: dict[str, list[_Member]] = {}
        for member in members:
            by_process.setdefault(member.process.process_id, []).append(member)
        known = {
            name: StreamsProcess(
                threads=len(threads),
                lags=self._lags(threads),
                had_active=set[str]().union(*(one.owned for one in threads)),
                had_standby=threads[0].process.copies.keys(),
                tags=threads[0].process.tags,
            )
            for name, threads in by_process.items()
        }
        if supposed.is_sticky:
            made = place_stickily(known, self._everything, supposed.stateful, supposed.settings.standbys)
        else:
            made = place_highly_available(known, self._everything, supposed.stateful, supposed.settings)
        placed = {}
        for name, threads in by_process.items():
            had = {one.member_id: (one.owned | one.standby) & supposed.stateful for one in threads}
            lags, loads = known[name].lags, dict[str, int]()
            stateful = made.active[name] & supposed.stateful
            active = tasks_of_threads(stateful, had, had, lags, loads)
            standby = tasks_of_threads(made.standby[name], had, had, lags, loads)
            others = tasks_of_threads(made.active[name] - stateful, had, had, lags, loads, is_stateful=False)
            for key in had:
                placed[key] = {*active[key], *others[key]}, {*standby[key]}
        return placed, made.is_final

    def _lags(self, threads: list[_Member]) -> dict[str, int]:
        """How far the copies of one process are behind, by task with state."""
        supposed, copies = self._supposed, threads[0].process.copies
        runs = set[str]().union(*(one.owned for one in threads))
        lags = {}
        for task in supposed.stateful:
            left_ms = max(copies[task] - self.now_ms, 0) if task in copies else supposed.restore_ms
            lags[task] = supposed.offsets * min(left_ms, supposed.restore_ms) // supposed.restore_ms
            if task in runs and not left_ms:
                lags[task] = ACTIVE
        return lags

    def _probe(self, held_up: dict[str, set[str]], sync_ms: int) -> int | None:
        """One thread of the leader's process starts a probing rebalance later, unless there is a rebalance immediately.
        Returns after how many ms."""
        leader = self.members[self.leader].process
        first = min(name for name, member in self.members.items() if member.process is leader)
        if any(held_up.values()) or self.members[first].due_ms is not None:
            return None
        self._ask(self.members[first], sync_ms + self._supposed.interval_ms)
        return self._supposed.interval_ms

    def _run(self, member: _Member, active: set[str], standby: set[str], after_ms: int = 0) -> None:
        """A thread has these tasks from now on. A process that is away has them only once it is back."""
        member.owned, member.standby, process = active, standby, member.process
        supposed = self._supposed
        for task in (active | standby) & supposed.stateful:
            is_lost = supposed.is_by_thread and process.holders.get(task) not in (None, member.identity)
            if is_lost or task not in process.copies:
                took_ms = (1 - self.share() / 2) * supposed.restore_ms if supposed.offsets else 0
                process.copies[task] = self.now_ms + round(took_ms)
            process.holders[task] = member.identity
        if not member.is_dead:
            self.tasks.start(active, member.identity, self.now_ms + after_ms)
            if active:
                self.has_work(member.identity)

    def _forget(self) -> None:
        """Drops copies of tasks that a process no longer has."""
        for process in self._processes.values():
            threads = [one for one in self.members.values() if one.process is process]
            held = set[str]().union(*(one.owned | one.standby for one in threads))
            process.copies = {task: at_ms for task, at_ms in process.copies.items() if task in held}

    def _in_words(self, begun: int, taken: int, probes_ms: int | None) -> str:
        parts = [many(len(self.members), "thread")]
        parts += [f"{many(begun, 'active task')} begin"] if begun else []
        parts += [f"{taken} are given up first, so all join again"] if taken else []
        parts += [f"a probing rebalance in {show_duration(probes_ms)}, for copies to catch up"] if probes_ms else []
        return ", ".join(parts)

"""Scenes with client libraries, drawn at random: predicted from a live group, and then carried out on it. Only the
broker judges: its descriptions, and the generations in `__consumer_offsets`. Nothing that members report is needed, so
any library can be in a scene."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kgm.client import connect
from kgm.client.leave_group import MemberToRemove
from kgm.model.assignment import moves
from kgm.model.errors import NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import live_group
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop
from kgm.simulation.play.client_profiles import LONGEST_START_MS
from kgm.simulation.report.prediction import Prediction
from tests.kafka.libraries import LIBRARIES, TENTH, LibraryMembers
from tests.simulation.reality.play import counted, latest_generation
from tests.simulation.reality.real_group import NotFormedError, values_by_group

ASSIGNORS: Final[Mapping[str, tuple[str, ...]]] = {
    # The last one as in an upgrade: with the eager assignor next to it, the cooperative one keeps nothing.
    "java": ("range", "roundrobin", "sticky", "cooperative-sticky", "cooperative-sticky,range"),
    "librdkafka": ("range", "roundrobin", "cooperative-sticky"),
    "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "sarama": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "kafka-go": ("range", "roundrobin"),
    "kafkajs": ("RoundRobinAssigner",),
    "platformatic": ("roundrobin",),
    "kafka-python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "aiokafka": ("range", "roundrobin", "sticky"),
    TENTH: ("range", "tenth"),
}
#: Libraries with consumers of the consumer protocol (KIP-848).
CONSUMER_LIBRARIES: Final = ("java", "librdkafka", "franz-go", "platformatic")
SERVER_ASSIGNORS: Final = ("uniform", "range")
_NEVER_STATIC: Final = ("kafka-go", "kafkajs")
#: Libraries whose changes come late, so that a group that is stable for a moment may still change.
_SLOW: Final = ("kafka-go", "kafkajs")
ACTIONS: Final = ("one", "leader", "rolling", "two", "late", "quick crash", "out", "in", "remove")
PARTITIONS: Final = (5, 12, 13)
HEARTBEAT_MS, REBALANCE_MS = 1_000, 20_000
_PATIENCE_S = 90.0
#: The margin before the end of a session, for the time since the last heartbeat and since the broker was asked about a
#: join.
_SPARE_MS = 2_000
_LOOK_S = 0.3
COUNTS: Final = ("generations", "rebalances", "moved_partitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A group and what is done to it. libraries, static: for each member, by position. topics: (name, partitions)."""

    libraries: tuple[str, ...]
    static: tuple[bool, ...]
    assignor: str
    topics: tuple[tuple[str, int], ...]
    action: str
    restart_ms: int
    tells_heartbeat: bool
    protocol: str = "classic"

    def __str__(self) -> str:
        kinds = "static" if all(self.static) else "mixed" if any(self.static) else "dynamic"
        kinds += " KIP-848" if self.protocol == "consumer" else ""
        libraries = "+".join(dict.fromkeys(self.libraries))
        partitions = "+".join(str(count) for _, count in self.topics)
        return (
            f"{libraries} {kinds} {self.assignor} {len(self.static)}x{partitions}: {self.action} {self.restart_ms} ms"
        )

    @property
    def session_ms(self) -> int:
        """Longer than the longest fetch of the slow libraries, which send no heartbeats during a fetch."""
        return 15_000 if any(name in _SLOW for name in self.libraries) else 6_000

    @property
    def quiet_s(self) -> float:
        """How long nothing must change before the group counts as settled."""
        return 8.0 if any(name in _SLOW for name in self.libraries) else 2.5


def some_scene(chance: random.Random, library: str, *, mixed: float = 0.2) -> Scene:
    """A scene with this library. mixed: the share of scenes that also have a member of another library, where that is
    possible."""
    assignor = chance.choice(ASSIGNORS[library])
    number = chance.randint(2, 4)
    libraries = [library] * number
    # Libraries with unreadable subscriptions, and the libraries that end when they lead and cannot read those.
    unreadable, ending = ("kafka-go", "platformatic"), ("java", "kafka-python")
    apart = unreadable if library in ending else ending if library in unreadable else ()
    others = [name for name in LIBRARIES if name not in (library, *apart) and assignor in ASSIGNORS[name]]
    if others and chance.random() < mixed:
        libraries[chance.randrange(1, number)] = chance.choice(others)
    kind = chance.choice(("static", "static", "dynamic", "mixed"))
    static = [kind == "static" or (kind == "mixed" and chance.random() < 0.5) for _ in libraries]
    action = chance.choice(ACTIONS)
    scene = Scene(
        libraries=tuple(libraries),
        static=tuple(one and name not in _NEVER_STATIC for one, name in zip(static, libraries, strict=True)),
        assignor=assignor,
        topics=tuple((name, chance.choice(PARTITIONS)) for name in ("orders", "pay")[: chance.randint(1, 2)]),
        action=action,
        restart_ms=chance.choice((0, 1_000, 1_500)),
        tells_heartbeat=chance.random() < 0.5,
    )
    return replace(scene, restart_ms=scene.session_ms + 3_000) if action == "late" else scene


def some_consumer_scene(chance: random.Random, library: str, *, mixed: float = 0.2) -> Scene:
    """The same with the consumer protocol."""
    classic = some_scene(chance, library)
    libraries = [library] * len(classic.libraries)
    if chance.random() < mixed:
        others = [name for name in CONSUMER_LIBRARIES if name != library]
        libraries[chance.randrange(1, len(libraries))] = chance.choice(others)
    assignor = chance.choice(SERVER_ASSIGNORS)
    return replace(classic, libraries=tuple(libraries), assignor=assignor, protocol="consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was predicted (from `before`, for `plan`), and what really happened. Owners are identities. restarts_ms: how
    long each process was really away."""

    scene: Scene
    before: GroupSnapshot
    plan: Plan
    prediction: Prediction
    restarts_ms: tuple[int, ...]
    generations: int
    rebalances: int
    moved_partitions: int
    final: Mapping[str, Mapping[str, tuple[int, ...]]]

    @property
    def plan_carried_out(self) -> Plan:
        """The plan, with the measured restart times if a process was late."""
        late_ms = max(self.restarts_ms, default=0) - self.plan.restart_time_ms
        return self.plan if late_ms <= LONGEST_START_MS else replace(self.plan, restart_times_ms=self.restarts_ms)

    def span(self, name: str) -> tuple[int, int]:
        """The lowest and the highest value that was predicted."""
        if self.prediction.ranges is None:
            value = getattr(self.prediction.typical, name)
            return value, value
        drawn = getattr(self.prediction.ranges, name)
        return drawn.min, drawn.max

    @property
    def width(self) -> float:
        """The range of moves, as a share of the partitions."""
        least, most = self.span("moved_partitions")
        return (most - least) / sum(topic.partitions for topic in self.before.topics)

    @property
    def misses(self) -> list[str]:
        """What was not as predicted, as texts."""
        found = [
            f"{name} {getattr(self, name)}, predicted {least} to {most}"
            for name in COUNTS
            for least, most in [self.span(name)]
            if not least <= getattr(self, name) <= most
        ]
        typical = self.prediction.typical
        if self.prediction.exact and not typical.has_random_ids and not found:
            owned = {who: {t: tuple(p) for t, p in one.items() if p} for who, one in typical.final_assignment.items()}
            found += [f"owners {self.final}, predicted {owned}"] if owned != self.final else []
        return found


def play(scene: Scene, bootstrap: str, members: LibraryMembers, group_id: str) -> Outcome:
    """Raises NotFormedError."""
    group = _Group(scene, bootstrap, members, group_id)
    try:
        group.start(range(len(scene.libraries)))
        group.wait_stable()
        before, plan = group.planned()
        prediction = simulate(before, plan)
        first = latest_generation(values_by_group(bootstrap, group_id)[group_id])
        after = group.carry_out()
    finally:
        group.end()
    generations, rebalances = counted(values_by_group(bootstrap, group_id)[group_id], first)
    owners = {one.identity: {t: tuple(p) for t, p in one.assignment.items() if p} for one in after.members}
    outcome = Outcome(
        scene=scene, before=before, plan=plan, prediction=prediction, restarts_ms=tuple(group.restarts_ms),
        generations=generations, rebalances=rebalances,
        moved_partitions=len(moves({one.identity: one.assignment for one in before.members}, owners)), final=owners,
    )  # fmt: skip
    is_as_planned = outcome.plan_carried_out is plan
    return outcome if is_as_planned else replace(outcome, prediction=simulate(before, outcome.plan_carried_out))


@dataclass(slots=True)
class _Group:
    scene: Scene
    bootstrap: str
    members: LibraryMembers
    group_id: str
    alive: dict[int, Any] = field(default_factory=dict)
    restarts_ms: list[int] = field(default_factory=list)
    #: The member ids that earlier processes of a position had, and the time since which it has had no process.
    _former: set[str] = field(default_factory=set)
    _away_since_s: dict[int, float] = field(default_factory=dict)
    _starting: list[tuple[int, Any, float]] = field(default_factory=list)
    #: When the broker first listed the new process of a position.
    _seen_at_s: dict[int, float] = field(default_factory=dict)
    _leader: int | None = None

    def _client_id(self, position: int) -> str:
        return f"client-{position}"

    def start(self, positions: Sequence[int]) -> None:
        scene = self.scene
        for position in positions:
            at = position if position < len(scene.libraries) else 0
            process = self.members.start(
                scene.libraries[at], group=self.group_id, topics=[f"{name}-{count}" for name, count in scene.topics],
                instance_id=f"seat-{position}" if scene.static[at] else None, client_id=self._client_id(position),
                assignor=scene.assignor, session_ms=scene.session_ms, heartbeat_ms=HEARTBEAT_MS, rebalance_ms=REBALANCE_MS,
                protocol=scene.protocol,
            )  # fmt: skip
            self.alive[position] = process
            if position in self._away_since_s:
                self._starting.append((position, process, self._away_since_s.pop(position)))

    def stop(self, positions: Sequence[int], how: Stop) -> None:
        seen = self._by_position()
        if not seen.keys() >= {*positions}:
            raise NotFormedError(f"{self.scene}: the group has lost some of {positions}")
        for position in positions:
            self._seen_at_s.pop(position, None)
        self._former |= {seen[position].member_id for position in positions}

        def stop_one(position: int, process: Any) -> None:
            process.crash() if how is Stop.CRASH else process.close()
            self._away_since_s[position] = time.monotonic()

        threads = [
            threading.Thread(target=stop_one, args=(position, self.alive.pop(position))) for position in positions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def end(self) -> None:
        for process in self.alive.values():
            process.crash()

    def describe(self) -> GroupSnapshot | None:
        with connect(self.bootstrap, timeout_ms=20_000) as cluster:
            try:
                return cluster.describe_group(self.group_id, offsets=False)
            except NotFoundError:
                return None

    def _by_position(self) -> dict[int, Any]:
        seen = self.describe()
        assert seen is not None
        return {int(one.client_id.rpartition("-")[2]): one for one in seen.members}

    def planned(self) -> tuple[GroupSnapshot, Plan]:
        """The group and the plan as `kgm simulate-bounce GROUP` has them."""
        scene = self.scene
        with connect(self.bootstrap, timeout_ms=20_000) as cluster:
            live = live_group(cluster, self.group_id)
        names = {int(one.client_id.rpartition("-")[2]): one.identity for one in live.snapshot.members}
        leads = [int(one.client_id.rpartition("-")[2]) for one in live.snapshot.members
                 if one.member_id == live.snapshot.leader]  # fmt: skip
        self._leader = leads[0] if leads else 0
        who = tuple(names[position] for position in self._who())
        action = scene.action
        return live.snapshot, Plan(
            bounce=who if action in ("one", "leader", "rolling", "two", "late", "quick crash") else (),
            scale_in=who if action == "in" else (),
            remove=who if action == "remove" else (),
            scale_out=2 if action == "out" else 0,
            rolling=Rolling() if action == "rolling" else None,
            restart_time_ms=scene.restart_ms,
            stop=self._how(),
            heartbeat_interval_ms=HEARTBEAT_MS if scene.tells_heartbeat else None,
            settings=live.broker_settings,
        )

    def _who(self) -> tuple[int, ...]:
        last = len(self.scene.libraries) - 1
        assert self._leader is not None
        return {
            "rolling": tuple(range(last + 1)), "leader": (self._leader,), "two": (0, last), "out": (),
            "remove": (last,), "in": (last,),
        }.get(self.scene.action, (1,))  # fmt: skip

    def _how(self) -> Stop:
        return Stop.CRASH if self.scene.action in ("late", "quick crash", "remove") else Stop.CLEAN

    def carry_out(self) -> GroupSnapshot:
        who, action = self._who(), self.scene.action
        if action == "out":
            self.start(range(len(self.alive), len(self.alive) + 2))
        elif action in ("in", "remove"):
            leavers = [self._by_position()[position] for position in who]
            self.stop(who, self._how())
            if action == "remove":
                ids = [
                    MemberToRemove(
                        member_id="" if one.group_instance_id else one.member_id,
                        group_instance_id=one.group_instance_id,
                    )
                    for one in leavers
                ]
                with connect(self.bootstrap, timeout_ms=20_000) as cluster:
                    cluster.leave_group(self.group_id, ids, reason="test", deadline=cluster.deadline)
        for batch in [(one,) for one in who] if action == "rolling" else [who]:
            if action in ("out", "in", "remove"):
                break
            self.stop(batch, self._how())
            time.sleep(self.scene.restart_ms / 1_000)
            self.start(batch)
            if action == "rolling":
                self.wait_stable(quiet_s=1.0)
        return self.wait_stable()

    def wait_stable(self, quiet_s: float | None = None) -> GroupSnapshot:
        """Wait until the running processes are the members, each partition has one owner, and this persists."""
        quiet_s = self.scene.quiet_s if quiet_s is None else quiet_s
        began, since, last = time.monotonic(), 0.0, None
        while True:
            seen = self.describe()
            self._forget_refused()
            is_stable = seen is not None and self._is_stable(seen)
            for one in seen.members if seen is not None else ():
                if one.member_id not in self._former:
                    self._seen_at_s.setdefault(int(one.client_id.rpartition("-")[2]), time.monotonic())
            now = (seen.generation, sorted(one.member_id for one in seen.members)) if seen and is_stable else None
            if now is None or now != last:
                since, last = time.monotonic(), now
            elif seen is not None and time.monotonic() - since >= quiet_s:
                self._note_starts()
                return seen
            if time.monotonic() > began + _PATIENCE_S:
                logs = "\n".join(f"{at}: {process.log_tail()[-600:]}" for at, process in self.alive.items())
                raise NotFormedError(f"{self.scene}: {seen}\n{logs}")
            time.sleep(_LOOK_S)

    def _forget_refused(self) -> None:
        """A process of a consumer group that the broker refuses (UNRELEASED_INSTANCE_ID) may have ended."""
        if self.scene.protocol == "consumer":
            self.alive = {position: process for position, process in self.alive.items() if process.running}

    def _is_stable(self, seen: GroupSnapshot) -> bool:
        positions = sorted(int(one.client_id.rpartition("-")[2]) for one in seen.members)
        are_members = positions == sorted(self.alive) and not self._former & {one.member_id for one in seen.members}
        owned = sorted((t, p) for one in seen.members for t, numbers in one.assignment.items() for p in numbers)
        every = sorted((f"{name}-{count}", p) for name, count in self.scene.topics for p in range(count))
        return seen.state == "Stable" and are_members and owned == every

    def _note_starts(self) -> None:
        for position, process, since_s in self._starting:
            assert process.started_at_s is not None
            # A process that the broker refused was never listed.
            seen_at_s = self._seen_at_s.get(position, process.started_at_s)
            away_ms = [round((at_s - since_s) * 1_000) for at_s in (process.started_at_s, seen_at_s)]
            # On a busy machine a process that started in time may join too late.
            is_late = away_ms[0] < self.scene.session_ms - _SPARE_MS < away_ms[1]
            self.restarts_ms += away_ms if is_late else away_ms[:1]
        self._starting.clear()

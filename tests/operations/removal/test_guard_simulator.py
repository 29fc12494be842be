"""Random members, live and dead, before the guard: no live process is ever `stopped`, and no removal of one ends in 0.

Members behave as real clients do (heartbeats, automatic commits, handlers that take their time), on the embedded
coordinator and a clock that is set by hand. Random are also the timestamps of the records, how far the coordinator's clock
is off, the flags, and how long the operator thinks. A failing seed is printed; `play(seed)` repeats it. `--seed` draws others.

A consumer that is paused with `pause()` is live and looks like a dead one (docs/guard.md): its verdict may be `stopped`, but
the removal does not end in 0."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from kgm.model.errors import ErrorCode, RefusedError
from kgm.operations.change.operator import HumanOperator
from kgm.operations.removal import removal
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.server.cluster.topics import topic_id
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import SESSION_MS, TOPIC, ClassicMember, DirectWire, World, form_classic
from tests.selection import first_seed, is_usual_seed
from tests.server.wire_client import batch

pytestmark = pytest.mark.slow

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"
FIRST = first_seed()
QUICK_SEEDS, LONG_SEEDS = range(FIRST, FIRST + 24), range(FIRST + 24, FIRST + 1_000)
HEARTBEAT_S = 3.0
#: How long a handler takes at least and at most. Of a slow member that shows in the log: five of the intervals that it
#: causes are longer. An idle one that gets a record after all takes less than the shortest silence that counts (10 s).
HANDLING_S = {"slow": (2.0, 8.0), "idle": (3.5, 9.0)}
#: How long a handler that commits what it polled once it has handled all of it takes for a record, at least and at most:
#: less than the time between two records, which is what shows in the log.
RECORD_S = (0.1, 0.9)
LIVE = ("consuming", "idle", "slow", "batches", "paused")
ALIVE, STOPPED, UNKNOWN = LivenessVerdict


@dataclass
class Process:
    """A consumer process of one static member: it polls, commits and heartbeats each time that it acts."""

    world: World
    member: ClassicMember
    partition: int
    behavior: str
    interval_s: float
    chance: random.Random
    commits_always: bool = False
    record_s: float = 0.0
    is_running: bool = True
    position: int = 0
    committed: int = -1
    busy_until_s: float = 0.0
    next_commit_s: float = 0.0
    next_heartbeat_s: float = 0.0
    joining: bool = False
    ends: list[int] = field(default_factory=list)

    def act(self) -> None:
        now_s = self.world.now_s
        if not self.is_running:
            return
        if self.joining:
            self._take_join()
            return
        if now_s >= self.next_heartbeat_s:
            self.next_heartbeat_s = now_s + HEARTBEAT_S
            self._rejoin_on(self.member.heartbeat())
        if self.joining or now_s < self.busy_until_s or self.behavior == "paused":
            return
        end = self.ends[self.partition]
        if end > self.position:
            polled, self.position = end - self.position, end
            if self.behavior == "batches":
                self.busy_until_s = now_s + polled * self.record_s
                return
            if self.behavior in HANDLING_S:
                self.busy_until_s = now_s + self.chance.uniform(*HANDLING_S[self.behavior])
                return
        if now_s >= self.next_commit_s and (self.commits_always or self.position != self.committed):
            self.next_commit_s = now_s + self.interval_s
            code = self.member.commit(self.partition, self.position)
            if code == 0:
                self.committed = self.position
            self._rejoin_on(code)

    def _rejoin_on(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member.member_id = ""
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return
        self.member.send_join()
        self.joining = True

    def _take_join(self) -> None:
        answer = self.member.joined()
        if answer is None:
            return
        self.joining = False
        owned = {one.member_id: [index] for index, one in enumerate(answer.members)}
        self.member.sync(owned if answer.leader == self.member.member_id else None, check=False)


class Simulation:
    """One removal of member a, drawn from a seed."""

    def __init__(self, seed: int, session_ms: int = SESSION_MS) -> None:
        self.seed, self.chance, self.world = seed, random.Random(seed), World()
        chance = self.chance
        self.behavior = chance.choice(["consuming", "idle", "slow", "paused", "dead", "dead", "suspended"])
        own = random.Random(f"batches of {seed}")  # so that earlier seeds draw the rest as before
        if self.behavior == "slow" and own.random() < 0.6:
            self.behavior = "batches"
        #: Records that all arrive at once before kgm looks, of which the consumer may poll all at once.
        self.burst = own.choice([0, 20, 60, 200])
        self.world.cluster.logs.skew_ms = chance.choice([0, 0, -3_600_000, 3_600_000, 86_400_000 * 365])
        #: By how much the timestamps of records are off.
        self.clock_errors_ms = [0, -3_600_000, -(10**11), 10**9]
        self.ends = [0, 0]
        a, b = form_classic(self.world.cluster, GROUP, ["a", "b"], session_ms=session_ms)
        intervals_s = [chance.choice([0.4, 1.0, 5.0]) for _ in range(2)]
        behavior = self.behavior if self.behavior in LIVE else chance.choice(["consuming", "slow"])
        record_s = own.uniform(*RECORD_S)
        self.processes = [
            Process(self.world, a, 0, "consuming" if behavior in ("idle", "paused") else behavior, intervals_s[0], chance,
                    commits_always=chance.random() < 0.3, ends=self.ends, record_s=record_s),
            # As Java's consumers, so that the log goes on.
            Process(self.world, b, 1, "consuming", intervals_s[1], chance, commits_always=True, ends=self.ends),
        ]  # fmt: skip
        self.produces = chance.choice(["steadily", "steadily", "once", "never"])
        self.next_record_s = 0.0
        self.is_producing = True
        self.suspended_until_s: float | None = None
        self.world.actors = [self._produce, self._resume, *(one.act for one in self.processes)]
        self.window_ms = chance.choice([None, None, 4_000, 12_000, 30_000])
        self.flags = {"assume_stopped": chance.random() < 0.5, "allow_live": chance.random() < 0.15}
        self.thinks_s = chance.choice([0.0, 3.0, 8.0, 20.0])

    @property
    def victim(self) -> Process:
        return self.processes[0]

    def _produce(self) -> None:
        if not self.is_producing or self.world.now_s < self.next_record_s:
            return
        self.next_record_s = self.world.now_s + self.chance.uniform(0.2, 2.0)
        for partition in (0, 1):
            self.produce(partition)

    def produce(self, partition: int, *, at_ms: int | None = None) -> None:
        """One record, of whatever time its producer says."""
        if at_ms is None:
            at_ms = max(0, round(self.world.now_s * 1000) + self.chance.choice(self.clock_errors_ms))
        data = PartitionProduceData(index=partition, records=batch(timestamp=at_ms))
        request = ProduceRequest(
            acks=-1, topic_data=[TopicProduceData(topic_id=topic_id(TOPIC), partition_data=[data])]
        )
        answer = self.world.cluster.ask(request)
        assert answer.responses[0].partition_responses[0].error_code == 0
        self.ends[partition] += 1

    def _resume(self) -> None:
        if self.suspended_until_s is not None and self.world.now_s >= self.suspended_until_s:
            self.victim.is_running, self.suspended_until_s = True, None

    def live_a_while(self) -> None:
        """Both consume, so that their commit intervals show; then a is what it is to be."""
        self.world.pass_by(max(30.0, 8 * self.victim.interval_s))
        if self.behavior in ("dead", "suspended"):
            self.victim.is_running = False
        else:
            self.victim.behavior = self.behavior
        self.is_producing = self.produces == "steadily"
        if self.behavior == "idle":
            self.is_producing = False
            self.world.pass_by(self.victim.interval_s + HANDLING_S["idle"][1] + 1)
        for _ in range(self.burst if self.behavior == "batches" else 0):
            self.produce(0)
        self.world.pass_by(self.chance.choice([0.0, 12.0, 28.0]))
        if self.produces == "once":
            self.produce(0)

    def run(self) -> tuple[set[LivenessVerdict], int]:
        """(verdicts on a, before and after the question; exit code)."""
        self.live_a_while()
        request = RemovalRequest(group_id=GROUP, instance_ids=("a",), guard_window_ms=self.window_ms, **self.flags)
        with self.world.client() as client:
            prepared = removal.prepare(client, request, clock=self.world.clock)
            verdicts = {prepared.guard.verdict_of(member_id) for member_id in prepared.plan.member_ids}
            if self.behavior == "suspended" and self.chance.random() < 0.7:
                self.suspended_until_s = self.world.now_s + self.chance.uniform(0, max(0.1, self.thinks_s))
            self.world.pass_by(self.thinks_s)
            client.renew()
            try:
                how: dict[str, Any] = {"sleep": self.world.pass_by, "clock": self.world.clock}
                report = removal.execute(client, prepared, operator=ALICE, audit=None, **how)
            except RefusedError as error:
                return verdicts, error.exit_code
        verdicts |= {one.liveness.verdict for one in report.results if one.target.member is not None}
        return verdicts, report.exit_code

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.behavior}, records {self.produces}, window {self.window_ms}, {self.flags}, "
            f"the operator thinks for {self.thinks_s} s, commits every {self.victim.interval_s} s"
        )


def play(seed: int) -> tuple[str, set[LivenessVerdict], int]:
    """(behavior, verdicts, exit code); asserts what holds for every seed."""
    simulation = Simulation(seed)
    verdicts, code = simulation.run()
    if simulation.behavior in LIVE and simulation.behavior != "paused":
        assert STOPPED not in verdicts, f"{simulation}: a live process is 'stopped'"
    if simulation.victim.is_running:
        assert code != 0, f"{simulation}: a live process was to be removed, and the exit code is 0"
    return simulation.behavior, verdicts, code


@pytest.mark.parametrize("window_ms", [0, 50, 1_500, None])
def test_the_wait_for_a_return_does_not_depend_on_the_window(window_ms):
    """The operator vouches for an idle process that runs. It learns of its removal with its next heartbeat."""
    simulation = Simulation(0)
    simulation.behavior, simulation.produces, simulation.thinks_s = "idle", "never", 0.0
    simulation.window_ms, simulation.flags = window_ms, {"assume_stopped": True}
    verdicts, code = simulation.run()
    assert (verdicts, code) == ({UNKNOWN}, 7)
    assert simulation.victim.is_running


def play_consumer(seed: int) -> int:
    """A consumer of KIP-848 that unsubscribes (member epoch -2), and may subscribe again under the same member id while
    the operator thinks: the exit code."""
    chance, world = random.Random(seed), World()
    group = HeartbeatGroup(DirectWire(world.cluster), GROUP, [TOPIC], "uniform")  # type: ignore[arg-type]
    group.join("a-id", "a")
    group.join("b-id", "b")
    group.heartbeat_until_stable()
    group.step_away("a-id")
    comes_back, thinks_s = chance.random() < 0.7, chance.choice([0.0, 3.0, 8.0])
    request = RemovalRequest(
        group_id=GROUP, instance_ids=("a",), guard_window_ms=chance.choice([None, 4_000]),
        assume_stopped=chance.random() < 0.5, allow_live=chance.random() < 0.3,
    )  # fmt: skip

    def heartbeat() -> None:
        """As a consumer that is subscribed: removed, it joins again."""
        beat = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="a-id", member_epoch=group.epochs["a-id"], instance_id="a"
        )
        if world.cluster.request(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            group.join("a-id", "a")

    with world.client() as client:
        prepared = removal.prepare(client, request, clock=world.clock)
        assert prepared.guard.verdict_of("a-id") is STOPPED
        world.pass_by(thinks_s)
        if comes_back:
            group.join("a-id", "a")
            world.actors.append(heartbeat)
        try:
            code = removal.execute(
                client, prepared, operator=ALICE, audit=None, sleep=world.pass_by, clock=world.clock
            ).exit_code
        except RefusedError as error:
            code = error.exit_code
    assert (code != 0) == comes_back, (
        f"seed {seed}: exit code {code}, and it {'came' if comes_back else 'did not come'} back"
    )
    return code


@pytest.mark.parametrize("age_s", [0, 600, 10**6])
def test_a_record_that_says_that_it_is_old_proves_nothing_of_an_idle_member(age_s):
    """A mirror or a replay writes it, and the consumer handles it for a few seconds. It was idle before, and lives."""
    simulation = Simulation(0)
    simulation.clock_errors_ms, simulation.world.cluster.logs.skew_ms = [0], 0
    victim = simulation.victim
    victim.behavior, victim.interval_s, victim.commits_always = "consuming", 1.0, False
    simulation.world.pass_by(30)
    simulation.is_producing, victim.behavior = False, "idle"
    simulation.world.pass_by(30)
    simulation.produce(0, at_ms=max(0, round((simulation.world.now_s - age_s) * 1000)))
    request = RemovalRequest(group_id=GROUP, instance_ids=("a",))
    victim.busy_until_s = simulation.world.now_s + 9
    with simulation.world.client() as client:
        prepared = removal.prepare(client, request, clock=simulation.world.clock)
    ((_, liveness),) = [one for one in prepared.liveness.items() if one[0] == victim.member.member_id]
    assert liveness.verdict is UNKNOWN, liveness
    assert "none arrived while kgm watched" in liveness.why


def test_a_backlog_that_is_committed_once_it_is_handled_is_no_death():
    """A member that commits every second or two gets 180 records at once, which take it 72 s (kafkajs, Java)."""
    simulation = Simulation(0)
    victim = simulation.victim
    victim.behavior, victim.interval_s, victim.commits_always, victim.record_s = "batches", 1.0, False, 0.4
    simulation.world.pass_by(30)
    for _ in range(180):
        simulation.produce(0)
    simulation.world.pass_by(2)
    request = RemovalRequest(group_id=GROUP, instance_ids=("a",), guard_window_ms=30_000)
    with simulation.world.client() as client:
        prepared = removal.prepare(client, request, clock=simulation.world.clock)
    liveness = prepared.liveness[victim.member.member_id]
    assert liveness.verdict is UNKNOWN, liveness
    assert "it may have polled" in liveness.why


@pytest.mark.long
def test_a_watch_as_long_as_the_hint_says_ends_in_a_verdict_where_nobody_else_commits():
    """The log does not show then for how long a member that was killed has committed nothing."""
    simulation = Simulation(0, session_ms=1_800_000)
    victim, neighbor = simulation.processes
    victim.behavior, victim.interval_s, victim.commits_always = "consuming", 1.0, False
    neighbor.behavior = "paused"
    simulation.world.pass_by(30)
    victim.is_running = False
    simulation.world.pass_by(20)
    verdicts, window_ms = [], 4_000
    for _ in range(2):
        request = RemovalRequest(group_id=GROUP, instance_ids=("a",), guard_window_ms=window_ms)
        with simulation.world.client() as client:
            prepared = removal.prepare(client, request, clock=simulation.world.clock)
        verdicts.append(prepared.liveness[victim.member.member_id].verdict)
        window_ms = prepared.guard.proofs_ms[victim.member.member_id]
        simulation.world.pass_by(15)
    assert verdicts == [UNKNOWN, STOPPED]


def play_all(seeds: range) -> list[str]:
    """What is wrong, and what was never seen."""
    failures, seen = [], Counter()
    for seed in seeds:
        try:
            behavior, verdicts, code = play(seed)
            seen.update(("live" if behavior in LIVE else "not live", str(one)) for one in verdicts)
            seen[code] += 1
            seen["consumer", play_consumer(seed)] += 1
        except AssertionError as failure:
            failures.append(str(failure))
    wanted = [
        ("live", "alive"),
        ("live", "unknown"),
        ("not live", "stopped"),
        0,
        6,
        7,
        ("consumer", 0),
        ("consumer", 6),
    ]
    if len(seeds) > len(QUICK_SEEDS) or is_usual_seed():
        failures += [f"no seed led to {one}" for one in wanted if not seen[one]]
    return failures


def test_a_watch_whose_rest_is_too_short_for_the_clock_ends():
    """The rounded time of its polls was 5e-14 ms short of the end."""
    assert play(319_180_155)[0] == "suspended"


def test_no_live_process_is_stopped_and_no_removal_of_one_ends_in_0():
    failures = play_all(QUICK_SEEDS)
    assert failures == [], "\n".join(failures)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_nor_with_many_seeds():
    failures = play_all(LONG_SEEDS)
    assert failures == [], "\n".join(failures)

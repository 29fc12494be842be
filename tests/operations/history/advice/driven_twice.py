"""A group of clients on the coordinator engine, driven twice: unchanged, and with a change. What happens both times is
the answer that advice must predict.

The clients are those of `tests.history.truth.lives`, not the ones with which advice plays the history."""

import random
from dataclasses import dataclass, replace
from pathlib import Path

from kgm.assignors import assign
from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec
from kgm.history.in_process import derive_records
from kgm.operations.history.source import History, HistorySource
from kgm.protocol.subscription import MemberAssignment, decode_assignment, decode_subscription, encode_assignment
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import decode_record
from tests.history.truth.lives import GROUP, TICK_MS, Client, Log, World


@dataclass(frozen=True, kw_only=True)
class Life:
    """A process: when it starts (ms), and its restarts: (when it stops, for how long, whether it is closed)."""

    name: str
    start: int
    restarts: tuple[tuple[int, int, bool], ...] = ()
    end: int | None = None


@dataclass(frozen=True, kw_only=True)
class Script:
    """What happens to the processes of a group, and how they are configured."""

    lives: tuple[Life, ...]
    partitions: int
    is_static: bool = False
    session_ms: int = 45_000
    assignor: str = "range"
    commits: bool = True
    same_client_id: bool = False

    def but(self, **changes):
        return replace(self, **changes)


class ScriptedWorld(World):
    """The clients of a script."""

    def __init__(self, script):
        self.script = script
        self.draw = random.Random(1)
        self.assignor, self.session = script.assignor, script.session_ms
        self.cooperative = self.assignor == "cooperative-sticky"
        self.heartbeat, self.rebalance, self.cadence = min(3_000, self.session // 3), 300_000, 1_000
        self.traffic, self.nameless = script.commits, False
        self.partitions = {"orders": script.partitions}
        self.log, self.clients, self.steps = Log(group_initial_rebalance_delay_ms=3_000), [], []

    def given(self, reply):
        """Assign as clients do, which identify members by their group instance id if they have one."""
        topics = tuple(TopicSpec(name=name, partitions=count) for name, count in self.partitions.items())
        members = []
        for each in reply.members:
            said = decode_subscription(each.metadata)
            owned = {topic: tuple(numbers) for topic, numbers in said.owned_partitions.items()}
            members.append(
                MemberSpec(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, topics=said.topics, owned=owned,
                    generation=said.generation_id,
                )
            )  # fmt: skip
        assigned = assign(self.assignor, GroupSpec(members=tuple(members), topics=topics))
        return {name: encode_assignment(MemberAssignment(partitions=given)) for name, given in assigned.items()}

    def drive(self):
        """The records: (ms, key, value)."""
        doings = sorted(self._doings(), key=lambda each: each[0])
        began = self.log.now
        for at_ms, act in doings:
            self.run(max(began + at_ms - self.log.now, 0))
            act()
        self.run(2 * self.session + 30_000)
        return self.log.stamped

    def _doings(self):
        for life in self.script.lives:
            client_id = "consumer" if self.script.same_client_id else life.name
            client = Client(self, client_id, life.name if self.script.is_static else None, ["orders"])
            self.clients.append(client)
            yield life.start, client.start
            for at_ms, for_ms, is_clean in life.restarts:
                yield at_ms, client.close if is_clean else client.crash
                yield at_ms + for_ms, client.start
            if life.end is not None:
                yield life.end, client.close


def drive(script):
    return ScriptedWorld(script).drive()


def history_of(records):
    return History(source=HistorySource(path=Path("records")), tables=derive_records(records))


@dataclass(frozen=True, kw_only=True)
class Counted:
    rebalances: int
    moves: int


def count(records):
    """Counts from the group's records, read without `kgm.history`: how often the generation rose, and how often a
    partition was assigned to an identity other than the last that had it."""
    generation, owner, rebalances, moves = 0, {}, 0, 0
    for _, key, value in records:
        record = decode_record(key, value)
        if not isinstance(record.value, GroupMetadataValue):
            continue
        rebalances += record.value.generation > generation
        generation = record.value.generation
        for member in record.value.members:
            identity = member.group_instance_id or member.member_id
            assigned = decode_assignment(member.assignment).partitions if member.assignment else {}
            for place in [(topic, number) for topic, numbers in assigned.items() for number in numbers]:
                moves += owner.get(place, identity) != identity
                owner[place] = identity
    return Counted(rebalances=rebalances, moves=moves)


def random_script(seed, **fixed):
    """Processes that start one after the other, and are restarted now and then; most are back soon."""
    draw = random.Random(f"advice {seed}")
    session_ms = draw.choice((10_000, 30_000, 45_000))
    lives, now = [], 0
    names = [f"app-{number}" for number in range(draw.randrange(2, 6))]
    for name in names:
        lives.append(Life(name=name, start=now))
        now += draw.choice((0, 20_000))
    now += 20_000
    restarts = {name: [] for name in names}
    for _ in range(draw.randrange(2, 9)):
        for_ms = draw.choice((2_000, 5_000, session_ms // 2, 2 * session_ms)) // TICK_MS * TICK_MS
        restarts[draw.choice(names)].append((now, for_ms, draw.random() < 0.6))
        now += 2 * session_ms + for_ms + draw.randrange(20, 60) * 1_000
    last = now + 60_000 if draw.random() < 0.3 else None
    lives = [replace(life, restarts=tuple(restarts[life.name])) for life in lives]
    lives[-1] = replace(lives[-1], end=last)
    script = Script(
        lives=tuple(lives), partitions=draw.randrange(1, 9), session_ms=session_ms,
        assignor=draw.choice(("range", "roundrobin", "cooperative-sticky")),
    )  # fmt: skip
    return script.but(**fixed)


GROUP_ID = GROUP

"""Groups of simulated clients on kgm's own coordinator, in virtual time: any number of histories with known causes. A
client here does what Kafka's clients do: it joins with the member id that it is given, lets the leader assign,
heartbeats, commits the partitions that it owns, revokes those that it must, and joins again immediately when it is no
longer a member."""

import random

import pyarrow as pa

from kgm.assignors import assign
from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec
from kgm.history.schema import RAW
from kgm.model.errors import ErrorCode as E
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kgm.records.record import encode_record
from tests.coordinator.harness import Harness
from tests.history.truth.driven import Step

TICK_MS = 200
GROUP = "g"


class Stamped:
    """A coordinator that records the time of each record."""

    def __init__(self, **overrides):
        super().__init__(**overrides)
        self.now = type(self.now)(1_700_000_000_000)
        self.stamped = []

    def append(self, records, producer=None):
        super().append(records, producer)
        self.stamped += [(self.now, *encode_record(record)) for record in records]

    def raw(self):
        rows = [
            {"partition": 0, "offset": at, "timestamp": when, "key": key, "value": value, "leader_epoch": 0}
            for at, (when, key, value) in enumerate(self.stamped)
        ]
        return pa.Table.from_pylist(rows, schema=RAW)


class Log(Stamped, Harness):
    """A coordinator of classic groups."""


class Client:
    """One process. phase: down, joining, syncing, in. paused: it is suspended without noticing."""

    def __init__(self, world, name, instance, topics):
        self.world, self.name, self.instance, self.topics = world, name, instance, topics
        self.member_id, self.generation, self.phase = "", -1, "down"
        self.owned, self.ticket, self.leads = {}, None, None
        self.beat_at = self.commit_at = 0
        self.paused = False

    # --- what a step does to the client

    def start(self):
        self.member_id, self.generation, self.owned = "", -1, {}
        self.join()

    def crash(self):
        self.phase = "down"

    def close(self, leaves=None):
        """leaves: whether it leaves the group (KIP-1092); by default a dynamic member does and a static one does not."""
        self.commit()
        if self.phase != "down" and (self.instance is None if leaves is None else leaves):
            self.world.log.leave((self.member_id, self.instance), group=GROUP)
        self.crash()

    def subscribe(self, topics):
        self.topics = topics
        self.join()

    # --- what it does

    def join(self):
        owned = self.owned if self.world.cooperative else {}
        if not self.world.cooperative:
            self.commit()
            self.owned = {}
        subscription = Subscription(topics=tuple(self.topics), owned_partitions=owned, generation_id=self.generation)
        self.ticket = self.world.log.join(
            self.member_id, self.instance, group=GROUP, v=9, protocols={self.world.assignor: encode_subscription(subscription)},
            session=self.world.session, rebalance=self.world.rebalance, client_id=self.name,
        )  # fmt: skip
        self.phase = "joining"

    def tick(self):
        reply = None if self.ticket is None else self.world.log.got(self.ticket)
        match self.phase:
            case "joining" if reply is not None:
                self.joined(reply)
            case "syncing" if reply is not None:
                self.synced(reply)
            case "in":
                self.live()

    def joined(self, reply):
        match reply.error_code:
            case E.NONE:
                self.member_id, self.generation = reply.member_id, reply.generation_id
                given = self.world.given(reply) if reply.leader == reply.member_id and reply.members else None
                self.ticket = self.world.log.sync(
                    self.member_id,
                    self.generation,
                    given,
                    self.instance,
                    group=GROUP,
                    protocol_name=self.world.assignor,
                )
                self.phase = "syncing"
            case E.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self.join()
            case E.FENCED_INSTANCE_ID:
                self.phase = "down"
            case _:
                self.lost()

    def synced(self, reply):
        if reply.error_code != E.NONE:
            self.refused(reply.error_code)
            return
        given = {topic: set(numbers) for topic, numbers in decode_assignment(reply.assignment).partitions.items()}
        lost = {topic: set(numbers) - given.get(topic, set()) for topic, numbers in self.owned.items()}
        self.commit()
        self.owned, self.phase, self.ticket = {t: sorted(n) for t, n in given.items()}, "in", None
        self.beat_at = self.world.log.now + self.world.heartbeat
        if self.world.cooperative and any(lost.values()):
            self.join()

    def live(self):
        now = self.world.log.now
        if now >= self.beat_at:
            self.beat_at = now + self.world.heartbeat
            code = self.world.log.heartbeat(self.member_id, self.generation, self.instance, group=GROUP)
            if code != E.NONE:
                self.refused(code)
                return
        if now >= self.commit_at:
            self.commit_at = now + self.world.cadence
            self.commit()

    def refused(self, code):
        if code == E.REBALANCE_IN_PROGRESS:
            self.join()
        elif code == E.FENCED_INSTANCE_ID:
            self.phase = "down"
        else:
            self.lost()

    def lost(self):
        self.member_id, self.generation, self.owned = "", -1, {}
        self.join()

    def commit(self):
        if self.phase != "in" or not self.world.traffic:
            return
        for topic, numbers in self.owned.items():
            for number in numbers:
                self.world.log.commit(
                    self.member_id, self.generation, self.instance, group=GROUP, topic=topic, partition=number
                )


class World:
    """A group and the steps that happen to it, some of them two actions at the same time."""

    name = "lives"
    client = Client

    def __init__(self, seed):
        self.draw = draw = random.Random(f"{self.name} {seed}")
        self.assignor = draw.choice(["range", "roundrobin", "cooperative-sticky"])
        self.cooperative = self.assignor == "cooperative-sticky"
        self.session = draw.choice([6_000, 10_000, 30_000, 45_000])
        self.heartbeat = min(3_000, self.session // 3)
        self.rebalance = draw.choice([60_000, 300_000])
        self.cadence = draw.choice([1_000, 5_000])
        self.traffic = draw.random() < 0.9
        self.partitions = {"orders": draw.randrange(1, 9), "extra": 3}
        #: Whether all clients have the same client id, as with a library that does not name them.
        self.nameless = draw.random() < 0.1
        self.log = self.new_log()
        self.clients, self.steps = [], []

    def new_log(self):
        return Log(group_initial_rebalance_delay_ms=self.draw.choice([0, 3_000]))

    def given(self, reply):
        subscriptions = {each.member_id: decode_subscription(each.metadata) for each in reply.members}
        members = tuple(
            MemberSpec(member_id=name, topics=each.topics, owned={t: tuple(n) for t, n in each.owned_partitions.items()},
                       generation=each.generation_id)
            for name, each in subscriptions.items()
        )  # fmt: skip
        topics = tuple(TopicSpec(name=name, partitions=count) for name, count in self.partitions.items())
        assigned = assign(self.assignor, GroupSpec(members=members, topics=topics))
        return {name: encode_assignment(MemberAssignment(partitions=given)) for name, given in assigned.items()}

    def run(self, ms):
        for _ in range(ms // TICK_MS):
            self.log.sleep(TICK_MS)
            for client in self.clients:
                if not client.paused:
                    client.tick()

    @property
    def up(self):
        return [each for each in self.clients if each.phase != "down"]

    def run_until_stable(self):
        """Run until the effects of everything that was done show."""
        self.run(self.session + 2 * self.heartbeat + 4_000)
        for _ in range(200):
            if all(each.phase == "in" for each in self.up):
                break
            self.run(1_000)
        self.run(self.draw.randrange(2, 6) * self.cadence)

    def play(self, count):
        for _ in range(self.draw.randrange(1, 4)):
            self.do([self.add])
        for _ in range(count):
            actions = self.draw.choices(
                [self.add, self.close, self.close_otherwise, self.crash, self.bounce, self.restart, self.pause,
                 self.remove, self.remove_several, self.subscribe, self.rejoin, self.grow],
                k=2 if self.draw.random() < 0.15 else 1,
            )  # fmt: skip
            self.do(actions)
        return self.log.raw(), self.steps

    def do(self, actions):
        since = self.log.now
        allowed = set()
        for action in actions:
            allowed |= action() or set()
            self.run(self.draw.randrange(5) * TICK_MS)
        self.run_until_stable()
        if self.cooperative:
            allowed |= {"cooperative-round"}
        if not self.up:
            allowed |= {"all-gone"}
        self.steps.append(Step(GROUP, since, self.log.now, None, frozenset(allowed)))

    # --- actions; each returns the causes that are right for it

    def add(self):
        static = self.draw.random() < 0.5
        name = "rdkafka" if self.nameless else f"c{len(self.clients)}"
        client = self.client(self, name, f"i{len(self.clients)}" if static else None, ["orders"])
        self.clients.append(client)
        client.start()
        return {"join"}

    def _one(self):
        return self.draw.choice(self.up) if self.up else None

    def close(self):
        client = self._one()
        if client is not None:
            client.close()
            return {"session-expiry", "all-gone"} if client.instance is not None else {"leave", "all-gone"}
        return None

    def close_otherwise(self):
        """Close a static member with LEAVE_GROUP, or a dynamic one with REMAIN_IN_GROUP (KIP-1092)."""
        client = self._one()
        if client is not None:
            client.close(leaves=client.instance is not None)
            return {"leave" if client.instance is not None else "session-expiry", "all-gone"}
        return None

    def crash(self):
        client = self._one()
        if client is not None:
            client.crash()
            return {"session-expiry", "all-gone"}
        return None

    def pause(self):
        """Suspend a client until its session has expired, then let it continue: it joins again."""
        client = self._one()
        if client is None:
            return None
        client.paused = True
        self.run(self.session + self.draw.randrange(1, 60) * 1_000)
        if self.draw.random() < 0.2:
            self.run(700_000)
        client.paused = False
        return {"session-expiry", "all-gone", "bounce"}

    def bounce(self):
        """Stop a client and start it again within the session, which does not show if the member is static."""
        client = self._one()
        if client is None:
            return None
        clean = self.draw.random() < 0.5
        client.close() if clean else client.crash()
        self.run(self.draw.randrange(1, max(self.session // 2 // TICK_MS, 2)) * TICK_MS)
        client.start()
        if client.instance is not None:
            return {"absorbed-bounce"}
        return {"bounce", "leave", "all-gone", "join"} if clean else {"bounce", "session-expiry", "all-gone"}

    def restart(self):
        """Start a client again that has been down for a while."""
        down = [each for each in self.clients if each.phase == "down"]
        if not down:
            return None
        client = self.draw.choice(down)
        client.start()
        # It may have been stopped in this same step.
        return {"bounce", "join"} | ({"absorbed-bounce"} if client.instance is not None else set())

    def remove(self):
        static = [each for each in self.up if each.instance is not None]
        if not static:
            return None
        client = self.draw.choice(static)
        stopped = self.draw.random() < 0.5
        if stopped:
            client.close()
        self.log.leave(("", client.instance), group=GROUP)
        return {"admin-removal", "all-gone"} | (set() if stopped else {"bounce"})

    def remove_several(self):
        """Crash all static members, and later remove all of them with one request."""
        static = [each for each in self.up if each.instance is not None]
        if len(static) < 2:
            return None
        for client in static:
            client.crash()
        self.run(self.draw.randrange(1, 5) * 1_000)
        self.log.leave(*(("", client.instance) for client in static), group=GROUP)
        return {"admin-removal", "all-gone"}

    def subscribe(self):
        client = self._one()
        if client is None or client.phase != "in":
            return None
        client.subscribe(["orders"] if "extra" in client.topics else ["orders", "extra"])
        return {"subscription-change"}

    def _leader(self):
        leader = self.log.engine.group(GROUP)
        leader = None if leader is None else getattr(leader, "leader", None)
        return next((each for each in self.up if each.phase == "in" and each.member_id == leader), None)

    def rejoin(self):
        client = self._leader()
        if client is None:
            return None
        client.join()
        return {"rejoin"}

    def grow(self):
        client = self._leader()
        if client is None:
            return None
        self.partitions["orders"] += self.draw.randrange(1, 3)
        client.join()
        return {"partition-change"}

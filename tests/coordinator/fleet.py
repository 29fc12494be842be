"""Scripted consumers on a virtual clock: they join, assign with the real assignors, sync, heartbeat, and follow the
replies."""

import itertools
from dataclasses import dataclass, field

from kgm.assignors import is_cooperative
from kgm.model.client_library import JAVA
from kgm.model.errors import ErrorCode as E
from kgm.protocol.subscription import Subscription, encode_subscription
from kgm.simulation.plan.client_library import STICKY
from kgm.simulation.play.leader import DrawCache, assignments, encode_sticky_data
from tests.coordinator.harness import Harness

HEARTBEAT_MS = 3_000


@dataclass(eq=False)
class Consumer:
    """One process. `said`: what it claims to own when it joins, and from which generation."""

    name: str
    instance: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    owned: tuple = ()
    said: tuple = ((), -1)
    joining: int | None = None
    syncing: int | None = None
    fenced: bool = False
    joins: int = 0
    replies: list = field(default_factory=list)


class Fleet:
    """Consumers of topic t in group g. If they are static, their names are their instance ids."""

    def __init__(self, assignor="range", *, partitions=9, session=10_000, rebalance=60_000, **settings):
        self.h = Harness(**settings)
        self.assignor = assignor
        self.topics = {"t": partitions}
        self.session, self.rebalance = session, rebalance
        self.up = {}
        self.cache = DrawCache()

    def number_members_from_one(self):
        """Make member ids as the KIP writes them."""
        counter = itertools.count(1)
        self.h.engine._dispatcher.new_member_id = lambda _: str(next(counter))

    # -- processes

    def start(self, name, *, static=True, version=9):
        one = self.up[name] = Consumer(name, name if static else None, version)
        self.join(one)
        return one

    def stop(self, name):
        """Close it: a dynamic member leaves, a static one never does (KIP-345)."""
        one = self.up.pop(name)
        if one.instance is None and one.member_id:
            self.h.leave((one.member_id, None))

    def kill(self, name):
        return self.up.pop(name)

    def form(self, *names, static=True, version=9):
        for name in names:
            self.start(name, static=static, version=version)
        self.settle()
        assert self.h.state() == "Stable"

    # -- what a consumer does

    def join(self, one):
        one.joins += 1
        one.syncing = None
        if not is_cooperative(self.assignor):
            one.owned = ()
        owned, generation = one.said
        claims = {"t": list(owned)} if owned else {}
        data = encode_sticky_data(claims, generation) if self.assignor == STICKY and generation >= 0 else None
        said = Subscription(
            topics=("t",),
            user_data=data,
            owned_partitions=claims if is_cooperative(self.assignor) else {},
            generation_id=generation,
        )
        one.joining = self.h.join(
            one.member_id, one.instance, v=one.version, protocols={self.assignor: encode_subscription(said)},
            session=self.session, rebalance=self.rebalance,
        )  # fmt: skip

    def sync(self, one, reply):
        given = {}
        if reply.members and not reply.skip_assignment:
            members = [self.cache.decode_member(self.assignor, row) for row in reply.members]
            given = assignments(self.assignor, members, self.topics, JAVA)
        one.syncing = self.h.sync(one.member_id, one.generation, given, one.instance, protocol_name=self.assignor)

    def forget(self, one):
        """It was removed from the group. It still claims to own the same partitions: that is what KIP-792 is about."""
        one.member_id, one.generation = "", -1

    def act(self, one):
        """Do its next step; False if it waits, or has nothing to do."""
        if one.fenced:
            return False
        if one.joining is not None:
            return self.on_join(one)
        if one.syncing is not None:
            return self.on_sync(one)
        error = self.h.heartbeat(one.member_id, one.generation, one.instance)
        return self.on_error(one, error)

    def everybody_acts(self):
        """Let each act once, in turn. Returns whether any had something to do."""
        busy = 0
        for one in list(self.up.values()):
            busy += self.act(one)
        return busy > 0

    def on_join(self, one):
        reply = self.h.got(one.joining)
        if reply is None:
            return False
        one.joining = None
        if reply.error_code == E.MEMBER_ID_REQUIRED:
            one.member_id = reply.member_id
            self.join(one)
        elif not self.on_error(one, reply.error_code):
            one.replies.append(reply)
            one.member_id, one.generation = reply.member_id, reply.generation_id
            self.sync(one, reply)
        return True

    def on_sync(self, one):
        reply = self.h.got(one.syncing)
        if reply is None:
            return False
        one.syncing = None
        if not self.on_error(one, reply.error_code):
            given = tuple(self.cache.decode_assignment(reply.assignment).get("t", ()))
            lost = set(one.owned) - set(given)
            one.owned, one.said = given, (given, one.generation)
            if lost and is_cooperative(self.assignor):
                self.join(one)  # so that others get what it gave up
        return True

    def on_error(self, one, error):
        if error == E.NONE:
            return False
        if error == E.FENCED_INSTANCE_ID:
            one.fenced, one.owned = True, ()
            return True
        assert error in (E.REBALANCE_IN_PROGRESS, E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION), error
        if error == E.UNKNOWN_MEMBER_ID:
            self.forget(one)
        self.join(one)
        return True

    # -- time

    def settle(self, patience=True):
        """Let all consumers act until none has anything to do; with patience, wait for members that do not answer."""
        while True:
            while self.everybody_acts():
                pass
            if not patience or self.h.state() not in ("PreparingRebalance", "CompletingRebalance"):
                return
            self.h.sleep(min(self.h.runtime.next_deadline() - self.h.now, HEARTBEAT_MS))

    def run(self, ms):
        """Let time pass; running consumers heartbeat and follow the replies."""
        until = self.h.now + ms
        while self.h.now < until:
            self.settle(patience=False)
            self.h.sleep(min(HEARTBEAT_MS, until - self.h.now))
        self.settle(patience=False)

    # -- observing

    @property
    def rebalances(self):
        """Generations that reached an assignment, according to the log."""
        values = [r.value for r in self.h.log if hasattr(r.value, "members") and r.value.members]
        return len({value.generation for value in values})

    @property
    def generation(self):
        return self.h.generation()

    @property
    def members(self):
        """Instance ids of static members, None for each dynamic one; in order of joining."""
        return [member.group_instance_id for member in self.h.engine.group("g").members]

    @property
    def assigned(self):
        """The assignments that the coordinator has, by the name of the process (or of the absent static member)."""
        names = {one.member_id: one.name for one in self.up.values()}
        return {
            names.get(m.member_id, m.group_instance_id or m.member_id): tuple(
                self.cache.decode_assignment(m.assignment).get("t", ())
            )
            for m in self.h.engine.group("g").members
        }

    @property
    def owned(self):
        """What each process consumes."""
        return {one.name: one.owned for one in self.up.values()}

    def everything_is_read_once(self):
        rows = sorted(p for partitions in self.owned.values() for p in partitions)
        return rows == list(range(self.topics["t"]))

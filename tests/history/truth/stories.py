"""Groups of real clients on a real broker of any version, driven at random: labeled histories for as long as there is
time, different ones for each seed.

Unlike in the scripts of `driven`, clients commit as rarely as they do by default, in transactions, or not at all; a
step does not wait for a commit of each; groups have session timeouts of their own; two things may happen at the same
time. So a log shows less here, and is easier to misread. The names of a story's members are letters; a name that starts
again is the same process, as far as its ids show."""

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import KafkaException

from kgm.model.broker_version import BrokerVersion
from tests.history.truth.driven import Broker
from tests.history.truth.judge import Act
from tests.kafka.broker import KafkaCluster
from tests.kafka.members import JavaMember, JavaMembers, RdMembers
from tests.kafka.versions import broker_of
from tests.waiting import until

EXTRA = 2
_SESSIONS_MS = (6_000, 9_000)
_GROUP_SESSIONS_MS = (8_000, 12_000)
_STALLS_AFTER_MS = 15_000
_CADENCES_MS = (300, 1_000, 5_000, None)
_MOST_MEMBERS = 4
_NAMES = "abcdefgh"
#: The first version whose LeaveGroup has a reason (v5), and the first with groups of the consumer protocol.
_WITH_REASONS, _WITH_CONSUMER_GROUPS = (3, 2), (4, 0)
#: KAFKA-10284 came with 2.6.1.
_WRITES_REPLACEMENTS = (2, 7)
#: The first version that writes a record when a group is created.
_WRITES_CREATIONS = (4, 0)
_DEPARTURES = frozenset({"leave", "session-expiry", "admin-removal", "max-poll"})
#: What may show only in the next step.
_LATE = _DEPARTURES | {"resubscribed"}


def _now():
    return time.time_ns() // 1_000_000


@dataclass
class Run:
    """What a broker's stories left behind: its records, what was done, lines of its log, the name of each member id
    ((group, member id) -> name), the session timeouts of groups in ms, and (group, error) of stories that ended
    early."""

    version: str
    raw: pa.Table
    acts: list[Act]
    log: list[str]
    names: dict[tuple[str, str], str]
    sessions: dict[str, int]
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def replaced_unseen(self):
        """Whether no record shows that a static member was replaced without a rebalance."""
        return BrokerVersion.parse(self.version).release < _WRITES_REPLACEMENTS


class Stage:
    """A broker and what starts clients on it."""

    def __init__(self, version, seed, groups):
        self.version, self.seed = version, seed
        self.release = BrokerVersion.parse(version).release
        self.draw = draw = random.Random(f"stage {version} {seed}")
        self.consumer_session = draw.choice(_SESSIONS_MS)
        properties = {
            "group.consumer.session.timeout.ms": str(self.consumer_session),
            "group.consumer.heartbeat.interval.ms": str(draw.choice((300, 1_000, 2_000))),
            "group.initial.rebalance.delay.ms": str(draw.choice((0, 0, 1_000))),
        }
        if self.release >= (4, 3):
            properties["group.consumer.assignment.interval.ms"] = str(draw.choice((0, 1_000)))
        self.counts = {f"own-{number}": draw.randrange(3, 8) for number in range(groups)}
        self.broker = Broker(
            self.counts | {"extra": EXTRA}, cluster=broker_of(version, properties, logs_groups=True),
            knows_consumer_groups=self.has_consumer_groups, traffic_every_s=0.5,
        )  # fmt: skip

    @property
    def has_consumer_groups(self):
        return self.release >= _WITH_CONSUMER_GROUPS

    @contextlib.contextmanager
    def open(self):
        with self.broker:
            bootstrap = self.broker.cluster.bootstrap
            self.admin = self.broker.cluster.admin()
            with RdMembers(bootstrap) as self.rd, JavaMembers(bootstrap) as self.jvm:
                yield self

    def remove(self, group, *instance_ids, member_id=""):
        """Returns whether all were members."""
        version = 5 if self.release >= _WITH_REASONS else 4
        return not any(self.broker.remove(group, *instance_ids, member_id=member_id, version=version))

    def delete(self, group):
        """Delete a group once it is empty."""

        def is_deleted():
            try:
                self.admin.delete_consumer_groups([group])[group].result(20)
            except KafkaException:
                return False
            return True

        until(is_deleted, f"{group} cannot be deleted", 60, every_s=0.5)


class Story:
    """One group. alive: its members by name; wants: the topics that each subscribes to; used: the names so far; gone:
    what a verdict may say about members that are down."""

    def __init__(self, stage, number):
        self.draw = draw = random.Random(f"story {stage.version} {stage.seed} {number}")
        self.stage, self.topic = stage, f"own-{number}"
        self.count = stage.counts[self.topic]
        self.consumer = stage.has_consumer_groups and draw.random() < 0.45
        self.library = draw.choice(("rd", "rd", "java", "mixed"))
        self.static = draw.random() < 0.5
        assignors = ("range", "uniform") if self.consumer else ("range", "roundrobin", "cooperative-sticky")
        self.assignor = draw.choice(assignors)
        self.nameless = not self.static and draw.random() < 0.2
        self.cadence = draw.choice(_CADENCES_MS)
        self.transactional = self.library == "rd" and draw.random() < 0.2
        self.stalls = draw.random() < 0.4
        kind = "consumer" if self.consumer else "classic"
        self.group = f"{kind}-{'static' if self.static else 'dynamic'}-{self.library}-{self.assignor}-{number}"
        self.session = stage.consumer_session if self.consumer else draw.choice(_SESSIONS_MS)
        self.configured = self.consumer and draw.random() < 0.5
        if self.configured:
            self.session = draw.choice(_GROUP_SESSIONS_MS)
        self.heartbeat = draw.choice((300, 1_000, 2_000))
        self.alive, self.wants, self.used, self.gone, self.late = {}, {}, set(), {}, {}
        self.started, self.names, self.acts, self.failure, self.doing = [], {}, [], None, None

    # --- what a step is

    @contextlib.contextmanager
    def step(self, expected, members, *causes):
        """members: what a verdict may say about each, by name; causes: what it may say about the group."""
        since = _now()
        yield
        if self.alive:
            until(self.is_settled, self.story, 45, every_s=0.1)
        time.sleep(self.draw.choice((0.7, 1, 2, 5)))
        self.acted(since, expected, members, causes)

    def is_settled(self):
        """Whether the members own all partitions, none twice, and each has had an assignment."""
        wanted = {topic for name in self.alive for topic in self.wants[name]}
        partitions = sum({self.topic: self.count, "extra": EXTRA}[topic] for topic in wanted)
        owned = [place for member in self.alive.values() for place in member.assignment]
        assigned = all(member.of_kind("assigned") for member in self.alive.values())
        return assigned and len(owned) == partitions == len(set(owned))

    def story(self):
        each = (f"{name}: {sorted(member.assignment)} {member.story()}" for name, member in self.alive.items())
        return "\n".join(["the group is not settled:", *each])

    def acted(self, since, expected, members, causes):
        known = {
            name: members.get(name, frozenset()) | self.gone.get(name, frozenset()) | self.late.get(name, frozenset())
            for name in {*members, *self.gone, *self.late}
        }
        more = {"cooperative-round"} if self.assignor == "cooperative-sticky" else set()
        everything = frozenset(causes) | more
        self.acts.append(Act(self.group, since, _now(), expected, known, everything))
        self.late = {name: what & _LATE for name, what in members.items()}
        for name, what in members.items():
            if name in self.alive:
                self.gone.pop(name, None)
            else:
                self.gone[name] = what & _DEPARTURES
        for name, member in self.started:
            self.names |= {(self.group, event.member_id): name for event in member.events if event.member_id}

    def up(self, name, *, same_as=None):
        library = self.library if self.library != "mixed" else self.draw.choice(("rd", "java"))
        java = library == "java" if same_as is None else same_as
        config = {
            "enable.auto.commit": str(self.cadence is not None and not self.transactional).lower(),
            "reconnect.backoff.ms": "500", "reconnect.backoff.max.ms": "1000",
        }  # fmt: skip
        if self.cadence is not None:
            config["auto.commit.interval.ms"] = str(self.cadence)
        if java:
            config |= {"metadata.max.age.ms": "1000", "fetch.max.wait.ms": "500"}
        else:
            config |= {"topic.metadata.refresh.interval.ms": "1000", "fetch.wait.max.ms": "500"}
        options = {"transaction_every_s": (self.cadence or 2_000) / 1_000} if self.transactional else {}
        self.wants[name] = [self.topic]
        member = (self.stage.jvm if java else self.stage.rd).start(
            group=self.group, instance_id=f"{self.group}-{name}" if self.static else None,
            client_id="app" if self.nameless else f"{self.group}-{name}",
            protocol="consumer" if self.consumer else "classic", assignor=self.assignor,
            session_timeout_ms=self.session, heartbeat_interval_ms=self.heartbeat,
            max_poll_interval_ms=_STALLS_AFTER_MS if self.stalls else 60_000, config=config, topics=[self.topic],
            **options,
        )  # fmt: skip
        self.alive[name] = member
        self.started.append((name, member))
        return member

    def is_java(self, name):
        return isinstance(self.alive[name], JavaMember)

    def comes(self, name):
        """What a verdict may say about a member that starts."""
        if self.nameless and self.used:
            return {name: frozenset({"joined", "returned"})}
        return {name: frozenset({"returned" if name in self.used else "joined"})}

    def empties(self, going=1):
        return ("all-gone",) if len(self.alive) <= going else ()

    def let_expire(self):
        """Wait until the session is over if there is no member left whose assignment would show it."""
        if not self.alive:
            time.sleep(self.session / 1000 + 2.5)

    # --- steps

    def start(self, _name=None, count=1, *, is_new=None):
        """is_new: whether the group is new; None: new if it never had a member."""
        free = [each for each in _NAMES if each not in self.alive]
        names = self.draw.sample(free[: count + 2], count)
        members = {key: what for name in names for key, what in self.comes(name).items()}
        expected = "bounce" if names[0] in self.used else "join"
        if self.nameless and self.used:
            expected = None  # it cannot be told apart from earlier members
        if (not self.used if is_new is None else is_new) and self.stage.release < _WRITES_CREATIONS:
            expected = None  # the group's first record has its first generation: no record precedes it
        # The first member may subscribe to a new topic before the coordinator knows it.
        with self.step(expected, members, *(() if self.used else ("metadata-change",))):
            for name in names:
                self.up(name)
        self.used |= {*names}

    def scale_out(self, _name):
        if len(self.alive) + 2 <= _MOST_MEMBERS:
            self.start(count=2)

    def close(self, name):
        leaves = ["away", "session-expiry"] if self.static else ["leave"]
        if self.assignor == "cooperative-sticky" and not self.static and not self.alive[name].assignment:
            leaves = ["leave", "session-expiry"]
        with self.step(leaves[-1], {name: frozenset(leaves)}, *self.empties()):
            self.alive.pop(name).close()
            self.let_expire()

    def close_otherwise(self, name):
        """Leave as a static member, or stay as a dynamic one (KIP-1092); a dynamic member of the consumer protocol
        leaves anyway."""
        if not self.is_java(name):
            return
        what = "leave" if self.static or self.consumer else "session-expiry"
        with self.step(what, {name: frozenset({what})}, *self.empties()):
            member = self.alive.pop(name)
            if self.static:
                member.close_leave()
            else:
                member.send("close-remain")
                member.wait_event("closed", "fatal")
            self.let_expire()

    def crash(self, name):
        java = self.is_java(name)
        if java and self.consumer:  # it cannot crash without its JVM
            return
        with self.step("session-expiry", {name: frozenset({"session-expiry"})}, *self.empties()):
            member = self.alive.pop(name)
            if java:
                member.send("close-remain")
                member.wait_event("closed", "fatal")
            else:
                member.crash()
            self.let_expire()

    def bounce(self, name):
        """Stop the client and start it again within the session."""
        java = self.is_java(name)
        clean = self.draw.random() < 0.5 or (self.consumer and (self.static or java))
        if self.static:
            members, causes = {"returned", "away"}, ()
        elif clean:
            members, causes = {"returned", "leave"}, self.empties()
        else:
            members, causes = {"returned", "joined", "session-expiry"}, ()
        if self.nameless:
            members |= {"joined"}
        if "extra" in self.wants[name]:  # it comes back without it
            members |= {"resubscribed"}
        with self.step("absorbed-bounce" if self.static else "bounce", {name: frozenset(members)}, *causes):
            old = self.alive.pop(name)
            if clean:
                old.close()
            elif java:
                old.send("close-remain")
                old.wait_event("closed", "fatal")
            else:
                old.crash()
            time.sleep(self.draw.choice((0, 0, 1, self.session / 3_000)))
            self.up(name, same_as=java).wait_assigned(timeout_s=60)

    def subscribe(self, name):
        if self.is_java(name):
            return
        with self.step("subscription-change", {name: frozenset({"resubscribed"})}, "metadata-change"):
            self.wants[name] = [self.topic] if "extra" in self.wants[name] else [self.topic, "extra"]
            self.alive[name].send("subscribe", topics=self.wants[name])

    def unsubscribe(self, name):
        """Leave the group and come back as the same process."""
        if self.is_java(name) or self.static or len(self.alive) < 2:
            return
        member = self.alive[name]
        with self.step("leave", {name: frozenset({"leave"})}):
            del self.alive[name]
            member.send("unsubscribe")
        with self.step("bounce", {name: frozenset({"returned"})}):
            self.alive[name] = member
            count = len(member.of_kind("assigned"))
            member.send("subscribe", topics=self.wants[name])
            member.wait_for(lambda: len(member.of_kind("assigned")) > count, "another assignment")

    def grow(self, _name):
        if self.count > 9:
            return
        with self.step("partition-change", {}, "partition-change", "metadata-change"):
            self.count += 1
            self.stage.broker.grow(self.topic, self.count)

    def enforce(self, name):
        if not self.is_java(name) or self.consumer:
            return
        with self.step("rejoin", {}, "rejoin"):
            member, count = self.alive[name], len(self.alive[name].of_kind("assigned"))
            member.send("enforce")
            if self.assignor != "cooperative-sticky":
                member.wait_for(lambda: len(member.of_kind("assigned")) > count, "another assignment")

    def remove(self, name):
        """Remove a member as an admin does: a static one that is down, or a dynamic one that is up and joins again."""
        if not self.static:
            with self.step("leave", {name: frozenset({"leave", "returned", "admin-removal"})}, *self.empties()):
                member, count = self.alive[name], len(self.alive[name].of_kind("assigned"))
                is_removed = self.stage.remove(self.group, member_id=member.member_id)
                if is_removed:
                    member.wait_for(lambda: len(member.of_kind("assigned")) > count, "its return", 60)
            if not is_removed:
                self.acts[-1].expected = None
            return
        names = [name]
        if len(self.alive) > 1 and self.draw.random() < 0.4:
            names.append(next(each for each in sorted(self.alive) if each != name))
        members = dict.fromkeys(names, frozenset({"admin-removal", "away"}))
        with self.step("admin-removal", members, *self.empties(len(names))):
            for each in names:
                self.alive.pop(each).close()
            time.sleep(self.draw.choice((0, 1, self.draw.uniform(0, self.session / 1_000))))
            is_removed = self.stage.remove(self.group, *(f"{self.group}-{each}" for each in names))
            self.let_expire()
        if not is_removed:  # the session of one had already ended
            self.acts[-1].expected = None
            for each in names:
                self.gone[each] |= {"session-expiry"}
                self.acts[-1].members[each] |= {"session-expiry"}

    def remove_alive(self, name):
        """Remove a static member that is up: it joins again, or stops with a fatal error."""
        if not self.static:
            return
        with self.step("admin-removal", {name: frozenset({"admin-removal", "returned", "away"})}, *self.empties()):
            member, count = self.alive[name], len(self.alive[name].of_kind("assigned"))
            assert self.stage.remove(self.group, f"{self.group}-{name}")
            member.wait_for(
                lambda: len(member.of_kind("assigned")) > count or member.fatal is not None, "its return", 60
            )
            if member.fatal is not None:
                del self.alive[name]

    def pause(self, name):
        """Suspend a process until its session has expired, then let it continue."""
        if self.is_java(name):
            return
        with self.step("session-expiry", {name: frozenset({"session-expiry", "returned"})}, *self.empties()):
            member = self.alive[name]
            count = len(member.of_kind("assigned"))
            member.suspend()
            time.sleep(self.session / 1_000 + self.draw.choice((2, 3, 6)))
            member.resume()
            member.wait_for(lambda: len(member.of_kind("assigned")) > count, "its return", 60)

    def stall(self, name):
        """Stop polling for longer than max.poll.interval.ms; heartbeats continue."""
        if not self.stalls or len(self.alive) < 2:
            return
        what = {"max-poll", "returned"} | ({"away", "session-expiry"} if self.static else set())
        with self.step("max-poll", {name: frozenset(what)}):
            member, count = self.alive[name], len(self.alive[name].of_kind("assigned"))
            member.stall(_STALLS_AFTER_MS + 4_000 + (self.session if self.static else 0))
            member.wait_for(lambda: len(member.of_kind("assigned")) > count, "its return", 60)

    def duplicate(self, name):
        """Start another process with the same instance id: in a classic group it fences the first one, with KIP-848 it
        is refused."""
        if not self.static:
            return
        java = self.is_java(name)
        with self.step(None, {name: frozenset({"returned"})}):
            old = self.alive[name]
            new = self.up(name, same_as=java)
            (new if self.consumer else old).wait_event("fatal", timeout_s=60)
            if self.consumer:
                self.alive[name] = old

    def delete(self, _name):
        """Stop all members, delete the group, and begin again."""
        if self.draw.random() < 0.5:
            return
        away = frozenset({"away", "session-expiry"} if self.static else {"leave", "session-expiry"})
        with self.step("all-gone", dict.fromkeys(self.alive, away), "all-gone", "group-removed"):
            for name in list(self.alive):
                self.alive.pop(name).close()
            if self.static:
                self.let_expire()
            self.stage.delete(self.group)
        self.start(is_new=True)

    def crash_and_join(self, name):
        """Two changes at the same time."""
        if self.is_java(name):
            return
        new = next(each for each in _NAMES if each not in self.alive)
        with self.step(None, {name: frozenset({"session-expiry"}), **self.comes(new)}):
            self.alive.pop(name).crash()
            self.up(new)
        self.used.add(new)

    def restarted(self, since):
        """The broker was restarted: clients may do whatever they do then."""
        if self.failure is not None:
            return
        with self.until_failure():
            members = dict.fromkeys(self.alive, frozenset({"returned"}))
            with self.step(None, members, "rejoin", "coordinator-move"):
                until(self.is_settled, self.story, 90, every_s=0.5)
            self.acts[-1].since = since

    @contextlib.contextmanager
    def until_failure(self):
        """What ends the story early is its `failure`."""
        try:
            yield
        except (TimeoutError, AssertionError, KafkaException) as error:
            self.failure = f"{type(error).__name__}: {error}"

    def play(self, end_s):
        """Until a time.monotonic()."""
        doings = (
            self.close, self.close, self.crash, self.crash, self.bounce, self.bounce, self.bounce, self.subscribe,
            self.unsubscribe, self.grow, self.enforce, self.remove, self.remove, self.remove_alive, self.pause,
            self.stall, self.duplicate, self.delete, self.crash_and_join, self.scale_out, self.close_otherwise,
            self.close_otherwise,
        )  # fmt: skip
        if self.failure is not None:
            return
        with self.until_failure():
            if self.configured and not self.used:
                self.stage.broker.cluster.configure_group(self.group, {"consumer.session.timeout.ms": self.session})
            while time.monotonic() < end_s:
                if len(self.alive) < 2 or (len(self.alive) < _MOST_MEMBERS and self.draw.random() < 0.25):
                    doing = self.start
                else:
                    doing = self.draw.choice(doings)
                self.doing = doing.__name__
                doing(self.draw.choice(sorted(self.alive)) if self.alive else None)


def play(*, version, seed, groups, seconds, restart=False):
    """Run a broker and `groups` groups, all at the same time. restart: whether the broker is restarted halfway, if it
    can be."""
    stage = Stage(version, seed, groups)
    stories = [Story(stage, number) for number in range(groups)]
    with stage.open(), ThreadPoolExecutor(groups) as pool:
        parts = 2 if restart and isinstance(stage.broker.cluster, KafkaCluster) else 1
        for part in range(parts):
            if part:
                since = _now()
                stage.broker.cluster.restart(1)
                list(pool.map(Story.restarted, stories, [since] * groups))
            end_s = time.monotonic() + seconds / parts
            list(pool.map(Story.play, stories, [end_s] * groups))
        raw, log = stage.broker.raw(), stage.broker.log
    return Run(
        version=version, raw=raw, log=log,
        acts=[act for story in stories for act in story.acts],
        names={key: name for story in stories for key, name in story.names.items()},
        sessions={story.group: story.session for story in stories},
        failed=[(story.group, f"{story.doing}: {story.failure}") for story in stories if story.failure is not None],
    )  # fmt: skip

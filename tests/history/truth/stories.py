"""Groups of real clients on a real broker, driven at random: as many labelled histories as there is time for.

Unlike in the scripts of `driven`, clients commit as rarely as they do by default or not at all, a step does not wait
for a commit of each, and two things may happen at once; so a log shows less here, and is easier to misread."""

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor

from tests.history.truth.driven import SESSION_MS, Broker, Step
from tests.kafka.members import JavaMembers, RdMembers, wait_settled

PARTITIONS, EXTRA = 6, 2
_ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
_CADENCES_MS = (300, 1_000, 5_000, None)
_MOST_MEMBERS = 4


def _now():
    return time.time_ns() // 1_000_000


class Story:
    """One group. alive: its members by name; wants: the topics that each subscribes to; before: the names used so far."""

    def __init__(self, broker, rd, jvm, seed, number):
        self.draw = draw = random.Random(f"story {seed} {number}")
        self.broker, self.topic, self.count = broker, f"own-{number}", PARTITIONS
        self.consumer = draw.random() < 0.35
        self.java = not self.consumer and draw.random() < 0.3
        self.members = jvm if self.java else rd
        self.static = draw.random() < 0.5
        self.assignor = draw.choice(("range", "uniform") if self.consumer else _ASSIGNORS)
        self.session = SESSION_MS if self.consumer else draw.choice((SESSION_MS, 9_000))
        self.cadence = draw.choice(_CADENCES_MS)
        kind = "consumer" if self.consumer else "java" if self.java else "classic"
        self.group = f"{kind}-{'static' if self.static else 'dynamic'}-{self.assignor}-{number}"
        self.alive, self.wants, self.before = {}, {}, set()

    # --- steps

    @contextlib.contextmanager
    def step(self, expected, *allowed):
        since = _now()
        yield
        if self.alive:
            wanted = {topic for name in self.alive for topic in self.wants[name]}
            partitions = sum({self.topic: self.count, "extra": EXTRA}[topic] for topic in wanted)
            wait_settled(list(self.alive.values()), partitions, timeout_s=90)
        time.sleep(self.draw.choice((0.7, 2, 6)))
        more = {"cooperative-round"} if self.assignor == "cooperative-sticky" else set()
        self.broker.steps.append(
            Step(self.group, since, _now(), expected, frozenset({expected, *allowed, *more} - {None}))
        )

    def up(self, name):
        config = {"enable.auto.commit": str(self.cadence is not None).lower()}
        if self.cadence is not None:
            config["auto.commit.interval.ms"] = str(self.cadence)
        if self.java:
            config["metadata.max.age.ms"] = "1000"
        else:
            config["topic.metadata.refresh.interval.ms"] = "1000"
        self.wants[name] = [self.topic]
        self.alive[name] = self.members.start(
            group=self.group, instance_id=f"{self.group}-{name}" if self.static else None,
            client_id=f"{self.group}-{name}", protocol="consumer" if self.consumer else "classic",
            assignor=self.assignor, session_timeout_ms=self.session, config=config, topics=[self.topic],
        )  # fmt: skip

    def start(self):
        name = self.draw.choice([each for each in "abcde" if each not in self.alive])
        # The first member may subscribe to a new topic before the coordinator knows it.
        more = () if self.before else ("metadata-change",)
        with self.step("bounce" if name in self.before else "join", *more):
            self.up(name)
        self.before.add(name)

    def close(self, name):
        with self.step("session-expiry" if self.static else "leave", *(() if len(self.alive) > 1 else ("all-gone",))):
            self.alive.pop(name).close()
            self.let_expire()

    def crash(self, name):
        with self.step("session-expiry", *(() if len(self.alive) > 1 else ("all-gone",))):
            self.alive.pop(name).crash()
            self.let_expire()

    def let_expire(self):
        """Wait until the session is over if there is no member left whose assignment would show it."""
        if not self.alive:
            time.sleep(self.session / 1000 + 2)

    def bounce(self, name):
        """Stop the client and start it again at once."""
        clean = self.consumer or self.draw.random() < 0.5
        allowed = () if self.static else ("leave", "all-gone") if clean else ("session-expiry", "join")
        with self.step("absorbed-bounce" if self.static else "bounce", *allowed):
            old = self.alive.pop(name)
            old.close() if clean else old.crash()
            self.up(name)
            self.alive[name].wait_assigned(timeout_s=60)

    def subscribe(self, name):
        if self.java or self.wants[name] != [self.topic]:
            return
        with self.step("subscription-change"):
            self.wants[name] = [self.topic, "extra"]
            self.alive[name].send("subscribe", topics=self.wants[name])

    def grow(self, _name):
        if self.count > PARTITIONS:
            return
        with self.step("partition-change", "metadata-change"):
            self.count += 2
            self.broker.grow(self.topic, self.count)

    def enforce(self, name):
        if not self.java:
            return
        with self.step("rejoin"):
            count = len(self.alive[name].of_kind("assigned"))
            self.alive[name].send("enforce")
            self.alive[name].wait_for(lambda: len(self.alive[name].of_kind("assigned")) > count, "another assignment")

    def remove(self, name):
        """Remove a member as an admin does: a static one that is down, or a dynamic one that is up and joins again."""
        if self.static:
            with self.step("admin-removal", *(() if len(self.alive) > 1 else ("all-gone",))):
                self.alive.pop(name).close()
                self.broker.remove(self.group, f"{self.group}-{name}")
        else:
            with self.step("leave", "bounce", "admin-removal", "all-gone"):
                count = len(self.alive[name].of_kind("assigned"))
                self.broker.remove(self.group, None, self.alive[name].member_id)
                self.alive[name].wait_for(lambda: len(self.alive[name].of_kind("assigned")) > count, "its return", 60)

    def crash_and_join(self, name):
        """Two changes at once."""
        new = next(each for each in "abcde" if each not in self.alive)
        with self.step(None, "session-expiry", "bounce" if new in self.before else "join"):
            self.alive.pop(name).crash()
            self.up(new)
        self.before.add(new)

    def play(self, steps):
        self.start()
        doings = (
            self.close, self.crash, self.bounce, self.bounce, self.subscribe, self.grow, self.enforce, self.remove,
            self.crash_and_join,
        )  # fmt: skip
        for _ in range(steps):
            if len(self.alive) < 2 or (len(self.alive) < _MOST_MEMBERS and self.draw.random() < 0.35):
                self.start()
            else:
                self.draw.choice(doings)(self.draw.choice(sorted(self.alive)))


def play(*, seed, groups, steps, at_once=5):
    """Run a broker and this many groups: (raw records, steps, lines of the broker's log, (group, error) of failures)."""
    topics = {**{f"own-{number}": PARTITIONS for number in range(groups)}, "extra": EXTRA}
    failed = []

    def one(number):
        story = Story(broker, rd, jvm, seed, number)
        try:
            story.play(steps)
        except (TimeoutError, AssertionError) as error:
            failed.append((story.group, str(error).splitlines()[0]))

    with Broker(topics) as broker:
        with RdMembers(broker.cluster.bootstrap) as rd, JavaMembers(broker.cluster.bootstrap) as jvm:
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(one, range(groups)))
            broker.quiet()
            steps_done = list(broker.steps)
        return broker.raw(), steps_done, broker.log, failed

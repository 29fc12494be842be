"""What Kafka's ducktape tests and librdkafka's own tests demand of a coordinator, with real consumers on the embedded
one: bounces, crashes, fencing, upgrades.

The scenarios run side by side in a few threads, each with a topic and groups of its own; each test waits for one. They
wait for conditions only, and hold no upper bound on time but that of patience."""

import concurrent.futures
import threading
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.kafka.records import produce
from tests.server.clients.served_group import now_ms, session_end_ms, wait_heartbeats
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
PATIENCE_S = 90
AT_ONCE = 5
PARTITIONS = 6
KINDS = ("librdkafka", "java")
#: Positions are kept at each close and each revocation.
COMMITTING = {"enable.auto.commit": "true", "auto.commit.interval.ms": "100"}
DISTURBED = ("revoked", "lost", "assigned", "fatal")


class Stage:
    """What a scenario has: a server, a topic, a group, members of one kind."""

    def __init__(self, server, members, name):
        self.server = server
        self.members = members
        self.topic = f"topic-{name}"
        self.group = f"group-{name}"
        self.produced = 0
        self.all = []
        client = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        client.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(PATIENCE_S)

    def start(self, instance_id=None, **options):
        options = {"assignor": "range", "session_timeout_ms": 60_000, "topics": [self.topic]} | options
        member = self.members.start(group=self.group, instance_id=instance_id, **options)
        self.all.append(member)
        return member

    def settle(self, *members):
        """Wait until the members share the partitions and the group is Stable without anybody else."""
        wait_settled(members, PARTITIONS, PATIENCE_S)
        until(
            lambda: self.view().state == "Stable" and len(self.view().members) == len(members),
            f"{self.group}",
            PATIENCE_S,
        )
        wait_settled(members, PARTITIONS, PATIENCE_S)

    def view(self):
        return self.server.inspect(lambda view: view.group(self.group))

    def produce(self, each=20):
        values = (f"value-{n}" for n in range(each * PARTITIONS))
        produce(self.server.bootstrap, self.topic, values, range(PARTITIONS), timeout_s=PATIENCE_S)
        self.produced += each * PARTITIONS

    def consumed(self):
        return sum(event.data["count"] for member in self.all for event in list(member.of_kind("polled")))

    def committed(self):
        return self.server.inspect(lambda view: sum(row.offset for row in view.offsets(self.group).values()))

    def everything_is_read_once(self, *alive):
        until(lambda: self.consumed() >= self.produced, f"{self.group} does not read everything", PATIENCE_S)
        for member in alive:
            member.close()
        assert self.consumed() == self.produced, self.story()
        assert self.committed() == self.produced, self.story()

    def story(self):
        """What all members have said, by time."""
        events = [(event.at, member.name, event) for member in self.all for event in list(member.events)]
        lines = [f"{at:.3f} {name} {event.kind} {event.data}" for at, name, event in sorted(events, key=lambda e: e[0])]
        return "\n".join([f"{self.produced} produced, {self.consumed()} read, {self.committed()} committed", *lines])


def since(member, seen, *kinds):
    return [event.kind for event in member.events[seen:] if event.kind in (kinds or DISTURBED)]


# -- ducktape: consumer_test.py


def bounce(stage, *, static, rolling):
    """test_static_consumer_bounce_with_eager_assignment: the kept one sees no revocation if all are static."""
    ids = [f"instance-{n}" if static else None for n in range(3)]
    kept, *others = [stage.start(instance, config=COMMITTING) for instance in ids]
    stage.settle(kept, *others)
    seen, owned = len(kept.events), kept.assignment
    for _ in range(2):
        stage.produce()
        if rolling:
            for at, instance in enumerate(ids[1:]):
                others[at].close()
                others[at] = stage.start(instance, config=COMMITTING)
                others[at].wait_assigned(timeout_s=PATIENCE_S)
        else:
            for member in others:
                member.close()
            others = [stage.start(instance, config=COMMITTING) for instance in ids[1:]]
        stage.settle(kept, *others)
    if static:
        assert since(kept, seen) == []
        assert kept.assignment == owned
    else:
        assert "revoked" in since(kept, seen)
    stage.everything_is_read_once(kept, *others)


def persisted(stage, *, rolling):
    """test_static_consumer_persisted_after_rejoin: members that came back under new ids are known to the next
    coordinator too (KAFKA-10284)."""
    members = [stage.start(f"instance-{n}", config=COMMITTING) for n in range(3)]
    stage.settle(*members)
    for at in range(3) if rolling else ():
        members[at].close()
        members[at] = stage.start(f"instance-{at}", config=COMMITTING)
        members[at].wait_assigned(timeout_s=PATIENCE_S)
    if not rolling:
        for member in members:
            member.close()
        members = [stage.start(f"instance-{n}", config=COMMITTING) for n in range(3)]
    stage.settle(*members)
    before = stage.view()
    seen = [len(member.events) for member in members]
    for broker in (1, 2, 3):
        stage.server.stop_broker(broker)
        stage.produce(5)
        until(lambda: stage.consumed() >= stage.produced, "nothing is read while a broker is away", PATIENCE_S)
        stage.server.start_broker(broker)
    assert [since(member, at) for member, at in zip(members, seen, strict=True)] == [[], [], []]
    after = stage.view()
    assert (after.generation, after.state) == (before.generation, "Stable")
    assert {m.member_id for m in after.members} == {m.member_id for m in before.members}
    # Before they are closed: the last commit may fail if the coordinator has just moved, and it is not repeated. A commit
    # that was answered and is lost would not be repeated either, and this would wait in vain.
    until(lambda: stage.committed() == stage.produced, lambda: f"{stage.committed()} of {stage.produced}", PATIENCE_S)
    stage.everything_is_read_once(*members)


def fencing(stage, *, conflicts, at_once):
    """test_fencing_static_consumer: the newer of two with one instance id lives, the older one dies."""
    originals = [stage.start(f"instance-{n}") for n in range(3)]
    if not at_once:
        stage.settle(*originals)
    seen = [len(member.events) for member in originals]
    newer = [stage.start(f"instance-{n}") for n in range(conflicts)]
    pairs = list(zip(originals, newer, strict=False))
    until(lambda: all(a.fatal or b.fatal for a, b in pairs), "nobody is fenced", PATIENCE_S)
    alive = [member for member in (*originals, *newer) if member.fatal is None]
    stage.settle(*alive)
    dead = [member for member in (*originals, *newer) if member.fatal is not None]
    assert (len(alive), len(dead)) == (3, conflicts)
    assert {member.fatal for member in dead} == {"FENCED_INSTANCE_ID"}
    if not at_once:
        assert dead == originals[:conflicts]
        assert [since(member, at) for member, at in zip(originals, seen, strict=True)][conflicts:] == [
            [] for _ in originals[conflicts:]
        ]


def failure(stage, *, clean):
    """test_consumer_failure and test_consumer_bounce, rolling, of dynamic members: the others take over, nothing that
    was committed is read again, and nothing is left out."""
    # Who is closed leaves at once; who crashes is waited for.
    config = {"config": COMMITTING, "session_timeout_ms": 60_000 if clean else 4_000}
    members = [stage.start(**config) for _ in range(2)]
    stage.settle(*members)
    for at in range(2):
        stage.produce()
        members[at].close() if clean else members[at].crash()
        stage.settle(members[1 - at])
        until(lambda: stage.consumed() >= stage.produced, "not everything is read", PATIENCE_S)
        members[at] = stage.start(**config)
        stage.settle(*members)
    if clean:
        stage.everything_is_read_once(*members)
        return
    for member in members:
        member.close()
    assert stage.committed() == stage.produced <= stage.consumed()


def valid_assignment(stage, *, assignor):
    """test_valid_assignment: after each join every partition has one owner."""
    members = []
    for _ in range(3):
        members.append(stage.start(assignor=assignor))
        stage.settle(*members)
    assert sorted(len(member.assignment) for member in members) == [2, 2, 2]
    assert stage.view().protocol == assignor


def upgrade(stage, *, static):
    """consumer_rolling_upgrade_test: range until the last member that knows nothing else is gone."""
    ids = ["first", "second"] if static else [None, None]
    members = [stage.start(instance) for instance in ids]
    stage.settle(*members)
    assert stage.view().protocol == "range"
    for at, chosen in ((0, "range"), (1, "roundrobin")):
        members[at].close()
        members[at] = stage.start(ids[at], assignor="roundrobin,range")
        until(lambda chosen=chosen: stage.view().protocol == chosen, f"the group does not come to {chosen}", PATIENCE_S)
        stage.settle(*members)
        owned = sorted(sorted(partition for _, partition in member.assignment) for member in members)
        assert owned == ([[0, 1, 2], [3, 4, 5]] if chosen == "range" else [[0, 2, 4], [1, 3, 5]])


# -- librdkafka: 0102-static_group_rebalance.c


def expiry(stage):
    """A static member that is closed and does not return keeps its partitions for a session, and no longer."""
    session_ms = 8_000
    a, b = stage.start("a", session_timeout_ms=session_ms), stage.start("b")
    stage.settle(a, b)
    seen = len(b.events)
    before_ms, member_id = now_ms(), a.member_id
    wait_heartbeats(stage.server, 1, stage.group)
    a.close()
    end_ms = session_end_ms(stage.view(), member_id)
    assert before_ms <= end_ms - session_ms <= now_ms(), "a session begins with the last heartbeat"
    b.wait_assigned(PARTITIONS, PATIENCE_S)
    assert now_ms() >= end_ms
    assert since(b, seen) == ["revoked", "assigned"]


def unsubscribe(stage):
    """A static member that unsubscribes does leave."""
    a, b = (stage.start(name) for name in "ab")
    stage.settle(a, b)
    seen = len(b.events)
    a.send("unsubscribe")
    b.wait_assigned(PARTITIONS, PATIENCE_S)
    assert since(b, seen) == ["revoked", "assigned"]
    assert [member.group_instance_id for member in stage.view().members] == ["b"]


def too_slow(stage):
    """A static member that does not poll for max.poll.interval.ms is out long before its session ends."""
    a, b = stage.start("a", max_poll_interval_ms=8_000, session_timeout_ms=6_000), stage.start("b")
    stage.settle(a, b)
    seen = len(b.events)
    a.stall(60_000)
    b.wait_assigned(PARTITIONS, PATIENCE_S)
    assert since(b, seen) == ["revoked", "assigned"]
    assert [member.group_instance_id for member in stage.view().members] == ["b"]


def new_topic(stage):
    """A topic that comes to match the subscription is shared out."""
    pattern = "^" + stage.topic.replace(".", "[.]")
    config = {"topic.metadata.refresh.interval.ms": "500", "metadata.max.age.ms": "1500"}
    a, b = (stage.start(name, topics=[pattern], config=config) for name in "ab")
    stage.settle(a, b)
    seen = [len(a.events), len(b.events)]
    client = AdminClient({"bootstrap.servers": stage.server.bootstrap, "log_level": 0})
    more = f"{stage.topic}-more"
    client.create_topics([NewTopic(more, 2, 1)])[more].result(PATIENCE_S)
    wait_settled([a, b], PARTITIONS + 2, PATIENCE_S)
    for member, at in zip((a, b), seen, strict=True):
        assert since(member, at)[:2] == ["revoked", "assigned"]


CASES = [
    *((kind, bounce, {"static": s, "rolling": r}) for kind in KINDS for s in (True, False) for r in (True, False)),
    *((kind, fencing, {"conflicts": c, "at_once": o}) for kind in KINDS for c in (1, 2) for o in (True, False)),
    *((kind, failure, {"clean": clean}) for kind in KINDS for clean in (True, False)),
    *((kind, upgrade, {"static": static}) for kind in KINDS for static in (True, False)),
    *((kind, valid_assignment, {"assignor": name}) for kind in KINDS for name in ("range", "roundrobin")),
    *((kind, valid_assignment, {"assignor": "cooperative-sticky"}) for kind in KINDS),
    ("java", valid_assignment, {"assignor": "sticky"}),
    *((kind, expiry, {}) for kind in KINDS),
    *(("librdkafka", scenario, {}) for scenario in (unsubscribe, too_slow, new_topic)),
    *((kind, persisted, {"rolling": rolling}) for kind in KINDS for rolling in (True, False)),
]


def title(case):
    kind, scenario, options = case
    return "-".join([scenario.__name__, kind, *(f"{name}_{value}" for name, value in options.items())])


class Theatre:
    """Two servers and a JVM for all scenarios."""

    def __init__(self):
        self.warnings = []
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500)
        how = {"topics": {}, "settings": settings, "warn": self.warnings.append}
        self.one, self.three = serve_in_thread(**how), serve_in_thread(**how, brokers=3)
        self.java = JavaMembers(self.one.bootstrap)
        self.lock = threading.Lock()
        self.took = {}

    def play(self, case):
        kind, scenario, options = case
        begun = time.monotonic()
        # Whoever rolls brokers has them alone.
        alone = scenario is persisted
        with RdMembers(self.one.bootstrap) as rd:
            if not alone:
                java = self.java
                scenario(Stage(self.one, rd if kind == "librdkafka" else java, title(case)), **options)
            else:
                with self.lock, RdMembers(self.three.bootstrap) as far, JavaMembers(self.three.bootstrap) as java:
                    scenario(Stage(self.three, far if kind == "librdkafka" else java, title(case)), **options)
        self.took[title(case)] = time.monotonic() - begun

    def close(self):
        self.java.stop()
        self.one.close()
        self.three.close()


@pytest.fixture(scope="module")
def scenes(request):
    """The scenarios that were asked for, running."""
    wanted = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    theatre = Theatre()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        # Those that take turns begin first.
        wanted.sort(key=lambda case: case[1] is not persisted)
        yield {title(case): pool.submit(theatre.play, case) for case in wanted}
    theatre.close()
    assert theatre.warnings == []


@pytest.mark.few(2)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=title)
def test_real_consumers(case, scenes):
    scenes[title(case)].result()

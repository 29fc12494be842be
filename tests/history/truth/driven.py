"""A real broker and real clients, driven through everything that makes a group rebalance; what was done is the label.
Each script drives its own group, step by step; a step is over when the group is stable again. So the causes that the
history gives for the time of a step must be what the step did, and nothing else."""

import contextlib
import random
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from kgm.history.folders import Reading, folders, raw_table
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from kgm.protocol.wire import decode_response, encode_request
from tests.kafka.broker import KafkaCluster
from tests.kafka.heartbeat_group import wait_coordinator_knows
from tests.kafka.java_tools import QUICK
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.waiting import until

SESSION_MS = 6_000
MAX_POLL_MS = 15_000
_ATTEMPTS = 3
TOPICS = {"events": 6, "extra": 2, "grows": 3, "grows-too": 3}
PROPERTIES = {"group.consumer.session.timeout.ms": str(SESSION_MS), "group.consumer.assignment.interval.ms": "0"}
_INFO = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=info"
_COMMITTING = {"enable.auto.commit": "true", "auto.commit.interval.ms": "300"}


@dataclass
class Step:
    """What was done to a group between two times (ms). expected: the cause that must be found, None if any is allowed;
    allowed: the causes that count as right."""

    group: str
    since: int
    until: int
    expected: str | None
    allowed: frozenset[str]


class Broker:
    """One broker that logs the reason of each rebalance, its topics, and traffic on all of them."""

    def __init__(self, topics=TOPICS, *, cluster=None, knows_consumer_groups=True, traffic_every_s=0.1):
        """cluster: a broker to use instead of a new one; knows_consumer_groups: whether it has the consumer
        protocol."""
        self.cluster = cluster or KafkaCluster(properties=PROPERTIES, jvm_options=[*QUICK, _INFO])
        self.topics, self.traffic_every_s = dict(topics), traffic_every_s
        self.knows_consumer_groups = knows_consumer_groups
        self.stopped = threading.Event()
        self.steps = []

    def __enter__(self):
        self.cluster.start()
        self.cluster.create_topics(self.topics)
        if self.knows_consumer_groups:
            wait_coordinator_knows(self.cluster.bootstrap, self.topics)
        self.traffic = threading.Thread(target=self._produce)
        self.traffic.start()
        return self

    def __exit__(self, *_):
        self.quiet()
        self.cluster.stop()

    def quiet(self):
        self.stopped.set()
        self.traffic.join()

    def _produce(self):
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": "0", "log_level": 0})
        while not self.stopped.wait(self.traffic_every_s):
            for topic, count in self.topics.items():
                for partition in range(count):
                    with contextlib.suppress(BufferError):
                        producer.produce(topic, b"x", partition=partition)
            producer.poll(0)
        producer.flush(5)

    @property
    def log(self):
        (path,) = self.cluster.folder.glob("broker*.log")
        return path.read_text(errors="replace").splitlines()

    def raw(self):
        """Every record of `__consumer_offsets` so far."""
        return raw_table(folders(self.cluster.log_dir()), Reading())

    def remove(self, group, *instance_ids, member_id="", version=5):
        """Send a LeaveGroup as an admin client does: by instance ids, or by the member id of a dynamic member. Returns
        the error codes."""
        members = [
            MemberIdentity(member_id=member_id, group_instance_id=each, reason="member was removed by an admin: test")
            for each in instance_ids or [None]
        ]
        frame = encode_request(
            LeaveGroupRequest(group_id=group, members=members), version=version, correlation_id=1, client_id="admin"
        )
        host, port = self.cluster.bootstrap.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            with connection.makefile("rb") as stream:
                (length,) = struct.unpack(">i", stream.read(4))
                _, answer = decode_response(LeaveGroupResponse, stream.read(length), version=version)
        return [each.error_code for each in answer.members]

    def partitions(self, topic):
        return len(self.cluster.admin().list_topics(topic, timeout=20).topics[topic].partitions)

    def grow(self, topic, count):
        admin = self.cluster.admin()
        admin.create_partitions([NewPartitions(topic, count)])[topic].result(20)


class Stage:
    """One attempt at a script, with its own groups and the steps so far."""

    def __init__(self, broker, attempt):
        self.broker, self.again, self.steps = broker, f"-again-{attempt}" if attempt else "", []

    def drive(self, members, group, **options):
        return Drive(self, members, group + self.again, **options)


class Drive:
    """The group that a script drives."""

    def __init__(self, stage, members, group, *, topics=("events",), partitions=6, static=False, **options):
        self.stage, self.members, self.group = stage, members, group
        self.partitions, self.static = partitions, static
        self.options = {"session_timeout_ms": SESSION_MS, "config": _COMMITTING, **options, "topics": list(topics)}
        if isinstance(members, RdMembers):
            self.options["config"] = {**self.options["config"], "topic.metadata.refresh.interval.ms": "1000"}
        self.alive = {}

    @contextlib.contextmanager
    def step(self, expected, *allowed, loses=None):
        """loses: the member that should lose its partitions; any other that loses them was removed by the broker,
        unasked."""
        since = _now()
        before = [(name, member, len(member.events)) for name, member in self.alive.items() if name != loses]
        yield
        if self.alive:
            wait_settled(list(self.alive.values()), self.partitions, timeout_s=60)
        for name, member, seen in before:
            if self.alive.get(name) is member and any(event.kind == "lost" for event in member.events[seen:]):
                raise TimeoutError(f"{self.group}: {name} was removed by the broker\n{member.story()}")
        # Clients commit every 0.3 s, so the log shows that each is alive.
        time.sleep(0.7)
        more = {"cooperative-round"} if "cooperative" in (self.options.get("assignor") or "") else set()
        causes = frozenset({expected, *allowed, *more} - {None})
        self.stage.steps.append(Step(self.group, since, _now(), expected, causes))

    def start(self, name, expected="join", *allowed, **options):
        with self.step(expected, *allowed):
            instance = f"{self.group}-{name}" if self.static else None
            options = self.options | options
            self.alive[name] = self.members.start(
                group=self.group, instance_id=instance, client_id=f"{self.group}-{name}", **options
            )

    def close(self, name, expected="leave"):
        with self.step(expected):
            self.alive.pop(name).close()

    def crash(self, name, expected="session-expiry"):
        with self.step(expected):
            self.alive.pop(name).crash()

    def bounce(self, name, *, clean):
        """Stop the client and start it again within the session."""
        with self.step("absorbed-bounce"):
            old = self.alive.pop(name)
            old.close() if clean else old.crash()
            self.alive[name] = self.members.start(
                group=self.group, instance_id=f"{self.group}-{name}", client_id=f"{self.group}-{name}", **self.options
            )
            self.alive[name].wait_assigned()

    def send(self, name, expected, command, *allowed, partitions=None, **data):
        with self.step(expected, *allowed):
            count = len(self.alive[name].of_kind("assigned"))
            self.alive[name].send(command, **data)
            self.partitions = partitions or self.partitions
            self.alive[name].wait_for(lambda: len(self.alive[name].of_kind("assigned")) > count, "another assignment")


def _now():
    return time.time_ns() // 1_000_000


def dynamic(stage, rd, protocol):
    drive = stage.drive(rd, f"{protocol}-dynamic", protocol=protocol, assignor="range")
    for name in ("a", "b", "c"):
        drive.start(name)
    drive.close("c")
    drive.crash("b")
    drive.start("b", "bounce")
    drive.send("a", "subscription-change", "subscribe", topics=["events", "extra"], partitions=8)
    drive.partitions = 6  # no other member subscribes to `extra`
    drive.close("a")
    drive.close("b", "all-gone")


def static(stage, rd, protocol):
    drive = stage.drive(rd, f"{protocol}-static", protocol=protocol, assignor="range", static=True)
    for name in ("a", "b"):
        drive.start(name)
    drive.bounce("b", clean=True)
    if protocol == "classic":
        drive.bounce("b", clean=False)
    drive.crash("b")
    drive.start("b", "bounce")
    drive.close("b", "session-expiry")
    drive.start("b", "bounce")
    with drive.step("admin-removal"):
        drive.alive.pop("b").close()
        assert stage.broker.remove(drive.group, f"{drive.group}-b") == [0]


def cooperative(stage, rd):
    drive = stage.drive(rd, "cooperative", assignor="cooperative-sticky")
    drive.start("a")
    drive.start("b")
    drive.close("b")
    drive.start("b", "bounce")
    drive.crash("b")


def growing(stage, rd, protocol, topic):
    count = stage.broker.partitions(topic)
    drive = stage.drive(rd, f"{protocol}-grows", topics=[topic], partitions=count, protocol=protocol, assignor="range")
    drive.start("a")
    drive.start("b")
    with drive.step("partition-change", "metadata-change"):
        stage.broker.grow(topic, count + 2)
        drive.partitions = count + 2


def java(stage, jvm):
    drive = stage.drive(jvm, "java", assignor="range", max_poll_interval_ms=MAX_POLL_MS)
    drive.start("a")
    drive.start("b")
    drive.send("b", "rejoin", "enforce")
    with drive.step("max-poll", "bounce", loses="b"):
        drive.alive["b"].stall(MAX_POLL_MS + 3_000)
        drive.alive["a"].wait_for(lambda: len(drive.alive["a"].assignment) == 6, "all partitions", timeout_s=60)
        drive.alive["b"].wait_for(lambda: drive.alive["b"].events[-1].kind == "assigned", "its return", timeout_s=60)
    drive.close("b")


def converted(stage, rd):
    drive = stage.drive(rd, "converted", assignor="range")
    drive.start("a")
    drive.start("b")
    drive.start("c", "join", "conversion", protocol="consumer", assignor=None)


def moved(stage, rd):
    """The coordinator restarts within the sessions of the members."""
    drive = stage.drive(rd, "moved", assignor="range", session_timeout_ms=45_000)
    drive.start("a")
    drive.start("b")
    with drive.step(None):
        stage.broker.cluster.restart(1)
        for member in drive.alive.values():  # each has found the coordinator again
            until(
                lambda member=member: member.commit().kind == "committed", f"{member.name} cannot commit", every_s=0.1
            )
    drive.start("c")


def _play(broker, script, *args):
    """Run a script; run it again, with other group names, if its clients did not do what it asked for. On a machine
    that pauses for a moment, librdkafka loses the response to a heartbeat and does not revoke its partitions until the
    broker removes it: then what happened is not what was done."""
    for attempt in range(_ATTEMPTS):
        stage = Stage(broker, attempt)
        try:
            script(stage, *args)
        except TimeoutError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            broker.steps += stage.steps
            return


def drive_all(broker, *, seed=0):
    """Run all scripts, a few at a time, and the coordinator's restart at the end."""
    with RdMembers(broker.cluster.bootstrap) as rd, JavaMembers(broker.cluster.bootstrap) as jvm:
        scripts = [
            (static, rd, "consumer"), (static, rd, "classic"), (java, jvm), (dynamic, rd, "consumer"),
            (dynamic, rd, "classic"), (cooperative, rd), (growing, rd, "classic", "grows"),
            (growing, rd, "consumer", "grows-too"), (converted, rd),
        ]  # fmt: skip
        if seed:
            random.Random(seed).shuffle(scripts)
        with ThreadPoolExecutor(5) as pool:
            for each in [pool.submit(_play, broker, script, *args) for script, *args in scripts]:
                each.result()
        _play(broker, moved, rd)
        broker.quiet()

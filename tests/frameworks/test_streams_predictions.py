"""What is predicted of a Kafka Streams application that rebalances, and what real ones do.

A probing rebalance comes after 60 s at the earliest: a scene takes a minute or two."""

from __future__ import annotations

import json
import uuid

import pytest

from kgm.client import connect
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from kgm.model.errors import NotFoundError
from kgm.operations.bounce.prediction import simulate
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.streams.group import ACCEPTABLE_LAG, PROBING_INTERVAL, STANDBYS
from tests.cli.runner import kgm
from tests.frameworks.streams_apps import HEARTBEAT_MS, StreamsApps
from tests.frameworks.wishes import fulfilled
from tests.kafka.records import produce
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.scenes, pytest.mark.slow, pytest.mark.long]
PARTITIONS, THREADS, INTERVAL_MS = 4, 2, 60_000
NAMES = ("wr-1", "wr-2", "wr-3")


class Scene:
    """Processes of two threads. lag: `acceptable.recovery.lag`; with 0, only a copy that has everything has caught
    up, so that little state is as good as much."""

    def __init__(self, bootstrap, apps, group, *, standbys, lag, is_static, session_ms):
        self.bootstrap, self.apps, self.group, self.session_ms = bootstrap, apps, group, session_ms
        self.standbys, self.lag, self.is_static = standbys, lag, is_static
        self.running = []

    def start(self, *names):
        config = {
            "acceptable.recovery.lag": str(self.lag),
            "probing.rebalance.interval.ms": str(INTERVAL_MS),
            "consumer.session.timeout.ms": str(self.session_ms),
        }
        for name in names:
            self.apps.start(name, threads=THREADS, standbys=self.standbys, is_static=self.is_static, config=config)
            self.running.append(name)

    def stop(self, name):
        self.apps.close(name)
        self.running.remove(name)

    def describe(self):
        with connect(self.bootstrap, timeout_ms=20_000) as cluster:
            return with_logged_timeouts(cluster, cluster.describe_group(self.group))

    def rest(self, *, is_settled=True):
        """The group once all processes that run have their tasks, and nothing else is in it."""
        found = []

        def is_at_rest():
            try:
                found[:] = [self.describe()]
            except NotFoundError:
                return False
            group = found[0]
            active = sorted(task for one in group.members if one.work for task in one.work.active_tasks or ())
            every = sorted(f"{sub}_{number}" for sub in (0, 1) for number in range(PARTITIONS))
            is_whole = group.state == "Stable" and len(group.members) == THREADS * len(self.running)
            # Until all words are counted there is no state to move, or only some of it.
            is_whole = is_whole and [row.lag for row in group.offsets] == [0] * 2 * PARTITIONS
            is_running = all(self.apps.threads(name) for name in self.running)
            return is_whole and active == every and group.is_settled is is_settled and is_running

        until(is_at_rest, lambda: f"{self.group} does not come to rest: {found}", 240, every_s=0.5)
        return found[0]

    def threads(self, group, name):
        process = self.apps.threads(name)[0].process_id
        return tuple(sorted(one.identity for one in group.members if one.work.process_id == process))

    def restart_of(self, group, name):
        threads = self.threads(group, name)
        return {"bounce": threads, "units": (threads,), "restart_time_ms": 3_000}

    def predict(self, group, **plan):
        settings = {STANDBYS: str(self.standbys), ACCEPTABLE_LAG: str(self.lag), PROBING_INTERVAL: str(INTERVAL_MS)}
        known = simulate(group, Plan(**plan, settings=settings, heartbeat_interval_ms=HEARTBEAT_MS), draws=60)
        unknown = simulate(group, Plan(**plan), draws=60)
        return known, unknown

    def check(self, before, after, predictions):
        """The number of rebalances is in the range, with the settings of the application and without."""
        rebalances = after.generation - before.generation
        for one in predictions:
            if one.exact:
                assert rebalances == one.typical.generations
            else:
                assert one.ranges.generations.min <= rebalances <= one.ranges.generations.max


@pytest.fixture
def scene(kafka, request):
    group, topic = f"app-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: PARTITIONS})
    # So many words that each task has some: a new process lags behind in all of them.
    produce(kafka.bootstrap, topic, [b"word-%d" % number for number in range(80)] * 4, range(PARTITIONS))
    with StreamsApps(kafka.bootstrap, group, topic) as apps:
        made = Scene(kafka.bootstrap, apps, group, **request.param)
        made.start(*NAMES)
        yield made


SCENES = [
    pytest.param(
        {"standbys": standbys, "lag": lag, "is_static": is_static, "session_ms": 10_000},
        id=f"{standbys}-{lag}-{'static' if is_static else 'dynamic'}",
    )
    for standbys in (0, 1)
    for lag in (0, 10_000)
    for is_static in (True, False)
]


@pytest.mark.parametrize("scene", SCENES, indirect=True)
def test_a_process_is_gone_and_comes_back(scene):
    settled = scene.rest()
    plan = scene.predict(settled, scale_in=scene.threads(settled, "wr-3"), stop=Stop.CRASH)
    scene.stop("wr-3")
    without = scene.rest()
    scene.check(settled, without, plan)
    plan = scene.predict(without, scale_out=THREADS)
    scene.start("wr-3")
    back = scene.rest()
    scene.check(without, back, plan)


@pytest.mark.parametrize(
    "scene",
    [pytest.param({"standbys": n, "lag": 0, "is_static": True, "session_ms": 60_000}, id=f"{n}") for n in (0, 1)],
    indirect=True,
)
def test_a_process_is_added_and_others_restart_or_are_removed(scene):
    """The first restart is while the application still moves tasks to the new process; the second one once it has come
    to rest, which is exact."""
    settled = scene.rest()
    scene.start("wr-4")
    moving = scene.rest(is_settled=False)
    plan = scene.predict(moving, **scene.restart_of(moving, "wr-1"))
    assert not any(one.exact for one in plan)
    scene.stop("wr-1")
    scene.start("wr-1")
    after = scene.rest()
    scene.check(moving, after, plan)
    assert after.generation > settled.generation
    plan = scene.predict(after, **scene.restart_of(after, "wr-2"))
    assert all(one.exact and one.typical.rebalances == 0 for one in plan)
    scene.stop("wr-2")
    scene.start("wr-2")
    again = scene.rest()
    scene.check(after, again, plan)
    threads = scene.threads(again, "wr-3")
    plan = scene.predict(again, remove=threads)
    scene.stop("wr-3")
    words = ["remove-members", scene.group, "--unit", threads[0], "--assume-stopped", "--yes"]
    run = kgm(*words, "-b", scene.bootstrap, timeout_s=120)
    assert run.code == 0, run
    scene.check(again, scene.rest(), plan)


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param({"standbys": n, "lag": lag, "is_static": False, "session_ms": 10_000}, id=f"{n}-{lag}")
        for n, lag in ((0, 10_000), (0, 0), (1, 0), (1, 10_000))
    ],
    indirect=True,
)
def test_a_rollout_of_dynamic_threads_waits_until_each_process_has_its_tasks(scene, tmp_path):
    """No thread leaves when it is closed: there is a rebalance when its session ends, one when it is back, and more
    until tasks are where they are to be. The application still moves tasks to a new process when the rollout begins."""
    scene.rest()
    scene.start("wr-4")
    is_moving = scene.lag == 0
    before = scene.rest(is_settled=not is_moving)
    names = {thread: name for name in scene.running for thread in scene.threads(before, name)}
    words = ["rollout", scene.group, "--all", "--exec", f"touch {tmp_path}/{{member_id}}", "--yes", "--settle", "2s"]
    words += ["--restart-time", "3s", "--heartbeat-interval", f"{HEARTBEAT_MS}ms"]
    words += ["--set", f"{PROBING_INTERVAL}={INTERVAL_MS}"]
    words += ["--set", f"{ACCEPTABLE_LAG}={scene.lag}", "--set", f"{STANDBYS}={scene.standbys}"]

    def fulfil(thread):
        scene.stop(names[thread])
        scene.start(names[thread])

    with fulfilled(tmp_path, fulfil):
        run = kgm(*words, "-o", "ndjson", "-b", scene.bootstrap, timeout_s=1500)
    assert run.code == 0, run
    assert ("not settled: a member starts another rebalance" in run.err) is is_moving
    events = [json.loads(line) for line in run.out.splitlines()]
    commands = [event["command"][-1] for event in events if event["command"] and event["result"] is None]
    assert sorted(names[one.rpartition("/")[2]] for one in commands) == sorted(scene.running)
    after = scene.rest()
    assert {one.member_id for one in after.members}.isdisjoint(names)

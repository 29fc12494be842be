"""A rollout waits for rebalances that a Kafka Streams application has scheduled: on a virtual clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client.poller import PolledGroup
from kgm.model.errors import ConditionNotMet, RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.rollout import rollout, session
from kgm.operations.rollout.expectation import ExpectedRange, StepExpectation
from kgm.operations.rollout.observation import GroupObservation, next_rebalance_ms
from kgm.operations.rollout.progress import BegunCommand, OpenStep, RolloutProgress
from kgm.operations.rollout.spec import RolloutLimits, RolloutSpec, RolloutStep, StepKind
from kgm.operations.rollout.tools import RolloutTools
from kgm.text.timestamps import rfc3339
from tests.operations.watch.virtual_time import VirtualTime


def group_of(generation, member_id="a-2"):
    member = MemberSnapshot(member_id=member_id, group_instance_id="a", status="stable", topics=("t",))
    return GroupSnapshot(
        group_id="g", type="classic", state="Stable", members=(member,), generation=generation,
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
    )  # fmt: skip


AT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DUE = {"is_settled": False, "next_rebalance_at": "2026-01-01T00:01:00.000Z"}


def test_a_step_is_not_over_while_a_member_is_to_start_another_rebalance():
    """A Kafka Streams application is Stable between two probes. While its members are away it need not be at rest."""
    observation = GroupObservation("g", Poller(lambda: replace(group_of(4), **DUE)), VirtualTime())
    observation.poll()
    observation.resume(RolloutStep(kind=StepKind.BOUNCE, members=()), group_of(4), is_acknowledged=False)
    assert observation.missing() == ["not settled: a member starts another rebalance, due at 2026-01-01T00:01:00.000Z"]
    observation.expect_away(is_away=True)
    assert observation.missing() == []


@pytest.mark.parametrize(
    ("group", "now_ms", "due_ms"),
    [
        (replace(group_of(4), **DUE), AT_MS, AT_MS + 60_000),
        (replace(group_of(4), **DUE), AT_MS + 60_000, None),  # it is over
        (replace(group_of(4), **DUE), AT_MS - 3_600_000, None),  # too late to be waited for
        (replace(group_of(4), is_settled=False, unassigned_until=DUE["next_rebalance_at"]), AT_MS, AT_MS + 60_000),
        (replace(group_of(4), **(DUE | {"next_rebalance_at": "1970-01-01T00:00:00.000Z"})), AT_MS, None),  # at once
        (replace(group_of(4), **(DUE | {"is_settled": None})), AT_MS, None),
        (replace(group_of(4), is_settled=False), AT_MS, None),
        (None, AT_MS, None),
    ],
)
def test_when_the_next_rebalance_is_due(group, now_ms, due_ms):
    assert next_rebalance_ms(group, now_ms) == due_ms


class Poller:
    def __init__(self, describe):
        self._describe = describe

    def poll(self):
        return {"g": PolledGroup(seen=self._describe())}

    def read_back(self):
        return {}


class Cluster:
    """An application with probes every minute until it is settled. probes: how many. It counts as asked at each look."""

    def __init__(self, clock: VirtualTime, probes: int) -> None:
        self._clock, self._probes, self._began_ms = clock, probes, clock.now_ms()

    def renew(self, timeout_ms: int | None = None) -> None:
        pass

    def describe_group(self, group_id: str, *, offsets: bool = True) -> GroupSnapshot:
        done = (self._clock.now_ms() - self._began_ms) // 60_000
        settled = done >= self._probes
        due = None if settled else rfc3339(self._began_ms + 60_000 * (done + 1))
        return replace(group_of(4 + done), is_settled=settled, next_rebalance_at=due)


@pytest.mark.parametrize(
    ("probes", "limit_ms", "waits_ms"), [(0, None, 0), (3, None, 180_000), (3, 200_000, 180_000), (3, 100_000, None)]
)
def test_a_rollout_begins_when_the_application_is_settled(monkeypatch, probes, limit_ms, waits_ms):
    clock = VirtualTime()
    cluster, began_ms, told = Cluster(clock, probes), clock.now_ms(), []
    monkeypatch.setattr(session, "live_group", lambda of, name: BounceGroup(snapshot=of.describe_group(name)))
    limits = RolloutLimits(settle_ms=0, step_timeout_ms=limit_ms)
    unsettled = BounceGroup(snapshot=cluster.describe_group("g"))

    def wait():
        return session.settled_group(cluster, unsettled, limits, clock, told.append).snapshot

    if waits_ms is None:
        with pytest.raises(RefusedError, match="nothing was done: group 'g' does not come to rest: not settled"):
            wait()
        return
    assert wait().generation == 4 + probes
    assert 0 <= clock.now_ms() - began_ms - waits_ms <= limits.interval_ms
    assert bool(told) is bool(probes)


class Recorder:
    """A journal and an observer."""

    path = "j.ndjson"
    is_gone = False

    def __init__(self):
        self.events = []

    def write(self, kind, **data):
        pass

    def show(self, event):
        self.events.append(event.text)


def run(clock, cluster, limits, progress, poller=None):
    """(the report, what was told)."""
    recorder = Recorder()
    poller = poller or Poller(lambda: cluster.describe_group("g"))
    tools = RolloutTools(
        cluster=cluster, observation=GroupObservation("g", poller, clock),
        journal=recorder, observer=recorder, timekeeper=clock, operator=None, audit=None, timeout_ms=1_000,
        environment={}, interrupted_code=lambda: 130,
    )  # fmt: skip
    step = RolloutStep(kind=StepKind.BOUNCE, members=("a",))
    spec = RolloutSpec(group_id="g", steps=(step,), command="true", limits=limits, restart_time_ms=1_000)
    return rollout.Rollout(spec, progress, tools).run(), recorder.events


EXPECTED = StepExpectation(
    rebalances=ExpectedRange(least=0, most=40), handovers=ExpectedRange(least=0, most=0), exact=False
)


class Interrupted(Poller):
    """After the first poll, the log cannot be read for a while."""

    def __init__(self, clock, for_ms):
        self._clock, self._ends_ms, self._polls = clock, clock.now_ms() + for_ms, 0

    def poll(self):
        self._polls += 1
        is_read = self._polls == 1 or self._clock.now_ms() >= self._ends_ms
        return {"g": PolledGroup(seen=group_of(4), log_interrupted_because=None if is_read else "no answer")}


@pytest.mark.parametrize("for_ms", [30_000, 3_600_000])
def test_a_step_is_not_over_while_the_log_may_have_more(for_ms):
    clock = VirtualTime()
    cluster, began_ms = Cluster(clock, probes=0), clock.now_ms()
    opened = OpenStep(
        before=group_of(4, "a-1"), expected=EXPECTED,
        commands={"a": BegunCommand(member_ids={"a": "a-1"}, has_ended=True, is_success=True)},
    )  # fmt: skip
    progress = RolloutProgress(left=opened.before, overall=None, open_step=opened, has_run=True)
    limits = RolloutLimits(settle_ms=0, step_timeout_ms=100_000)
    report, _ = run(clock, cluster, limits, progress, Interrupted(clock, for_ms))
    if for_ms < limits.step_timeout_ms:
        assert (report.error, report.steps_done) == (None, 1)
        assert clock.now_ms() - began_ms >= for_ms
    else:
        assert report.error.exit_code == 7
        assert "not known: no answer" in report.error.message


def test_what_happened_before_kgm_was_killed_is_not_known_if_the_log_does_not_tell():
    """Which is exit code 7, not a deviation: nothing was seen that was not predicted. The operator may go on."""
    opened = OpenStep(
        before=group_of(2, "a-1"), expected=EXPECTED,
        commands={"a": BegunCommand(member_ids={"a": "a-1"}, has_ended=True, is_success=True)},
    )  # fmt: skip
    for accept_unseen, was_stopped in ((False, False), (True, False), (False, True)):
        progress = RolloutProgress(
            left=opened.before, overall=None, open_step=opened, has_run=True, was_stopped=was_stopped
        )  # fmt: skip
        limits = RolloutLimits(settle_ms=0, step_timeout_ms=100_000, accept_unseen=accept_unseen)
        report, _ = run(VirtualTime(), None, limits, progress, Poller(lambda: group_of(4)))
        if accept_unseen or was_stopped:
            assert (report.error, report.steps_done) == (None, 1)
        else:
            assert report.error.exit_code == 7
            assert report.error.message.startswith("what happened in step 1 is not known: ")


@pytest.mark.parametrize("limit_ms", [None, 100_000])
def test_a_step_is_over_when_the_application_is_settled(limit_ms):
    """Its command has ended before kgm was killed. --step-timeout is the limit, if there is one."""
    clock = VirtualTime()
    cluster, began_ms = Cluster(clock, probes=20), clock.now_ms()
    opened = OpenStep(
        before=replace(group_of(4, "a-1"), is_settled=True), expected=EXPECTED,
        commands={"a": BegunCommand(member_ids={"a": "a-1"}, has_ended=True, is_success=True)},
    )  # fmt: skip
    progress = RolloutProgress(left=opened.before, overall=None, open_step=opened, has_run=True)
    limits = RolloutLimits(settle_ms=0, step_timeout_ms=limit_ms, accept_unseen=True)
    report, told = run(clock, cluster, limits, progress)
    took_ms = clock.now_ms() - began_ms
    if limit_ms is None:
        assert (report.error, report.steps_done) == (None, 1)
        assert 20 * 60_000 <= took_ms < 21 * 60_000
        assert sum("another rebalance, due at" in text for text in told) == 20
    else:
        assert isinstance(report.error, ConditionNotMet)
        assert limit_ms <= took_ms < 2 * limit_ms
        assert any("not settled: a member starts another rebalance" in text for text in told)


def test_a_resumed_rollout_waits_before_its_next_step(monkeypatch):
    clock = VirtualTime()
    cluster, began_ms, stop = Cluster(clock, probes=3), clock.now_ms(), RefusedError("far enough")

    def live_group(of, name):
        raise stop

    monkeypatch.setattr(rollout, "live_group", live_group)
    progress = RolloutProgress(left=group_of(4), overall=None, was_stopped=True)
    report, _ = run(clock, cluster, RolloutLimits(settle_ms=0, accept_unseen=True), progress)
    assert report.error is stop
    assert 180_000 <= clock.now_ms() - began_ms < 190_000

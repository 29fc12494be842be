"""`kgm demo`: the main job, end to end, with nothing installed but kgm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgm.cli.options.common import Common, common
from kgm.cli.output.streams import put
from kgm.model.assignment import Move, moves
from kgm.text.sanitize import clean
from kgm.text.wording import many, moves_text

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.demo.fleet import Member
    from kgm.server import EmbeddedServer
    from kgm.simulation.plan.bounce_plan import Plan
    from kgm.simulation.report.report import Scenario

SCHEMA = "kgm.demo/v1"
GROUP, TOPIC, PARTITIONS, RECORDS = "payments", "transactions", 12, 600
SEATS = ("payments-1", "payments-2", "payments-3")
INITIAL_DELAY_MS = 500
#: How long the bounced member stays away, and the group is watched afterwards.
RESTART_MS, QUIET_S = 1500, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A prediction beside what then happened."""

    name: str
    predicted_rebalances: int
    actual_rebalances: int
    predicted_moves: tuple[Move, ...]
    actual_moves: tuple[Move, ...]

    @property
    def holds(self) -> bool:
        return (self.predicted_rebalances, self.predicted_moves) == (self.actual_rebalances, self.actual_moves)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "predicted": {"rebalances": self.predicted_rebalances, "moves": _moves_json(self.predicted_moves)},
            "actual": {"rebalances": self.actual_rebalances, "moves": _moves_json(self.actual_moves)},
            "holds": self.holds,
        }


@dataclass(slots=True)
class _Stage:
    """The running demo: the coordinator, the fleet, and what is told to whom."""

    server: EmbeddedServer
    common: Common
    fleet: dict[str, Member] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    snapshots: dict[str, GroupSnapshot] = field(default_factory=dict)

    def say(self, text: str = "") -> None:
        if not self.common.is_data:
            put("".join(clean(line) + "\n" for line in text.split("\n")))

    def look(self, name: str) -> GroupSnapshot:
        """Describe the group as `kgm describe` does."""
        from kgm.client import connect

        with connect(self.server.bootstrap, timeout_ms=5000) as cluster:
            snapshot = cluster.describe_group(GROUP)
        self.snapshots[name] = snapshot
        return snapshot

    def generation(self) -> int:
        """The coordinator's own counter, which no Kafka API tells."""

        def ask(coordinator: Any) -> int:
            view = coordinator.group(GROUP)
            return 0 if view is None else int(view.generation)

        return self.server.inspect(ask)


@common
def demo(*, common: Common) -> None:
    """Show the main job end to end, on the embedded coordinator.

    Real librdkafka consumers form a static group; it is described, a bounce is predicted, done for real and compared;
    then a member is removed, predicted and compared too. Takes about ten seconds and changes nothing on any cluster.
    """
    from kgm.coordinator.contract.settings import BrokerSettings
    from kgm.server import serve_in_thread

    settings = BrokerSettings.from_overrides({"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)})
    with serve_in_thread(topics={TOPIC: PARTITIONS}, settings=settings) as server:
        stage = _Stage(server=server, common=common)
        try:
            _gather(stage)
            _bounce(stage)
            _remove(stage)
        finally:
            for member in stage.fleet.values():
                member.stop()
    _conclude(stage)


def _gather(stage: _Stage) -> None:
    """A static group, stable and consuming."""
    from kgm.operations.demo.fleet import Member, produce, wait_until

    stage.say(f"1. A coordinator of our own listens on {stage.server.bootstrap}; three consumers (librdkafka) join it")
    stage.say(f"   as static members of group {GROUP!r}: each has a group.instance.id.\n")
    produce(stage.server.bootstrap, TOPIC, RECORDS)
    for seat in SEATS:
        member = Member(stage.server.bootstrap, GROUP, seat, TOPIC)
        stage.fleet[seat] = member
        member.start()
    wait_until("the group is stable", lambda: sum(len(member.owned) for member in stage.fleet.values()) == PARTITIONS)
    wait_until("all records are read", lambda: sum(member.consumed for member in stage.fleet.values()) >= RECORDS)
    wait_until("offsets are committed", lambda: all(row.lag == 0 for row in stage.look("before").offsets))
    stage.say(f"   $ kgm describe {GROUP}")
    _show(stage, stage.snapshots["before"])


def _bounce(stage: _Stage) -> None:
    """Predict a bounce, bounce, compare."""
    import time

    from kgm.operations.demo.fleet import wait_until
    from kgm.simulation.plan.bounce_plan import Membership, Plan

    seat = SEATS[1]
    before, generation = stage.snapshots["before"], stage.generation()
    stage.say(f"2. What would a restart of {seat} do? It is back within its session timeout.\n")
    stage.say(f"   $ kgm simulate-bounce {GROUP} --instance-ids {seat} --restart-time {RESTART_MS / 1000:g}s --compare")
    static = _predict(stage, Plan(bounce=(seat,), restart_time_ms=RESTART_MS, **_as_configured()))
    dynamic = _predict(
        stage, Plan(bounce=(seat,), restart_time_ms=RESTART_MS, **_as_configured(membership=Membership.DYNAMIC))
    )
    for name, scenario in (("as is (static)", static), ("were it dynamic", dynamic)):
        stage.say(f"   {name:<16} {_summary(scenario)}")
    stage.say("\n3. Now the real bounce.\n")
    others = [stage.fleet[name] for name in SEATS if name != seat]
    revoked = sum(member.revoked for member in others)
    stage.fleet[seat].stop()
    time.sleep(RESTART_MS / 1000)
    stage.fleet[seat].start()
    wait_until(f"{seat} owns partitions again", lambda: bool(stage.fleet[seat].owned))
    time.sleep(QUIET_S)
    after = stage.look("bounced")
    _compare(stage, "bounce", static, before, after, stage.generation() - generation)
    lost = sum(member.revoked for member in others) - revoked
    stage.say(f"   The other members lost {lost} partitions on the way.\n")


def _remove(stage: _Stage) -> None:
    """Predict a removal, remove in one LeaveGroup, compare."""
    from kgm.client import connect
    from kgm.operations.demo.fleet import wait_until
    from kgm.operations.removal import removal
    from kgm.operations.removal.operator import current_operator
    from kgm.operations.removal.request import RemovalRequest
    from kgm.simulation.plan.bounce_plan import Plan

    seat = SEATS[2]
    before, generation = stage.snapshots["bounced"], stage.generation()
    stage.say(f"4. {seat} is stopped for good. Its seat would stay until its session ends; a removal frees it.\n")
    scenario = _predict(stage, Plan(remove=(seat,), **_as_configured()))
    stage.fleet.pop(seat).stop()
    stage.say(f"   $ kgm remove-members {GROUP} --instance-ids {seat} --yes")
    with connect(stage.server.bootstrap, timeout_ms=10_000) as cluster:
        wanted = RemovalRequest(group_id=GROUP, instance_ids=(seat,), reason="kgm demo", assume_stopped=True)
        prepared = removal.prepare(cluster, wanted)
        report = removal.execute(cluster, prepared, operator=current_operator(), audit=None)
    for result in report.results:
        stage.say(f"   {result.target.id}  {result.result.value}")
    stage.say()
    wait_until("the others own everything", lambda: sum(len(m.owned) for m in stage.fleet.values()) == PARTITIONS)
    after = stage.look("removed")
    _compare(stage, "removal", scenario, before, after, stage.generation() - generation)
    stage.say(f"\n   $ kgm describe {GROUP}")
    _show(stage, after)


def _as_configured(**what_if: Any) -> dict[str, Any]:
    """What no API tells of a group, but the demo knows of its fleet."""
    from kgm.operations.demo.fleet import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
    from kgm.simulation.plan.bounce_plan import WhatIf

    return {
        "what_if": WhatIf(session_timeout_ms=SESSION_TIMEOUT_MS, **what_if),
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "settings": {"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)},
    }


def _predict(stage: _Stage, plan: Plan) -> Scenario:
    from kgm.simulation.bounce import simulate

    latest = stage.snapshots.get("bounced") or stage.snapshots["before"]
    return simulate(latest, plan, draws=40)


def _summary(scenario: Scenario) -> str:
    typical = scenario.typical
    seconds = typical.stopped_partition_ms / 1000
    certainty = "exact" if scenario.exact else "typical of many draws"
    return (
        f"{many(typical.rebalances, 'rebalance')}, {many(typical.moved_partitions, 'move')}, "
        f"{seconds:.1f} partition-seconds without a consumer ({certainty})"
    )


def _compare(
    stage: _Stage, name: str, scenario: Scenario, before: GroupSnapshot, after: GroupSnapshot, rebalances: int
) -> None:
    typical = scenario.typical
    predicted = (
        Move(topic=m.topic, partition=m.partition, owner_before=m.owner_before, owner_after=m.owner_after)
        for m in typical.moves
    )
    check = Check(
        name=name,
        predicted_rebalances=typical.rebalances,
        actual_rebalances=rebalances,
        predicted_moves=tuple(sorted(predicted, key=lambda move: (move.topic, move.partition))),
        actual_moves=moves(_by_identity(before), _by_identity(after)),
    )
    stage.checks.append(check)
    stage.say(f"   predicted  {_counts(check.predicted_rebalances, check.predicted_moves)}")
    stage.say(f"   happened   {_counts(check.actual_rebalances, check.actual_moves)}")
    stage.say(f"   -> {'the prediction held' if check.holds else 'THE PREDICTION WAS WRONG'}")


def _by_identity(snapshot: GroupSnapshot) -> dict[str, Any]:
    return {member.identity: member.assignment for member in snapshot.members}


def _counts(rebalances: int, moved: tuple[Move, ...]) -> str:
    shown = f": {moves_text(moved)}" if moved else ""
    return f"{many(rebalances, 'rebalance')}, {many(len(moved), 'move')}{shown}"


def _moves_json(moved: Iterable[Move]) -> list[dict[str, Any]]:
    return [
        {"topic": move.topic, "partition": move.partition, "from": move.owner_before, "to": move.owner_after}
        for move in moved
    ]


def _show(stage: _Stage, snapshot: GroupSnapshot) -> None:
    from kgm.cli.commands.describe import members_table
    from kgm.cli.output.report import Report, rendered

    if stage.common.is_data:
        return
    text = rendered(Report(schema=SCHEMA, data={}, tables=[members_table(snapshot)]), stage.common)
    put(text + "\n")


def _conclude(stage: _Stage) -> None:
    """The verdict; a prediction that reality contradicts is kgm's worst bug, so it is an error."""
    from kgm.cli.output.report import Report, emit
    from kgm.model.errors import KgmError

    if stage.common.is_data:
        data = {
            "checks": [check.to_json() for check in stage.checks],
            "groups": [snapshot.to_json() for snapshot in stage.snapshots.values()],
        }
        items = [check.to_json() for check in stage.checks]
        emit(Report(schema=SCHEMA, data=data, items=items, names=[check.name for check in stage.checks]), stage.common)
    wrong = [check.name for check in stage.checks if not check.holds]
    if wrong:
        raise KgmError(f"the demo's prediction was wrong for: {', '.join(wrong)}", hint="please report this as a bug")
    stage.say("Everything went as predicted. Next: kgm serve, or kgm list -b HOST:PORT on a cluster of yours.")

"""kgm's main job from end to end: a static group; a bounce and a removal, each predicted, carried out and compared;
what the guard sees of members that are alive and of members that have stopped; and what the group's history says
afterwards."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kgm.client import AdminClient, connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.assignment import Move, moves
from kgm.model.changes import owned
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.change.operator import current_operator
from kgm.operations.demo.consumers import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    DemoConsumer,
    check_installed,
    feed,
    produce,
    wait_until,
)
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.removal import PreparedRemoval
from kgm.operations.removal.request import RemovalRequest
from kgm.simulation.plan.bounce_plan import Membership, Plan, WhatIf
from kgm.simulation.report.prediction import Prediction

if TYPE_CHECKING:
    from kgm.operations.history.explanation import Explanation
    from kgm.server import EmbeddedServer

GROUP: Final = "payments"
INSTANCE_IDS: Final = ("payments-1", "payments-2", "payments-3")
_TOPIC, _PARTITIONS, _RECORDS = "transactions", 12, 600
_INITIAL_DELAY_MS: Final = 500
#: How long the bounced consumer stays stopped, and how long the group is left alone before it is described.
_RESTART_MS, _QUIET_S = 1500, 1.2
_DRAWS: Final = 40
#: How many commits of a member the log must show before the member stops, and how long the guard may then watch it.
_COMMITS: Final = 6
GUARD_WINDOW_MS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change does to a group. moves: sorted by topic and partition."""

    rebalances: int
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionCheck:
    """A prediction, and what actually happened."""

    name: str
    predicted: Effect
    actual: Effect

    @property
    def holds(self) -> bool:
        return self.predicted == self.actual


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStarted:
    """The embedded coordinator accepts connections."""

    bootstrap: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFormed:
    """All consumers have joined, read all records and committed."""

    snapshot: GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BouncePredicted:
    """What a restart of one member would do: as it is (static), and as if it were dynamic."""

    instance_id: str
    restart_time_ms: int
    static: Prediction
    dynamic: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class BounceDone:
    """The restart, compared with its prediction. lost_by_others: partitions that the other members had to give up."""

    check: PredictionCheck
    snapshot: GroupSnapshot
    lost_by_others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRefused:
    """The guard refused to remove a member that is alive. results: for the members that were to be removed."""

    instance_id: str
    results: tuple[MemberResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStopped:
    """A consumer that is stopped for good, before it is removed."""

    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRemoved:
    """The member was removed; the results say whether that worked."""

    instance_id: str
    results: tuple[MemberResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalDone:
    """The removal, compared with its prediction."""

    check: PredictionCheck
    snapshot: GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAsked:
    """Why the group last rebalanced, by its records. explanation: None if numpy or pyarrow is not installed."""

    explanation: Explanation | None


DemoStep: TypeAlias = (
    CoordinatorStarted
    | GroupFormed
    | BouncePredicted
    | BounceDone
    | RemovalRefused
    | MemberStopped
    | MemberRemoved
    | RemovalDone
    | HistoryAsked
)


def run_demo() -> Iterator[DemoStep]:
    """Run the demo, which takes about half a minute. Raises KgmError if a step does not succeed in time, UsageError if
    confluent-kafka is not installed."""
    check_installed()
    from kgm.server import serve_in_thread

    settings = BrokerSettings.from_overrides({"group.initial.rebalance.delay.ms": str(_INITIAL_DELAY_MS)})
    with serve_in_thread(topics={_TOPIC: _PARTITIONS}, settings=settings) as server:
        running = _RunningDemo(server=server)
        try:
            yield CoordinatorStarted(bootstrap=server.bootstrap)
            yield running.form_group()
            yield running.predict_bounce()
            yield running.bounce()
            with feed(server.bootstrap, _TOPIC, _PARTITIONS):
                yield running.refuse()
                running.stop_leaver()
                yield MemberStopped(instance_id=running.leaver)
                yield running.remove()
                yield running.compare_removal()
            yield running.ask_history()
        finally:
            for consumer in running.fleet.values():
                consumer.stop()


@dataclass(slots=True)
class _RunningDemo:
    """The state of a running demo."""

    server: EmbeddedServer
    fleet: dict[str, DemoConsumer] = field(default_factory=dict)
    #: The group as it was last described, and its generation at that time.
    latest: GroupSnapshot | None = None
    generation: int = 0
    #: The prediction to compare next.
    predicted: Effect | None = None

    bounced: str = INSTANCE_IDS[1]
    leaver: str = INSTANCE_IDS[2]

    def form_group(self) -> GroupFormed:
        produce(self.server.bootstrap, _TOPIC, _RECORDS)
        for instance_id in INSTANCE_IDS:
            consumer = DemoConsumer(self.server.bootstrap, GROUP, instance_id, _TOPIC)
            self.fleet[instance_id] = consumer
            consumer.start()
        wait_until("the group is stable", self._owns_everything)
        wait_until("all records are read", lambda: sum(one.consumed for one in self.fleet.values()) >= _RECORDS)
        wait_until("offsets are committed", lambda: all(row.lag == 0 for row in self._describe().offsets))
        return GroupFormed(snapshot=self._look())

    def predict_bounce(self) -> BouncePredicted:
        bounce = (self.bounced,)
        static = self._predict(Plan(bounce=bounce, restart_time_ms=_RESTART_MS, **_fleet_settings()))
        if_dynamic = _fleet_settings(membership=Membership.DYNAMIC)
        dynamic = self._predict(Plan(bounce=bounce, restart_time_ms=_RESTART_MS, **if_dynamic))
        self.predicted = _effect(static)
        return BouncePredicted(instance_id=self.bounced, restart_time_ms=_RESTART_MS, static=static, dynamic=dynamic)

    def bounce(self) -> BounceDone:
        others = [one for instance_id, one in self.fleet.items() if instance_id != self.bounced]
        revoked = sum(one.revoked for one in others)
        self.fleet[self.bounced].stop()
        time.sleep(_RESTART_MS / 1000)
        self.fleet[self.bounced].start()
        wait_until(f"{self.bounced} owns partitions again", lambda: bool(self.fleet[self.bounced].owned))
        time.sleep(_QUIET_S)
        check, snapshot = self._compare("bounce")
        lost = sum(one.revoked for one in others) - revoked
        return BounceDone(check=check, snapshot=snapshot, lost_by_others=lost)

    def refuse(self) -> RemovalRefused:
        """Try to remove a member that is alive. Raises KgmError if the guard allows it."""
        with connect(self.server.bootstrap, timeout_ms=10_000) as cluster:
            prepared = _prepare(cluster, INSTANCE_IDS[0])
        if prepared.refusal is None:
            raise KgmError("the guard would have removed a member that is alive", hint="please report this as a bug")
        return RemovalRefused(instance_id=INSTANCE_IDS[0], results=tuple(prepared.results))

    def stop_leaver(self) -> None:
        """Stop a member for good once the log shows how often it commits."""
        leaver = self.fleet[self.leaver]
        seen = leaver.commits
        wait_until(f"{self.leaver} commits", lambda: leaver.commits >= seen + _COMMITS)
        self.predicted = _effect(self._predict(Plan(remove=(self.leaver,), **_fleet_settings())))
        self.fleet.pop(self.leaver).stop()

    def remove(self) -> MemberRemoved:
        with connect(self.server.bootstrap, timeout_ms=10_000) as cluster:
            prepared = _prepare(cluster, self.leaver, guard_window_ms=GUARD_WINDOW_MS)
            if prepared.refusal is not None:
                raise prepared.refusal
            report = removal.execute(cluster, prepared, operator=current_operator(), audit=None)
        return MemberRemoved(instance_id=self.leaver, results=tuple(report.results))

    def compare_removal(self) -> RemovalDone:
        wait_until("the others own everything", self._owns_everything)
        check, snapshot = self._compare("removal")
        return RemovalDone(check=check, snapshot=snapshot)

    def ask_history(self) -> HistoryAsked:
        if any(importlib.util.find_spec(name) is None for name in ("numpy", "pyarrow")):
            return HistoryAsked(explanation=None)
        from kgm.operations.history.explanation import explain_group
        from kgm.operations.history.live import LiveHistory, LiveRequest

        with connect(self.server.bootstrap, timeout_ms=10_000) as cluster:
            history = LiveHistory(cluster, LiveRequest(group_id=GROUP)).read()
        return HistoryAsked(explanation=explain_group(history, GROUP, is_advised=False))

    def _owns_everything(self) -> bool:
        return sum(len(one.owned) for one in self.fleet.values()) == _PARTITIONS

    def _describe(self) -> GroupSnapshot:
        """Describe the group as `kgm describe` does."""
        with connect(self.server.bootstrap, timeout_ms=5000) as cluster:
            return cluster.describe_group(GROUP)

    def _look(self) -> GroupSnapshot:
        self.latest, self.generation = self._describe(), self._current_generation()
        return self.latest

    def _current_generation(self) -> int:
        """The coordinator's own counter, which no Kafka API returns."""

        def ask(coordinator: Any) -> int:
            view = coordinator.group(GROUP)
            return 0 if view is None else int(view.generation)

        return self.server.inspect(ask)

    def _predict(self, plan: Plan) -> Prediction:
        from kgm.simulation.bounce import simulate

        assert self.latest is not None
        return simulate(self.latest, plan, draws=_DRAWS)

    def _compare(self, name: str) -> tuple[PredictionCheck, GroupSnapshot]:
        """Compare the last prediction with the group as it is now."""
        before, generation, predicted = self.latest, self.generation, self.predicted
        assert before is not None
        assert predicted is not None
        after = self._look()
        actual = Effect(rebalances=self.generation - generation, moves=moves(owned(before), owned(after)))
        return PredictionCheck(name=name, predicted=predicted, actual=actual), after


def _prepare(cluster: AdminClient, instance_id: str, guard_window_ms: int | None = None) -> PreparedRemoval:
    request = RemovalRequest(
        group_id=GROUP, instance_ids=(instance_id,), reason="kgm demo", guard_window_ms=guard_window_ms
    )
    return removal.prepare(cluster, request)


def _fleet_settings(**what_if: Any) -> dict[str, Any]:
    """Plan options for the consumers' settings that no API returns."""
    return {
        "what_if": WhatIf(session_timeout_ms=SESSION_TIMEOUT_MS, **what_if),
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "settings": {"group.initial.rebalance.delay.ms": str(_INITIAL_DELAY_MS)},
    }


def _effect(prediction: Prediction) -> Effect:
    """The predicted effect in the typical draw."""
    typical = prediction.typical
    predicted = (
        Move(topic=m.topic, partition=m.partition, owner_before=m.owner_before, owner_after=m.owner_after)
        for m in typical.moves
    )
    by_partition = tuple(sorted(predicted, key=lambda move: (move.topic, move.partition)))
    return Effect(rebalances=typical.rebalances, moves=by_partition)

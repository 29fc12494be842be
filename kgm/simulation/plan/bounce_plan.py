"""What will be done to a group, as data: which members stop, how, for how long, and what-ifs."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

from kgm.coordinator.contract.scale_out_plan import INSTANCE_IDS, TARGET_SIZE
from kgm.model.broker_version import REFERENCE, BrokerVersion
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot


class Stop(enum.Enum):
    """How a member stops."""

    CLEAN = "clean"
    """The consumer is closed. A dynamic member sends LeaveGroup, a static one does not (KIP-345)."""
    LEAVE = "leave"
    """The consumer is closed, and leaves also if it is static: Java's `CloseOptions` and those of Kafka Streams can ask
    for that, librdkafka with `unsubscribe()` before `close()`."""
    CRASH = "crash"
    """The process is killed and sends nothing."""


class Membership(enum.Enum):
    """Whether members have a group instance id (KIP-345)."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class GroupProtocol(enum.Enum):
    """How members talk to the coordinator: JoinGroup and SyncGroup, or ConsumerGroupHeartbeat (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class MemberOrder(enum.Enum):
    """The order in which members bounce, batch after batch. Ties are broken by identity."""

    NAMED = "named"
    """The order in which the operator named them."""
    ID = "id"
    """By identity, which is random for dynamic members."""
    HOST = "host"
    CLIENT_ID = "client-id"
    PARTITIONS = "partitions"
    """Members with the fewest partitions go first, so surprises happen while little is at stake."""
    LEADER_LAST = "leader-last"
    """The leader of a classic group goes last, so that it computes the assignment of every batch but its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Batches one after another, each of at most `max_unavailable` units (`Plan.units`). The next one begins `pause_ms`
    after the group is stable again."""

    max_unavailable: int = 1
    pause_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """How the group is assumed to differ from the snapshot. None: not at all. library: the client library of all
    members, and of the leader, which an operator may know better than kgm can detect."""

    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    assignor: str | None = None
    membership: Membership | None = None
    protocol: GroupProtocol | None = None
    library: str | None = None
    freed: bool = False
    """Whether an operator removes a killed member just before its process starts again."""
    standby: bool = False
    """Whether the broker follows the plan's target size and pre-registered ids, which Apache Kafka cannot do."""

    @property
    def changes_assignment(self) -> bool:
        """Whether the group would have had a different assignment from the start."""
        return self.assignor is not None or self.membership is not None or self.protocol is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Everything in a plan except its members.

    rolling: members bounce in batches; None: all together. order: the order of the members in `Plan.bounce`.
    restart_time_ms: from the stop of a process to its next start. restart_times_ms: observed restart times: each
    restart takes one of them at random, and `restart_time_ms` is ignored. settings: broker settings by name.
    kafka_version: the version whose coordinator is played; None: the one in the snapshot, or `REFERENCE` if nothing is
    known about the broker.
    other_versions: versions that the broker may have as well; if they behave differently, the prediction is not exact.
    heartbeat_interval_ms: of classic clients, which no Kafka API returns; None: probably Kafka's default of 3 s.
    scale_out_every_ms: from one new member to the next. target_size: how many members there will be, for the what-if of
    a broker that waits for them (`WhatIf.standby`). retry_every_ms: how long after the broker has refused a process a
    supervisor starts it again; None: it stays away. migrate: members of a classic group that bounce come back with the
    consumer protocol (KIP-848). remove_first: an operator removes the members of a batch with one LeaveGroup once they
    have stopped; they start again when the group is stable without them, but not before the restart time has
    passed. knows_size_limit, knows_session: whether the broker's limit for the size of the group, and the session
    timeout of a streams group, are known, or Kafka's defaults may be taken for them."""

    rolling: Rolling | None = None
    order: MemberOrder = MemberOrder.NAMED
    restart_time_ms: int = 10_000
    restart_times_ms: tuple[int, ...] = ()
    stop: Stop = Stop.CLEAN
    what_if: WhatIf = field(default_factory=WhatIf)
    settings: Mapping[str, str] = field(default_factory=dict)
    kafka_version: BrokerVersion | None = None
    other_versions: tuple[BrokerVersion, ...] = ()
    heartbeat_interval_ms: int | None = None
    scale_out_every_ms: int = 0
    target_size: int | None = None
    retry_every_ms: int | None = None
    migrate: bool = False
    remove_first: bool = False
    knows_size_limit: bool = True
    knows_session: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(PlanOptions):
    """A planned bounce. Members are named by identity: the group instance id, or the member id of a dynamic member.

    bounce: they stop, and start again after `restart_time_ms`, in the order given if `rolling`. scale_in: they stop and
    stay away. remove: they stop, then an operator removes them with one LeaveGroup. scale_out: how many new members
    join. pre_registered: expected instance ids, which new members get first. With `rolling` everything else is done
    before the first batch, and the group is stable again in between. units: members that stop as one process, and start
    together if they bounce; each of the others is its own process.

    Raises UsageError for a plan that does nothing, names a member twice, or contains a number that is too low."""

    bounce: tuple[str, ...] = ()
    scale_in: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    scale_out: int = 0
    pre_registered: tuple[str, ...] = ()
    units: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not (self.bounce or self.scale_in or self.remove or self.scale_out):
            raise UsageError(
                "the plan does nothing",
                hint="name the members that bounce: --all, --instance-ids, --member-ids, --match-members; or "
                "--scale-in, ...",
            )
        _refuse_overlap(self)
        _refuse_below("the number of new members", self.scale_out, 0)
        _refuse_below("the time between new members", self.scale_out_every_ms, 0)
        _refuse_below("the restart time", min((self.restart_time_ms, *self.restart_times_ms)), 0)
        for what, value in (
            ("the session timeout", self.what_if.session_timeout_ms),
            ("the rebalance timeout", self.what_if.rebalance_timeout_ms),
            ("the heartbeat interval", self.heartbeat_interval_ms),
            ("the target size", self.target_size),
            ("the time to the next retry", self.retry_every_ms),
        ):
            if value is not None:
                _refuse_below(what, value, 1)
        if self.rolling is not None:
            _refuse_below("the size of a batch", self.rolling.max_unavailable, 1)
            _refuse_below("the pause between batches", self.rolling.pause_ms, 0)

    @property
    def named(self) -> tuple[str, ...]:
        """All members that the plan names."""
        return self.bounce + self.scale_in + self.remove

    @property
    def longest_restart_ms(self) -> int:
        """The longest time from the stop of a process to its next start."""
        return max(self.restart_times_ms, default=self.restart_time_ms)

    @property
    def has_standby_plan(self) -> bool:
        """Whether the plan contains anything that a broker with `WhatIf.standby` would act on."""
        return self.target_size is not None or bool(self.pre_registered)

    def broker_settings(self, group_id: str) -> dict[str, str]:
        """The broker's settings, including the ones that make it follow the plan for the group if the what-if says
        so."""
        settings = dict(self.settings)
        if self.what_if.standby and self.target_size is not None:
            settings[f"{TARGET_SIZE}.{group_id}"] = str(self.target_size)
        if self.what_if.standby and self.pre_registered:
            settings[f"{INSTANCE_IDS}.{group_id}"] = ",".join(self.pre_registered)
        return settings

    def batches(self) -> tuple[tuple[str, ...], ...]:
        """The members of `bounce` in groups that are down at the same time, in order."""
        return batches_of(self.bounce, self.units, None if self.rolling is None else self.rolling.max_unavailable)

    def to_json(self) -> dict[str, Any]:
        """The plan as it was understood: each field by its name, with the fields of `rolling` and `what_if` next to
        them."""
        shown: dict[str, Any] = _json_of(self) | _json_of(self.what_if) | _json_of(self.rolling or Rolling())
        if self.rolling is None:
            shown |= dict.fromkeys(each.name for each in fields(Rolling))
        # "freed" and "standby" belong to scenarios, not to the plan; what is not known, to the group.
        for name in ("rolling", "what_if", "freed", "standby", "knows_size_limit", "knows_session"):
            del shown[name]
        shown |= {"mode": "together" if self.rolling is None else "rolling", "as": shown.pop("membership")}
        return shown | {"kafka_version": str(self.kafka_version or REFERENCE)}


def _json_of(value: Any) -> Any:
    match value:
        case enum.Enum():
            return value.value
        case BrokerVersion():
            return str(value)
        case tuple():
            return [_json_of(one) for one in value]
        case Mapping():
            return dict(value)
        case PlanOptions() | WhatIf() | Rolling():
            return {each.name: _json_of(getattr(value, each.name)) for each in fields(value)}
        case _:
            return value


def with_versions_of(snapshot: GroupSnapshot, plan: Plan) -> Plan:
    """The plan with the version of the group's broker, unless the plan already has one. If there are several, the
    latest is played, with its default coordinator."""
    if plan.kafka_version is not None or not snapshot.kafka_versions:
        return plan
    versions = snapshot.kafka_versions
    played = max(versions, key=lambda version: (version.release, not version.has_java_coordinator))
    return replace(plan, kafka_version=played, other_versions=tuple(each for each in versions if each != played))


def _refuse_overlap(plan: Plan) -> None:
    seen: set[str] = set()
    for name in plan.named:
        if name in seen:
            raise UsageError(f"member {name} is named twice in the plan")
        seen.add(name)


def _refuse_below(what: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise UsageError(f"{what} is {value}; the minimum is {lowest}")


def units_of(bounce: Sequence[str], units: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """All members that bounce, by process, in the order in which the first member of each process is named."""
    place = {name: number for number, unit in enumerate(units) for name in unit}
    together: dict[int | str, list[str]] = {}
    for name in bounce:
        together.setdefault(place.get(name, name), []).append(name)
    return tuple(map(tuple, together.values()))


def batches_of(bounce: Sequence[str], units: Iterable[Sequence[str]], size: int | None) -> tuple[tuple[str, ...], ...]:
    """The members that are down at the same time: `size` units at a time, or all of them (None)."""
    every = units_of(bounce, units)
    step = len(every) if size is None else size
    return tuple(tuple(chain(*every[i : i + step])) for i in range(0, len(every), step)) if every else ()


def without(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """`names` in order, except for `others`: `--all --scale-in x` bounces all but x."""
    excluded = set(others)
    return tuple(name for name in names if name not in excluded)

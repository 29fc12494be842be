"""What is going to be done to a group, as data: who stops, how, for how long, and what is supposed to be different."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgm.coordinator.contract.scale_out_plan import INSTANCE_IDS, TARGET_SIZE
from kgm.model.errors import UsageError


class Stop(enum.Enum):
    """How a member goes."""

    CLEAN = "clean"
    """The consumer is closed: a dynamic member sends LeaveGroup, a static one says nothing (KIP-345)."""
    CRASH = "crash"
    """The process is killed: nobody says anything."""


class Membership(enum.Enum):
    """How members are known."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class GroupProtocol(enum.Enum):
    """How members talk to the coordinator: KIP-62 and its kin, or KIP-848."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Batches one after another; the next begins `pause_ms` after the group is stable again."""

    max_unavailable: int = 1
    pause_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What is supposed to be different from what was seen. None: as it is."""

    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    assignor: str | None = None
    membership: Membership | None = None
    protocol: GroupProtocol | None = None
    freed: bool = False
    """Whether an operator removes a killed member just before its process starts again."""
    standby: bool = False
    """Whether the broker heeds the plan's target size and pre-registered ids, which no Apache Kafka does."""

    @property
    def resettles(self) -> bool:
        """Whether the partitions of the group would have been handed out differently to begin with."""
        return self.assignor is not None or self.membership is not None or self.protocol is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A planned bounce. Members are named by identity: group instance id, or member id when dynamic.

    bounce: they stop and come back after `restart_time_ms`, together, or in batches in the order given (`rolling`).
    scale_in: they stop and stay away. remove: they stop, then one LeaveGroup of an operator removes them. scale_out: as
    many new members come, each `scale_out_every_ms` after the one before. What is done besides a rolling bounce is done
    first, and the group is stable before it.
    heartbeat_interval_ms: of the clients, which no broker tells; None is most likely Kafka's default of 3 s.
    target_size, pre_registered: how many members there are to be, and instance ids that are to come, for the what-if of
    a broker that waits for them (`WhatIf.standby`). New members have pre-registered ids first.
    retry_every_ms: after which a process of a consumer group that the broker has refused is started again, as a
    supervisor does; None: it stays away. migrate: those of a classic group that bounce come back with the protocol of
    KIP-848."""

    bounce: tuple[str, ...] = ()
    scale_in: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    scale_out: int = 0
    rolling: Rolling | None = None
    restart_time_ms: int = 10_000
    stop: Stop = Stop.CLEAN
    what_if: WhatIf = field(default_factory=WhatIf)
    settings: Mapping[str, str] = field(default_factory=dict)
    heartbeat_interval_ms: int | None = None
    scale_out_every_ms: int = 0
    target_size: int | None = None
    pre_registered: tuple[str, ...] = ()
    retry_every_ms: int | None = None
    migrate: bool = False

    def __post_init__(self) -> None:
        if not (self.bounce or self.scale_in or self.remove or self.scale_out):
            raise UsageError(
                "the plan does nothing",
                hint="say who bounces: --all, --instance-ids, --member-ids, --match; or --scale-in, ...",
            )
        _refuse_overlap(self)
        _refuse_below("--scale-out", self.scale_out, 0)
        _refuse_below("--scale-out-every", self.scale_out_every_ms, 0)
        _refuse_below("--restart-time", self.restart_time_ms, 0)
        for option, value in (
            ("--session-timeout", self.what_if.session_timeout_ms),
            ("--rebalance-timeout", self.what_if.rebalance_timeout_ms),
            ("--heartbeat-interval", self.heartbeat_interval_ms),
            ("--target-size", self.target_size),
            ("--retry-every", self.retry_every_ms),
        ):
            if value is not None:
                _refuse_below(option, value, 1)
        if self.rolling is not None:
            _refuse_below("--max-unavailable", self.rolling.max_unavailable, 1)
            _refuse_below("--pause", self.rolling.pause_ms, 0)

    @property
    def named(self) -> tuple[str, ...]:
        """Every member that the plan names."""
        return self.bounce + self.scale_in + self.remove

    @property
    def plans_size(self) -> bool:
        """Whether there is anything that a broker with `WhatIf.standby` would heed."""
        return self.target_size is not None or bool(self.pre_registered)

    def broker_settings(self, group_id: str) -> dict[str, str]:
        """The broker's settings, with those that make it heed the plan for the group if that is supposed."""
        found = dict(self.settings)
        if self.what_if.standby and self.target_size is not None:
            found[f"{TARGET_SIZE}.{group_id}"] = str(self.target_size)
        if self.what_if.standby and self.pre_registered:
            found[f"{INSTANCE_IDS}.{group_id}"] = ",".join(self.pre_registered)
        return found

    def batches(self) -> tuple[tuple[str, ...], ...]:
        """Who of `bounce` is down at the same time, in order."""
        if self.rolling is None:
            return (self.bounce,) if self.bounce else ()
        size = self.rolling.max_unavailable
        return tuple(self.bounce[i : i + size] for i in range(0, len(self.bounce), size))

    def to_json(self) -> dict[str, Any]:
        """The plan as it was understood."""
        rolling = self.rolling
        return {
            "bounce": list(self.bounce),
            "scale_in": list(self.scale_in),
            "remove": list(self.remove),
            "scale_out": self.scale_out,
            "scale_out_every_ms": self.scale_out_every_ms,
            "target_size": self.target_size,
            "pre_registered": list(self.pre_registered),
            "mode": "together" if rolling is None else "rolling",
            "max_unavailable": None if rolling is None else rolling.max_unavailable,
            "pause_ms": None if rolling is None else rolling.pause_ms,
            "restart_time_ms": self.restart_time_ms,
            "retry_every_ms": self.retry_every_ms,
            "migrate": self.migrate,
            "stop": self.stop.value,
            "session_timeout_ms": self.what_if.session_timeout_ms,
            "rebalance_timeout_ms": self.what_if.rebalance_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "assignor": self.what_if.assignor,
            "protocol": None if self.what_if.protocol is None else self.what_if.protocol.value,
            "as": None if self.what_if.membership is None else self.what_if.membership.value,
            "settings": dict(self.settings),
        }


def _refuse_overlap(plan: Plan) -> None:
    seen: set[str] = set()
    for name in plan.named:
        if name in seen:
            raise UsageError(f"member {name} is named twice in the plan")
        seen.add(name)


def _refuse_below(option: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise UsageError(f"{option} is {value}, the lowest is {lowest}")


def without(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """`names` in order, less `others`: `--all --scale-in x` bounces all but x."""
    gone = set(others)
    return tuple(name for name in names if name not in gone)

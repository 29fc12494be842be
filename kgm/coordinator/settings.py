"""The broker settings that group coordination depends on, under Kafka's names with Kafka's defaults (4.3.0)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from kgm.coordinator.planned import INSTANCE_IDS, NO_PLANS, TARGET_SIZE, GroupPlans, is_plan, plans_from
from kgm.model.errors import UsageError

_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Kafka's name of a setting is the field's name with dots: `group.initial.rebalance.delay.ms`.

    What begins with `kgm` is kgm's own, see `planned`: Apache Kafka has no such setting."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = _INT32
    offset_metadata_max_bytes: int = 4_096
    """Compared with the number of UTF-16 units, not of bytes, as Kafka does."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    kgm_group_newcomer_max_wait_ms: int = _INT32
    """How long a newcomer may be held back for a plan, if its own rebalance timeout is longer than that."""
    plans: GroupPlans = NO_PLANS

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str | int]) -> "BrokerSettings":
        """Settings by Kafka's dotted names. Raises UsageError for an unknown name, no number, or one out of range."""
        known = cls.names()
        values: dict[str, int] = {}
        for name, text in overrides.items():
            if is_plan(name):
                continue
            if name not in known:
                listed = ", ".join((*known, *PER_GROUP))
                raise UsageError(f"broker setting {name} is not known to kgm", facts=(f"known: {listed}",))
            try:
                values[known[name]] = int(text)
            except ValueError:
                raise UsageError(f"broker setting {name} is not a whole number: {text!r}") from None
            lowest = _LOWEST.get(known[name], 1)
            if not lowest <= values[known[name]] <= _INT32:
                raise UsageError(f"broker setting {name} is out of range: {text}", facts=(f"lowest: {lowest}",))
        plans = plans_from((name, value) for name, value in overrides.items() if is_plan(name))
        return replace(cls(), plans=plans, **values)

    @classmethod
    def names(cls) -> dict[str, str]:
        """The settings that are numbers: Kafka's name -> the field's."""
        return {field.name.replace("_", "."): field.name for field in fields(cls) if field.name != "plans"}


#: Settings that are followed by a group.
PER_GROUP = (f"{TARGET_SIZE}.GROUP", f"{INSTANCE_IDS}.GROUP")


#: Settings that may be lower than 1 (GroupCoordinatorConfig).
_LOWEST = {
    "group_initial_rebalance_delay_ms": 0,
    "offset_metadata_max_bytes": 0,
    "kgm_group_newcomer_max_wait_ms": 0,
}

#: How long a member that has no member id yet may wait in a join phase; fixed in Kafka.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

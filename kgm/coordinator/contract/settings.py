"""The broker settings that group coordination depends on, under Kafka's names with Kafka's defaults (4.3.0)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from kgm.coordinator.contract.behavior import CoordinatorBehavior, behavior_of
from kgm.coordinator.contract.scale_out_plan import INSTANCE_IDS, NO_PLANS, TARGET_SIZE, GroupPlans, is_plan, plans_from
from kgm.model.broker_version import REFERENCE, BrokerVersion
from kgm.model.errors import UsageError

_INT32 = 2**31 - 1
#: Fields that are not settings of a broker.
_NOT_KAFKAS = ("plans", "kafka_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Kafka's name of a setting is the name of the field with dots: `group.initial.rebalance.delay.ms`.

    Settings that begin with `kgm` are kgm's own, see `scale_out_plan`: Apache Kafka does not have them."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = _INT32
    offset_metadata_max_bytes: int = 4_096
    """Compared with the number of UTF-16 code units, not bytes, as in Kafka."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    group_coordinator_rebalance_protocols: str = "classic,consumer,streams"
    """Without `consumer`, consumer groups cannot be created or joined (UNSUPPORTED_VERSION); the same goes for
    `streams` and streams groups."""
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = _INT32
    group_consumer_assignors: str = "uniform,range"
    """The first one is the default if members have no preference."""
    group_consumer_migration_policy: str = "bidirectional"
    """How groups with members can change their type: bidirectional, upgrade, downgrade or disabled."""
    group_consumer_assignment_interval_ms: int = 1_000
    """The minimum time between two target assignments of a group."""
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_streams_session_timeout_ms: int = 45_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_size: int = _INT32
    group_streams_num_standby_replicas: int = 0
    group_streams_max_standby_replicas: int = 2
    group_streams_initial_rebalance_delay_ms: int = 3_000
    """How long the first target assignment of a group that was Empty waits for more members."""
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_max_assignment_interval_ms: int = 15_000
    kgm_group_newcomer_max_wait_ms: int = _INT32
    """The longest time that a newcomer is held back for a planned scale-out; its rebalance timeout applies instead if
    that is shorter."""
    plans: GroupPlans = NO_PLANS
    kafka_version: BrokerVersion = REFERENCE
    """The Kafka version whose coordinator is simulated. Not a Kafka setting."""

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str | int]) -> "BrokerSettings":
        """Settings by Kafka's dotted names. Raises UsageError for an unknown name, and for a value that is not a number
        or is out of range."""
        known = cls.names()
        values: dict[str, int | str] = {}
        for name, text in overrides.items():
            if is_plan(name):
                continue
            if name not in known:
                listed = ", ".join((*known, *PER_GROUP))
                raise UsageError(f"broker setting {name} is not known to kgm", facts=(f"known: {listed}",))
            field = known[name]
            values[field] = _chosen(name, str(text)) if field in _CHOICES else _number(name, field, text)
        plans = plans_from((name, value) for name, value in overrides.items() if is_plan(name))
        settings = replace(cls(), plans=plans, **values)  # type: ignore[arg-type]  # each of its own type
        for low, middle, high in _RANGES:
            bounds = getattr(settings, known[low]), getattr(settings, known[middle]), getattr(settings, known[high])
            if list(bounds) != sorted(bounds):
                raise UsageError(
                    f"broker setting {middle} is out of range: {bounds[1]}",
                    facts=(f"{low} is {bounds[0]}, {high} is {bounds[2]}",),
                )
        return settings

    @classmethod
    def names(cls) -> dict[str, str]:
        """Field names by Kafka's names."""
        return {field.name.replace("_", "."): field.name for field in fields(cls) if field.name not in _NOT_KAFKAS}

    @property
    def behavior(self) -> CoordinatorBehavior:
        return behavior_of(self.kafka_version)

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """Kafka's own assignors that the broker offers to consumer groups; both if it offers custom ones only."""
        listed = listed_assignors(self.group_consumer_assignors)
        return tuple(name for name in listed if name in CONSUMER_ASSIGNORS) or CONSUMER_ASSIGNORS

    @property
    def custom_assignors(self) -> tuple[str, ...]:
        """Classes of other assignors that it offers, which the engine lacks."""
        listed = listed_assignors(self.group_consumer_assignors)
        return tuple(name for name in listed if name not in CONSUMER_ASSIGNORS)

    @property
    def default_assignor(self) -> str:
        """What a consumer group gets for which no member asks: one of Kafka's own, or the class of a custom one."""
        return listed_assignors(self.group_consumer_assignors)[0]

    @property
    def has_consumer_protocol(self) -> bool:
        return "consumer" in self.group_coordinator_rebalance_protocols and not self.behavior.is_scala

    @property
    def has_streams_protocol(self) -> bool:
        return "streams" in self.group_coordinator_rebalance_protocols and self.behavior.has_streams_groups

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self.group_consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group when its last member that uses the consumer protocol is
        removed."""
        return self.group_consumer_migration_policy in ("bidirectional", "downgrade")


#: Settings whose name ends with a group id or glob.
PER_GROUP = (f"{TARGET_SIZE}.GROUP", f"{INSTANCE_IDS}.GROUP")


#: The lowest allowed value, for settings where it is not 1 (GroupCoordinatorConfig).
_LOWEST = {
    "group_initial_rebalance_delay_ms": 0,
    "offset_metadata_max_bytes": 0,
    "kgm_group_newcomer_max_wait_ms": 0,
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_min_assignment_interval_ms": 0,
    "group_consumer_max_assignment_interval_ms": 0,
    "group_consumer_regex_refresh_interval_ms": 10_000,
    "group_streams_num_standby_replicas": 0,
    "group_streams_max_standby_replicas": 0,
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_assignment_interval_ms": 0,
    "group_streams_min_assignment_interval_ms": 0,
    "group_streams_max_assignment_interval_ms": 0,
}

#: Kafka's own assignors of consumer groups (KIP-848).
CONSUMER_ASSIGNORS: Final = ("uniform", "range")
_ASSIGNOR_CLASSES = {
    f"org.apache.kafka.coordinator.group.assignor.{name.capitalize()}Assignor": name for name in CONSUMER_ASSIGNORS
}


def listed_assignors(setting: str) -> tuple[str, ...]:
    """What a value of `group.consumer.assignors` lists, the default first: Kafka's own by name, although brokers up to
    3.9 list their classes; others as they are."""
    words = (word.strip() for word in setting.split(","))
    return tuple(dict.fromkeys(_ASSIGNOR_CLASSES.get(word, word) for word in words if word))


#: Settings whose value is a word, with the allowed words; True: a comma-separated list of words.
_CHOICES = {
    "group_coordinator_rebalance_protocols": (("classic", "consumer", "share", "streams"), True),
    "group_consumer_assignors": (CONSUMER_ASSIGNORS, True),
    "group_consumer_migration_policy": (("bidirectional", "upgrade", "downgrade", "disabled"), False),
}

#: Settings that have a range: lowest value, value, highest value.
_RANGES = tuple(
    (f"group.{kind}.min.{what}", f"group.{kind}.{what}", f"group.{kind}.max.{what}")
    for kind in ("consumer", "streams")
    for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
)


def _number(name: str, field: str, text: str | int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"broker setting {name} is not a whole number: {text!r}") from None
    lowest = _LOWEST.get(field, 1)
    if not lowest <= value <= _INT32:
        raise UsageError(f"broker setting {name} is out of range: {text}", facts=(f"lowest: {lowest}",))
    return value


def _chosen(name: str, text: str) -> str:
    words, several = _CHOICES[name.replace(".", "_")]
    chosen = [word.strip().lower() for word in text.split(",")] if several else [text.strip().lower()]
    if words is CONSUMER_ASSIGNORS:
        named = listed_assignors(text)
        chosen = [name if _is_class(name) else name.lower() for name in named]
        words = (*words, *filter(_is_class, named))
    if not chosen or not set(chosen) <= set(words):
        raise UsageError(f"broker setting {name} cannot be {text!r}", facts=(f"known: {', '.join(words)}",))
    return ",".join(dict.fromkeys(chosen))


def _is_class(name: str) -> bool:
    """Whether an assignor is named as the Java class of a custom one."""
    return name.lower() not in CONSUMER_ASSIGNORS and ("." in name or name[0].isupper())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The configs of one group (Kafka's config resource GROUP); None: not set."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None
    streams_session_timeout_ms: int | None = None
    streams_heartbeat_interval_ms: int | None = None
    streams_num_standby_replicas: int | None = None
    streams_initial_rebalance_delay_ms: int | None = None
    streams_assignment_interval_ms: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, str | int], settings: BrokerSettings) -> "GroupConfig":
        """Configs by Kafka's dotted names, each limited to the range that the broker's settings have for it.

        Raises UsageError for an unknown name, and for a value that is not a number."""
        known = cls.names()
        configs: dict[str, int] = {}
        for name, text in values.items():
            if name not in known:
                raise UsageError(f"group setting {name} is not known to kgm", facts=(f"known: {', '.join(known)}",))
            number = _number(name, f"group_{known[name]}", text)
            low, high = _bounds(name, settings)
            configs[known[name]] = min(max(number, low), high) if settings.behavior.limits_group_configs else number
        return cls(**configs)

    @classmethod
    def names(cls) -> dict[str, str]:
        """Field names by Kafka's names."""
        return {field.name.replace("_", "."): field.name for field in fields(cls)}


def limits_of(name: str) -> tuple[str | None, str | None]:
    """The broker's settings with the lowest and the highest value that a group config can have; None for a limit that
    no broker has. All by Kafka's names."""
    kind, _, what = name.partition(".")
    known = BrokerSettings.names()
    low, high = f"group.{kind}.min.{what}", f"group.{kind}.max.{what.removeprefix('num.')}"
    return low if low in known else None, high if high in known else None


def _bounds(name: str, settings: BrokerSettings) -> tuple[int, int]:
    """The lowest and highest value that a group config can have."""
    known = BrokerSettings.names()
    low, high = limits_of(name)
    return (
        0 if low is None else getattr(settings, known[low]),
        _INT32 if high is None else getattr(settings, known[high]),
    )


def session_timeout_ms(settings: BrokerSettings, config: GroupConfig | None) -> int:
    """The session timeout of members of a consumer group that use the consumer protocol."""
    own = None if config is None else config.consumer_session_timeout_ms
    return settings.group_consumer_session_timeout_ms if own is None else own


def heartbeat_interval_ms(settings: BrokerSettings, config: GroupConfig | None) -> int:
    own = None if config is None else config.consumer_heartbeat_interval_ms
    return settings.group_consumer_heartbeat_interval_ms if own is None else own


def assignment_interval_ms(settings: BrokerSettings, config: GroupConfig | None) -> int:
    if not settings.behavior.has_assignment_interval:
        return 0
    own = None if config is None else config.consumer_assignment_interval_ms
    return settings.group_consumer_assignment_interval_ms if own is None else own


def streams_setting(name: str, settings: BrokerSettings, config: GroupConfig | None) -> int:
    """A setting of a streams group: its own config, or else the broker's."""
    behavior = settings.behavior
    if name == "assignment_interval_ms" and not behavior.has_assignment_interval:
        return 0
    own: int | None = None if config is None else getattr(config, f"streams_{name}")
    is_forgotten = config is not None and behavior.forgets_streams_settings
    broker: int = getattr(_DEFAULTS if is_forgotten else settings, f"group_streams_{name}")
    return broker if own is None else own


_DEFAULTS = BrokerSettings()
#: The session timeout of a new member in a join phase, which does not yet know its member id; fixed in Kafka.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

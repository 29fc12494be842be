"""The settings of the broker that is played."""

from dataclasses import replace

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import UsageError
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.starting_group import StartingGroup
from kgm.text.durations import show_duration

MIN_SESSION, MAX_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"


def broker_settings_of(group: StartingGroup, plan: Plan) -> BrokerSettings:
    """The broker's settings. Unless the plan sets its limits, it accepts the session timeouts that the members have."""
    settings = BrokerSettings.from_overrides(plan.broker_settings(group.group_id))
    if plan.kafka_version is not None:
        settings = replace(settings, kafka_version=plan.kafka_version)
    if group.protocol is GroupProtocol.CONSUMER:
        return _with_consumer_intervals(settings, group, plan)
    shortest_ms, longest_ms = group.sessions_ms()
    if MIN_SESSION not in plan.settings and shortest_ms < settings.group_min_session_timeout_ms:
        settings = replace(settings, group_min_session_timeout_ms=shortest_ms)
    if MAX_SESSION not in plan.settings and longest_ms > settings.group_max_session_timeout_ms:
        settings = replace(settings, group_max_session_timeout_ms=longest_ms)
    return settings


def heartbeat_interval_within(session_ms: int, interval_ms: int) -> int:
    """The interval between heartbeats; a third of the session timeout if that is not longer: a broker refuses such an
    interval (GroupCoordinatorConfig, GroupConfig), and so has another one than is assumed."""
    return interval_ms if interval_ms < session_ms else max(1, session_ms // 3)


def _with_consumer_intervals(settings: BrokerSettings, group: StartingGroup, plan: Plan) -> BrokerSettings:
    """In a consumer group the broker sets the session timeout and the heartbeat interval."""
    session_ms, _ = group.sessions_ms()
    if plan.heartbeat_interval_ms is not None and plan.heartbeat_interval_ms >= session_ms:
        raise UsageError(
            f"the heartbeat interval is {show_duration(plan.heartbeat_interval_ms)}, and must be shorter than the "
            f"session timeout, {show_duration(session_ms)}"
        )
    interval_ms = heartbeat_interval_within(
        session_ms, plan.heartbeat_interval_ms or settings.group_consumer_heartbeat_interval_ms
    )
    return replace(
        settings,
        group_consumer_session_timeout_ms=session_ms,
        group_consumer_min_session_timeout_ms=min(session_ms, settings.group_consumer_min_session_timeout_ms),
        group_consumer_max_session_timeout_ms=max(session_ms, settings.group_consumer_max_session_timeout_ms),
        group_consumer_heartbeat_interval_ms=interval_ms,
        group_consumer_min_heartbeat_interval_ms=min(interval_ms, settings.group_consumer_min_heartbeat_interval_ms),
        group_consumer_max_heartbeat_interval_ms=max(interval_ms, settings.group_consumer_max_heartbeat_interval_ms),
    )

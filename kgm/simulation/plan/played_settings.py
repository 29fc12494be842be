"""The settings of the broker that is played."""

from dataclasses import replace

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.starting_group import StartingGroup

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


def _with_consumer_intervals(settings: BrokerSettings, group: StartingGroup, plan: Plan) -> BrokerSettings:
    """In a consumer group the broker sets the session timeout and the heartbeat interval."""
    session_ms, _ = group.sessions_ms()
    interval_ms = plan.heartbeat_interval_ms or settings.group_consumer_heartbeat_interval_ms
    return replace(
        settings,
        group_consumer_session_timeout_ms=session_ms,
        group_consumer_min_session_timeout_ms=min(session_ms, settings.group_consumer_min_session_timeout_ms),
        group_consumer_max_session_timeout_ms=max(session_ms, settings.group_consumer_max_session_timeout_ms),
        group_consumer_heartbeat_interval_ms=interval_ms,
        group_consumer_min_heartbeat_interval_ms=min(interval_ms, settings.group_consumer_min_heartbeat_interval_ms),
        group_consumer_max_heartbeat_interval_ms=max(interval_ms, settings.group_consumer_max_heartbeat_interval_ms),
    )

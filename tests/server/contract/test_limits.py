import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import UsageError
from kgm.server.contract.limits import Limits, settings_from_overrides


def test_nothing_set_gives_the_defaults():
    assert settings_from_overrides({}) == (BrokerSettings(), Limits())


def test_settings_go_to_the_coordinator_or_to_the_server_with_or_without_prefix():
    settings, limits = settings_from_overrides(
        {"group.initial.rebalance.delay.ms": "0", "broker.group.max.size": "7", "broker.max.connections": "5"}
    )
    assert settings == BrokerSettings(group_initial_rebalance_delay_ms=0, group_max_size=7)
    assert limits == Limits(max_connections=5)


@pytest.mark.parametrize("key", ["log.dirs", "broker.", "topic.max.bytes", "group_max_size"])
def test_an_unknown_setting_is_refused_with_the_known_ones(key):
    with pytest.raises(UsageError) as caught:
        settings_from_overrides({key: "1"})
    assert key in caught.value.message
    assert "group.initial.rebalance.delay.ms" in caught.value.facts[0]
    assert "max.connections" in caught.value.facts[0]


@pytest.mark.parametrize(
    ("key", "value"), [("max.connections", "many"), ("max.connections", "0"), ("group.max.size", "x")]
)
def test_values_are_checked(key, value):
    with pytest.raises(UsageError, match=key):
        settings_from_overrides({key: value})

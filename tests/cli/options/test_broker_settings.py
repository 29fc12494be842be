"""`--set` of broker settings."""

import pytest

from kgm.cli.options.broker_settings import parse_settings
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import UsageError


def test_pairs():
    found = parse_settings(["broker.group.max.size=3", " x = y=z ", "x=last"])
    assert found == {"group.max.size": "3", "x": "last"}


def test_lists_of_instance_ids_have_braces():
    with pytest.raises(UsageError, match="empty"):
        parse_settings(["kgm.group.pre.registered.instance.ids.app="])
    found = parse_settings(["kgm.group.pre.registered.instance.ids.app-*=app-{01..03},extra"])
    plan = BrokerSettings.from_overrides(found).plans.of("app-x")
    assert plan.instance_ids == {"app-01", "app-02", "app-03", "extra"}


@pytest.mark.parametrize("text", ["", "=", "group.max.size", "=3"])
def test_invalid_pairs(text):
    with pytest.raises(UsageError, match=r"is not BROKER\.KEY=VALUE"):
        parse_settings([text])

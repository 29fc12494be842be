"""Versions of Kafka as people write them."""

import pytest

from kgm.coordinator.contract.behavior import behavior_of
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "shown", "is_scala"),
    [
        ("2.4.1", "2.4", True), ("3.9", "3.9", True), ("3.9.1+new", "3.9+new", False), ("3.7+new", "3.7+new", False),
        ("4.0", "4.0", False), ("4.4.0", "4.4", False),
    ],
)  # fmt: skip
def test_a_version_tells_its_coordinator(text, shown, is_scala):
    version = BrokerVersion.parse(text)
    assert str(version) == shown
    assert behavior_of(version).is_scala is is_scala


@pytest.mark.parametrize(
    "text", ["", "4", "4.x", "3.6+new", "4.0+new", "3.9+old", "2.3", "4.5", "9.0", "٤.٣", "4.3.0.1"]
)
def test_other_versions_are_refused(text):
    with pytest.raises(UsageError):
        BrokerVersion.parse(text)


def test_versions_are_ordered_by_release():
    texts = ["2.4", "2.8", "3.6", "3.9", "3.9+new", "4.0", "4.4"]
    assert [str(one) for one in sorted(map(BrokerVersion.parse, reversed(texts)))] == texts

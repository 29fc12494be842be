"""What the two APIs of configurations share: types of resources, and a group's setting beside the broker's."""

from enum import IntEnum


class ConfigResource(IntEnum):
    """Kafka: ConfigResource.Type. GROUP came with KIP-848."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def limits_of(name: str) -> str:
    """The broker settings that a group's setting has to be within, for a text."""
    kind, _, what = name.partition(".")
    if what.startswith("num."):
        return f"0 and group.{kind}.max.{what.removeprefix('num.')}"
    return f"group.{kind}.min.{what} and group.{kind}.max.{what}"


def broker_field(name: str) -> str:
    """The field of BrokerSettings that applies where a group does not have this setting."""
    return f"group_{name.replace('.', '_')}"

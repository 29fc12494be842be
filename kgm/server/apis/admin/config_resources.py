"""What the two configuration APIs share: resource types, and which broker settings belong to a group's setting."""

from enum import IntEnum


class ConfigResource(IntEnum):
    """Kafka: ConfigResource.Type. GROUP came with KIP-848."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def limits_of(name: str) -> str:
    """The names of the broker settings that bound a group's setting, for an error message."""
    kind, _, what = name.partition(".")
    if what.startswith("num."):
        return f"0 and group.{kind}.max.{what.removeprefix('num.')}"
    return f"group.{kind}.min.{what} and group.{kind}.max.{what}"


def broker_field(name: str) -> str:
    """The field of BrokerSettings that applies if the group does not override this setting."""
    return f"group_{name.replace('.', '_')}"

"""What the two configuration APIs share: resource types, and which broker setting belongs to a group's setting."""

from enum import IntEnum


class ConfigResource(IntEnum):
    """Kafka: ConfigResource.Type. GROUP came with KIP-848."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def broker_field(name: str) -> str:
    """The field of BrokerSettings that applies if the group does not override this setting."""
    return f"group_{name.replace('.', '_')}"
